"""Drift: how the columns of a table differ from the table from which a model learned.

A model stores the deciles of every column, and how many rows of its table lie between them. Rows of
a later table are counted between the same deciles, and the population stability index compares both
counts. Counts are exact over all rows and merge in any order. Changes of unit are found, too: a
column's values, in all rows or in a part of them, are multiplied by one factor.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from distsvc.kernels.scaling import count_between
from distsvc.models.rows.scaling import float64_pieces
from distsvc.models.rules.fields import ArrayField, Field

MIN_UNIT_FACTOR = 2.0
"""Minimum factor between a column's values in two tables that counts as a change of unit.

Usual factors are higher: 2.2 pounds are a kilogram, an inch is 2.54 centimetres, and a month has
4.35 weeks. Random halves of tables, and nights that overlap, have no such factor.
"""

UNIT_TOLERANCE = 1.3
"""Maximum ratio between the factor of a decile and the median factor, after a change of unit."""

UNIT_SPREAD = 0.125
"""Maximum spread of the deciles' factors after a change of unit, relative to the median factor.

The spread is the logarithm of the ratio that `UNIT_TOLERANCE` limits, and is divided by the
logarithm of the median factor. On a busy day, deciles also rise by a common factor, but their
spread is larger.
"""

MIN_PART_UNIT_DRIFT = 0.1
"""Minimum population stability index of a column in which a part of the rows has another unit.

By convention, a column below it is stable.
"""

MIN_PART_FACTOR = 5.0
"""Minimum factor between a part's values in two tables that counts as a change of unit.

It is larger than `MIN_UNIT_FACTOR`, because samples with other shares of clusters often have
smaller factors in parts.
"""

EXACT_DRIFT_LEFT = 0.02
"""Maximum share of a column's stability index that is left once a part's unit is converted back."""

MAX_DRIFT_LEFT, MAX_CHANCE_DRIFT = 0.1, 1.5
"""Maximum stability index of a column after a part of its values is converted back.

The first limit is a share of the index before the conversion. The second limit is a multiple of the
mean index of two samples of one table. The lower limit counts, unless `EXACT_DRIFT_LEFT` is higher.
"""

MAX_CHANCE_DRIFT_EXACT = 2.4
"""`MAX_CHANCE_DRIFT` for conversions between temperature scales, which estimate no factor.

It is the 99 % quantile of the index of two samples, relative to its mean, by the chi-square
distribution with nine degrees of freedom.
"""

MIN_PART_ROWS = 100
"""Minimum number of rows of a part whose unit is examined; deciles of fewer rows vary too much."""

MIN_TEMPERATURE_BINS = 4
"""Minimum number of a column's bins with rows in the earlier table, for changes of temperature.

Columns of fewer values, such as settings, may change from 10 to 50 for other reasons.
"""

DRIFT_BINS = 10
"""Number of bins of a column's values; one more bin counts missing values."""

DRIFT_FIELDS: dict[str, Field] = {
    "column_edges": ArrayField("float64", f"d {DRIFT_BINS - 1}"),
    "column_counts": ArrayField("int64", f"d {DRIFT_BINS + 1}", least=0),
}


class UnitChange(NamedTuple):
    """A change of unit: later values are earlier values times a factor, plus an offset."""

    factor: float
    offset: float = 0.0


TEMPERATURE_SCALES = (UnitChange(1.8, 32.0), UnitChange(1.0 / 1.8, -32.0 / 1.8))
"""Changes from Celsius to Fahrenheit, and back."""


@dataclass(frozen=True)
class ColumnCounts:
    """Numbers of rows between the edges of every column.

    Bin j counts the values that are at or above j edges and below the others. The last bin counts
    missing values.
    """

    edges: np.ndarray  # (d, DRIFT_BINS - 1) float64: edges of each column, never decreasing
    counts: np.ndarray  # (d, DRIFT_BINS + 1) int64: number of values in each bin

    @classmethod
    def empty(cls, edges: np.ndarray) -> Self:
        return cls(edges, np.zeros((len(edges), DRIFT_BINS + 1), np.int64))

    def add(self, X: np.ndarray) -> None:
        """Count raw rows X (n, d), float64 or float32, NaN where missing."""
        for _, piece in float64_pieces(X):
            count_between(piece, self.edges, self.counts)

    @property
    def missing(self) -> np.ndarray:
        return self.counts[:, -1] / np.maximum(self.counts.sum(axis=1), 1)


def counts_between(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the counts (b,) int64 of values (n,) in the b bins between edges (b + 1,) float64.

    The outermost bins include values beyond the edges. NaN is not counted.
    """
    counts = np.zeros((1, len(edges)), np.int64)
    count_between(values.astype(np.float64)[:, None], edges[None, 1:-1].copy(), counts)
    return counts[0, :-1]


def decile_edges(pilot: np.ndarray) -> np.ndarray:
    """Return the deciles (d, DRIFT_BINS - 1) of the pilot's columns (m, d) float64, as bin edges.

    A value of more than a tenth of the rows has its own bin if enough edges are left: one edge at
    the value, and the next edge above it. So a constant column has bins for its value, for lower
    and for higher values. A column without values has edges at 0.
    """
    edges = np.zeros((pilot.shape[1], DRIFT_BINS - 1))
    for at, column in zip(edges, pilot.T, strict=True):
        values = np.sort(column[~np.isnan(column)])
        if not values.size:
            continue
        at[:] = values[(np.arange(1, DRIFT_BINS) * values.size) // DRIFT_BINS]
        for j in range(1, len(at)):  # bins between equal edges stay empty
            if at[j] <= at[j - 1]:
                above = np.searchsorted(values, at[j - 1], "right")
                next_above = np.nextafter(at[j - 1], np.finfo(np.float64).max)
                at[j] = values[above] if above < values.size else next_above
    return edges


def stability_index(expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Return the population stability index (d,) float64 of columns from their counts in b bins.

    `expected` and `found` (d, b) are the counts in the earlier and in the later table. The index is
    sum (q - p) ln(q / p) over the shares p and q of the bins. By convention, a column is stable
    below 0.1, and its distribution has changed above 0.25. Half a row is added to every bin that
    has rows in one of the tables, since an empty bin would make the index infinite. For tables of n
    and m rows without drift, the index is about (b - 1) (1 / n + 1 / m).
    """
    used = (expected > 0) | (found > 0)
    p, q = (np.where(used, counts + 0.5, 0.0) for counts in (expected, found))
    p, q = (shares / np.maximum(shares.sum(axis=-1, keepdims=True), 0.5) for shares in (p, q))
    ratio = np.where(used, q, 1.0) / np.where(used, p, 1.0)
    return ((q - p) * np.log(ratio)).sum(axis=-1)


def unit_factors(before: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the factor (d,) by which the unit of each column has changed; NaN if it has not.

    `before` (d, DRIFT_BINS - 1) are deciles of an earlier table; `rows` (m, d) belong to a later
    one. A change of unit multiplies all deciles, and their range, by one factor. A shift does not
    change the range. A factor nearer to 1 than `MIN_UNIT_FACTOR` does not count.

    Up to three tenths of the deciles may have another factor, since a decile in a gap between
    clusters moves easily. The range is computed without these deciles. A decile is also left out if
    less than 5 % of the rows lie between it and the next decile: a rare value differs by chance.
    """
    found, now = np.full(len(before), np.nan), decile_edges(rows)
    counted = ColumnCounts.empty(now)
    counted.add(rows)
    per_bin = counted.counts[:, :DRIFT_BINS]
    filled = per_bin[:, 1:] >= 0.5 / DRIFT_BINS * per_bin.sum(axis=1, keepdims=True)
    sizes = np.abs([before, now])
    with np.errstate(over="ignore"):
        far = (sizes.max(axis=0) > 0.99 * MIN_UNIT_FACTOR * sizes.min(axis=0)).any(axis=1)
    for k in np.flatnonzero(far):  # no other column can have a common factor
        old, new = before[k], now[k]
        least = np.minimum(np.abs(old), np.abs(new))
        usable = (np.sign(old) == np.sign(new)) & (least > 1e-300) & filled[k]
        if usable.sum() < 3:
            continue
        logs = np.log(np.abs(new[usable])) - np.log(np.abs(old[usable]))
        factor = float(np.median(logs))
        tolerance = min(math.log(UNIT_TOLERANCE), UNIT_SPREAD * abs(factor))
        alike = np.abs(logs - factor) <= tolerance
        if abs(factor) < math.log(MIN_UNIT_FACTOR) or alike.mean() < 0.7:
            continue
        with np.errstate(over="ignore"):
            ranges = [float(np.ptp(deciles[usable][alike])) for deciles in (old, new)]
        narrow = min(ranges) <= 1e-9 * np.abs(old).max()  # a constant column
        if narrow or not np.isfinite(ranges).all():
            continue
        if abs(math.log(ranges[1]) - math.log(ranges[0]) - factor) <= 2 * tolerance:
            found[k] = math.exp(factor)
    return found


def unit_of_part(
    edges: np.ndarray, before: np.ndarray, values: np.ndarray, part: np.ndarray
) -> tuple[float, UnitChange] | None:
    """Search for a change of unit in a part of the rows that explains a column's drift.

    `edges` (DRIFT_BINS - 1,) and counts `before` (DRIFT_BINS + 1,) describe the column in an
    earlier table; `values` (m,) are its values in a later one. `part` (m,) bool marks the rows that
    may have another unit. Return None if no change explains the drift. Otherwise return the
    stability index that remains after these rows are converted back, and the change.
    """
    drift = column_drift(edges, before, values)
    inside = np.sort(values[part & ~np.isnan(values)])
    if drift < MIN_PART_UNIT_DRIFT or len(inside) < MIN_PART_ROWS:
        return None
    # Without a change of the other rows, the part had all other rows below each edge.
    expected = before * (len(values) / max(before.sum(), 1))
    below = np.cumsum(expected - _counts_of(edges, values[~part]))[: len(edges)]
    usable = (below > 0.05 * len(inside)) & (below < 0.95 * len(inside))
    then, now = edges[usable], inside[below[usable].astype(np.int64)]
    chance = len(edges) * (1.0 / max(before.sum(), 1) + 1.0 / len(values))
    candidates = []
    if np.count_nonzero(before[:DRIFT_BINS]) >= MIN_TEMPERATURE_BINS:
        candidates += [(change, MAX_CHANCE_DRIFT_EXACT) for change in TEMPERATURE_SCALES]
    alike = (np.sign(then) == np.sign(now)) & (np.minimum(np.abs(then), np.abs(now)) > 1e-300)
    if len(np.unique(then[alike])) >= 3:
        logs = np.log(np.abs(now[alike])) - np.log(np.abs(then[alike]))
        factor = float(np.median(logs))
        if math.log(MIN_PART_FACTOR) <= abs(factor) <= 100.0:
            candidates.append((UnitChange(math.exp(factor)), MAX_CHANCE_DRIFT))
    found, decimals = [], _decimals(edges if part.all() else values[~part])
    for change, times in candidates:
        with np.errstate(over="ignore", invalid="ignore"):
            mended = (values - change.offset) / change.factor
        left = column_drift(edges, before, np.where(part, mended, values))
        if decimals is not None:  # values may be rounded in both units, and then miss the grid
            rounded = np.where(part, np.round(mended, decimals), values)
            left = min(left, column_drift(edges, before, rounded))
        if left <= max(EXACT_DRIFT_LEFT * drift, min(MAX_DRIFT_LEFT * drift, times * chance)):
            found.append((left, change))
    return min(found, default=None)


def _decimals(values: np.ndarray) -> int | None:
    """Return the number of decimals, at most 6, to which values (m,) are rounded; else None."""
    known = values[np.isfinite(values)]
    for decimals in range(7 if len(known) else 0):
        if np.allclose(np.round(known, decimals), known, rtol=1e-9, atol=0.0):
            return decimals
    return None


def _counts_of(edges: np.ndarray, values: np.ndarray) -> np.ndarray:
    counted = ColumnCounts.empty(edges[None])
    counted.add(np.ascontiguousarray(values[:, None]))
    return counted.counts[0]


def column_drift(edges: np.ndarray, before: np.ndarray, values: np.ndarray) -> float:
    """Return the population stability index of a column in a later table.

    `before` (DRIFT_BINS + 1,) are the column's counts between the `edges` in the earlier table.
    `values` (m,) are its values in the later table.
    """
    return float(stability_index(before[None], _counts_of(edges, values)[None])[0])
