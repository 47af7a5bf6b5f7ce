"""The density of a mixture: rows, parameters, and steps of expectation maximisation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from distsvc.kernels.mixture import expectation, expectation_maximisation, maximise

Shape = Literal["full", "tied", "diagonal"]


@dataclass(frozen=True)
class MixtureRows:
    """Rows of a table: numbers and levels of categories."""

    X: np.ndarray  # (n, p) float64: numbers, NaN where missing
    levels: np.ndarray  # (n, q) int32: levels of categories, -1 where missing
    n_levels: np.ndarray  # (q,) int64: number of levels of each category

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def by_pattern(self) -> SortedRows:
        """The rows, grouped by their pattern of missing numbers."""
        patterns, X, levels = Patterns.of(~np.isnan(self.X)), self.X, self.levels
        if len(patterns.present) > 1:  # otherwise rows keep their order
            X, levels = X[patterns.order], levels[patterns.order]
        X, levels = np.ascontiguousarray(X), np.ascontiguousarray(levels, np.int32)
        return SortedRows(X, levels, *patterns)

    def take(self, rows: np.ndarray) -> MixtureRows:
        return MixtureRows(self.X[rows], self.levels[rows], self.n_levels)


class Patterns(NamedTuple):
    """Rows grouped by pattern of missing numbers: arguments of kernels of mixtures."""

    order: np.ndarray
    starts: np.ndarray
    present: np.ndarray
    missing: np.ndarray

    @classmethod
    def of(cls, there: np.ndarray) -> Patterns:
        """Return the patterns of rows from a mask (n, p) of present numbers."""
        n, p = there.shape
        whole = np.ones(n, bool)  # most rows of most tables; only the rest is sorted
        if not there.all():
            bits, full = np.packbits(there, axis=1), np.packbits(np.ones((1, p), bool), axis=1)
            whole = (bits == full).all(axis=1)
        rest = np.flatnonzero(~whole)
        kinds, place = _distinct_rows(there[rest])
        order = np.concatenate([rest[np.argsort(place, kind="stable")], np.flatnonzero(whole)])
        sizes = np.bincount(place, minlength=len(kinds))
        if len(rest) < n or n == 0:
            kinds = np.vstack([kinds, np.ones((1, p), bool)])
            sizes = np.append(sizes, n - len(rest))
        starts = np.concatenate([[0], np.cumsum(sizes)])
        present, missing = np.full((len(kinds), p + 1), -1), np.full((len(kinds), p + 1), -1)
        for g, kind in enumerate(kinds):
            present[g, : kind.sum()] = np.flatnonzero(kind)
            missing[g, : p - kind.sum()] = np.flatnonzero(~kind)
        return cls(order, starts, present, missing)


def _distinct_rows(there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows (g, p) of a mask (n, p), ascending, and each row's index (n,)."""
    bits = np.packbits(there, axis=1)
    words = np.zeros((len(bits), 8 * max(-(-bits.shape[1] // 8), 1)), np.uint8)
    words[:, : bits.shape[1]] = bits
    # Big-endian words sort like the rows, many times faster.
    codes = words.view(">u8").astype(np.uint64)
    if codes.shape[1] > 1:
        _, first, place = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    else:
        _, first, place = np.unique(codes[:, 0], return_index=True, return_inverse=True)
    return there[first], place.ravel()


@dataclass(frozen=True)
class SortedRows:
    """Rows grouped by pattern of missing numbers, for `distsvc.kernels.mixture.expectation`."""

    X: np.ndarray
    levels: np.ndarray
    order: np.ndarray
    starts: np.ndarray
    present: np.ndarray
    missing: np.ndarray


@dataclass(frozen=True)
class MixtureSums:
    """Sufficient statistics of a mixture: sums over rows, weighted by posteriors (n, K).

    The sums of two disjoint sets of rows can be added. Arrays are float64.
    """

    mass: np.ndarray  # (K,): sums of the posteriors
    first: np.ndarray  # (K, p): sums of the numbers
    second: np.ndarray  # (K, p, p): products, lower triangle; (K, 1, p): squares, if diagonal
    counts: np.ndarray  # (K, L): sums by level of all categories
    likelihood: float = 0.0  # log-likelihood of the mixture that gave the posteriors

    def plus(self, other: MixtureSums) -> MixtureSums:
        return MixtureSums(**{k: v + vars(other)[k] for k, v in vars(self).items()})


@dataclass(frozen=True)
class Prior:
    """A conjugate prior: covariance `scatter` (p, p) and level `shares` (L,) of all rows."""

    scatter: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, rows: MixtureRows) -> Prior:
        """Return the prior for rows (Fraley and Raftery 2007)."""
        p = rows.X.shape[1]
        filled = np.where(np.isnan(rows.X), np.nanmean(rows.X, axis=0), rows.X)
        scatter = np.cov(filled.T, bias=True).reshape(p, p) + 1e-6 * np.eye(p)
        shares = []
        for j, n in enumerate(rows.n_levels):
            known = rows.levels[:, j][rows.levels[:, j] >= 0]
            share = np.bincount(known, minlength=n) / max(len(known), 1)
            shares.append(0.98 * share + 0.02 / n)
        return cls(scatter, np.concatenate(shares) if shares else np.zeros(0))


@dataclass(frozen=True)
class NormalMixture:
    """K components: normals of p numbers times categorical distributions of q categories.

    Arrays are float64, except `n_levels` int64. `covariances` (K, p, p) are matrices, also for the
    shape "tied"; (K, 1, p) are variances, for the shape "diagonal".
    """

    weights: np.ndarray  # (K,)
    means: np.ndarray  # (K, p)
    covariances: np.ndarray
    chances: np.ndarray  # (K, L): probabilities of the levels of all categories
    n_levels: np.ndarray  # (q,)
    axes: np.ndarray | None = None  # (p, p): all covariances are diagonal on them, if "tied"

    @property
    def shape(self) -> Shape:
        if self.covariances.shape[1] == 1:
            return "diagonal"
        return "full" if self.axes is None else "tied"

    @property
    def n_components(self) -> int:
        return len(self.weights)

    @property
    def first_level(self) -> np.ndarray:
        """Place (q,) int64 of the first level of each category among all levels."""
        return np.cumsum(np.append(0, self.n_levels))[:-1].astype(np.int64)

    @property
    def expected_log_chances(self) -> np.ndarray:
        """Expected log probability (K, q) float64 of the level of each category."""
        own = self.chances * np.log(np.maximum(self.chances, np.finfo(float).tiny))
        ends = np.cumsum(self.n_levels)
        sums = [own[:, i:j].sum(axis=1) for i, j in zip(self.first_level, ends, strict=True)]
        return np.column_stack(sums) if sums else np.zeros((len(own), 0))

    @property
    def parameters(self) -> tuple[bool, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Arguments for the kernels, which change the parameters in place."""
        is_tied = self.axes is not None
        axes = np.empty((0, 0)) if self.axes is None else self.axes
        return is_tied, axes, self.weights, self.means, self.covariances, self.chances

    def ordered(self, order: np.ndarray) -> NormalMixture:
        """Return the mixture of the components with the indices `order` (k,)."""
        names = ("weights", "means", "covariances", "chances")
        return replace(self, **{name: getattr(self, name)[order] for name in names})

    @property
    def n_parameters(self) -> int:
        k, p = self.means.shape
        covariances = {
            "full": k * p * (p + 1) // 2,
            "tied": k * p + p * (p - 1),
            "diagonal": k * p,
        }[self.shape]
        return k - 1 + k * (p + int((self.n_levels - 1).sum())) + covariances

    def sums(self, n_rows: int, shape: Shape) -> MixtureSums:
        """Return the expected sums of `n_rows` rows, for covariances of a shape."""
        second = self.means[:, :, None] * self.means[:, None, :]
        if self.shape == "diagonal":
            second += np.eye(second.shape[1]) * self.covariances
        else:
            second += self.covariances
        if shape == "diagonal":
            second = np.diagonal(second, axis1=1, axis2=2)[:, None]
        mass = n_rows * self.weights
        return MixtureSums(
            mass, mass[:, None] * self.means, mass[:, None, None] * second,
            mass[:, None] * self.chances,
        )  # fmt: skip

    @classmethod
    def of(
        cls, sums: MixtureSums, n_levels: np.ndarray, prior: Prior, axes: np.ndarray | None = None
    ) -> NormalMixture:
        """Return the mixture with the highest posterior density given sums: the M step of EM.

        With `axes` (p, p), covariances have common axes, whose search starts from these.
        """
        k, p = sums.first.shape
        s = sums.second.shape[1]
        mixture = cls(
            np.empty(k), np.empty((k, p)), np.empty((k, s, p)), np.empty_like(sums.counts),
            n_levels, None if axes is None else axes.copy(),
        )  # fmt: skip
        maximise(
            sums.mass, sums.first, sums.second, sums.counts, n_levels, prior.scatter, prior.shares,
            *mixture.parameters,
        )  # fmt: skip
        return mixture

    @classmethod
    def from_posteriors(
        cls,
        rows: MixtureRows,
        posterior: np.ndarray,
        prior: Prior,
        shape: Shape,
        before: NormalMixture | None = None,
    ) -> NormalMixture:
        """Return the mixture by one M step from posteriors (n, K).

        Missing numbers have the mean 0 and the prior's variance. `before` is as in `fitted`.
        """
        k, p = posterior.shape[1], rows.X.shape[1]
        flat = cls(
            np.full(k, 1.0 / k), np.zeros((k, p)), np.tile(np.diag(prior.scatter), (k, 1, 1)),
            np.tile(prior.shares, (k, 1)), rows.n_levels,
        )  # fmt: skip
        sums, _ = flat._pass(rows, posterior, "diagonal" if shape == "diagonal" else "full")
        if before is not None:
            sums = sums.plus(before.sums(len(rows), shape))
        return cls.of(sums, rows.n_levels, prior, np.eye(p) if shape == "tied" else None)

    def posterior(self, rows: MixtureRows) -> np.ndarray:
        """Return the posterior probabilities (n, K) of the components."""
        return self._pass(rows)[1]

    def likelihoods(self, rows: MixtureRows) -> np.ndarray:
        """Return the log-likelihoods (n,) of rows."""
        s = rows.by_pattern
        posterior = np.empty((len(rows), self.n_components))
        out = np.empty(len(rows))
        out[s.order] = self._kernel(rows, posterior, False, self._no_sums("none"))
        return out

    def expectation(self, rows: MixtureRows) -> MixtureSums:
        """Return the sums of rows, weighted by their posteriors: the E step of EM."""
        sums = self._no_sums("diagonal" if self.shape == "diagonal" else "full")
        posterior = np.empty((len(rows), self.n_components))
        likelihood = float(self._kernel(rows, posterior, False, sums).sum())
        return MixtureSums(sums.mass, sums.first, sums.second, sums.counts, likelihood)

    def _pass(
        self, rows: MixtureRows, posterior: np.ndarray | None = None, kind: str = "none"
    ) -> tuple[MixtureSums, np.ndarray]:
        order = rows.by_pattern.order
        sums = self._no_sums(kind)
        if posterior is None:
            own = np.empty((len(rows), self.n_components))
        else:
            own = np.ascontiguousarray(posterior[order])
        self._kernel(rows, own, posterior is not None, sums)
        if len(rows.by_pattern.starts) == 2:  # one pattern: rows keep their order
            return sums, own
        out = np.empty_like(own)
        out[order] = own
        return sums, out

    def _kernel(
        self, rows: MixtureRows, posterior: np.ndarray, given: bool, sums: MixtureSums
    ) -> np.ndarray:
        s = rows.by_pattern
        found: np.ndarray = expectation(
            s.X, s.levels, s.starts, s.present, s.missing, np.log(self.weights), self.means,
            self.covariances, np.log(self.chances), self.first_level, given,
            posterior, sums.mass, sums.first, sums.second, sums.counts,
        )  # fmt: skip
        return found

    def _no_sums(self, kind: str) -> MixtureSums:
        k, p = self.means.shape
        k = 0 if kind == "none" else k
        second = np.zeros((k, p if kind == "full" else 1, p))
        return MixtureSums(
            np.zeros(k), np.zeros((k, p)), second, np.zeros((k, self.chances.shape[1]))
        )


def fitted(
    rows: MixtureRows,
    start: NormalMixture,
    prior: Prior,
    max_steps: int,
    tolerance: float,
    before: NormalMixture | None = None,
) -> tuple[NormalMixture, float]:
    """Return the mixture after EM from a start, and its log-likelihood.

    EM ends after `max_steps`, or if a step gains less than `tolerance` nats per row. A mixture
    `before` of earlier rows is a prior that counts as much as the rows.
    """
    own = ("weights", "means", "covariances", "chances")
    mixture = replace(start, **{name: getattr(start, name).copy() for name in own})
    if start.axes is not None:
        mixture = replace(mixture, axes=start.axes.copy())
    s, shape = rows.by_pattern, mixture.shape
    old = before or replace(mixture, weights=np.zeros(mixture.n_components))
    sums = old.sums(len(rows), shape)
    likelihood = expectation_maximisation(
        s.X, s.levels, s.starts, s.present, s.missing, mixture.first_level, rows.n_levels,
        prior.scatter, prior.shares, sums.mass, sums.first, sums.second, sums.counts,
        *mixture.parameters, max_steps, tolerance * len(rows),
    )  # fmt: skip
    return mixture, float(likelihood)
