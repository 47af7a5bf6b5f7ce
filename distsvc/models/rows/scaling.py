"""The scaling of columns, and the sums of columns from which it is computed.

Sums are exact, so that the sums of a table's parts merge in any order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from scipy import sparse

from distsvc.errors import UnusableRowsError
from distsvc.kernels.scaling import DIGITS, add_block, lengths, scale_rows, unit_rows
from distsvc.models.rows.aside import ColumnEnds
from distsvc.models.rows.robust_scale import middle_and_spread, present_values

MAX_ROW_LENGTH = 1e18
"""Maximum Euclidean length of a row, so that float32 can represent sums of squared distances."""

SCALE_KINDS = ("standard", "minmax", "robust", "unit", "none")

ROBUST_LIMIT, ROBUST_BEND = 5.0, 0.25
"""Maximum absolute value that `compressed` does not change, and scale b of its logarithm.

A value at distance x above the maximum is mapped to the distance b log(1 + x / b).
"""

MIN_SCALED_RANGE = 1e-15
"""Minimum range of a scaled column, so that float32 can represent squares."""


def check_length(X: Any, most: float = MAX_ROW_LENGTH) -> None:
    """Raise UnusableRowsError if a row of X (n, d), dense or CSR, could be longer than `most`.

    The bound on lengths is sqrt(d) times the largest absolute value in X.
    """
    values = X.data if sparse.issparse(X) else X
    largest = max(
        float(np.fmax.reduce(values, axis=None, initial=0.0)),
        -float(np.fmin.reduce(values, axis=None, initial=0.0)),
    )
    if not largest * X.shape[1] ** 0.5 <= most:
        raise UnusableRowsError(
            f"X has values up to {largest:.3g}, expected rows with a Euclidean length of at most "
            f"{most:g}; scale the features, such as by StandardScaler"
        )


def check_finite(Z: np.ndarray) -> None:
    """Raise UnusableRowsError if rows Z (n, d) float32 have infinite values or NaN."""
    if not np.isfinite(Z).all():
        raise UnusableRowsError(
            "values are too large for float32; scale the features, such as by StandardScaler or "
            "preprocess.scale = 'standard'"
        )


def subtract_centre(X: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Return rows X (n, d) minus the centre (d,), as float32 in C order."""
    out = np.empty(X.shape, np.float32)
    return np.subtract(X, centre, out=out, dtype=np.float64, casting="unsafe")


def float64_pieces(X: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of rows of X (n, d), and these rows as writable float64 arrays in C order.

    X is not copied if it is such an array. Otherwise the copies fit into a processor's cache.
    """
    if X.dtype == np.float64 and X.flags.c_contiguous and X.flags.writeable:
        yield slice(0, len(X)), X
        return
    rows = max(2**15 // max(X.shape[1], 1), 1)
    for first in range(0, len(X), rows):
        piece = X[first : first + rows]
        yield slice(first, first + len(piece)), np.array(piece, np.float64, order="C")


def compressed(z: np.ndarray) -> np.ndarray:
    """Return z, with logarithmic growth where its absolute value is above `ROBUST_LIMIT`."""
    out = z.copy()
    far = np.abs(z) > ROBUST_LIMIT
    if far.any():
        beyond = np.abs(z[far]) - ROBUST_LIMIT
        out[far] = np.copysign(ROBUST_LIMIT + ROBUST_BEND * np.log1p(beyond / ROBUST_BEND), z[far])
    return out


@dataclass
class ColumnSums:
    """Exact sums of every column, which merge in any order.

    Sums are in units of 2^-1074. Each square is rounded once. Missing values (NaN) don't count.
    """

    shift: np.ndarray  # (d,) float64: subtracted from values; equal in sums that are merged
    first: list[int]  # sums of x - shift
    second: list[int]  # sums of (x - shift)^2
    least: np.ndarray  # (d,) float64: minima
    most: np.ndarray  # (d,) float64: maxima
    counts: np.ndarray  # (d,) int64: numbers of values

    @classmethod
    def empty(cls, shift: np.ndarray) -> Self:
        d = shift.size
        bounds = np.full(d, np.inf)
        return cls(shift, [0] * d, [0] * d, bounds, -bounds, np.zeros(d, np.int64))

    def add(
        self, X: np.ndarray, rows: np.ndarray | None = None, ends: ColumnEnds | None = None
    ) -> tuple[int, int] | None:
        """Add a block X (n, d) to the sums, and the block's extreme values to `ends`.

        `rows` (n,) int64 are the rows' numbers in the table, which `ends` stores. Return None, or
        the (row, column) of the first value that is infinite or has an infinite square. The sums
        are then invalid.
        """
        digits = np.zeros((2, X.shape[1], DIGITS), np.int64)
        ends = ColumnEnds.empty(X.shape[1], 0) if ends is None else ends
        rows = np.zeros(len(X), np.int64) if rows is None else rows
        for place, piece in float64_pieces(X):
            state = self.shift, digits, self.least, self.most, self.counts
            row, column = add_block(piece, *state, rows[place], ends.values, ends.rows)
            if row >= 0:
                return place.start + row, column
        for sums, part in zip((self.first, self.second), digits, strict=True):
            columns, places = np.nonzero(part)
            values = part[columns, places]
            for k, i, v in zip(columns.tolist(), places.tolist(), values.tolist(), strict=True):
                sums[k] += v << (32 * i)
        return None

    def merge(self, other: "ColumnSums") -> None:
        self.first = [a + b for a, b in zip(self.first, other.first, strict=True)]
        self.second = [a + b for a, b in zip(self.second, other.second, strict=True)]
        self.least = np.minimum(self.least, other.least)
        self.most = np.maximum(self.most, other.most)
        self.counts = self.counts + other.counts

    def impute(self, values: np.ndarray, n_rows: int) -> None:
        """Add ``values[k]`` to column k for each of its missing values in `n_rows` rows."""
        for k, (value, missing) in enumerate(zip(values, n_rows - self.counts, strict=True)):
            if missing:
                e = float(value) - float(self.shift[k])
                self.first[k] += int(missing) * int(Fraction(e) * 2**1074)
                self.second[k] += int(missing) * int(Fraction(e * e) * 2**1074)
        self.counts[:] = n_rows

    @property
    def constant(self) -> np.ndarray:
        """Mask (d,) bool of the columns whose values are all equal, up to rounding."""
        size = np.maximum(np.abs(self.least), np.abs(self.most))
        with np.errstate(invalid="ignore"):  # columns without values
            return ~(self.most - self.least > 2.0**-48 * size)  # 16 rounding errors

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and population variances of the columns, (d,) float64."""
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
    """Scaling of raw rows: missing values are filled, then x becomes (x - centre) / scale.

    Constant columns have scale 1 and become 0. Kind ``unit`` divides a row by its length instead,
    and kind ``none`` only fills missing values. Kind ``robust`` also compresses large values, as in
    `compressed`.
    """

    centre: np.ndarray  # (d,) float64
    scale: np.ndarray  # (d,) float64: divisor
    fill: np.ndarray  # (d,) float64: replacement of missing values
    kind: str = "standard"  # one of `SCALE_KINDS`

    @classmethod
    def from_sums(cls, sums: ColumnSums, kind: str, fill: np.ndarray) -> Self:
        """Return the scaling of a `kind` that only needs sums: any kind except ``robust``.

        `fill` (d,) replaces missing values.
        """
        if kind == "standard":
            centre, variance = sums.mean_and_variance()
            scale = np.sqrt(variance)
        elif kind == "minmax":
            centre, scale = sums.least.copy(), sums.most - sums.least
        else:
            return cls(np.zeros(len(sums.counts)), np.ones(len(sums.counts)), fill, kind)
        constant = sums.constant
        centre[constant] = sums.least[constant]
        scale[constant | (scale == 0.0)] = 1.0
        return cls(centre, scale, fill, kind)

    @classmethod
    def robust(cls, sums: ColumnSums, pilot: np.ndarray, fill: np.ndarray) -> Self:
        """Return the scaling of kind ``robust``, from pilot rows (m, d) float64.

        Columns are centred at the median and divided by the spread (`middle_and_spread`). A spread
        of 0 is replaced by the column's largest distance from the median, over all rows.
        """
        centre, _ = sums.mean_and_variance()
        scale = np.zeros_like(centre)
        for k, values in enumerate(present_values(pilot)):
            if values.size:
                centre[k], scale[k] = middle_and_spread(values)
        constant = sums.constant
        centre[constant] = sums.least[constant]
        farthest = np.maximum(sums.most - centre, centre - sums.least)
        scale = np.where(scale > 0.0, scale, farthest)
        return cls(centre, np.where(scale > 0.0, scale, 1.0), fill, "robust")

    def together(self, sums: ColumnSums, groups: Sequence[slice]) -> "Scaling":
        """Return a scaling in which each group of one-hot columns weighs as much as one column.

        `groups` are slices of columns; all columns of a group get one scale. With ``minmax``, rows
        of different categories have distance 1. With ``standard`` and ``robust``, the variances of
        a group sum to 1. ``unit`` and ``none`` leave groups unchanged.
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
        """Whether the mean of scaled rows equals the scaled mean."""
        return self.kind not in ("robust", "unit")

    def check(self, sums: ColumnSums, columns: Sequence[str]) -> None:
        """Raise UnusableRowsError if float32 is not precise enough for scaled rows with these sums.

        Rows must be no longer than `MAX_ROW_LENGTH`. Columns that are not constant need a range of
        at least `MIN_SCALED_RANGE`; with kind ``none``, one column with this range is enough.
        """
        if self.kind == "unit":
            return
        bounds = np.array([sums.least, sums.most])
        scaled = self.apply(bounds)
        largest, ranges = np.abs(scaled).max(axis=0), scaled[1] - scaled[0]
        k = int(largest.argmax())
        if not largest[k] * largest.size**0.5 <= MAX_ROW_LENGTH:
            raise UnusableRowsError(
                f"column {columns[k]!r} has values from {bounds[0, k]:g} to {bounds[1, k]:g}, so "
                f"scaled rows are longer than {MAX_ROW_LENGTH:g}, the maximum; leave the column "
                "out, or give preprocess.scale = 'minmax'"
            )
        widest = np.full_like(ranges, ranges.max()) if self.kind == "none" else ranges
        short = (widest < MIN_SCALED_RANGE) & ~sums.constant
        k = int(np.argmax(short))
        if short[k]:
            raise UnusableRowsError(
                f"column {columns[k]!r} has values from {bounds[0, k]:g} to {bounds[1, k]:g}, "
                f"expected a range of at least {MIN_SCALED_RANGE:g} once it is scaled; leave it "
                "out, or give preprocess.scale = 'minmax'"
            )

    def to_kernels(self, X: np.ndarray, origin: np.ndarray) -> np.ndarray:
        """Return ``apply(X) - origin`` for X (n, d) as float32, the input of kernels.

        This takes one pass over X, so it is faster than `apply`.
        """
        out = np.empty(X.shape, np.float32)
        columns = self.centre, self.scale, self.fill, origin
        limit = ROBUST_LIMIT if self.kind == "robust" else np.inf
        for place, piece in float64_pieces(X):
            if self.kind == "unit":
                unit_rows(piece, self.fill, origin, out[place])
            else:
                scale_rows(piece, *columns, limit, ROBUST_BEND, out[place])
        return out

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Return the scaled rows of X (n, d) as float64."""
        X = np.asarray(X, np.float64)
        missing = np.isnan(X)
        if missing.any():
            X = np.where(missing, self.fill, X)
        if self.kind == "unit":
            return X / lengths(X)[:, None]
        with np.errstate(over="ignore"):
            Z = (X - self.centre) / self.scale
        return compressed(Z) if self.kind == "robust" else Z

    def raw(self, Z: np.ndarray) -> np.ndarray:
        """Return raw values of scaled rows Z (n, d) float64, the inverse of `apply`.

        With kind ``unit``, return Z, because the lengths are lost.
        """
        if self.kind == "robust":
            beyond = np.maximum(np.abs(Z) - ROBUST_LIMIT, 0.0)
            away = np.minimum(np.abs(Z), ROBUST_LIMIT) + ROBUST_BEND * np.expm1(
                beyond / ROBUST_BEND
            )
            Z = np.copysign(away, Z)
        return Z * self.scale + self.centre
