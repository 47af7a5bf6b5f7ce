"""Logarithms of the mean distances of rows to the nearest of some points."""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import ROWS_AT_ONCE, column_squares, count_up_to, sum_below

PARTIAL_SUMS = 4
"""Number of independent partial sums of squared distances, whose additions overlap."""


@inlined
def _set_farthest(squares, lowest, highest, wanted, n, counts, farthest):
    """Set the first n of farthest (ROWS_AT_ONCE,) to the wanted[t]-th lowest of every column t.

    A bisection ends early at a bound between two elements, which is then the result. All columns
    are searched together. counts (ROWS_AT_ONCE,) are set to the number of elements below
    `farthest`. Loops run over the variable n: LLVM unrolls loops of a constant length to scalar
    code.
    """
    low, high = np.empty(ROWS_AT_ONCE, np.int32), np.empty(ROWS_AT_ONCE, np.int32)
    limits, active = np.empty(ROWS_AT_ONCE, np.int32), np.int32(0)
    for t in range(n):
        high[t] = highest[t]
        low[t] = high[t] if wanted[t] == squares.shape[0] else lowest[t]
        active |= np.int32(low[t] < high[t])
    while active != 0:
        for t in range(n):
            limits[t] = (low[t] + high[t]) >> np.int32(1)
        count_up_to(squares, limits, counts)
        active = np.int32(0)
        for t in range(n):
            searched, above = low[t] < high[t], counts[t] < wanted[t]
            high[t] = limits[t] if searched and not above else high[t]
            low[t] = np.int32(limits[t] + np.int32(1)) if searched and above else low[t]
            low[t] = high[t] if counts[t] == wanted[t] else low[t]
            active |= np.int32(low[t] < high[t])
    for t in range(n):
        farthest[t], limits[t] = high[t], np.int32(high[t] - np.int32(1))
    count_up_to(squares, limits, counts)


@kernel
def log_nearness(X, P, k, least, out):
    """Set out[i] to minus the logarithm of the mean distance of x_i to the k nearest points.

    X (n, d) float32, P (d, m) float32, m > k, out (n,) float64. The mean is the root of the mean
    square; each square is rounded to 8 significant bits, so that the mean is within 0.2 %. If x_i
    is equal to points, one of them is skipped: x_i itself may be among the points. Mean squares
    below `least`, float32 and positive, count as `least`. Rows with NaN distances get NaN.

    Rows fill the vector registers; the last row is repeated to fill its block.
    """
    (n, d), m = X.shape, P.shape[1]
    points = np.empty((m, d), np.float32)
    for j in range(m):
        for f in range(d):
            points[j, f] = P[f, j]
    rows = np.empty((d, ROWS_AT_ONCE), np.float32)
    squares = np.empty((m, ROWS_AT_ONCE), np.int16)  # half of a first-level cache
    lowest, highest = np.empty(ROWS_AT_ONCE, np.int32), np.empty(ROWS_AT_ONCE, np.int32)
    farthest, wanted = np.empty(ROWS_AT_ONCE, np.int32), np.empty(ROWS_AT_ONCE, np.int32)
    counts = np.empty(ROWS_AT_ONCE, np.int32)
    sums = np.empty((PARTIAL_SUMS, ROWS_AT_ONCE), np.float32)
    for first in range(0, n, ROWS_AT_ONCE):
        n_rows = min(ROWS_AT_ONCE, n - first)
        for r in range(ROWS_AT_ONCE):
            for f in range(d):
                rows[f, r] = X[min(first + r, n - 1), f]
        column_squares(rows, points, squares, lowest, highest)
        for t in range(n_rows):
            wanted[t] = np.int32(k + np.int32(lowest[t] == 0))
        _set_farthest(squares, lowest, highest, wanted, n_rows, counts, farthest)
        for a in range(PARTIAL_SUMS):
            sum_below(squares, farthest, a, m, PARTIAL_SUMS, sums[a])
        for r in range(n_rows):
            others = np.int32(wanted[r] - counts[r])  # neighbours as far as the k-th
            far = np.float32(others) * np.int32(farthest[r] << np.int32(16)).view(np.float32)
            nearer = np.float32(0.0)
            for a in range(PARTIAL_SUMS):
                nearer += sums[a, r]
            mean = np.float64(max((nearer + far) / np.float32(k), least))
            out[first + r] = -0.5 * np.log(mean)
