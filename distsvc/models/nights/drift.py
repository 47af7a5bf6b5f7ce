"""Drift of a table from the table that a model learned from.

A model keeps, for every column, how many rows of its own table fell between nine edges, the deciles
of its pilot. Counts are whole numbers, exact over all rows, and merge in any order. Rows of another
table are counted between the same edges, and the population stability index tells the two apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from distsvc.kernels.histogram import count_between
from distsvc.models.rows.scaling import float64_pieces
from distsvc.models.rules.fields import ArrayField, Field

MIN_UNIT_FACTOR = 5.0
"""Factor between the values of two tables from which a column counts as in another unit."""

UNIT_TOLERANCE, UNIT_AGREEMENT = 1.3, 0.7
"""Largest deviation of a decile from the common factor, as a ratio, and the least share of deciles
within it."""

TINY = 1e-300
"""Size of a value below which it counts as 0."""

BINS = 10
"""Bins of values; one more counts what is missing."""

NEEDS: dict[str, Field] = {
    "column_edges": ArrayField("float64", f"d {BINS - 1}"),
    "column_counts": ArrayField("int64", f"d {BINS + 1}", least=0),
}


@dataclass(frozen=True)
class ColumnCounts:
    """Rows between the edges of every column.

    `edges` (d, BINS - 1) float64 do not fall along a row. Bin j of `counts` (d, BINS + 1) int64 has
    values at or above j of the edges; the last one has missing values.
    """

    edges: np.ndarray
    counts: np.ndarray

    @classmethod
    def empty(cls, edges: np.ndarray) -> ColumnCounts:
        """Return the counts of no rows."""
        return cls(edges, np.zeros((len(edges), BINS + 1), np.int64))

    def add(self, X: np.ndarray) -> None:
        """Count raw rows X (n, d), float64 or float32; NaN is a missing value."""
        for _, piece in float64_pieces(X):
            count_between(piece, self.edges, self.counts)

    @property
    def missing(self) -> np.ndarray:
        """Share of missing values of every column (d,)."""
        return self.counts[:, -1] / np.maximum(self.counts.sum(axis=1), 1)


def counts_between(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return how many values (n,) lie between edges (b + 1,) float64, (b,) int64.

    The outermost bins have what lies beyond, and none has NaN.
    """
    counts = np.zeros((1, len(edges)), np.int64)
    count_between(values.astype(np.float64)[:, None], edges[None, 1:-1].copy(), counts)
    return counts[0, :-1]


def decile_edges(pilot: np.ndarray) -> np.ndarray:
    """Return edges (d, BINS - 1) between tenths of the pilot's values (m, d) float64.

    A value that more than a tenth of the rows have gets a bin of its own as far as there are edges
    left: an edge lies at the value, and the next above it. So a constant column has bins for its
    value, for less and for more. A column without values has edges at 0.
    """
    edges = np.zeros((pilot.shape[1], BINS - 1))
    for k, column in enumerate(pilot.T):
        values = np.sort(column[~np.isnan(column)])
        if values.size:
            edges[k] = _edges(values)
    return edges


def _edges(values: np.ndarray) -> np.ndarray:
    """Return the edges of sorted values (m,); bins between level ones stay empty."""
    at = values[(np.arange(1, BINS) * values.size) // BINS]
    for j in range(1, len(at)):
        if at[j] <= at[j - 1]:
            above = np.searchsorted(values, at[j - 1], "right")
            next_above = np.nextafter(at[j - 1], np.finfo(np.float64).max)
            at[j] = values[above] if above < values.size else next_above
    return at


def stability_index(expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Return the population stability index of every row of counts (d, b).

    That is sum (q - p) ln(q / p), where p and q are the shares of the bins. Half a row is added to
    every bin that either has, since an empty one would make it infinite; so for few rows it is
    about (b - 1) (1 / n + 1 / m) without any drift. Bins that both lack are left out.

    Parameters
    ----------
    expected, found : ndarray of shape (d, b), int64

    Returns
    -------
    ndarray of shape (d,), float64
        0 where they are alike; below 0.1 is taken as stable, above 0.25 as another population.

    """
    used = (expected > 0) | (found > 0)
    p, q = (np.where(used, counts + 0.5, 0.0) for counts in (expected, found))
    p, q = (shares / np.maximum(shares.sum(axis=-1, keepdims=True), 0.5) for shares in (p, q))
    ratio = np.where(used, q, 1.0) / np.where(used, p, 1.0)
    return ((q - p) * np.log(ratio)).sum(axis=-1)


def unit_factors(before: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Return the factor by which each column grew, if all of its values grew alike.

    A column in another unit has deciles that are multiples of the earlier ones by one factor, and
    so is their range. A shift, however large, leaves the range as it was.

    Parameters
    ----------
    before, now : ndarray of shape (d, BINS - 1), float64
        Deciles of the columns in both tables (`decile_edges`).

    Returns
    -------
    ndarray of shape (d,), float64
        NaN for a column whose values did not grow by one factor of at least `MIN_UNIT_FACTOR`, or
        shrink likewise.

    """
    found = np.full(len(before), np.nan)
    with np.errstate(over="ignore"):
        ranges = np.stack([deciles[:, -1] - deciles[:, 0] for deciles in (before, now)])
    for k, (old, new) in enumerate(zip(before, now, strict=True)):
        least = np.minimum(np.abs(old), np.abs(new))
        usable = (np.sign(old) == np.sign(new)) & (least > TINY)
        narrow = ranges[:, k].min() <= 1e-9 * np.abs(old).max()  # a constant column
        if usable.sum() < 3 or narrow or not np.isfinite(ranges[:, k]).all():
            continue
        logs = np.log(np.abs(new[usable])) - np.log(np.abs(old[usable]))
        factor = float(np.median(logs))
        alike = np.abs(logs - factor) <= math.log(UNIT_TOLERANCE)
        wider = abs(math.log(ranges[1, k]) - math.log(ranges[0, k]) - factor)
        if (
            abs(factor) >= math.log(MIN_UNIT_FACTOR)
            and alike.mean() >= UNIT_AGREEMENT
            and wider <= 2.0 * math.log(UNIT_TOLERANCE)
        ):
            found[k] = math.exp(factor)
    return found
