"""Exact search for the nearest of a fixed set of points."""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import fma, square_distance
from distsvc.kernels.rbf import lowest, squared_distances

MAX_DISTANCE_BITS = np.int32(2147483647)
"""Maximum int32, above the bits of every squared distance."""

LOWER_BOUND_FACTOR = np.float32(0.9999)
"""Factor on lower bounds of squared distances, which covers the rounding of float32."""

UPPER_BOUND_FACTOR = np.float32(1.000001)
"""Factor on the k-th lowest squared distance, which covers its conversion to float32."""

SKIPPED_ROWS = 128
"""Number of rows that are skipped together if none is near."""


@inlined
def _set_bounds(low, high, x, bounds):
    """Set bounds[c] to a lower bound of the squared distance from x to box low[:, c] .. high[:, c].

    Returns the first box with the lowest bound.
    """
    n = bounds.shape[0]
    for c in range(n):
        bounds[c] = np.float32(0.0)
    for k in range(x.shape[0]):
        value = x[k]
        for c in range(n):
            gap = max(low[k, c] - value, value - high[k, c])
            gap = gap if gap > np.float32(0.0) else np.float32(0.0)
            bounds[c] = fma(gap, gap, bounds[c])
    for c in range(n):
        bounds[c] *= LOWER_BOUND_FACTOR
    bits = bounds.view(np.int32)
    least, nearest = lowest(bits), 0
    while bits[nearest] != least:
        nearest += 1
    return nearest


@kernel
def nearest_point(X, P, numbers, clusters, low, high):
    """Return the index (n,) int32 of a point in the nearest cluster to every row of X (n, d).

    The nearest cluster has the nearest point. Of equally near points the lowest index decides. If
    every cell is its own cluster, the result is the nearest point itself.

    X is float32. Points are stored in cells: P (c, d, w) float32, with infinity in unused places.
    numbers (c, w) int32 are the points' indices, ascending in a cell. All points of a cell are in
    the cluster clusters[c], (c,) int32. low and high (d, c) float32 are the boxes of the cells.

    The cell with the nearest box is searched first, and decides unless a cell of another cluster
    may have a point as near. Otherwise all cells are searched whose boxes are near enough.
    Distances are compared as integers: the bits of non-negative floats have the same order, and a
    minimum of integers is vectorised.
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
        first = _set_bounds(low, high, x, bounds)
        best, number = MAX_DISTANCE_BITS, MAX_DISTANCE_BITS
        for step in range(-1, n_cells):
            c = first if step < 0 else step
            if bound_bits[c] > best or step == first:
                continue
            squared_distances(P[c], width, x, values)
            least = lowest(bits)
            if least <= best:
                j = 0
                while bits[j] != least:
                    j += 1
                number = numbers[c, j] if least < best else min(number, numbers[c, j])
                best = least
            if step < 0:
                rivals = 0
                for other in range(n_cells):
                    rivals += (bound_bits[other] <= best) & (clusters[other] != clusters[first])
                if rivals == 0:
                    break
        out[i] = number
    return out


@kernel
def keep_nearest(products, lows, rows, first, distances, numbers):
    """Set the k nearest other rows of every row of a block, ascending by distance.

    products (b, m) float32 are the inner products of rows ``first``, ``first + 1``, ... with all
    rows (m, p) float64. With lows (m,) float32, ``lows[i] + lows[j] - 2 products[i, j]`` is a lower
    bound of the squared distance. The distance is computed only if the bound is not above the k-th
    lowest distance so far. ``distances`` (b, k) float64 are squared and start as infinity; numbers
    (b, k) are int64. Among equal distances, earlier rows come first.
    """
    (b, m), k = products.shape, distances.shape[1]
    for i in range(b):
        nearest, others, x = distances[i], numbers[i], rows[first + i]
        limit = np.float32(np.inf)
        for start in range(0, m, SKIPPED_ROWS):
            these, theirs = (
                products[i, start : start + SKIPPED_ROWS],
                lows[start : start + SKIPPED_ROWS],
            )
            near = np.int32(0)
            for j in range(these.shape[0]):
                near |= np.int32(theirs[j] - np.float32(2.0) * these[j] <= limit)
            if near == 0:
                continue
            for j in range(start, start + these.shape[0]):
                if not lows[j] - np.float32(2.0) * products[i, j] <= limit or j == first + i:
                    continue
                square = square_distance(x, rows[j])
                if square >= nearest[k - 1]:
                    continue
                p = k - 1
                while p > 0 and nearest[p - 1] > square:
                    nearest[p], others[p] = nearest[p - 1], others[p - 1]
                    p -= 1
                nearest[p], others[p] = square, j
                limit = np.float32(nearest[k - 1]) * UPPER_BOUND_FACTOR - lows[first + i]
