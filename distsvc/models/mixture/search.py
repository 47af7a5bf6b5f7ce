"""The search for a mixture: number of components and shape of covariances by BIC.

Each shape is fitted with one component, two, and so on, until `PATIENCE` more numbers have no
higher BIC. Each fit starts from the best of several short runs: one from k-means, and `SPLITS` from
the previous fit with one of its components split in two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from distsvc.models.mixture.density import MixtureRows, NormalMixture, Prior, Shape, fitted
from distsvc.models.rows.threads import map_threads, one_thread

SHAPES: tuple[Shape, ...] = ("full", "tied", "diagonal")

MAX_COMPONENTS = 20
"""Maximum number of components, unless `n_components` asks for more."""

PATIENCE = 2
"""Consecutive numbers of components without a higher BIC, after which a shape's search ends."""

SPLITS = 2
"""Components that are split for starts of the next fit: those with the largest scatter."""

MIN_SPLIT_ROWS = 10
"""Number of rows that a component must exceed to be split."""

SHORT_STEPS, STEPS, TOLERANCE = 8, 60, 2e-4
"""EM steps of a short run, maximum EM steps of a fit, and the gain in nats per row that ends it."""


@dataclass(frozen=True)
class MixtureFit:
    """A fitted mixture and its BIC: log-likelihood less half the parameters times log n."""

    mixture: NormalMixture
    bic: float


@dataclass(frozen=True)
class MixtureSearch:
    """All fits of a search, shape by shape."""

    fits: list[MixtureFit]

    @property
    def best(self) -> MixtureFit:
        """The fit with the highest BIC."""
        return max(self.fits, key=lambda fit: fit.bic)

    @cached_property
    def best_of_each(self) -> list[MixtureFit]:
        """The best fit of each number of components, in ascending order."""
        best: dict[int, MixtureFit] = {}
        for fit in self.fits:
            k = fit.mixture.n_components
            if k not in best or fit.bic > best[k].bic:
                best[k] = fit
        return [best[k] for k in sorted(best)]

    @property
    def single(self) -> MixtureFit:
        """The best fit of one component."""
        return self.best_of_each[0]


def search(
    rows: MixtureRows,
    latent: np.ndarray,
    n_components: int | None = None,
    n_jobs: int | None = 1,
    shapes: Sequence[Shape] = SHAPES,
    prior: Prior | None = None,
) -> MixtureSearch:
    """Fit mixtures of each shape to rows, with growing numbers of components.

    Parameters
    ----------
    rows : MixtureRows
        n rows.
    latent : ndarray of shape (n, r), float
        The same rows as continuous variables, for starts by k-means.
    n_components : int or None
        Number of components that are tried even if the BIC falls; None to stop by the BIC alone.
    n_jobs : int or None
        Threads; they change no result.
    shapes : sequence of Shape
        Shapes of covariances to fit; diagonal ones if the rows suffice for none of them.
    prior : Prior or None
        Prior of the parameters; None computes it from `rows`.

    """
    prior = prior or Prior.of(rows)
    with one_thread():  # more threads would give other last bits
        starts = _Starts(latent.astype(np.float64))
        found = map_threads(
            lambda shape: _fits(rows, starts, prior, shape, n_components), shapes, n_jobs
        )
        fits = [fit for fits in found for fit in fits]
        return MixtureSearch(fits or _fits(rows, starts, prior, "diagonal", n_components))


class _Starts:
    """Partitions by k-means that fits start from; results are cached."""

    def __init__(self, latent: np.ndarray):
        self.latent = latent
        self._known: dict[int, np.ndarray] = {}

    def of(self, k: int) -> np.ndarray:
        """Return posteriors (n, k) of a partition into k."""
        if k not in self._known:
            self._known[k] = np.eye(k)[_k_means(self.latent, k)]
        return self._known[k]

    def splits(self, posterior: np.ndarray) -> list[np.ndarray]:
        """Return posteriors (n, k + 1), each from splitting one of the widest components in two."""
        labels, k = posterior.argmax(axis=1), posterior.shape[1]
        spread = np.zeros(k)
        for c in range(k):
            own = self.latent[labels == c]
            if len(own) > MIN_SPLIT_ROWS:
                spread[c] = ((own - own.mean(axis=0)) ** 2).sum()
        found = []
        for c in np.argsort(-spread, kind="stable")[:SPLITS]:
            if spread[c] > 0.0:
                own = np.flatnonzero(labels == c)
                second = own[_k_means(self.latent[own], 2) == 1]
                split = np.hstack([posterior, np.zeros((len(labels), 1))])
                split[second, k], split[second, c] = split[second, c], 0.0
                found.append(split)
        return found


def _fits(
    rows: MixtureRows, starts: _Starts, prior: Prior, shape: Shape, n_components: int | None
) -> list[MixtureFit]:
    """Return the fits of one shape by number of components."""
    n, p = rows.X.shape
    fits: list[MixtureFit] = []
    # Factorising a covariance for a pattern of missing numbers takes p^3 / 3 operations, a row p^2.
    # Patterns may take as long as rows.
    if shape != "diagonal" and (p < 2 or len(rows.sorted.starts) * p > 3 * n):
        return fits
    best, failures, posterior = -np.inf, 0, np.ones((n, 1))
    for k in range(1, max(MAX_COMPONENTS, n_components or 1) + 1):
        wanted = n_components is not None and k <= n_components
        too_few_rows = shape == "full" and k * p * (p + 1) > 2 * n
        if k > 1 and not wanted and (failures >= PATIENCE or too_few_rows or k > MAX_COMPONENTS):
            break
        if k > n or (k > 1 and not starts.latent.shape[1]):
            break
        candidates = [np.ones((n, 1))] if k == 1 else [starts.of(k), *starts.splits(posterior)]
        mixtures = [NormalMixture.started(rows, each, prior, shape) for each in candidates]
        if len(mixtures) > 1:
            runs = [fitted(rows, each, prior, SHORT_STEPS, -np.inf) for each in mixtures]
            mixtures = [max(runs, key=lambda run: run[1])[0]]
        mixture, likelihood = fitted(rows, mixtures[0], prior, STEPS, TOLERANCE)
        fit = MixtureFit(mixture, likelihood - 0.5 * mixture.n_parameters * float(np.log(n)))
        fits.append(fit)
        failures = 0 if fit.bic > best else failures + 1
        best = max(best, fit.bic)
        posterior = mixture.posterior(rows)
    return fits


def _k_means(X: np.ndarray, k: int) -> np.ndarray:
    """Return the labels (n,) of rows X (n, r) by k-means.

    It starts from the parts that `_principal_parts` returns, so that it needs no random numbers.
    """
    from sklearn.cluster import KMeans  # which takes a second to import

    parts = _principal_parts(X, k)
    centres = np.array([X[parts == c].mean(axis=0) for c in range(int(parts.max()) + 1)])
    return np.asarray(KMeans(len(centres), init=centres, n_init=1).fit(X).labels_)


def _principal_parts(X: np.ndarray, k: int) -> np.ndarray:
    """Return parts (n,) of rows X (n, r), at most k, by PCA-Part (Su and Dy 2007).

    The part with the largest scatter is cut at its mean, across its principal direction.
    """
    parts = np.zeros(len(X), np.int64)
    scatter = {0: _scatter(X)}
    for new in range(1, k):
        widest = max(scatter, key=lambda c: scatter[c][0])
        total, direction = scatter[widest]
        if total <= 0.0:
            break
        own = np.flatnonzero(parts == widest)
        along = X[own] @ direction
        parts[own[along > along.mean()]] = new
        for c in (widest, new):
            scatter[c] = _scatter(X[parts == c])
    return parts


def _scatter(X: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the sum of squares of rows X (n, r) about their mean, and the principal direction."""
    centred = X - X.mean(axis=0)
    squares, directions = np.linalg.eigh(centred.T @ centred)
    return float(squares.sum()), directions[:, -1]
