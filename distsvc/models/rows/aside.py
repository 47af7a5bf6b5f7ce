"""Rows so far from all others that nothing should be learned from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from distsvc.models.rows.mass import least_mass
from distsvc.models.rows.spread import known

MOST = 8
"""Rows that are set aside, at most."""

RANGES = 3.0
"""Least distance from the other rows, in ranges of these."""

FARTHER = 10.0
"""Least ratio to the distance of the rows that stay, where more than `MOST` lie so far."""


def most_aside(n_rows: int) -> int:
    """Return how many rows may be set aside, of a table or a pilot of `n_rows`.

    They are too few for a cluster, and a tenth of the rows at most.
    """
    return min(MOST, math.ceil(least_mass(n_rows, 1)) - 1, n_rows // 10)


def how_many_aside(distances: np.ndarray, most: int) -> int:
    """Return how many rows are set aside, those that lie farthest: `most` at most.

    `distances` (m,) float64 descending are those above `RANGES`; of more than most + 1, the first.
    """
    for k in range(min(most, len(distances)), 0, -1):
        if k == len(distances) or distances[k - 1] > FARTHER * distances[k]:
            return k
    return 0


@dataclass(frozen=True)
class Reach:
    """The range of nearly all values of every column: from `low` to `high`, (d,) float64.

    A column in which these are equal does not tell how far a row is.
    """

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, pilot: np.ndarray) -> Reach:
        """Return that of pilot rows (m, d), less the `most_aside` lowest and highest values."""
        low, high = np.zeros((2, pilot.shape[1]))
        for k, values in enumerate(known(pilot)):
            n = most_aside(len(values))
            if n:
                ends = [n, len(values) - 1 - n]
                low[k], high[k] = np.partition(values, ends)[ends]
        return cls(low, high)

    def distances(self, X: np.ndarray) -> np.ndarray:
        """Return how far values X (n, d) lie outside, in the ranges of their columns; 0 for NaN."""
        width = np.where(self.high > self.low, self.high - self.low, np.inf)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.fmax(np.fmax(X - self.high, self.low - X) / width, 0.0)
