"""Logarithms of the mean distances of rows to the nearest of some points."""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import (
    LANES,
    ROWS_AT_ONCE,
    column_squares,
    column_steps,
    count_up_to,
    sum_below,
)

DROPPED_BITS = np.int32(12)
"""Number of low bits of a float32 that the search ignores: 0.05 % of a squared distance."""

MAX_INT16_RANGE = np.int32(32766)
"""Maximum range of squared distances, in units of the bits that are kept, for a search in int16."""


@inlined
def _set_farthest(squares, bits, lowest, highest, wanted, steps, counts, farthest):
    """Set farthest (ROWS_AT_ONCE,) to the bits of the wanted[t]-th lowest of every column t.

    They are rounded down: the low `DROPPED_BITS` are 0. A bisection ends early at a bound between
    two elements, which is then the result. All columns are searched together: in int16, which
    doubles the speed, unless a column's range is too wide. counts (ROWS_AT_ONCE,) are set to the
    number of elements below `farthest`.
    """
    low, high = np.empty(ROWS_AT_ONCE, np.int32), np.empty(ROWS_AT_ONCE, np.int32)
    first, limits = np.empty(ROWS_AT_ONCE, np.int32), np.empty(ROWS_AT_ONCE, np.int32)
    active, widest = np.int32(0), np.int32(0)
    for t in range(ROWS_AT_ONCE):
        first[t], high[t] = lowest[t] >> DROPPED_BITS, highest[t] >> DROPPED_BITS
        low[t] = high[t] if wanted[t] == squares.shape[0] else first[t]
        active |= np.int32(low[t] < high[t])
        widest = max(widest, np.int32(high[t] - first[t]))
    if widest <= MAX_INT16_RANGE:
        column_steps(squares, first, DROPPED_BITS, steps)
    while active != 0:
        for t in range(ROWS_AT_ONCE):
            middle = np.int32((low[t] + high[t]) >> np.int32(1))
            above = np.int32(((middle + np.int32(1)) << DROPPED_BITS) - np.int32(1))
            limits[t] = np.int32(middle - first[t]) if widest <= MAX_INT16_RANGE else above
        if widest <= MAX_INT16_RANGE:
            count_up_to(steps, limits, counts)
        else:
            count_up_to(bits, limits, counts)
        active = np.int32(0)
        for t in range(ROWS_AT_ONCE):
            middle, searched = np.int32((low[t] + high[t]) >> np.int32(1)), low[t] < high[t]
            above = counts[t] < wanted[t]
            high[t] = middle if searched and not above else high[t]
            low[t] = np.int32(middle + np.int32(1)) if searched and above else low[t]
            low[t] = high[t] if counts[t] == wanted[t] else low[t]
            active |= np.int32(low[t] < high[t])
    for t in range(ROWS_AT_ONCE):
        farthest[t] = np.int32(high[t] << DROPPED_BITS)
        below = np.int32(high[t] - first[t] - np.int32(1))
        limits[t] = below if widest <= MAX_INT16_RANGE else np.int32(farthest[t] - np.int32(1))
    if widest <= MAX_INT16_RANGE:
        count_up_to(steps, limits, counts)
    else:
        count_up_to(bits, limits, counts)


@inlined
def _add_nearer(squares, farthest, parts, sums):
    """Set sums (ROWS_AT_ONCE,) to each column's sum of the squares below `farthest`.

    Terms are added in the order of `lanes.total`.
    """
    m, start = squares.shape[0], 0
    for t in range(ROWS_AT_ONCE):
        sums[t] = np.float32(0.0)
    for n_parts in LANES:
        stop = m - m % n_parts
        for a in range(n_parts):
            sum_below(squares, farthest, start + a, stop, n_parts, parts[a])
        half = n_parts >> 1
        while half > 0:
            for a in range(half):
                for t in range(ROWS_AT_ONCE):
                    parts[a, t] += parts[a + half, t]
            half >>= 1
        for t in range(ROWS_AT_ONCE):
            sums[t] += parts[0, t]
        start = stop


@kernel
def log_nearness(X, P, k, least, out):
    """Set out[i] to minus the logarithm of the mean distance of x_i to the k nearest points.

    X (n, d) float32, P (d, m) float32, m > k, out (n,) float64. The mean is the root of the mean
    square, within 0.05 %. If x_i is equal to points, one of them is skipped: x_i itself may be
    among the points. Mean squares below `least`, float32 and positive, count as `least`. Rows with
    NaN distances get NaN.

    Rows fill the vector registers; the last row is repeated to fill its block.
    """
    (n, d), m = X.shape, P.shape[1]
    points = np.empty((m, d), np.float32)
    for j in range(m):
        for f in range(d):
            points[j, f] = P[f, j]
    rows = np.empty((d, ROWS_AT_ONCE), np.float32)
    squares = np.empty((m, ROWS_AT_ONCE), np.float32)
    bits = squares.view(np.int32)  # integers order distances, which are not negative, alike
    steps = np.empty((m, ROWS_AT_ONCE), np.int16)
    lowest, highest = np.empty(ROWS_AT_ONCE, np.int32), np.empty(ROWS_AT_ONCE, np.int32)
    farthest, wanted = np.empty(ROWS_AT_ONCE, np.int32), np.empty(ROWS_AT_ONCE, np.int32)
    counts, sums = np.empty(ROWS_AT_ONCE, np.int32), np.empty(ROWS_AT_ONCE, np.float32)
    parts = np.empty((LANES[0], ROWS_AT_ONCE), np.float32)
    for first in range(0, n, ROWS_AT_ONCE):
        for r in range(ROWS_AT_ONCE):
            for f in range(d):
                rows[f, r] = X[min(first + r, n - 1), f]
        column_squares(rows, points, squares, lowest, highest)
        for t in range(ROWS_AT_ONCE):
            wanted[t] = np.int32(k + np.int32(lowest[t] == 0))
        _set_farthest(squares, bits, lowest, highest, wanted, steps, counts, farthest)
        _add_nearer(squares, farthest, parts, sums)
        for r in range(min(ROWS_AT_ONCE, n - first)):
            others = np.int32(wanted[r] - counts[r])  # neighbours as far as the k-th
            far = np.float32(others) * np.int32(farthest[r]).view(np.float32)
            mean = np.float64(max((sums[r] + far) / np.float32(k), least))
            out[first + r] = -0.5 * np.log(mean)
