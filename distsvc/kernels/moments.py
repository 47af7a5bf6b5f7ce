"""Exact sums of columns, and the scaling made from them.

Statistics depend neither on the order of rows nor on the cut.

A float64 is a whole number of units of 2^-1074. A sum is kept as a number in base 2^32 whose digits
are 64-bit integers with room for carries, so adding never rounds and merging two sums is adding
digits. It costs about as much as reading the value.
"""

import numpy as np

from distsvc.kernels.jit import inlined, kernel

DIGITS = 68
LOW = np.uint64(0xFFFFFFFF)


@inlined
def _add(digits, value):
    bits = np.float64(value).view(np.uint64)
    exponent = np.int64((bits >> np.uint64(52)) & np.uint64(0x7FF))
    mantissa = bits & np.uint64(0xFFFFFFFFFFFFF)
    if exponent > 0:
        mantissa |= np.uint64(1) << np.uint64(52)
        exponent -= 1
    place = exponent >> 5
    shift = np.uint64(exponent & 31)
    low = (mantissa & LOW) << shift
    high = (mantissa >> np.uint64(32)) << shift
    sign = np.int64(1) if value >= 0 else np.int64(-1)
    digits[place] += sign * np.int64(low & LOW)
    digits[place + 1] += sign * np.int64((low >> np.uint64(32)) + (high & LOW))
    digits[place + 2] += sign * np.int64(high >> np.uint64(32))


@kernel
def add_block(X, shift, digits, least, most, counts):
    """Add a block to the sums of x - shift and of (x - shift)^2 of every column.

    X (n, d) float64; shift (d,) float64, the same for every block of a table, near the data, since
    the square is rounded once; digits (2, d, DIGITS) int64, least and most (d,) float64 and counts
    (d,) int64 are changed in place. NaN means missing and is left out. Returns the first place
    (row, column) of an infinite value, or of a value whose square overflows, or (-1, -1). Digits
    overflow after 2^30 rows unless they are normalised in between.
    """
    n, d = X.shape
    for i in range(n):
        for k in range(d):
            x = X[i, k]
            if np.isnan(x):
                continue
            e = x - shift[k]
            square = e * e
            if not np.isfinite(square):
                return i, k
            _add(digits[0, k], e)
            _add(digits[1, k], square)
            least[k] = min(least[k], x)
            most[k] = max(most[k], x)
            counts[k] += 1
    return -1, -1


@kernel
def scale_rows(X, centre, scale, fill, origin):
    """Return (x - centre) / scale - origin of every row, missing values replaced by `fill` first.

    X (n, d) float64; the others (d,) float64. Computed in float64, returned as float32.
    """
    n, d = X.shape
    out = np.empty((n, d), np.float32)
    for i in range(n):
        for k in range(d):
            x = fill[k] if np.isnan(X[i, k]) else X[i, k]
            out[i, k] = (x - centre[k]) / scale[k] - origin[k]
    return out


@kernel
def lengths(X):
    """Return the length (n,) float64 of every row of X (n, d)."""
    n, d = X.shape
    out = np.empty(n)
    for i in range(n):
        total = 0.0
        for k in range(d):
            x = np.float64(X[i, k])
            total += x * x
        out[i] = np.sqrt(total)
    return out


@kernel
def unit_rows(X, fill, origin):
    """Return every row divided by its length, less `origin`; missing values are filled in first.

    X (n, d) float64; the others (d,) float64. Computed in float64, returned as float32.
    """
    n, d = X.shape
    out = np.empty((n, d), np.float32)
    for i in range(n):
        total = 0.0
        for k in range(d):
            x = fill[k] if np.isnan(X[i, k]) else X[i, k]
            total += x * x
        length = np.sqrt(total)
        for k in range(d):
            x = fill[k] if np.isnan(X[i, k]) else X[i, k]
            out[i, k] = x / length - origin[k]
    return out
