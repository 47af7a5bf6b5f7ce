"""The nearest of a fixed set of points, exactly."""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.rbf import squared_distances

FARTHEST = np.int32(2147483647)
SLACK = np.float32(0.9999)
"""Lower bounds are shrunk by this much more than float32 rounding could raise them."""


@inlined
def _lowest(bits):
    """Return the least of an array of int32."""
    low = FARTHEST
    for j in range(bits.shape[0]):
        low = min(low, bits[j])
    return low


@inlined
def _box_distances(low, high, x, out):
    """Set out[c] to the squared distance from x to the box low[:, c] .. high[:, c]."""
    n = out.shape[0]
    for c in range(n):
        out[c] = np.float32(0.0)
    for k in range(x.shape[0]):
        value = x[k]
        for c in range(n):
            gap = max(low[k, c] - value, value - high[k, c])
            gap = gap if gap > np.float32(0.0) else np.float32(0.0)
            out[c] += gap * gap


@kernel
def nearest_point(X, P, numbers, low, high):
    """Return for every row of X (n, d) float32 the number (n,) int32 of the nearest point.

    Points lie in cells: P (c, d, w) float32 holds the points of each cell, infinity in unused
    places; numbers (c, w) int32 are the points' numbers, ascending in a cell; low and high (d, c)
    float32 are boxes about the cells. The cell with the nearest box is searched first, and boxes
    farther away than the best point so far are passed over. Euclidean distance; of equally near
    points the one with the lowest number. Distances are compared as integers, which order
    non-negative floats alike and whose minimum runs in vector registers.
    """
    n = X.shape[0]
    n_cells, _, width = P.shape
    values = np.empty(width, np.float32)
    bits = values.view(np.int32)
    bounds = np.empty(n_cells, np.float32)
    bound_bits = bounds.view(np.int32)
    out = np.empty(n, np.int32)
    for i in range(n):
        x = X[i]
        _box_distances(low, high, x, bounds)
        for c in range(n_cells):
            bounds[c] *= SLACK
        first = 0
        nearest_box = _lowest(bound_bits)
        while bound_bits[first] != nearest_box:
            first += 1
        best, number = FARTHEST, FARTHEST
        for step in range(-1, n_cells):
            c = first if step < 0 else step
            if bound_bits[c] > best or step == first:
                continue
            squared_distances(P[c], width, x, values)
            least = _lowest(bits)
            if least <= best:
                j = 0
                while bits[j] != least:
                    j += 1
                number = numbers[c, j] if least < best else min(number, numbers[c, j])
                best = least
        out[i] = number
    return out


@kernel
def keep_nearest(D, first, distances, numbers):
    """Keep for every row of D (b, m) float64 its lowest entries and where they stand, ascending.

    Row i has the distances of row ``first + i`` to all rows; the one to itself is passed over.
    ``distances`` (b, k) float64 begin as infinity; numbers (b, k) are int64. Of equal entries the
    first ones are kept.
    """
    k = distances.shape[1]
    for i in range(D.shape[0]):
        for j in range(D.shape[1]):
            value = D[i, j]
            if value >= distances[i, k - 1] or j == first + i:
                continue
            p = k - 1
            while p > 0 and distances[i, p - 1] > value:
                distances[i, p] = distances[i, p - 1]
                numbers[i, p] = numbers[i, p - 1]
                p -= 1
            distances[i, p] = value
            numbers[i, p] = j
