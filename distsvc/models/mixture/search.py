"""The search for the mixture with the best BIC: how many components, and which covariances.

The covariances are full, tied (diagonal along common axes) or diagonal. Each of these shapes is
fitted with 1, 2, ... components, until the BIC has not risen for `PATIENCE` fits. Each fit starts
from the best of several short runs. Two short runs start from k-means. `SPLITS` others start from
the previous fit, with one of its components split in two. Nothing is random.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np

from distsvc.models.mixture.density import MixtureRows, NormalMixture, Prior, Shape, run_em
from distsvc.models.rows.threads import map_threads, one_thread

SHAPES: tuple[Shape, ...] = ("full", "tied", "diagonal")

MAX_COMPONENTS = 20
"""Maximum number of components, unless a larger number is given."""

MAX_WANTED = 400
"""Maximum number of components that a user can choose; a larger number is lowered to it.

The time of a search grows faster than the square of the number.
"""

PATIENCE = 2
"""Number of consecutive fits without a higher BIC that ends the search of a shape."""

SPLITS = 2
"""Maximum number of starts of a fit in which a component of the previous fit is split in two.

The components with the largest scatter are split.
"""

MIN_SPLIT_ROWS = 10
"""Number of rows that a component must exceed to be split."""

SHORT_STEPS, STEPS, TOLERANCE = 8, 60, 2e-4
"""Steps of EM in a short run; maximum number of steps of a fit and of k-means; and the gain in nats
per row below which a fit ends."""


@dataclass(frozen=True)
class MixtureFit:
    """A fitted mixture and its BIC: log-likelihood - 0.5 n_parameters log(n); higher is better."""

    mixture: NormalMixture
    bic: float


@dataclass(frozen=True)
class MixtureSearch:
    """The fitted mixtures of all shapes and numbers of components."""

    fits: list[MixtureFit]  # shape by shape, by number of components

    @property
    def best(self) -> MixtureFit:
        return max(self.fits, key=lambda fit: fit.bic)

    @cached_property
    def best_of_each(self) -> list[MixtureFit]:
        """The best fit with each number of components, the lowest number first."""
        ranked = sorted(self.fits, key=lambda fit: -fit.bic)
        sizes = [fit.mixture.n_components for fit in ranked]
        return [ranked[sizes.index(k)] for k in sorted(set(sizes))]


def search(
    rows: MixtureRows,
    latent: np.ndarray,
    n_components: int | None = None,
    n_jobs: int | None = 1,
    shapes: Sequence[Shape] = SHAPES,
    prior: Prior | None = None,
) -> MixtureSearch:
    """Fit mixtures of each shape to n rows, with growing numbers of components.

    `latent` (n, r) has the same rows as continuous variables, in which k-means finds starts. All
    numbers up to `n_components`, at most `MAX_WANTED`, are tried even if the BIC falls. If none of
    the `shapes` can be fitted, the covariances are diagonal. If `prior` is None, the prior is
    computed from `rows`.
    """
    prior = prior or Prior.of(rows)
    n_components = wanted_components(n_components)
    with one_thread():  # more threads would give other last bits
        starts = _Starts(latent.astype(np.float64))
        found = map_threads(
            lambda shape: _fits(rows, starts, prior, shape, n_components), shapes, n_jobs
        )
        fits = [fit for fits in found for fit in fits]
        return MixtureSearch(fits or _fits(rows, starts, prior, "diagonal", n_components))


def wanted_components(n_components: int | None) -> int | None:
    """Return `n_components`, lowered to `MAX_WANTED` if it is larger.

    None is returned as it is, and means that the BIC chooses the number.
    """
    return None if n_components is None else min(n_components, MAX_WANTED)


def _scatter(X: np.ndarray) -> float:
    """Return the sum of squares of rows X (n, r) about their mean."""
    return float(((X - X.mean(axis=0)) ** 2).sum()) if len(X) else 0.0


def _principal_direction(centred: np.ndarray) -> np.ndarray:
    """Return the direction (r,) in which centred rows (n, r) vary most."""
    return np.asarray(np.linalg.eigh(centred.T @ centred)[1][:, -1])


def _direction_of_least_kurtosis(centred: np.ndarray) -> np.ndarray:
    """Return the direction (r,) in which centred rows (n, r) have the least kurtosis.

    Two clusters of similar size lie apart along this invariant coordinate (Tyler et al. 2009).
    """
    sphering = _sphering(centred)
    Z = centred @ sphering
    weighted = Z * (Z**2).sum(axis=1, keepdims=True)
    return np.asarray(sphering @ np.linalg.eigh(weighted.T @ Z)[1][:, 0])


def _sphering(centred: np.ndarray) -> np.ndarray:
    """Return a matrix (r, s) that maps centred rows (n, r) to rows with covariance I."""
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    rounding = len(variances) * np.finfo(np.float32).eps  # as numpy.linalg.matrix_rank
    kept = variances > rounding * variances[-1]
    return np.asarray(directions[:, kept] / np.sqrt(variances[kept]))


class _Parts:
    """Rows X (n, r), cut into more and more parts, from which k-means starts (Su and Dy 2007).

    The part with the largest scatter is cut next. It is cut at its mean, across the direction that
    the function `direction` returns for its centred rows.
    """

    def __init__(self, X: np.ndarray, direction: Callable[[np.ndarray], np.ndarray]):
        self.X, self.direction = X, direction
        self.labels, self.scatter = np.zeros(len(X), np.int64), [_scatter(X)]

    def k_means(self, k: int) -> np.ndarray:
        """Return the labels (n,) of k-means, started from at most k parts of the rows.

        Parts are never joined again, so a later call needs the same k or a higher one.
        """
        X, labels, scatter = self.X, self.labels, self.scatter
        if not X.shape[1]:  # every column is constant
            return labels
        while len(scatter) < k and max(scatter) > 0.0:
            widest, new = int(np.argmax(scatter)), len(scatter)
            own = np.flatnonzero(labels == widest)
            along = X[own] @ self.direction(X[own] - X[own].mean(axis=0))
            labels[own[along > along.mean()]] = new
            scatter[widest] = _scatter(X[labels == widest])
            scatter.append(_scatter(X[labels == new]))
        for _ in range(STEPS):  # Lloyd's algorithm
            members = np.eye(labels.max() + 1)[labels]
            sizes = members.sum(axis=0)
            centres = (members.T @ X)[sizes > 0] / sizes[sizes > 0, None]
            before, labels = labels, ((centres**2).sum(axis=1) - 2.0 * X @ centres.T).argmin(axis=1)
            if np.array_equal(labels, before):
                break
        return labels


class _Starts:
    """Partitions from which fits of a mixture start.

    Some are found by k-means, and others split a component of the previous fit. k-means is run on
    the rows, and on sphered rows, where long clusters become compact (Scrucca and Raftery 2015).
    The results of k-means are cached.
    """

    def __init__(self, latent: np.ndarray):
        self.latent = latent
        self._known: dict[int, list[np.ndarray]] = {}
        self._lock = Lock()  # shapes are fitted in threads, and share starts

    @cached_property
    def _parts(self) -> tuple[_Parts, _Parts]:
        """Parts of the rows, and parts of the sphered rows, whose covariance is the identity."""
        centred = self.latent - self.latent.mean(axis=0)
        sphered = np.asarray(centred @ _sphering(centred))
        return (
            _Parts(self.latent, _principal_direction),
            _Parts(sphered, _direction_of_least_kurtosis),
        )

    def of(self, k: int) -> list[np.ndarray]:
        """Return two partitions by k-means into at most k clusters, as 0/1 posteriors (n, k)."""
        with self._lock:
            if k not in self._known:
                self._known[k] = [parts.k_means(k) for parts in self._parts]
            return [np.eye(k)[labels] for labels in self._known[k]]

    def splits(self, posterior: np.ndarray) -> list[np.ndarray]:
        """Return at most `SPLITS` posteriors (n, k + 1): each splits a wide component in two."""
        labels, k = posterior.argmax(axis=1), posterior.shape[1]
        spread = np.zeros(k)
        for c in range(k):
            own = self.latent[labels == c]
            if len(own) > MIN_SPLIT_ROWS:
                spread[c] = _scatter(own)
        found = []
        for c in np.argsort(-spread, kind="stable")[:SPLITS]:
            if spread[c] > 0.0:
                own = np.flatnonzero(labels == c)
                halves = _Parts(self.latent[own], _principal_direction).k_means(2)
                second = own[halves == 1]
                split = np.hstack([posterior, np.zeros((len(labels), 1))])
                split[second, k], split[second, c] = split[second, c], 0.0
                found.append(split)
        return found


def has_full_covariances(rows: MixtureRows) -> bool:
    """Return True if full covariances are useful and fast to compute.

    They are useful if the rows have two numbers or more. They are fast if few combinations of
    numbers are missing, because each combination needs a factorisation of the covariances. The
    factorisations, of about p^3 / 3 operations, must not take longer than the rows, of p^2 each.
    """
    n, p = rows.X.shape
    return p > 1 and len(rows.by_pattern.starts) * p <= 3 * n


def _too_few_rows(rows: MixtureRows, k: int) -> bool:
    """Return True if k full covariances have more parameters than there are rows."""
    n, p = rows.X.shape
    return k * p * (p + 1) > 2 * n


def possible_shape(rows: MixtureRows, k: int) -> Shape:
    """Return "full" if k components can have full covariances, else "diagonal"."""
    return "full" if has_full_covariances(rows) and not _too_few_rows(rows, k) else "diagonal"


def _fits(
    rows: MixtureRows, starts: _Starts, prior: Prior, shape: Shape, n_components: int | None
) -> list[MixtureFit]:
    """Return the fits of one shape with 1, 2, ... components.

    The list is empty if the shape is not diagonal and `has_full_covariances` is False.
    """
    n = len(rows)
    fits: list[MixtureFit] = []
    if shape != "diagonal" and not has_full_covariances(rows):
        return fits
    best, failures, posterior = -np.inf, 0, np.ones((n, 1))
    for k in range(1, max(MAX_COMPONENTS, n_components or 1) + 1):
        wanted = n_components is not None and k <= n_components
        too_few_rows = shape == "full" and _too_few_rows(rows, k)
        if k > 1 and not wanted and (failures >= PATIENCE or too_few_rows or k > MAX_COMPONENTS):
            break
        if k > n or (k > 1 and not starts.latent.shape[1]):
            break
        candidates = [np.ones((n, 1))] if k == 1 else [*starts.of(k), *starts.splits(posterior)]
        mixtures = [NormalMixture.from_posteriors(rows, each, prior, shape) for each in candidates]
        if len(mixtures) > 1:
            runs = [run_em(rows, each, prior, SHORT_STEPS, -np.inf) for each in mixtures]
            mixtures = [max(runs, key=lambda run: run[1])[0]]
        mixture, likelihood = run_em(rows, mixtures[0], prior, STEPS, TOLERANCE)
        fit = MixtureFit(mixture, likelihood - 0.5 * mixture.n_parameters * float(np.log(n)))
        fits.append(fit)
        failures = 0 if fit.bic > best else failures + 1
        best = max(best, fit.bic)
        posterior = mixture.posterior(rows)
    return fits
