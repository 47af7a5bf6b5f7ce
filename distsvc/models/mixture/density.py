"""Mixture of numbers and categories, which expectation maximisation (EM) fits to rows.

A row has p numbers and q categories. A component is a normal distribution of the numbers times
independent distributions of the categories. Missing values are integrated out.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np

from distsvc.kernels.mixture import expectation, expectation_maximisation, maximise

Shape = Literal["full", "tied", "diagonal"]


class Patterns(NamedTuple):
    """Rows grouped by which of their numbers are missing; arrays are int64.

    Group g has the rows with the indices ``order[starts[g] : starts[g + 1]]``.
    """

    order: np.ndarray  # (n,): row numbers, group by group
    starts: np.ndarray  # (k + 1,), for k groups
    present: np.ndarray  # (k, p + 1): indices of each group's present numbers, padded by -1
    missing: np.ndarray  # (k, p + 1): indices of each group's missing numbers, padded by -1

    @classmethod
    def of(cls, there: np.ndarray) -> Self:
        """Return the groups of rows, given the mask `there` (n, p) of numbers that are present."""
        n, p = there.shape
        whole = np.ones(n, bool)  # rows without missing numbers, usually most; the rest is sorted
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
    """Return the distinct rows (k, p) of a mask (n, p), ascending, and each row's index (n,)."""
    bits = np.packbits(there, axis=1)
    words = np.zeros((len(bits), 8 * max(-(-bits.shape[1] // 8), 1)), np.uint8)
    words[:, : bits.shape[1]] = bits
    # Big-endian words sort like the rows, many times faster. Single words sort faster than rows.
    codes = words.view(">u8").astype(np.uint64)
    axis = 0 if codes.shape[1] > 1 else None
    _, first, place = np.unique(codes, axis=axis, return_index=True, return_inverse=True)
    return there[first], place.ravel()


class SortedRows(NamedTuple):
    """Arrays of `MixtureRows` in the order of `Patterns`, and the four fields of `Patterns`."""

    X: np.ndarray
    levels: np.ndarray
    order: np.ndarray
    starts: np.ndarray
    present: np.ndarray
    missing: np.ndarray


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
        """The rows, sorted by their pattern of missing numbers."""
        patterns, X, levels = Patterns.of(~np.isnan(self.X)), self.X, self.levels
        if len(patterns.present) > 1:  # otherwise rows keep their order
            X, levels = X[patterns.order], levels[patterns.order]
        X, levels = np.ascontiguousarray(X), np.ascontiguousarray(levels, np.int32)
        return SortedRows(X, levels, *patterns)

    def take(self, rows: np.ndarray) -> Self:
        return replace(self, X=self.X[rows], levels=self.levels[rows])


@dataclass(frozen=True)
class MixtureSums:
    """Sufficient statistics of a mixture: sums over n rows, weighted by posteriors (n, K).

    The sums of two disjoint sets of rows can be added. Arrays are float64.
    """

    mass: np.ndarray  # (K,): sums of the posteriors
    first: np.ndarray  # (K, p): sums of the numbers
    second: np.ndarray  # (K, p, p): sums of products, lower triangle; (K, 1, p): of squares only
    counts: np.ndarray  # (K, L): sums of the indicators of all levels

    def plus(self, other: Self) -> Self:
        return replace(self, **{k: v + vars(other)[k] for k, v in vars(self).items()})


@dataclass(frozen=True)
class Prior:
    """Conjugate prior of every component, from statistics of all rows.

    `scatter` (p, p) is the covariance of all rows, and `shares` (L,) are the levels' shares.
    """

    scatter: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, rows: MixtureRows) -> Self:
        """Return the prior that is computed from rows (Fraley and Raftery 2007)."""
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
    """Mixture of K components, each a normal of p numbers times q categorical distributions."""

    weights: np.ndarray  # (K,) float64
    means: np.ndarray  # (K, p) float64
    covariances: np.ndarray  # float64: (K, p, p) if "full" or "tied"; (K, 1, p) if "diagonal"
    chances: np.ndarray  # (K, L) float64: probabilities of the levels of all categories
    n_levels: np.ndarray  # (q,) int64: number of levels of each category
    axes: np.ndarray | None = None  # (p, p) float64: axes common to all covariances, if "tied"

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
        """Column of `chances` with the first level of each category, (q,) int64."""
        return np.cumsum(np.append(0, self.n_levels))[:-1].astype(np.int64)

    @property
    def expected_log_chances(self) -> np.ndarray:
        """Expected log probability of a random level, by component and category, (K, q) float64."""
        own = self.chances * np.log(np.maximum(self.chances, np.finfo(float).tiny))
        ends = np.cumsum(self.n_levels)
        sums = [own[:, i:j].sum(axis=1) for i, j in zip(self.first_level, ends, strict=True)]
        return np.column_stack(sums) if sums else np.zeros((len(own), 0))

    @property
    def parameters(self) -> tuple[bool, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The mixture's parameters as arguments of kernels, which change the arrays in place."""
        is_tied = self.axes is not None
        axes = np.empty((0, 0)) if self.axes is None else self.axes
        return is_tied, axes, self.weights, self.means, self.covariances, self.chances

    def ordered(self, order: np.ndarray) -> Self:
        """Return a mixture with only the components `order` (k,) int, in this order."""
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
        """Return the sums that `n_rows` rows of this mixture would have on average.

        `shape` is the shape of the covariances that will be fitted to these sums.
        """
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
    ) -> Self:
        """Return the mixture with the highest posterior density given sums: the M step of EM.

        With `axes` (p, p), covariances are tied, and the search for their common axes starts there.
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
        before: Self | None = None,
    ) -> Self:
        """Return the mixture that one M step fits to rows with posteriors (n, K).

        In the sums, a missing number has mean 0 and the prior's variance. `before` is a mixture
        that was fitted to earlier rows, as in `run_em`.
        """
        k, p = posterior.shape[1], rows.X.shape[1]
        flat = cls(
            np.full(k, 1.0 / k), np.zeros((k, p)), np.tile(np.diag(prior.scatter), (k, 1, 1)),
            np.tile(prior.shares, (k, 1)), rows.n_levels,
        )  # fmt: skip
        sums = flat._pass(rows, shape, posterior)[0]
        if before is not None:
            sums = sums.plus(before.sums(len(rows), shape))
        return cls.of(sums, rows.n_levels, prior, np.eye(p) if shape == "tied" else None)

    def posterior(self, rows: MixtureRows) -> np.ndarray:
        """Return the posterior probabilities (n, K) of the components."""
        return self._pass(rows)[1]

    def likelihoods(self, rows: MixtureRows) -> np.ndarray:
        """Return the log-likelihoods (n,) of rows."""
        return self._pass(rows)[2]

    def expectation(self, rows: MixtureRows) -> MixtureSums:
        """Return the sums of rows, weighted by their posteriors: the E step of EM.

        Missing numbers enter by their conditional means and covariances.
        """
        return self._pass(rows, self.shape)[0]

    def _pass(
        self, rows: MixtureRows, shape: Shape | None = None, posterior: np.ndarray | None = None
    ) -> tuple[MixtureSums, np.ndarray, np.ndarray]:
        """Return sums, posteriors (n, K) and log-likelihoods (n,) of rows.

        The sums are for covariances of `shape`; if `shape` is None, they are empty. If `posterior`
        (n, K) is given, it weights the sums, and posteriors and log-likelihoods are undefined.
        """
        s, (k, p) = rows.by_pattern, self.means.shape
        own = np.empty((len(rows), k)) if posterior is None else posterior[s.order]
        k = 0 if shape is None else k
        second = np.zeros((k, 1 if shape in (None, "diagonal") else p, p))
        counts = np.zeros((k, self.chances.shape[1]))
        sums = MixtureSums(np.zeros(k), np.zeros((k, p)), second, counts)
        own = np.ascontiguousarray(own)
        likelihoods = expectation(
            s.X, s.levels, s.starts, s.present, s.missing, np.log(self.weights), self.means,
            self.covariances, np.log(self.chances), self.first_level, posterior is not None,
            own, sums.mass, sums.first, sums.second, sums.counts,
        )  # fmt: skip
        if len(s.starts) > 2:  # the rows of several patterns were sorted
            own[s.order], likelihoods[s.order] = own.copy(), likelihoods.copy()
        return sums, own, likelihoods


def run_em(
    rows: MixtureRows,
    start: NormalMixture,
    prior: Prior,
    max_steps: int,
    tolerance: float,
    before: NormalMixture | None = None,
) -> tuple[NormalMixture, float]:
    """Fit a mixture to rows by EM from `start`; return it and its log-likelihood.

    EM ends after `max_steps`, or if a step gains less than `tolerance` nats per row. `before`, a
    mixture of earlier rows, counts as if it had been fitted to as many rows as `rows` has.
    """
    own = {name: value.copy() for name, value in vars(start).items() if value is not None}
    mixture, s = replace(start, **own), rows.by_pattern  # the kernel changes its parameters
    old = before or replace(mixture, weights=np.zeros(mixture.n_components))
    sums = old.sums(len(rows), mixture.shape)
    likelihood = expectation_maximisation(
        s.X, s.levels, s.starts, s.present, s.missing, mixture.first_level, rows.n_levels,
        prior.scatter, prior.shares, sums.mass, sums.first, sums.second, sums.counts,
        *mixture.parameters, max_steps, tolerance * len(rows),
    )  # fmt: skip
    return mixture, float(likelihood)
