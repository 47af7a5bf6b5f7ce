"""Median and spread of a column, whatever values a few far rows have.

Both follow from the pilot, so they are the same however a table is cut. A quartile of 10,000 rows
lies within .01 of its place among all rows, and the spread of a normal column within 2.5 % of the
right one, in 19 of 20 cases. Of a table that has no more rows both are exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

WIDTHS = {0.25: 1.34898, 0.1: 2.56310, 0.05: 3.28971, 0.025: 3.91993, 0.01: 4.65270}
"""The width of a normal column between two quantiles, in standard deviations, by their share."""

RUNGS = (0.25, 0.1, 0.05, 0.01)
"""The quantiles that a spread follows from: the first ones that differ."""

BULK_TAIL = 0.025
"""Share of the rows on either side of the bulk, of which a few may be far ones."""

LOST = 5.0
"""The standard deviation of all rows, in spreads of the bulk, from which the bulk is lost."""

MIN_FAR_SPREADS, MIN_FAR_DEVIATIONS = 1000.0, 20.0
"""Least distance of a far row: in spreads of the bulk, or in standard deviations of all rows."""

MAX_LOG_SPREADS = 20.0
"""Its largest distance, in spreads of the bulk, where logarithms are taken of both."""


@dataclass(frozen=True)
class ColumnSpread:
    """Statistics of a column that tell whether a few far rows decide its scale.

    `middle` is the median, `low` and `high` are the ends of the bulk: all rows but `BULK_TAIL` on
    either side. `spread` is that of the bulk; of a normal column it is the standard deviation.
    `farthest` is the value farthest from the median and `deviation` the standard deviation, of all
    rows.
    """

    low: float
    middle: float
    high: float
    spread: float
    farthest: float
    deviation: float

    @classmethod
    def of(cls, values: np.ndarray, least: float, most: float, deviation: float) -> ColumnSpread:
        """Return that of the pilot's values (m,), m > 0, and the ends and deviation of all rows."""
        share = min(max(BULK_TAIL, 1.0 / max(len(values) - 1, 1)), 0.25)
        low, middle, high = map(float, np.quantile(values, [share, 0.5, 1.0 - share]))
        spread = (high - low) / WIDTHS[BULK_TAIL] or _of_others(values, middle)
        farthest = most if most - middle >= middle - least else least
        return cls(low, middle, high, spread, farthest, deviation)

    def decided(self, kind: str) -> bool:
        """Return whether a few far rows decide its scale of the kind standard or minmax."""
        far, spread = abs(self.farthest - self.middle), self.spread
        if not spread:
            return False
        lost = self.deviation > LOST * spread
        if far > MIN_FAR_SPREADS * spread:
            return lost or kind == "minmax"
        return lost and far > MIN_FAR_DEVIATIONS * self.deviation

    @property
    def near_as_log(self) -> bool:
        """Whether all values are of one sign, and the logarithm brings the farthest near."""
        ends = np.array([self.low, self.middle, self.high, self.farthest])
        if min(ends) < 0.0 < max(ends):
            return False
        low, middle, high, farthest = np.log1p(np.abs(ends))
        return bool(abs(farthest - middle) <= MAX_LOG_SPREADS * abs(high - low) / WIDTHS[BULK_TAIL])


def middle_and_spread(values: np.ndarray) -> tuple[float, float]:
    """Return the median and the spread of values (m,), m > 0; the spread of equal ones is 0.

    A normal column's spread is its standard deviation. It follows from the quartiles, or, where
    these are equal, from the first wider quantiles that differ. Where 98 of 100 values are equal,
    it is the median distance of the others from them.
    """
    middle = float(np.median(values))
    for share in RUNGS:
        low, high = np.quantile(values, [share, 1.0 - share])
        if high > low:
            return middle, float(high - low) / WIDTHS[share]
    return middle, _of_others(values, middle)


def known(pilot: np.ndarray) -> Iterable[np.ndarray]:
    """Yield the values of each column of pilot rows (m, d), those that are not missing."""
    return (column[~np.isnan(column)] for column in pilot.T)


def _of_others(values: np.ndarray, middle: float) -> float:
    """Return the median distance from the middle of the values that differ from it, if any do."""
    away = np.abs(values - middle)
    away = away[away > 0.0]
    return float(np.median(away)) if away.size else 0.0
