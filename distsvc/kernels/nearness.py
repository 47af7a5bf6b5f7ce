"""Logarithms of the mean distances of rows to the nearest of some points."""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import total
from distsvc.kernels.rbf import BATCH, squared_distances

DROPPED_BITS = np.int32(12)
"""Number of low bits of a float32 that the search ignores: 0.05 % of a squared distance."""


@inlined
def _kth_lowest(bits, k):
    """Return the k-th lowest of non-negative bits, rounded down, and the number of zeros skipped.

    One zero is skipped if there is any. Rounding clears the low `DROPPED_BITS`.
    """
    lowest, highest = bits[0], bits[0]
    for j in range(bits.shape[0]):
        lowest, highest = min(lowest, bits[j]), max(highest, bits[j])
    on_point = np.int32(lowest == 0)
    wanted, below = np.int32(k + on_point), np.int32(bits.shape[0])
    low, high = lowest >> DROPPED_BITS, highest >> DROPPED_BITS
    while low < high and below != wanted:
        middle = np.int32((low + high) >> np.int32(1))
        bound, found = np.int32((middle + np.int32(1)) << DROPPED_BITS), np.int32(0)
        for j in range(bits.shape[0]):
            found = np.int32(found + np.int32(bits[j] < bound))
        if found < wanted:
            low = np.int32(middle + np.int32(1))
        else:
            high, below = middle, found
    return np.int32(high << DROPPED_BITS), on_point


@kernel
def log_nearness(X, P, k, least, out):
    """Set out[i] to minus the logarithm of the mean distance of x_i to the k nearest points.

    X (n, d) float32, P (d, m) float32, m > k, out (n,) float64. The mean is the root of the mean
    square, within 0.05 %. If x_i is equal to points, one of them is skipped: x_i itself may be
    among the points. Mean squares below `least`, float32 and positive, count as `least`. Rows with
    NaN distances get NaN.
    """
    n, m = X.shape[0], P.shape[1]
    squares = np.empty((BATCH, m), np.float32)
    bits = squares.view(np.int32)  # integers order distances, which are not negative, alike
    for first in range(0, n, BATCH):
        rows = min(BATCH, n - first)
        for r in range(rows):
            squared_distances(P, m, X[first + r], squares[r])
        for r in range(rows):
            farthest, on_point = _kth_lowest(bits[r], k)
            others = np.int32(k + on_point)  # neighbours as far as the k-th
            for j in range(m):
                nearer = bits[r, j] < farthest
                others = np.int32(others - np.int32(nearer))
                squares[r, j] = squares[r, j] if nearer else np.float32(0.0)
            far = np.float32(others) * np.int32(farthest).view(np.float32)
            out[first + r] = max((total(squares[r]) + far) / np.float32(k), least)
        for r in range(rows):
            out[first + r] = -0.5 * np.log(out[first + r])
