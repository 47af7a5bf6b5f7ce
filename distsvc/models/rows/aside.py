"""The search for a few rows that are so far from all others that no model should learn from them.

One wrong value, such as an age of 9,999, would otherwise decide the scale of its column.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from distsvc.models.rows.min_cluster_size import least_mass
from distsvc.models.rows.robust_scale import present_values

MAX_OUTLIER_ROWS = 8
"""Maximum number of rows that are ignored in learning."""

MIN_OUTLIER_RANGES = 3.0
"""Minimum distance of an ignored row from the other rows' range, in units of that range."""

MIN_DISTANCE_RATIO = 10.0
"""Minimum ratio between the distances of the nearest ignored row and of the farthest other row."""


def most_aside(n_rows: int) -> int:
    """Return the maximum number of rows to ignore in a table of `n_rows`.

    The number is at most `MAX_OUTLIER_ROWS`, and at most 10 % of the rows. It is also too small for
    a cluster (`least_mass`).
    """
    return min(MAX_OUTLIER_ROWS, math.ceil(least_mass(n_rows, 1)) - 1, n_rows // 10)


def how_many_aside(distances: np.ndarray, most: int) -> int:
    """Return the number of rows to ignore, at most `most`: the rows before the last wide gap.

    `distances` (m,) float64 are the rows' distances from the range of nearly all rows, the largest
    first. They are above `MIN_OUTLIER_RANGES`, and the first most + 1 are enough. A gap is wide if
    distances differ by a factor of `MIN_DISTANCE_RATIO`. The end of `distances` also counts as a
    wide gap.
    """
    for k in range(min(most, len(distances)), 0, -1):
        if k == len(distances) or distances[k - 1] > MIN_DISTANCE_RATIO * distances[k]:
            return k
    return 0


@dataclass(frozen=True)
class ColumnEnds:
    """The m lowest values of every column, ascending, and the m highest, descending."""

    values: np.ndarray  # (2, m, d) float64; infinite if a column has fewer values
    rows: np.ndarray  # (2, m, d) int64: row numbers of the values

    @classmethod
    def empty(cls, n_columns: int, m: int = MAX_OUTLIER_ROWS + 1) -> Self:
        values = np.full((2, m, n_columns), np.inf)
        values[1] = -np.inf
        return cls(values, np.full(values.shape, -1))

    def merged(self, other: "ColumnEnds") -> "ColumnEnds":
        """Return the ends of two parts of a table together, this part and the `other`.

        If values are equal, this part's rows come first.
        """
        values = np.concatenate([self.values, other.values], axis=1)
        rows = np.concatenate([self.rows, other.rows], axis=1)
        order = np.argsort(values * [[[1.0]], [[-1.0]]], axis=1, kind="stable")
        kept = order[:, : self.values.shape[1]]
        return ColumnEnds(*(np.take_along_axis(each, kept, axis=1) for each in (values, rows)))


@dataclass(frozen=True)
class Reach:
    """The range of nearly all values of every column.

    A row is extreme if it is far from the range of a column. `low` and `high` (d,) float64 are the
    ends of the ranges. A column is ignored if its ends are equal.
    """

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, pilot: np.ndarray) -> Self:
        """Return the range of every column of pilot rows (m, d).

        At each end of a column, the `most_aside` most extreme values are left out.
        """
        low, high = np.zeros((2, pilot.shape[1]))
        for k, values in enumerate(present_values(pilot)):
            n = most_aside(len(values))
            if n:
                ends = [n, len(values) - 1 - n]
                low[k], high[k] = np.partition(values, ends)[ends]
        return cls(low, high)

    def distances(self, X: np.ndarray) -> np.ndarray:
        """Return the distances of values X (..., d) from the ranges, in range widths; 0 for NaN."""
        with np.errstate(invalid="ignore", over="ignore"):
            widths = np.where(self.high > self.low, self.high - self.low, np.inf)
            return np.fmax(np.fmax(X - self.high, self.low - X) / widths, 0.0)
