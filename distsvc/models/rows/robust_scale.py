"""Robust scale of a column, and a check whether a few extreme rows decide its usual scale.

The statistics are computed from the pilot, which does not depend on the table's partitions.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

WIDTHS = {0.25: 1.34898, 0.1: 2.56310, 0.05: 3.28971, 0.025: 3.91993, 0.01: 4.65270}
"""Distance between two quantiles of a normal column, in standard deviations, by the share of rows
beyond each of them."""

BULK_TAIL = 0.025
"""Share of rows beyond either end of a column's bulk; these rows may be extreme."""


@dataclass(frozen=True)
class ColumnSpread:
    """Statistics of a column that show whether a few extreme rows decide its scale."""

    low: float  # lower end of the bulk, which has all rows but `BULK_TAIL` on either side
    middle: float  # median
    high: float  # upper end of the bulk
    spread: float  # standard deviation of a normal column with the same bulk
    farthest: float  # value farthest from the median, among all rows
    deviation: float  # standard deviation of all rows

    @classmethod
    def of(cls, values: np.ndarray, least: float, most: float, deviation: float) -> Self:
        """Return the statistics of a column from its pilot values (m,), m > 0.

        `least`, `most` and `deviation` are the extremes and standard deviation of all rows.
        """
        share = min(max(BULK_TAIL, 1.0 / max(len(values) - 1, 1)), 0.25)
        low, middle, high = map(float, np.quantile(values, [share, 0.5, 1.0 - share]))
        spread = (high - low) / WIDTHS[BULK_TAIL] or _of_others(values, middle)
        farthest = most if most - middle >= middle - least else least
        return cls(low, middle, high, spread, farthest, deviation)

    def decided(self, kind: str) -> bool:
        """Return True if extreme rows decide the scale; `kind` is "standard" or "minmax"."""
        far, spread = abs(self.farthest - self.middle), self.spread
        if not spread:
            return False
        # Extreme rows decide the scale if the bulk is narrow in units of the standard deviation.
        lost = self.deviation > 5.0 * spread
        if far > 1000.0 * spread:
            return lost or kind == "minmax"
        return lost and far > 20.0 * self.deviation

    @property
    def near_as_log(self) -> bool:
        """Whether the logarithm of the column has no extreme rows.

        The logarithm is possible if all values have one sign.
        """
        ends = np.array([self.low, self.middle, self.high, self.farthest])
        if min(ends) < 0.0 < max(ends):
            return False
        low, middle, high, farthest = np.log1p(np.abs(ends))
        return bool(abs(farthest - middle) <= 20.0 * abs(high - low) / WIDTHS[BULK_TAIL])


def middle_and_spread(values: np.ndarray) -> tuple[float, float]:
    """Return the median of values (m,), m > 0, and their spread, a robust standard deviation.

    The spread follows from the distance of the quartiles, as in a normal column. If the quartiles
    are equal, wider pairs of quantiles are tried. If these are equal, too, the spread is the median
    distance from the median of the values that differ from it, or 0 if all are equal.
    """
    middle = float(np.median(values))
    for share in (0.25, 0.1, 0.05, 0.01):
        low, high = np.quantile(values, [share, 1.0 - share])
        if high > low:
            return middle, float(high - low) / WIDTHS[share]
    return middle, _of_others(values, middle)


def present_values(pilot: np.ndarray) -> Iterable[np.ndarray]:
    """Yield the values of each column of pilot rows (m, d) that are not missing."""
    return (column[~np.isnan(column)] for column in pilot.T)


def _of_others(values: np.ndarray, middle: float) -> float:
    """Return the median distance from `middle` of values that differ from it; 0 if none does."""
    away = np.abs(values - middle)
    away = away[away > 0.0]
    return float(np.median(away)) if away.size else 0.0
