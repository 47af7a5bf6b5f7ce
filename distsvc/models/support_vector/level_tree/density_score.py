"""The distance of rows outside all clusters, by the densities that two of the models see.

One model sees the fewest components, one the most. Each is looked at by about its own
kernel, which knows gaps between clusters, and by one of sixteen times that width, which knows rows
that are few and far away, though they may be near each other. What is far in one of the four need
not be in another; each is measured in units of what is usual inside a cluster, and the score is
their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distsvc.kernels.density import log_sums
from distsvc.models.support_vector.level_tree.tree import LevelTree

FAR = 6.0
"""A row is outside so many spreads below what is usual: the spread of the scores inside a cluster,
or that of the clusters' medians where they differ by more."""

LEAST_SHARE = 0.1
"""Of the mean size of a cluster, the rows that one needs to say what is usual inside it."""

FAIR_SHARE = 0.5
"""Of the mean size of those clusters: what has so many rows is no cluster of outliers."""

LEAST_SPREAD = 1e-3

WIDENED = 2.0
"""The divisor of a model's gamma for the narrow kernel; `kernels.density` has the wide one."""

WIDTHS = 2
LOWEST = -3e38


@dataclass(frozen=True)
class Sums:
    """The kernel sums of one model: vectors S (q, B) float32, weights a (B,) float32, and gamma."""

    S: np.ndarray
    a: np.ndarray
    gamma: float

    def logs(self, view: np.ndarray, out: np.ndarray) -> None:
        """Set out (2, n) float64 to the sums' logarithms at rows (n, >= q), narrow and wide."""
        rows = np.ascontiguousarray(view[:, : self.S.shape[0]])
        log_sums(rows, self.S, self.a, self.gamma, out)


@dataclass(frozen=True)
class DensityScore:
    """Scores rows: 0 where a row begins to lie outside, less the farther it does.

    `few` and `most` are the sums of the two models. `middles` and `spreads` (4,) float64 are the
    usual values inside a cluster: median and median absolute deviation of the logarithms of the
    sums, narrow and wide. `limit` is added to the mean of the four, so that the score is 0 where
    rows begin to be outside.
    """

    few: Sums
    most: Sums
    middles: np.ndarray
    spreads: np.ndarray
    limit: float

    @classmethod
    def of(
        cls, trees: Sequence[LevelTree], pilot: np.ndarray, labels: np.ndarray, nu: float | None
    ) -> DensityScore:
        """Return the score of rows, from the trees of all models and the labelled pilot.

        pilot (m, q) float32 are viewed rows, labels (m,) their clusters. What is usual is the
        median over the clusters, each counting once, but for those that have few rows. With `nu`
        that share of the pilot is outside.
        """
        few, most = (Sums(t.S, t.a, t.gamma / WIDENED) for t in scoring_trees(trees))
        clusters = _large_clusters(labels)
        middles, spreads = _usual(_logs(few, most, pilot), clusters)
        middle = np.median(middles, axis=0)
        spread = np.maximum(np.median(spreads, axis=0), LEAST_SPREAD)
        found = cls(few, most, middle, spread, 0.0).unrounded(pilot)
        if nu is not None:
            limit = float(np.quantile(found, nu, method="lower"))
        else:
            inside, spreads = _usual(found[None], clusters)
            usual = np.median(inside)
            apart = np.median(np.abs(inside - usual))
            limit = float(usual - FAR * max(np.median(spreads), apart))
            limit = _below_fair(limit, inside[:, 0], spreads[:, 0], clusters)
        return cls(few, most, middle, spread, -limit)

    def unrounded(self, view: np.ndarray) -> np.ndarray:
        """Return the scores (n,) float64 of viewed rows (n, q) float32."""
        logs = _logs(self.few, self.most, view)
        logs -= self.middles[:, None]
        logs /= self.spreads[:, None]
        return np.maximum(logs.mean(axis=0) + self.limit, LOWEST)

    def __call__(self, view: np.ndarray) -> np.ndarray:
        """Return the scores (n,) float32 of viewed rows (n, q) float32."""
        return self.unrounded(view).astype(np.float32)


def scoring_trees(trees: Sequence[LevelTree]) -> tuple[LevelTree, LevelTree]:
    """Return the trees of the middle gamma that see the fewest and the most components.

    Where all see the same, they are the two nearest to the middle, or the only one twice.
    """
    sizes = np.array([tree.S.shape[0] for tree in trees])
    gammas = np.log([tree.gamma for tree in trees])

    def nearest(size: int) -> list[int]:
        alike = np.flatnonzero(sizes == size)
        off = np.abs(gammas[alike] - np.median(gammas[alike]))
        return alike[np.argsort(off, kind="stable")].tolist()

    few, most = nearest(sizes.min())[0], nearest(sizes.max())
    other = next((number for number in most if number != few), few)
    return trees[few], trees[other]


def _large_clusters(labels: np.ndarray) -> list[np.ndarray]:
    """Return which rows (m,) bool are in each cluster that says what is usual."""
    sizes = np.bincount(labels)
    return [labels == c for c in np.flatnonzero(sizes >= LEAST_SHARE * sizes[sizes > 0].mean())]


def _below_fair(
    limit: float, inside: np.ndarray, spreads: np.ndarray, clusters: Sequence[np.ndarray]
) -> float:
    """Return a limit below which no large part of a cluster lies that has a fair share of the rows.

    `inside` and `spreads` (k,) are what is usual in each of the clusters.
    """
    sizes = np.array([np.count_nonzero(rows) for rows in clusters])
    low = (inside - 0.5 * FAR * spreads < limit) & (sizes >= FAIR_SHARE * sizes.mean())
    return float((inside - FAR * spreads)[low].min()) if low.any() else limit


def _usual(values: np.ndarray, clusters: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return median and median absolute deviation (k, v) of values (v, m) in each cluster."""
    middles = np.array([np.median(values[:, rows], axis=1) for rows in clusters])
    off = [np.abs(values[:, r] - m[:, None]) for r, m in zip(clusters, middles, strict=True)]
    return middles, np.array([np.median(part, axis=1) for part in off])


def _logs(few: Sums, most: Sums, view: np.ndarray) -> np.ndarray:
    logs = np.empty((2 * WIDTHS, len(view)))
    few.logs(view, logs[:WIDTHS])
    most.logs(view, logs[WIDTHS:])
    return logs
