"""Rows so far from all others that models should not learn from them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from distsvc.models.rows.mass import least_mass
from distsvc.models.rows.spread import known

MAX_OUTLIER_ROWS = 8
"""Maximum number of rows that are ignored in learning."""

MIN_OUTLIER_RANGES = 3.0
"""Minimum distance of ignored rows from the others, in ranges of the others."""

KEPT_EXTREMES = MAX_OUTLIER_ROWS + 1
"""Number of extreme values kept at either end of a column."""

HEADS = 64, 1024
"""Rows of a block that are compared first; they raise the limits that later rows must exceed."""

FARTHER = 10.0
"""Minimum ratio of successive distances, if more than `MAX_OUTLIER_ROWS` rows are so far away."""


def most_aside(n_rows: int) -> int:
    """Return the maximum number of ignored rows, of a table or a pilot of `n_rows`.

    They are too few for a cluster, and a tenth of the rows at most.
    """
    return min(MAX_OUTLIER_ROWS, math.ceil(least_mass(n_rows, 1)) - 1, n_rows // 10)


def how_many_aside(distances: np.ndarray, most: int) -> int:
    """Return the number of the farthest rows to ignore: `most` at most.

    `distances` (m,) float64 are the distances above `MIN_OUTLIER_RANGES`, descending; at least the
    first most + 1 of them.
    """
    for k in range(min(most, len(distances)), 0, -1):
        if k == len(distances) or distances[k - 1] > FARTHER * distances[k]:
            return k
    return 0


@dataclass(frozen=True)
class Reach:
    """Range of nearly all values of every column, `low` to `high`, (d,) float64.

    Columns in which both are equal give no distance.
    """

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, pilot: np.ndarray) -> Reach:
        """Return the range of pilot rows (m, d), less the `most_aside` extremes at either end."""
        low, high = np.zeros((2, pilot.shape[1]))
        for k, values in enumerate(known(pilot)):
            n = most_aside(len(values))
            if n:
                ends = [n, len(values) - 1 - n]
                low[k], high[k] = np.partition(values, ends)[ends]
        return cls(low, high)

    def distances(self, X: np.ndarray) -> np.ndarray:
        """Return the distances of X (n, d) from their column's range, in ranges; 0 for NaN."""
        width = np.where(self.high > self.low, self.high - self.low, np.inf)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.fmax(np.fmax(X - self.high, self.low - X) / width, 0.0)


class ColumnEnds:
    """Extreme values of every column, with their rows.

    Rows are added in the order of their numbers; the first of equal values are kept. For any
    `Reach`, the column extremes contain the `KEPT_EXTREMES` most extreme rows.

    Attributes
    ----------
    values : ndarray of shape (2, d, KEPT_EXTREMES), float64
        Lowest values of each column, ascending, and negatives of the highest; infinite if unused.
    rows : ndarray of shape (2, d, KEPT_EXTREMES), int64
        Rows of the values, -1 if unused.

    """

    def __init__(self, values: np.ndarray, rows: np.ndarray):
        self.values, self.rows = values, rows

    @classmethod
    def empty(cls, d: int) -> ColumnEnds:
        """Return the extremes of no rows."""
        return cls(
            np.full((2, d, KEPT_EXTREMES), np.inf), np.full((2, d, KEPT_EXTREMES), -1, np.int64)
        )

    def add(self, X: np.ndarray, rows: np.ndarray) -> None:
        """Add rows X (n, d) with their numbers (n,); NaN is skipped."""
        edges = [0, *(n for n in HEADS if n < len(X)), len(X)]
        for first, last in itertools.pairwise(edges):
            part, limits = (
                X[first:last],
                self.values[:, :, -1].astype(X.dtype),
            )  # exact
            for side, beyond in enumerate((part < limits[0], part > -limits[1])):
                places, columns = np.divmod(np.flatnonzero(beyond), X.shape[1])
                for column in np.unique(columns):
                    found = places[columns == column]
                    values = part[found, column].astype(np.float64)
                    ends = np.concatenate([self.values[side, column], -values if side else values])
                    numbers = np.concatenate([self.rows[side, column], rows[first + found]])
                    kept = np.argsort(ends, kind="stable")[:KEPT_EXTREMES]
                    self.values[side, column], self.rows[side, column] = ends[kept], numbers[kept]

    def merge(self, other: ColumnEnds) -> None:
        """Add the extremes of later rows."""
        values = np.concatenate([self.values, other.values], axis=2)
        rows = np.concatenate([self.rows, other.rows], axis=2)
        kept = np.argsort(values, axis=2, kind="stable")[:, :, :KEPT_EXTREMES]
        self.values = np.take_along_axis(values, kept, axis=2)
        self.rows = np.take_along_axis(rows, kept, axis=2)

    def farthest(self, reach: Reach) -> list[tuple[float, int, int, float]]:
        """Return at most `KEPT_EXTREMES` rows beyond `MIN_OUTLIER_RANGES`, the farthest first.

        Each is (distance, row, column of the largest distance, value there).
        """
        side, column, place = np.nonzero(self.rows >= 0)
        values = np.where(side == 1, -1.0, 1.0) * self.values[side, column, place]
        rows = self.rows[side, column, place]
        distances = Reach(reach.low[column], reach.high[column]).distances(values[None])[0]
        found = dict[int, tuple[float, int, int, float]]()
        for k in np.lexsort((column, -distances)).tolist():
            if distances[k] > MIN_OUTLIER_RANGES:
                far = float(distances[k]), int(rows[k]), int(column[k]), float(values[k])
                found.setdefault(far[1], far)
        return sorted(found.values(), key=lambda far: (-far[0], far[1]))[:KEPT_EXTREMES]
