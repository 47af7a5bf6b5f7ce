"""The distance of rows outside all clusters, by what two of the models see, and by near rows.

One model sees the fewest components, one the most. The latter is looked at by about its own kernel,
which knows gaps between clusters, and both by one of sixteen times that width, which knows rows
that are few and far away, though they may be near each other. What is far in one of the three need
not be in another; each is measured in units of what is usual inside a cluster. Kernels have one
width for all clusters, and rows of another kind may lie between these. So how near some rows of the
table are counts as much as both models. A row that is odd in one way alone is odd: half of the
score is the mean of the four, half the lowest.

How far the sums fall off beyond a cluster's edge depends on the columns. The distance to near rows
hardly does, so it says how many rows are outside, and the score says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distsvc.kernels.density import log_nearness, log_sums, log_wide_sum
from distsvc.models.support_vector.level_tree.tree import LevelTree

LOW = 0.05
"""The share of a cluster's rows that are its tail; what is usual is measured by how far they go."""

WEIGHTS = 0.125, 0.25, 0.125, 0.5
"""Of the parts in the mean: the wide sum of the model that sees the fewest components, the narrow
and the wide sum of the one that sees the most, and the distance to near rows."""

OUTSIDE = 0.004
"""The share of a normal cluster's rows that are outside, in any number of columns."""

FIRST_EDGE, EDGE = 0.15, 0.04
"""The share of a cluster's rows beyond its edge: first, with outliers among them, and later."""

FALLS = (2.5, 0.0), (1.84, 0.69), (1.44, 1.1)
"""In one column, in two, and in more: of a cluster's rows exp(-a r - b r^2) / 2 are r times as far
below the median of the logarithms of nearness as the last edge is. A fit to normal clusters."""

ROUNDS = 4
"""How often edges are looked for, each time without the rows that were outside before."""

HALVINGS = 50
"""Of the interval in which the limit of nearness is looked for."""

LEAST_SHARE = 0.1
"""Of the mean size of a cluster, the rows that one needs to say what is usual inside it. What has
fewer may be outliers."""

LEAST_TAIL = 1e-3

WIDENED = 2.0
"""The divisor of a model's gamma for the narrow kernel; `kernels.density` has the wide one."""

LOWEST = -3e38

NEAR_POINTS, NEAR = 500, 4
"""Rows that others are near to, and which of the nearest counts."""

SHORTEST = 0.05
"""Share of the rows with the shortest distances, which count as equally near: duplicates."""


@dataclass(frozen=True)
class Sums:
    """The kernel sums of one model: vectors S (q, B) float32, weights a (B,) float32, and gamma."""

    S: np.ndarray
    a: np.ndarray
    gamma: float

    def logs(self, view: np.ndarray, out: np.ndarray) -> None:
        """Set out (2, n) float64 to the sums' logarithms at rows (n, >= q), narrow and wide."""
        log_sums(self._rows(view), self.S, self.a, self.gamma, out)

    def log_wide(self, view: np.ndarray, out: np.ndarray) -> None:
        """Set out (n,) float64 to the wide sum's logarithm at rows (n, >= q)."""
        log_wide_sum(self._rows(view), self.S, self.a, self.gamma, out)

    def _rows(self, view: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(view[:, : self.S.shape[0]])


@dataclass(frozen=True)
class Near:
    """Rows of the table: points (q, m) float32, feature by feature; `least` squared distance."""

    points: np.ndarray
    least: float

    @classmethod
    def of(cls, pilot: np.ndarray) -> Near:
        """Return the first rows of the pilot (m, q) float32, all the same where it is short."""
        points = np.ascontiguousarray(
            np.resize(pilot, (max(min(len(pilot), NEAR_POINTS), NEAR + 1), pilot.shape[1])).T
        )
        logs = np.empty(len(pilot))
        cls(points, float(np.finfo(np.float32).tiny)).logs(pilot, logs)
        apart = np.exp(-2.0 * logs)
        apart = apart[apart > 2.0 * np.finfo(np.float32).tiny]
        least = float(np.quantile(apart, SHORTEST)) if apart.size else 1.0
        return cls(points, float(np.float32(least)))

    def logs(self, view: np.ndarray, out: np.ndarray) -> None:
        """Set out (n,) float64 to minus the logarithm of rows' distance to the fourth nearest."""
        rows = np.ascontiguousarray(view[:, : self.points.shape[0]])
        log_nearness(rows, self.points, NEAR, np.float32(self.least), out)


@dataclass(frozen=True)
class DensityScore:
    """Scores rows: 0 where a row begins to lie outside, less the farther it does.

    `few` and `most` are the sums of the two models, `near` the rows that others are near to.
    `middles` and `tails` (4,) float64 are the usual values inside a cluster, of the logarithms of
    the sums, `few` wide, `most` narrow and wide, and of the distance: the median, and how far below
    it the lowest twentieth of the rows begins. A score is half the weighted mean of the four, and
    half the lowest of them; `limit` is added, so that it is 0 where rows begin to be outside.
    """

    few: Sums
    most: Sums
    near: Near
    middles: np.ndarray
    tails: np.ndarray
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
        near = Near.of(np.ascontiguousarray(pilot[:, : most.S.shape[0]]))
        logs, clusters = _logs(few, most, near, pilot), _large_clusters(labels)
        middles, lows = _usual(logs, clusters, LOW)
        middle = np.median(middles, axis=0)
        tail = np.maximum(middle - np.median(lows, axis=0), LEAST_TAIL)
        found = cls(few, most, near, middle, tail, 0.0).unrounded(pilot)
        if nu is not None:
            limit = float(np.quantile(found, nu, method="lower"))
        else:
            n_outside = np.count_nonzero(logs[-1] < _limit(logs[-1], clusters, len(near.points)))
            limit = float(np.sort(found)[n_outside])
        return cls(few, most, near, middle, tail, -limit)

    def unrounded(self, view: np.ndarray) -> np.ndarray:
        """Return the scores (n,) float64 of viewed rows (n, q) float32."""
        logs = _logs(self.few, self.most, self.near, view)
        logs -= self.middles[:, None]
        logs /= self.tails[:, None]
        mean = np.zeros(len(view))
        for part, weight in zip(logs, WEIGHTS, strict=True):
            mean += weight * part
        return np.maximum(0.5 * (mean + logs.min(axis=0)) + self.limit, LOWEST)

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


def _limit(nearness: np.ndarray, clusters: Sequence[np.ndarray], q: int) -> float:
    """Return where rows begin to be outside, from the logarithms of nearness (m,) in q columns.

    Below it lies as large a share of the clusters' rows as of a normal cluster. Outliers belong to
    clusters, too, so those that would be outside are left out and the others asked again.
    """
    fall = FALLS[min(q, len(FALLS)) - 1]
    limit, edge, reach = -np.inf, FIRST_EDGE, _reach(FIRST_EDGE, fall)
    for _ in range(ROUNDS):
        inside = [rows & (nearness >= limit) for rows in clusters]
        limit = _limit_of_all(nearness, [rows for rows in inside if rows.any()], edge, reach, fall)
        edge, reach = (EDGE - OUTSIDE) / (1.0 - OUTSIDE), 1.0
    return limit


def _limit_of_all(
    nearness: np.ndarray,
    clusters: Sequence[np.ndarray],
    edge: float,
    reach: float,
    fall: tuple[float, float],
) -> float:
    """Return the nearness below which the share `OUTSIDE` of the clusters' rows is expected.

    A cluster's edge, so many units from its median as `reach` says, tells how far its tail goes.
    The limit lies beyond the edge of each.
    """
    (middles, lows), (a, b) = _usual(nearness[None], clusters, edge)[..., 0], fall
    tails = np.maximum((middles - lows) / reach, LEAST_TAIL)
    sizes = np.array([np.count_nonzero(rows) for rows in clusters])
    below, above = float((middles - 4.0 * tails).min()), float((middles - reach * tails).min())
    for _ in range(HALVINGS):
        limit = 0.5 * (below + above)
        r = np.maximum((middles - limit) / tails, 0.0)
        shares = 0.5 * np.exp(-r * (a + b * r))
        if sizes @ shares > OUTSIDE * sizes.sum():
            above = limit
        else:
            below = limit
    return below


def _reach(edge: float, fall: tuple[float, float]) -> float:
    """Return how far an edge of a normal cluster lies from its median, the last edge being 1."""
    (a, b), depth = fall, np.log(0.5 / edge)
    return float(2.0 * depth / (a + np.sqrt(a * a + 4.0 * b * depth)))


def _usual(values: np.ndarray, clusters: Sequence[np.ndarray], low: float) -> np.ndarray:
    """Return median and low quantile (2, k, v) of values (v, m) in each cluster."""
    middles = np.array([np.median(values[:, rows], axis=1) for rows in clusters])
    lows = np.array([np.quantile(values[:, rows], low, axis=1) for rows in clusters])
    return np.array([middles, lows])


def _logs(few: Sums, most: Sums, near: Near, view: np.ndarray) -> np.ndarray:
    logs = np.empty((len(WEIGHTS), len(view)))
    few.log_wide(view, logs[0])
    most.logs(view, logs[1:3])
    near.logs(view, logs[3])
    return logs
