"""Exact sums of columns, scaling of rows, histograms, and piecewise linear functions.

Sums depend neither on the order of rows nor on partitions. A float64 is a whole number of units of
2^-1074. A sum is a number in base 2^32 with 64-bit digits that have room for carries, so that
adding never rounds. Sums merge by adding their digits.

Most values in a chunk of a column are within a few powers of ten of each other. Such values are
split into three parts, whose float sums are exact. This takes no longer than reading the values.
"""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import ROWS_AT_ONCE

DIGITS = 68
"""Number of base-2^32 digits in the sum of a column."""

MAX_CHUNK_ROWS = 4096
"""Maximum number of rows added at a time."""

LOW_WORD_MASK = np.uint64(0xFFFFFFFF)


@inlined
def _add(digits, value):
    """Add a float64 to a sum exactly: its mantissa, shifted, spans at most three digits."""
    bits = np.float64(value).view(np.uint64)
    exponent = np.int64((bits >> np.uint64(52)) & np.uint64(0x7FF))
    mantissa = bits & np.uint64(0xFFFFFFFFFFFFF)
    if exponent > 0:
        mantissa |= np.uint64(1) << np.uint64(52)
        exponent -= 1
    place = exponent >> 5
    shift = np.uint64(exponent & 31)
    low = (mantissa & LOW_WORD_MASK) << shift
    high = (mantissa >> np.uint64(32)) << shift
    sign = np.int64(1) if value >= 0 else np.int64(-1)
    digits[place] += sign * np.int64(low & LOW_WORD_MASK)
    digits[place + 1] += sign * np.int64((low >> np.uint64(32)) + (high & LOW_WORD_MASK))
    digits[place + 2] += sign * np.int64(high >> np.uint64(32))


@inlined
def _unit(exponent):
    """Return 1.5 * 2^(exponent - 1023), which `_split` adds to a number in order to round it."""
    return np.uint64((exponent << 52) | (1 << 51)).view(np.float64)


@inlined
def _split(x, unit_1, unit_2, unit_3):
    """Split x into three parts, from its high to its low bits, and a remainder.

    Adding a large unit rounds a number to the unit's last bit. Subtracting the unit is exact.
    """
    first = (x + unit_1) - unit_1
    x -= first
    second = (x + unit_2) - unit_2
    x -= second
    third = (x + unit_3) - unit_3
    return first, second, third, x - third


@inlined
def _add_parts(x, n, shift, bound, digits):
    """Try to add the first n values x of a column to its sums `digits` (2, DIGITS) as floats.

    Each x - shift, and its square, is split into three parts. The parts have so few bits that
    `MAX_CHUNK_ROWS` of them add exactly. If three parts don't suffice for a value, nothing is added
    and the result is False. `bound` is the largest |x - shift|.
    """
    e_at = np.int64(np.float64(bound).view(np.uint64) >> np.uint64(52))
    s_at = np.int64(np.float64(bound * bound).view(np.uint64) >> np.uint64(52))
    # Beyond these exponents of the largest square, units would be infinite or subnormal.
    if s_at < 100 or s_at > 2030:
        return False
    # A part is at most 2^40 of its units, so that 2^12 parts add up within 53 bits.
    e1, e2, e3 = _unit(e_at + 13), _unit(e_at - 28), _unit(e_at - 69)
    s1, s2, s3 = _unit(s_at + 13), _unit(s_at - 28), _unit(s_at - 69)
    a1 = a2 = a3 = b1 = b2 = b3 = left = 0.0
    for i in range(n):
        e = x[i] - shift if x[i] == x[i] else 0.0
        first, second, third, rest = _split(e, e1, e2, e3)
        a1 += first
        a2 += second
        a3 += third
        left += abs(rest)
        first, second, third, rest = _split(e * e, s1, s2, s3)
        b1 += first
        b2 += second
        b3 += third
        left += abs(rest)
    if left != 0.0:
        return False
    for part in (a1, a2, a3):
        _add(digits[0], part)
    for part in (b1, b2, b3):
        _add(digits[1], part)
    return True


@inlined
def _add_extremes(X, least, most, counts):
    """Update the minimum, maximum and count of every column with rows X (n, d); NaN is skipped."""
    for i in range(X.shape[0]):
        for k in range(X.shape[1]):
            x = X[i, k]
            least[k] = x if x < least[k] else least[k]
            most[k] = x if x > most[k] else most[k]
            counts[k] += x == x


@inlined
def _keep_ends(x, numbers, sign, least, k, ends, rows_of_ends):
    """Insert values of x into ends[:, k], the m values of column k with the lowest ``sign * x``.

    numbers (n,) are the row numbers of x[:n]. `least` is the first of x in this order. If it is not
    low enough to be inserted, no other value is.
    """
    m = ends.shape[0]
    if m == 0 or not sign * least < sign * ends[m - 1, k]:
        return
    for i in range(numbers.shape[0]):
        if not sign * x[i] < sign * ends[m - 1, k]:
            continue
        p = m - 1
        while p > 0 and sign * ends[p - 1, k] > sign * x[i]:
            ends[p, k], rows_of_ends[p, k] = ends[p - 1, k], rows_of_ends[p - 1, k]
            p -= 1
        ends[p, k], rows_of_ends[p, k] = x[i], numbers[i]


@kernel
def add_block(X, shift, digits, least, most, counts, numbers, ends, rows_of_ends):
    """Add a block X (n, d) float64 to the statistics of every column, in place; NaN is skipped.

    digits (2, d, DIGITS) int64 are the sums of x - shift and of (x - shift)^2. least and most (d,)
    float64 are the extremes, and counts (d,) int64 the numbers of values. shift (d,) float64 is
    equal for all blocks of a table. It should be near the data, because squares are rounded. Digits
    overflow after 2^30 rows unless they are normalised in between.

    ends (2, m, d) float64 are the m lowest values of every column, ascending, and the m highest,
    descending. Of equal values, the first stay. rows_of_ends (2, m, d) int64 are the row numbers of
    ends, and numbers (n,) int64 the row numbers of X.

    Returns the row and column of the first value that is infinite or has an infinite square, or
    (-1, -1).
    """
    n, d = X.shape
    # 2**15 values fit into a cache.
    rows = min(max(2**15 // max(d, 1), 128), MAX_CHUNK_ROWS)
    low, high, column = np.empty(d), np.empty(d), np.empty(rows)
    for first in range(0, n, rows):
        chunk = X[first : first + rows]
        low[:] = np.inf
        high[:] = -np.inf
        _add_extremes(chunk, low, high, counts)
        for k in range(d):
            bound = max(abs(low[k] - shift[k]), abs(high[k] - shift[k]))
            if low[k] > high[k]:
                continue
            if not np.isfinite(bound * bound):
                return _first_overflow(X, shift)
            least[k], most[k] = min(least[k], low[k]), max(most[k], high[k])
            for i in range(chunk.shape[0]):
                column[i] = chunk[i, k]
            own = numbers[first : first + rows]
            _keep_ends(column, own, 1.0, low[k], k, ends[0], rows_of_ends[0])
            _keep_ends(column, own, -1.0, high[k], k, ends[1], rows_of_ends[1])
            if bound == 0.0 or _add_parts(column, len(chunk), shift[k], bound, digits[:, k]):
                continue
            for i in range(chunk.shape[0]):
                if column[i] == column[i]:
                    e = column[i] - shift[k]
                    _add(digits[0, k], e)
                    _add(digits[1, k], e * e)
    return -1, -1


@inlined
def _first_overflow(X, shift):
    """Return row and column of the first x with an infinite (x - shift)^2, or (-1, -1)."""
    for i in range(X.shape[0]):
        for k in range(X.shape[1]):
            e = X[i, k] - shift[k]
            if e == e and not np.isfinite(e * e):
                return i, k
    return -1, -1


@kernel
def scale_rows(X, centre, scale, fill, origin, far, bend, out):
    """Write (x - centre) / scale - origin of every row to out; missing values become `fill` first.

    A scaled value z > far becomes far + bend log(1 + (z - far) / bend) before `origin` is
    subtracted, and likewise below -far; `far` may be infinite. X (n, d) and the other arrays (d,)
    are float64, out (n, d) is float32.
    """
    n, d = X.shape
    for i in range(n):
        for k in range(d):
            x = fill[k] if np.isnan(X[i, k]) else X[i, k]
            z = (x - centre[k]) / scale[k]
            if z > far:
                z = far + bend * np.log1p((z - far) / bend)
            elif z < -far:
                z = -far - bend * np.log1p((-far - z) / bend)
            out[i, k] = z - origin[k]


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
def unit_rows(X, fill, origin, out):
    """Fill missing values, divide every row by its length, and subtract `origin`.

    X (n, d), fill and origin (d,) are float64. The result is written to out (n, d) float32.
    """
    n, d = X.shape
    for i in range(n):
        total = 0.0
        for k in range(d):
            x = fill[k] if np.isnan(X[i, k]) else X[i, k]
            total += x * x
        length = np.sqrt(total)
        for k in range(d):
            x = fill[k] if np.isnan(X[i, k]) else X[i, k]
            out[i, k] = x / length - origin[k]


@kernel
def count_between(X, edges, counts):
    """Add a histogram of each column of a block X (n, d) float64 to counts (d, b + 2) int64.

    edges (d, b) float64 are ascending for each column. A value is counted in bin j if exactly j
    edges are at or below it. Missing values (NaN) are counted in the last bin.
    """
    (n, d), b = X.shape, edges.shape[1]
    column = np.empty(MAX_CHUNK_ROWS)
    for first in range(0, n, MAX_CHUNK_ROWS):
        m = min(MAX_CHUNK_ROWS, n - first)
        for k in range(d):
            missing = 0
            for i in range(m):
                column[i] = X[first + i, k]
                missing += np.isnan(column[i])
            counts[k, b + 1] += missing
            above = m - missing
            for j in range(b):
                beyond, edge = 0, edges[k, j]
                for i in range(m):
                    beyond += column[i] >= edge
                counts[k, j] += above - beyond
                above = beyond
            counts[k, b] += above


@kernel
def interpolate(x, knots, values, out):
    """Set out (n,) to a piecewise linear function at x (n,): values (g,) at ascending knots (g,).

    The first and last slope continue beyond the knots; NaN stays NaN. All arrays are float64.
    """
    n, g = x.shape[0], knots.shape[0]
    slopes = np.empty(g - 1)
    for k in range(g - 1):
        slopes[k] = (values[k + 1] - values[k]) / (knots[k + 1] - knots[k])
    # Unsigned indices need no test for negative values.
    low, two = np.empty(ROWS_AT_ONCE, np.uint64), np.uint64(2)
    for start in range(0, n, ROWS_AT_ONCE):
        m = min(ROWS_AT_ONCE, n - start)
        low[:] = 0
        size = np.uint64(g - 1)
        while size > 1:  # searches run side by side, to hide their latency
            half = size // two
            for t in range(m):
                place = low[t] + half
                low[t] = place if knots[place] <= x[start + t] else low[t]
            size -= half
        for t in range(m):
            k = low[t]
            out[start + t] = values[k] + slopes[k] * (x[start + t] - knots[k])
