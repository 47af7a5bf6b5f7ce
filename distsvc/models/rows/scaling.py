"""Column statistics that merge exactly, and the scaling made from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from distsvc.errors import UnusableRowsError
from distsvc.kernels.moments import (
    DIGITS,
    add_block,
    lengths,
    robust_rows,
    scale_rows,
    unit_rows,
)
from distsvc.models.rows.spread import known, middle_and_spread
from distsvc.models.rows.validation import LONGEST

SCALING_ROUNDING = 2.0**-48
"""Largest range of a column that counts as constant, relative to its values: 16 roundings."""

PIECE_VALUES = 2**15
"""Values of float32 that are turned into float64 at a time."""

SCALE_KINDS = ("standard", "minmax", "robust", "unit", "none")

ROBUST_LIMIT, ROBUST_BEND = 5.0, 0.25
"""Spreads from the median at which robust scaling begins to draw values in, and how softly."""

MIN_SCALED_RANGE = 1e-15
"""Least range of a scaled column's values: of less, float32 does not hold the squares."""


def check_finite(Z: np.ndarray) -> None:
    """Raise UnusableRowsError where rows Z (n, d) float32 are too large for a learner."""
    if not np.isfinite(Z).all():
        raise UnusableRowsError("values are not finite in float32; scale the features")


def float64_pieces(X: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield rows X (n, d), with their places, as the kernels want them: float64, C order, writable.

    Others are copied some at a time, which stay in a cache.
    """
    if X.dtype == np.float64 and X.flags.c_contiguous and X.flags.writeable:
        yield slice(0, len(X)), X
        return
    rows = max(PIECE_VALUES // max(X.shape[1], 1), 1)
    for first in range(0, len(X), rows):
        piece = X[first : first + rows]
        yield slice(first, first + len(piece)), np.array(piece, np.float64, order="C")


@dataclass
class ColumnSums:
    """Exact sums of every column of the rows seen so far, which merge in any order.

    `shift` (d,) float64 is subtracted from every value; sums merge only when it is the same. It
    should lie near the data: squares are taken of x - shift, rounded once to float64. `first` and
    `second` are sums of x - shift and of (x - shift)^2 in units of 2^-1074; `least` and `most` (d,)
    float64 the extremes, `counts` (d,) int64 the values that were not missing (NaN).
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
        """Add a block (n, d), float64 or float32; NaN is left out.

        Returns the place (row, column) of the first infinite value, or of one too far from the
        shift for its square to be a float64; the sums are then of no use.
        """
        digits = np.zeros((2, X.shape[1], DIGITS), np.int64)
        for place, piece in float64_pieces(X):
            state = self.shift, digits, self.least, self.most, self.counts
            row, column = add_block(piece, *state)
            if row >= 0:
                return place.start + row, column
        for sums, part in zip((self.first, self.second), digits, strict=True):
            columns, places = np.nonzero(part)
            values = part[columns, places]
            for k, i, v in zip(columns.tolist(), places.tolist(), values.tolist(), strict=True):
                sums[k] += v << (32 * i)
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

    @property
    def constant(self) -> np.ndarray:
        """Columns (d,) bool without variation, but for a few rounding errors."""
        size = np.maximum(np.abs(self.least), np.abs(self.most))
        with np.errstate(invalid="ignore"):  # of columns without values
            return ~(self.most - self.least > SCALING_ROUNDING * size)

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
    """The scaling of raw rows: missing values filled, then (x - centre) / scale.

    Arrays are (d,) float64. A column that is constant, but for rounding, has scale 1 and so becomes
    0. Of the kind ``unit`` a row is divided by its length instead; of the kind ``robust`` values
    beyond `ROBUST_LIMIT` are drawn in, z to 5 + log(1 + 4 (z - 5)) / 4, which keeps their order.
    """

    centre: np.ndarray
    scale: np.ndarray
    fill: np.ndarray
    kind: str = "standard"

    @classmethod
    def from_sums(cls, sums: ColumnSums, kind: str, fill: np.ndarray) -> Scaling:
        """Make a scaling of any kind but ``robust``."""
        mean, variance = sums.mean_and_variance()
        constant = sums.constant
        if kind == "standard":
            centre, scale = mean, np.sqrt(variance)
        elif kind == "minmax":
            centre, scale = sums.least.copy(), sums.most - sums.least
        else:
            centre, scale = np.zeros_like(mean), np.ones_like(mean)
        constant = constant if kind in ("standard", "minmax") else np.zeros_like(constant)
        centre[constant] = sums.least[constant]
        scale[constant | (scale == 0.0)] = 1.0
        return cls(centre, scale, fill, kind)

    @classmethod
    def robust(cls, sums: ColumnSums, pilot: np.ndarray, fill: np.ndarray) -> Scaling:
        """Make one of the kind ``robust``, by pilot rows (m, d) float64.

        Columns are centred at the median, and divided by the spread that `middle_and_spread` finds.
        Where the pilot has one value only, that is the distance of the farthest of all rows.
        """
        centre, _ = sums.mean_and_variance()
        scale = np.zeros_like(centre)
        for k, values in enumerate(known(pilot)):
            if values.size:
                centre[k], scale[k] = middle_and_spread(values)
        constant = sums.constant
        centre[constant] = sums.least[constant]
        farthest = np.maximum(sums.most - centre, centre - sums.least)
        scale = np.where(scale > 0.0, scale, farthest)
        return cls(centre, np.where(scale > 0.0, scale, 1.0), fill, "robust")

    def together(self, sums: ColumnSums, groups: Sequence[slice]) -> Scaling:
        """Return a scaling in which the one-hot columns of each of some groups weigh as one column.

        They get one scale. With ``minmax`` rows of different values have the distance 1. Where
        columns are scaled to the variance 1, or to what is like it, the variances of the group
        have the sum 1: so two random rows have as large a squared distance in them, on average, as
        in any other column. Otherwise they stay 0 and 1.
        """
        if self.kind in ("unit", "none") or not groups:
            return self
        _, variance = sums.mean_and_variance()
        scale = self.scale.copy()
        for group in groups:
            whole = 2.0 if self.kind == "minmax" else float(variance[group].sum())
            scale[group] = np.sqrt(whole) or 1.0
        return replace(self, scale=scale)

    @property
    def is_linear(self) -> bool:
        """Whether the mean of scaled rows is that of the rows, scaled."""
        return self.kind not in ("robust", "unit")

    def check(self, sums: ColumnSums, columns: Sequence[str]) -> None:
        """Check that a learner's arithmetic can hold the scaled rows whose sums these are.

        Raises
        ------
        UnusableRowsError
            Scaled rows may be longer than `LONGEST`, or a column's range is below
            `MIN_SCALED_RANGE`; where columns are not scaled, the range of all.

        """
        if self.kind == "unit":
            return
        bounds = np.array([sums.least, sums.most])
        scaled = self.apply(bounds)
        largest, ranges = np.abs(scaled).max(axis=0), scaled[1] - scaled[0]
        k = int(largest.argmax())
        if not largest[k] * largest.size**0.5 <= LONGEST:
            raise UnusableRowsError(
                f"column {columns[k]!r} has values from {bounds[0, k]:g} to {bounds[1, k]:g}, "
                f"expected scaled rows of a length of at most {LONGEST:g}; leave it out, or "
                "give preprocess.scale = 'minmax'"
            )
        known = np.full_like(ranges, ranges.max()) if self.kind == "none" else ranges
        short = (known < MIN_SCALED_RANGE) & ~sums.constant
        k = int(np.argmax(short))
        if short[k]:
            raise UnusableRowsError(
                f"column {columns[k]!r} has values from {bounds[0, k]:g} to {bounds[1, k]:g}, "
                f"expected a range of at least {MIN_SCALED_RANGE:g} once it is scaled; leave it "
                "out, or give preprocess.scale = 'minmax'"
            )

    def to_kernels(self, X: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """Return ``apply(X) - origin`` of X (n, d), float64 or float32, as float32.

        The arithmetic is float64, in one pass.
        """
        out = np.empty(X.shape, np.float32)
        columns = self.centre, self.scale, self.fill, origin
        for place, piece in float64_pieces(X):
            if self.kind == "unit":
                unit_rows(piece, self.fill, origin, out[place])
            elif self.kind == "robust":
                robust_rows(piece, *columns, ROBUST_LIMIT, ROBUST_BEND, out[place])
            else:
                scale_rows(piece, *columns, out[place])
        return out

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Return the scaled rows of X (n, d), float64 or float32, as float64."""
        X = np.asarray(X, np.float64)
        missing = np.isnan(X)
        if missing.any():
            X = np.where(missing, self.fill, X)
        if self.kind == "unit":
            return X / lengths(X)[:, None]
        with np.errstate(over="ignore"):
            Z = (X - self.centre) / self.scale
        if self.kind == "robust":
            beyond = np.maximum(np.abs(Z) - ROBUST_LIMIT, 0.0)
            Z = np.copysign(
                np.minimum(np.abs(Z), ROBUST_LIMIT) + ROBUST_BEND * np.log1p(beyond / ROBUST_BEND),
                Z,
            )
        return Z

    def raw(self, Z: np.ndarray) -> np.ndarray:
        """Return the rows (n, d) float64 that are scaled to Z; of the kind ``unit``, Z itself."""
        if self.kind == "robust":
            beyond = np.maximum(np.abs(Z) - ROBUST_LIMIT, 0.0)
            away = np.minimum(np.abs(Z), ROBUST_LIMIT) + ROBUST_BEND * np.expm1(
                beyond / ROBUST_BEND
            )
            Z = np.copysign(away, Z)
        return Z * self.scale + self.centre
