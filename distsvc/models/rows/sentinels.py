"""The search for sentinels, such as -9999, that stand for missing values, and for other spikes.

The search uses the pilot, a sample that is independent of how a table is divided. A sentinel has
at least `MIN_SENTINEL_ROWS` rows, and at least the share `MIN_SENTINEL_SHARE` of the known values.
In addition, it meets one of these conditions:

* It is in `USUAL_SENTINELS`, but not -1, and its distance from the other values is larger than
  their range.
* It is in `USUAL_SENTINELS`, and is the only negative value beside at least ten other values.
* It is in `USUAL_SENTINELS`, and frequent: it has `MIN_FREQUENCY_RATIO` times the rows of any other
  value except 0. -1 must not be the minimum, which may come from a scaling to [-1, 1].
* It is any other number, at a distance of `MIN_OUTLIER_RANGES` ranges from at least ten other
  values, and in the minority.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from distsvc.models.rows.aside import MIN_OUTLIER_RANGES

MIN_SENTINEL_ROWS, MIN_SENTINEL_SHARE = 5, 0.01
"""Minimum number and share of the rows with a sentinel."""

USUAL_SENTINELS = (
    -1.0,
    *(sign * (10.0**digits - 1.0) for digits in range(2, 7) for sign in (1, -1)),
    *(-32768.0, -2147483648.0, 1e20, 1e30, 9.969209968386869e36),
)
"""-1, +-99 to +-999999, the lowest integers, large powers of ten, and netCDF's fill value."""

MIN_FREQUENCY_RATIO = 10.0
"""Minimum number of rows of a frequent value, relative to any other value."""

MIN_SPIKE_VALUES, MIN_SPIKE_SHARE = 50, 0.05
"""Minimum number of different values in a column, and minimum share of the values at its spike."""

MAX_ODD_SHARE = 0.5
"""Maximum share of rows at a suspicious spike (`Spike.is_odd`)."""

MIN_SPIKE_GAP = 0.1
"""Minimum distance of an odd spike from the other values if it is the lowest or highest value.

The unit is the range of nearly all other values.
"""


@dataclass(frozen=True)
class Spike:
    """A value of a column that has far more rows than any other value."""

    value: float
    share: float  # share of the known values
    times: float  # number of its rows, relative to the next most frequent value
    end: Literal["lowest", "highest", ""]  # whether it is the lowest or highest value; else empty
    gap: float  # distance from the nearest other value, in ranges of nearly all other values

    @property
    def is_odd(self) -> bool:
        """Whether the spike is suspicious.

        A spike at 0 or in most rows is not suspicious. The lowest or highest value is suspicious
        only if a gap separates it from the other values.
        """
        if self.value == 0.0 or self.share > MAX_ODD_SHARE:
            return False
        return not self.end or self.gap > MIN_SPIKE_GAP


@dataclass(frozen=True)
class Sentinel:
    """Sentinel value, its share of the rows, and the ends of the range of other values."""

    value: float
    share: float
    low: float
    high: float


def find_sentinels(values: np.ndarray) -> list[Sentinel]:
    """Return the likely sentinels among the known values (m,) of a column.

    Zero is never a sentinel, because it is a count or an amount in many tables.
    """
    if not values.size:
        return []
    ends = float(values.min()), float(values.max())
    usual_inside = (x for x in USUAL_SENTINELS if ends[0] < x < ends[1])
    candidates = sorted({*ends, *usual_inside} - {0.0})
    rows = {value: int((values == value).sum()) for value in candidates}
    least = max(MIN_SENTINEL_ROWS, MIN_SENTINEL_SHARE * len(values))
    often = [value for value, n in rows.items() if n >= least]
    usual = [value for value in often if _is_usual(value)]
    found = []
    for value in often:
        others = values[~np.isin(values, [value, *usual])]
        if others.size and (apart := _range_if_sentinel(value, rows[value], others)):
            found.append(Sentinel(value, rows[value] / len(values), *apart))
    return found


def find_spike(values: np.ndarray) -> Spike | None:
    """Return the spike among the known values (m,) of a column, or None."""
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) < MIN_SPIKE_VALUES:
        return None
    at = int(counts.argmax())
    rest = np.arange(len(distinct)) != at
    share, times = counts[at] / len(values), counts[at] / counts[rest].max()
    if share < MIN_SPIKE_SHARE or times < MIN_FREQUENCY_RATIO:
        return None
    value = float(distinct[at])
    low, high = np.quantile(values[values != value], [0.01, 1.0 - 0.01])
    nearest = float(np.abs(distinct[rest] - value).min())
    gap = nearest / (high - low) if high > low else np.inf
    end: Literal["lowest", "highest", ""] = "lowest" if at == 0 else ""
    end = "highest" if at == len(distinct) - 1 else end
    return Spike(value, float(share), float(times), end, float(gap))


def undone_log(values: np.ndarray) -> np.ndarray:
    """Return the inverse of sign(x) log(1 + |x|).

    Results that differ from a value of `USUAL_SENTINELS` only by rounding are set to the value.
    """
    x = np.copysign(np.expm1(np.abs(values)), values)
    for usual in USUAL_SENTINELS:
        x[np.isclose(x, usual, rtol=1e-9, atol=0.0)] = usual
    return x


def _is_usual(value: float) -> bool:
    return bool(np.isclose(value, USUAL_SENTINELS, rtol=1e-7, atol=0.0).any())


def _range_if_sentinel(value: float, n_rows: int, others: np.ndarray) -> tuple[float, float] | None:
    """Return the range of the other values (m,) if `value`, in `n_rows` rows, is a sentinel.

    Otherwise return None. The module's docstring lists the conditions.
    """
    distinct, counts = np.unique(others, return_counts=True)
    least, most = float(distinct[0]), float(distinct[-1])
    # The range leaves out 1 % of the other rows on either side.
    low, high = map(float, np.quantile(others, [0.01, 1.0 - 0.01]))
    if low == high or not _is_usual(value):
        low, high = least, most
    many = len(distinct) >= 10
    ranges = 1.0 if _is_usual(value) else MIN_OUTLIER_RANGES
    found = max(low - value, value - high) > ranges * (high - low)
    if value == -1.0:
        frequent = least < value and _is_frequent(n_rows, distinct, counts)
        found = (many and least >= 0.0) or frequent
    elif _is_usual(value):
        only_negative = many and value < 0.0 <= least
        found = found or only_negative or _is_frequent(n_rows, distinct, counts)
    else:
        found = found and many and n_rows < len(others)
    return (low, high) if found else None


def _is_frequent(n_rows: int, distinct: np.ndarray, counts: np.ndarray) -> bool:
    return bool(n_rows >= MIN_FREQUENCY_RATIO * counts[distinct != 0.0].max(initial=1))
