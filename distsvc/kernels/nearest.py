"""Exact searches for the points or rows nearest to a row, and mean distances to near points."""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import (
    ROWS_AT_ONCE,
    column_squares,
    count_up_to,
    fma,
    square_distance,
    sum_below,
)
from distsvc.kernels.rbf import lowest, squared_distances

MAX_DISTANCE_BITS = np.int32(2147483647)
"""Maximum int32, above the bits of every float32 squared distance."""

LOWER_BOUND_FACTOR = np.float32(0.9999)
"""Factor on lower bounds of squared distances, which covers the rounding of float32."""

GROUPS_A_NEIGHBOUR = 8
"""Number of groups of rows in `set_nearest`, as a multiple of the number of wanted neighbours. With
more groups, the bound on the distance of the last neighbour is tighter."""

MAX_ROUNDED = np.int32(2**15 - 1)
"""Maximum int16, above the upper 16 bits of every float32 squared distance."""

PARTIAL_SUMS = 4
"""Number of independent partial sums, so that the processor overlaps their additions."""


@inlined
def _set_bounds(low, high, x, bounds):
    """Set bounds[c] to a lower bound of the squared distance from x to the box of cell c.

    Returns the first cell with the lowest bound.
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
    """Return the index (n,) int32 of some point of the nearest cluster, for each row of X (n, d).

    The nearest cluster has the nearest point. Of equally near points, the point with the lowest
    index decides. If every cell is its own cluster, the result is the nearest point itself.

    X is float32. Points are stored in cells: P (c, d, w) float32, with infinity in unused places.
    numbers (c, w) int32 are the points' indices, ascending in a cell. clusters (c,) int32 are the
    clusters of the cells' points. low and high (d, c) float32 are the corners of the cells' boxes.

    The cell with the nearest box is searched first. It decides if no cell of another cluster can
    have a point as near. Otherwise all cells with near enough boxes are searched. Distances are
    compared as integers, whose minimum is vectorised: the bits of non-negative floats have the
    order of the floats.
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
            if step < 0:  # count the cells of other clusters that may have a point as near
                rivals = 0
                for other in range(n_cells):
                    rivals += (bound_bits[other] <= best) & (clusters[other] != clusters[first])
                if rivals == 0:
                    break
        out[i] = number
    return out


@inlined
def _set_farthest(squares, lowest, highest, wanted, n, counts, farthest):
    """Set farthest[t] to the wanted[t]-th lowest element of column t of `squares`, for t < n.

    All columns are bisected together. The bisection of a column ends at the first bound that
    exactly wanted[t] elements do not exceed. farthest[t] is this bound, which may be larger than
    the element itself. counts (ROWS_AT_ONCE,) is overwritten. Loops run to the variable n, because
    LLVM unrolls loops of a constant length to scalar code.
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
        farthest[t] = high[t]


@kernel
def set_nearest(points, rows, first, squares, numbers):
    """Find the k nearest other rows of each of b rows from index `first` on, nearest first.

    points (m, d) float32 and rows (m, d) float64 are one table in two precisions, m > k. `squares`
    (b, k) float64 are set to squared distances, and `numbers` (b, k) int64 to indices. Among equal
    distances, earlier rows come first.

    Distances are first computed in float32, and rounded to 8 significant bits. The lowest distances
    in groups of rows give an upper bound on the k-th lowest distance. Exact distances are then
    computed only for rows within this bound.
    """
    (m, d), (b, k) = points.shape, squares.shape
    n_groups = m // max(m // (GROUPS_A_NEIGHBOUR * (k + 1)), 1)  # g, g + n_groups, ... is a group
    width = n_groups * ROWS_AT_ONCE
    own = np.empty((d, ROWS_AT_ONCE), np.float32)
    rounded, nearest = np.empty(m * ROWS_AT_ONCE, np.int16), np.empty(width, np.int16)
    table, groups = rounded.reshape((m, ROWS_AT_ONCE)), nearest.reshape((n_groups, ROWS_AT_ONCE))
    lows, highs = np.empty(ROWS_AT_ONCE, np.int32), np.empty(ROWS_AT_ONCE, np.int32)
    farthest, wanted = np.empty(ROWS_AT_ONCE, np.int32), np.full(ROWS_AT_ONCE, k + 1, np.int32)
    counts, limits = np.empty(ROWS_AT_ONCE, np.int32), np.empty(ROWS_AT_ONCE, np.int16)
    n_found = np.empty(ROWS_AT_ONCE, np.int64)
    for start in range(0, b, ROWS_AT_ONCE):
        n = min(ROWS_AT_ONCE, b - start)
        for t in range(ROWS_AT_ONCE):
            for f in range(d):
                own[f, t] = points[first + min(start + t, b - 1), f]
        column_squares(own, points, table, lows, highs)
        for e in range(width):
            nearest[e] = rounded[e]
        for s in range(width, m * ROWS_AT_ONCE - width + 1, width):
            part = rounded[s : s + width]
            for e in range(width):
                nearest[e] = part[e] if part[e] < nearest[e] else nearest[e]
        _set_farthest(groups, lows, highs, wanted, n, counts, farthest)
        for t in range(n):
            limits[t] = min(farthest[t] + np.int32(1), MAX_ROUNDED)  # a sum may be rounded up
            n_found[t] = 0
        for j in range(m):
            near = np.int16(0)
            for t in range(n):
                near |= np.int16(table[j, t] <= limits[t])
            if near == 0:
                continue
            for t in range(n):
                i = start + t
                if table[j, t] > limits[t] or j == first + i:
                    continue
                square = square_distance(rows[first + i], rows[j])
                p = n_found[t]
                if p < k:
                    n_found[t] += 1
                elif square < squares[i, k - 1]:
                    p = k - 1
                else:
                    continue
                while p > 0 and squares[i, p - 1] > square:
                    squares[i, p], numbers[i, p] = squares[i, p - 1], numbers[i, p - 1]
                    p -= 1
                squares[i, p], numbers[i, p] = square, j


@kernel
def log_nearness(X, P, k, least, out):
    """Set out[i] to minus the logarithm of the mean distance of x_i to the k nearest points.

    X (n, d) and P (d, m) are float32, m > k, and out (n,) is float64. The mean is the root mean
    square, with an error of 0.2 % at most, because squares are rounded to 8 significant bits. If
    x_i equals a point, this point is skipped once, since it may be x_i itself. `least` is a
    positive float32, the minimum of the mean squares. Rows with NaN distances get NaN.
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
    counts = np.empty((PARTIAL_SUMS, ROWS_AT_ONCE), np.int32)
    sums = np.empty((PARTIAL_SUMS, ROWS_AT_ONCE), np.float32)
    for first in range(0, n, ROWS_AT_ONCE):
        n_rows = min(ROWS_AT_ONCE, n - first)
        for r in range(ROWS_AT_ONCE):
            for f in range(d):
                rows[f, r] = X[min(first + r, n - 1), f]
        column_squares(rows, points, squares, lowest, highest)
        for t in range(n_rows):
            wanted[t] = np.int32(k + np.int32(lowest[t] == 0))
        _set_farthest(squares, lowest, highest, wanted, n_rows, counts[0], farthest)
        for a in range(PARTIAL_SUMS):
            sum_below(squares, farthest, a, m, PARTIAL_SUMS, sums[a], counts[a])
        for r in range(n_rows):
            others, nearer = wanted[r], np.float32(0.0)  # others: neighbours as far as the k-th
            for a in range(PARTIAL_SUMS):
                others -= counts[a, r]
                nearer += sums[a, r]
            far = np.float32(others) * np.int32(farthest[r] << np.int32(16)).view(np.float32)
            mean = np.float64(max((nearer + far) / np.float32(k), least))
            out[first + r] = -0.5 * np.log(mean)
