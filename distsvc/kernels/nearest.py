"""Exact search for the nearest of a fixed set of points."""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import fma, square_distance
from distsvc.kernels.rbf import lowest, squared_distances

MAX_DISTANCE_BITS = np.int32(2147483647)
BOUND_FACTOR = np.float32(0.9999)
"""Factor on lower bounds, to cover the rounding of float32."""

TWO, ABOVE = np.float32(2.0), np.float32(1.000001)
SKIP_ROWS = 128
"""Number of rows that are skipped together if none is near."""


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
            out[c] = fma(gap, gap, out[c])


@inlined
def _nearest_box(low, high, x, bounds, bound_bits):
    """Set bounds to lower bounds of the squared distances to boxes; return the nearest box."""
    _box_distances(low, high, x, bounds)
    for c in range(bounds.shape[0]):
        bounds[c] *= BOUND_FACTOR
    first = 0
    nearest = lowest(bound_bits)
    while bound_bits[first] != nearest:
        first += 1
    return first


@kernel
def nearest_point(X, P, numbers, low, high):
    """Return the index (n,) int32 of the nearest point to every row of X (n, d) float32.

    Points are stored in cells: P (c, d, w) float32, with infinity in unused places. numbers (c, w)
    int32 are the points' indices, ascending in a cell; low and high (d, c) float32 are the boxes of
    the cells. The cell with the nearest box is searched first. Boxes farther away than the best
    point so far are skipped. Distances are Euclidean; the lowest index wins ties. They are compared
    as integers, which have the order of non-negative floats and a vectorised minimum.
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
        first = _nearest_box(low, high, x, bounds, bound_bits)
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
        out[i] = number
    return out


@kernel
def nearest_cluster(X, P, numbers, clusters, low, high):
    """Return the cluster (n,) int32 of the nearest point to every row of X (n, d) float32.

    Cells are as in `nearest_point`, and all points of cell c are in clusters[c], (c,) int32. The
    cell with the nearest box decides, unless a cell of another cluster may have a point as near.
    Most rows are far from a border; other rows search all cells.
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
        first = _nearest_box(low, high, x, bounds, bound_bits)
        best, number, found = MAX_DISTANCE_BITS, MAX_DISTANCE_BITS, clusters[first]
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
                if least < best or numbers[c, j] < number:
                    number, found = numbers[c, j], clusters[c]
                best = least
            if step < 0:
                rivals = 0
                for other in range(n_cells):
                    rivals += (bound_bits[other] <= best) & (clusters[other] != found)
                if rivals == 0:
                    break
        out[i] = found
    return out


@kernel
def keep_nearest(products, lows, rows, first, distances, numbers):
    """Set the nearest other rows of every row of a block, ascending by distance.

    products (b, m) float32 are the inner products of rows ``first``, ``first + 1``, ... with all
    rows (m, p) float64. With lows (m,) float32, ``lows[i] + lows[j] - 2 products[i, j]`` is a lower
    bound of the squared distance. The distance is computed only if the bound is below the k-th
    lowest. ``distances`` (b, k) float64 are squared and start as infinity; numbers (b, k) are
    int64. The first of equal distances are used.
    """
    (b, m), k = products.shape, distances.shape[1]
    for i in range(b):
        found, others, x = distances[i], numbers[i], rows[first + i]
        limit = np.float32(np.inf)
        for start in range(0, m, SKIP_ROWS):
            these, theirs = products[i, start : start + SKIP_ROWS], lows[start : start + SKIP_ROWS]
            near = np.int32(0)
            for j in range(these.shape[0]):
                near |= np.int32(theirs[j] - TWO * these[j] <= limit)
            if near == 0:
                continue
            for j in range(start, start + these.shape[0]):
                if not lows[j] - TWO * products[i, j] <= limit or j == first + i:
                    continue
                square = square_distance(x, rows[j])
                if square >= found[k - 1]:
                    continue
                p = k - 1
                while p > 0 and found[p - 1] > square:
                    found[p], others[p] = found[p - 1], others[p - 1]
                    p -= 1
                found[p], others[p] = square, j
                limit = np.float32(found[k - 1]) * ABOVE - lows[first + i]
