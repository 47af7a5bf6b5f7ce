"""Numbers that may stand for missing values, such as -9999, by the values of a column.

They follow from the pilot, so they are the same however a table is cut. A number is named where
it comes up in one of a hundred rows and one of these holds:

* it lies outside the range of the others by more than that range, or by three times that range
  where it is none that programs usually write for a missing value;
* it is one that they write for a missing value, and ten times as frequent as any other; of -1 this
  counts only where others are lower, as columns are scaled to [-1, 1], too;
* it is -1, and the others, of which there are many, are not negative.

The bars were set on tables of measurements, counts and codes, most of which have no such number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distsvc.models.rows.aside import MIN_OUTLIER_RANGES

MIN_SENTINEL_ROWS, MIN_SENTINEL_SHARE = 5, 0.01
"""In which a number comes up, at least."""

MANY_VALUES = 10
"""Different values of a column, from which on one that lies apart need not be of `USUAL`."""

MIN_FREQUENCY_RATIO = 10.0
"""How much more frequent than any other one of `USUAL` is that lies among the others."""

ENDS = 0.01
"""Share of the other rows on either side that their range does not count."""

MINUS_ONE = -1.0
NINES = tuple(sign * (10.0**digits - 1.0) for digits in range(2, 7) for sign in (1, -1))
USUAL = (MINUS_ONE, *NINES, -32768.0, -2147483648.0, 1e20, 1e30, 9.969209968386869e36)
"""The last one is netCDF's."""


@dataclass(frozen=True)
class StandIn:
    """A number, its share of the rows, and the range of nearly all others."""

    value: float
    share: float
    low: float
    high: float


def repeated_columns(pilot: np.ndarray) -> np.ndarray:
    """Return the columns (k,) int64 of pilot rows (m, d) that alone may have `stand_ins`.

    One of `USUAL` comes up there often, or an end of the column that lies apart. Of a wide table
    that leaves few.
    """
    low, high = np.fmin.reduce(pilot, axis=0), np.fmax.reduce(pilot, axis=0)
    least = np.maximum(MIN_SENTINEL_ROWS, MIN_SENTINEL_SHARE * (~np.isnan(pilot)).sum(axis=0))
    found = np.zeros(pilot.shape[1], bool)
    for X, end, other in (pilot, low, high), (-pilot, -high, -low):
        k = np.flatnonzero((np.abs(end) > 0.0) & ((end == X).sum(axis=0) >= least))
        second = np.where(X[:, k] > end[k], X[:, k], np.inf).min(axis=0)
        found[k] |= second - end[k] > MIN_OUTLIER_RANGES * (other[k] - second)
    for usual in USUAL:
        k = np.flatnonzero((low <= usual) & (usual <= high) & ~found)
        found[k] = (pilot[:, k] == usual).sum(axis=0) >= least[k]
    return np.flatnonzero(found)


def stand_ins(values: np.ndarray) -> list[StandIn]:
    """Return the numbers among the known values (m,) of a column that may stand for missing ones.

    Zero is none of them: it is a count, or an amount, in too many tables.
    """
    if not values.size:
        return []
    ends = float(values.min()), float(values.max())
    rows = {value: int((values == value).sum()) for value in _candidates(*ends)}
    least = max(MIN_SENTINEL_ROWS, MIN_SENTINEL_SHARE * len(values))
    often = [value for value, n in rows.items() if n >= least]
    usual = [value for value in often if _is_usual(value)]
    found = []
    for value in often:
        others = values[~np.isin(values, [value, *usual])]
        if others.size and (apart := _apart(value, rows[value], others)):
            found.append(StandIn(value, rows[value] / len(values), *apart))
    return found


def _candidates(least: float, most: float) -> list[float]:
    """Return the ends of a column, and those of `USUAL` between them, in order; 0 is left out."""
    return sorted({least, most, *(x for x in USUAL if least < x < most)} - {0.0})


def undone_log(values: np.ndarray) -> np.ndarray:
    """Return the numbers of which sign(x) log(1 + |x|) is given; those of `USUAL` exactly."""
    x = np.copysign(np.expm1(np.abs(values)), values)
    for usual in USUAL:
        x[np.isclose(x, usual, rtol=1e-9, atol=0.0)] = usual
    return x


def _is_usual(value: float) -> bool:
    return bool(np.isclose(value, USUAL, rtol=1e-7, atol=0.0).any())


def _apart(value: float, n_rows: int, others: np.ndarray) -> tuple[float, float] | None:
    """Return the range of the other values (m,) where one, of so many rows, is none of them."""
    distinct, counts = np.unique(others, return_counts=True)
    least, most = float(distinct[0]), float(distinct[-1])
    low, high = map(float, np.quantile(others, [ENDS, 1.0 - ENDS]))
    if low == high or not _is_usual(value):
        low, high = least, most
    many = len(distinct) >= MANY_VALUES
    ranges = 1.0 if _is_usual(value) else MIN_OUTLIER_RANGES
    found = max(low - value, value - high) > ranges * (high - low)
    if value == MINUS_ONE:
        frequent = least < value and _is_frequent(n_rows, distinct, counts)
        found = (many and least >= 0.0) or frequent
    elif _is_usual(value):
        found = found or _is_frequent(n_rows, distinct, counts)
    else:
        found = found and many and n_rows < len(others)
    return (low, high) if found else None


def _is_frequent(n_rows: int, distinct: np.ndarray, counts: np.ndarray) -> bool:
    """Return whether a value of so many rows is far more frequent than all others but 0."""
    return bool(n_rows >= MIN_FREQUENCY_RATIO * counts[distinct != 0.0].max(initial=1))
