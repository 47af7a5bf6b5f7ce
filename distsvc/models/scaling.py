"""Column statistics that merge exactly, and the scaling made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from distsvc.errors import UnusableRowsError
from distsvc.kernels.moments import DIGITS, add_block, lengths, scale_rows, unit_rows
from distsvc.models.validation import LONGEST

SHORTEST = 1e-15
"""Least range of a scaled column's values: of less, float32 does not hold the squares."""


def check_finite(Z: np.ndarray) -> None:
    """Raise UnusableRowsError where rows Z (n, d) float32 are too large for a learner."""
    if not np.isfinite(Z).all():
        raise UnusableRowsError("values are not finite in float32; scale the features")


@dataclass
class ColumnSums:
    """Exact sums of every column of the rows seen so far, which merge in any order.

    Attributes
    ----------
    shift : ndarray of shape (d,), float64
        What is subtracted from every value first; sums merge only when it is the same. It should
        lie near the data: squares are taken of x - shift, rounded once to float64.
    first, second : list of int
        Sums of x - shift and of (x - shift)^2 in units of 2^-1074.
    least, most : ndarray of shape (d,), float64
    counts : ndarray of shape (d,), int64
        Values that were not missing (NaN).

    """

    shift: np.ndarray
    first: list[int]
    second: list[int]
    least: np.ndarray
    most: np.ndarray
    counts: np.ndarray

    @classmethod
    def empty(cls, shift: np.ndarray) -> ColumnSums:
        """Return the sums of no rows."""
        d = shift.size
        bounds = np.full(d, np.inf)
        return cls(shift, [0] * d, [0] * d, bounds, -bounds, np.zeros(d, np.int64))

    def add(self, X: np.ndarray) -> tuple[int, int] | None:
        """Add a block (n, d) float64; NaN is left out.

        Returns the place (row, column) of the first infinite value, or of one too far from the
        shift for its square to be a float64; the sums are then of no use.
        """
        digits = np.zeros((2, X.shape[1], DIGITS), np.int64)
        row, column = add_block(X, self.shift, digits, self.least, self.most, self.counts)
        if row >= 0:
            return row, column
        for sums, part in zip((self.first, self.second), digits, strict=True):
            for k, column_digits in enumerate(part):
                sums[k] += sum(int(v) << (32 * i) for i, v in enumerate(column_digits) if v)
        return None

    def merge(self, other: ColumnSums) -> None:
        """Add the rows of another part of the table."""
        self.first = [a + b for a, b in zip(self.first, other.first, strict=True)]
        self.second = [a + b for a, b in zip(self.second, other.second, strict=True)]
        self.least = np.minimum(self.least, other.least)
        self.most = np.maximum(self.most, other.most)
        self.counts = self.counts + other.counts

    def impute(self, values: np.ndarray, n_rows: int) -> None:
        """Count every missing value among `n_rows` rows as `values` (d,) float64."""
        for k, (value, missing) in enumerate(zip(values, n_rows - self.counts, strict=True)):
            if missing:
                e = float(value) - float(self.shift[k])
                self.first[k] += int(missing) * int(Fraction(e) * 2**1074)
                self.second[k] += int(missing) * int(Fraction(e * e) * 2**1074)
        self.counts[:] = n_rows

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and population variances, (d,) float64, of exact sums rounded at the end."""
        means, variances = np.zeros(self.shift.size), np.zeros(self.shift.size)
        for k, n in enumerate(self.counts):
            if n:
                mean = Fraction(self.first[k], int(n) << 1074)
                square = Fraction(self.second[k], int(n) << 1074)
                means[k] = float(mean + Fraction(float(self.shift[k])))
                variances[k] = max(float(square - mean * mean), 0.0)
        return means, variances


@dataclass(frozen=True)
class Scaling:
    """How a raw row becomes a learner's: missing values filled, then (x - centre) / scale.

    Arrays are (d,) float64. A constant column has scale 1 and so becomes 0 everywhere. With `unit`
    a row is divided by its length before.
    """

    centre: np.ndarray
    scale: np.ndarray
    fill: np.ndarray
    unit: bool = False

    @classmethod
    def from_sums(cls, sums: ColumnSums, kind: str, fill: np.ndarray) -> Scaling:
        """Make a scaling of the kind ``standard``, ``minmax``, ``unit`` or ``none``."""
        mean, variance = sums.mean_and_variance()
        constant = sums.least >= sums.most
        if kind == "standard":
            centre, scale = mean, np.sqrt(variance)
        elif kind == "minmax":
            centre, scale = sums.least.copy(), sums.most - sums.least
        else:
            centre, scale = np.zeros_like(mean), np.ones_like(mean)
        constant = constant if kind in ("standard", "minmax") else np.zeros_like(constant)
        centre[constant] = sums.least[constant]
        scale[constant | (scale == 0.0)] = 1.0
        return cls(centre, scale, fill, unit=kind == "unit")

    def together(self, sums: ColumnSums, kind: str, groups: Sequence[slice]) -> Scaling:
        """Return a scaling in which the one-hot columns of each of some groups weigh as one column.

        They get one scale. With ``minmax`` rows of different values have the distance 1. Where
        columns are scaled to the variance 1, or to what is like it, the variances of the group
        have the sum 1: so two random rows have as large a squared distance in them, on average, as
        in any other column. Otherwise they stay 0 and 1.
        """
        if kind in ("unit", "none") or not groups:
            return self
        _, variance = sums.mean_and_variance()
        scale = self.scale.copy()
        for group in groups:
            whole = 2.0 if kind == "minmax" else float(variance[group].sum())
            scale[group] = np.sqrt(whole) or 1.0
        return replace(self, scale=scale)

    def check(self, sums: ColumnSums, kind: str, columns: Sequence[str]) -> None:
        """Check that a learner's arithmetic can hold the scaled rows whose sums these are.

        Raises
        ------
        UnusableRowsError
            Scaled rows may be longer than `LONGEST`, or a column's range is below `SHORTEST`; where
            columns are not scaled, the range of all.

        """
        if self.unit:
            return
        bounds = np.array([sums.least, sums.most])
        with np.errstate(over="ignore"):
            scaled = (bounds - self.centre) / self.scale
            largest, ranges = np.abs(scaled).max(axis=0), scaled[1] - scaled[0]
        k = int(largest.argmax())
        if not largest[k] * largest.size**0.5 <= LONGEST:
            raise UnusableRowsError(
                f"column {columns[k]!r} has values from {bounds[0, k]:g} to {bounds[1, k]:g}, "
                f"expected scaled rows of a length of at most {LONGEST:g}; leave it out, or "
                "give preprocess.scale = 'minmax'"
            )
        known = np.full_like(ranges, ranges.max()) if kind == "none" else ranges
        k = int(np.argmax((known < SHORTEST) & (sums.least < sums.most)))
        if known[k] < SHORTEST and sums.least[k] < sums.most[k]:
            raise UnusableRowsError(
                f"column {columns[k]!r} has values from {bounds[0, k]:g} to {bounds[1, k]:g}, "
                f"expected a range of at least {SHORTEST:g} once it is scaled; leave it out, or "
                "give preprocess.scale = 'minmax'"
            )

    def to_kernels(self, X: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """Return ``apply(X) - origin`` of X (n, d) float64, as float32 and in one pass."""
        if self.unit:
            return unit_rows(X, self.fill, origin)
        return scale_rows(X, self.centre, self.scale, self.fill, origin)

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Return the scaled rows of X (n, d) float64, as float64."""
        missing = np.isnan(X)
        if missing.any():
            X = np.where(missing, self.fill, X)
        if self.unit:
            X = X / lengths(X)[:, None]
        with np.errstate(over="ignore"):
            return (X - self.centre) / self.scale
