"""Dual coordinate descent for min 1/2 scale a'Qa + p'a, 0 <= a <= 1, sum a constant, Q = XX'.

The vector u = X'a is kept, so a component of the gradient, G_i = scale u.x_i + p_i, costs one dot
product (Chou, Lin and Lin 2020, eq. (2.3)). A pair moves along a_i + t, a_j - t, which keeps the
sum: it violates optimality by G_j - G_i where a_i < 1 and a_j > 0, and has the curvature
scale |x_i - x_j|^2. Rows are dense, or CSR, where one row of a pair is spread out over a zeroed
vector instead of merging sorted indices. Indices are uint32, and where rows begin is uint64, so
that none is checked for being negative: the checks took half of the time of a product.

`tally`, float64, counts what a call did: change of the objective, pairs moved, and the cost in
operations of the length of a row, as the paper counts: 1 for a component of the gradient, 1 for
Q_ij and 2 for the update of u.
"""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot, square_distance

SMALLEST_CURVATURE = 1e-12
BOUND_TOLERANCE = 1e-12
"""How far from a bound alpha may be and is at it but for the rounding of its moves."""

CHANGE, MOVED, COST = 0, 1, 2


@inlined
def _at_bound(a):
    """Return a, or the bound that it is at but for rounding."""
    return 0.0 if a < BOUND_TOLERANCE else 1.0 if a > 1.0 - BOUND_TOLERANCE else a


@inlined
def _move(alpha, up, down, violation, curvature, tally):
    """Move mass from one row to another, to the minimum within the bounds; return how much.

    Bounds are written exactly, since equality with them decides what a row may do next.
    """
    room, stock = 1.0 - alpha[up], alpha[down]
    both = alpha[up] + alpha[down]
    step = violation / max(curvature, SMALLEST_CURVATURE)
    if step >= stock and stock <= room:
        step = stock
        alpha[up], alpha[down] = _at_bound(both), 0.0
    elif step >= room:
        step = room
        alpha[up], alpha[down] = 1.0, _at_bound(both - 1.0)
    else:
        alpha[up], alpha[down] = _at_bound(alpha[up] + step), _at_bound(alpha[down] - step)
    tally[CHANGE] += (0.5 * curvature * step - violation) * step
    tally[MOVED] += 1.0
    tally[COST] += 3.0
    return step


@inlined
def _stuck(members, alpha):
    """Return whether none of a group can grow, or none can fall."""
    can_grow, can_fall = 0, 0
    for i in members:
        can_grow += alpha[i] < 1.0
        can_fall += alpha[i] > 0.0
    return can_grow == 0 or can_fall == 0


@inlined
def _most_violating(members, G, alpha):
    """Return the member with the least G that can grow and that with the largest that can fall."""
    up, down = -1, -1
    for i in members:
        if alpha[i] < 1.0 and (up < 0 or G[i] < G[up]):
            up = i
        if alpha[i] > 0.0 and (down < 0 or G[i] > G[down]):
            down = i
    return up, down


@inlined
def _sparse_dot(data, indices, indptr, i, u):
    product = 0.0
    for k in range(indptr[i], indptr[i + 1]):
        product += data[k] * u[indices[k]]
    return product


@inlined
def _sparse_add(data, indices, indptr, i, u, step):
    for k in range(indptr[i], indptr[i + 1]):
        u[indices[k]] += step * data[k]


@kernel
def gradient_dense(X, u, p, scale, rows, G):
    """Write G_i = scale u.x_i + p_i for the `rows` (m,) int64 of X (n, d) into G (n,) float64."""
    for m in range(rows.shape[0]):
        i = rows[m]
        G[i] = scale * dot(X[i], u) + p[i]


@kernel
def gradient_sparse(data, indices, indptr, u, p, scale, rows, G):
    """Do what `gradient_dense` does for rows in CSR form."""
    for m in range(rows.shape[0]):
        i = rows[m]
        G[i] = scale * _sparse_dot(data, indices, indptr, i, u) + p[i]


@kernel
def products(X, u, out):
    """Write u.x_i of every row of X (n, d) float64 into out (n,)."""
    for i in range(X.shape[0]):
        out[i] = dot(X[i], u)


@kernel
def closeness(X, centre, out):
    """Write -|x_i - centre|^2 of every row of X (n, d) float64 into out (n,)."""
    for i in range(X.shape[0]):
        out[i] = -square_distance(X[i], centre)


@kernel
def weighted_sum_dense(X, weights, u):
    """Add sum_i weights_i x_i to u (d,); X (n, d)."""
    for i in range(X.shape[0]):
        x = X[i]
        w = weights[i]
        if w != 0.0:
            for k in range(u.shape[0]):
                u[k] += w * x[k]


@kernel
def weighted_sum_sparse(data, indices, indptr, weights, u):
    """Do what `weighted_sum_dense` does for rows in CSR form."""
    for i in range(weights.shape[0]):
        if weights[i] != 0.0:
            _sparse_add(data, indices, indptr, i, u, weights[i])


@kernel
def squares_dense(X, squares):
    """Write |x_i|^2 into squares (n,); X (n, d)."""
    for i in range(X.shape[0]):
        squares[i] = dot(X[i], X[i])


@kernel
def squares_sparse(data, indptr, squares):
    """Do what `squares_dense` does for rows in CSR form."""
    for i in range(squares.shape[0]):
        row = data[indptr[i] : indptr[i + 1]]
        squares[i] = dot(row, row)


@kernel
def descend_dense(X, u, p, scale, order, size, inner, least, alpha, G, tally):
    """Minimise over most violating pairs of one group of rows after another, `inner` in each.

    Groups of `size` are consecutive in `order` (m,) int64; those of 2 are Algorithm 2, or the inner
    steps of Algorithm 5, larger ones Algorithm 4 with r = `inner`. A group that has no room, or
    whose violation with the present u is not above `least`, is passed over. X (n, d); u (d,) and
    alpha (n,) are changed, G (n,) gets the gradients seen.
    """
    for begin in range(0, order.shape[0], size):
        members = order[begin : begin + size]
        for _step in range(inner):
            if _stuck(members, alpha):
                break
            for i in members:
                G[i] = scale * dot(X[i], u) + p[i]
            tally[COST] += members.shape[0]
            up, down = _most_violating(members, G, alpha)
            violation = G[down] - G[up]
            if up == down or not violation > least:
                break
            x, z = X[up], X[down]
            step = _move(alpha, up, down, violation, scale * square_distance(x, z), tally)
            for k in range(u.shape[0]):
                u[k] += step * (x[k] - z[k])


@kernel
def descend_sparse(
    data, indices, indptr, squares, u, p, scale, order, size, inner, least, alpha, G, spread, tally
):
    """Do what `descend_dense` does for rows in CSR form.

    squares (n,) are |x_i|^2; `spread` (d,) is zero before and after.
    """
    for begin in range(0, order.shape[0], size):
        members = order[begin : begin + size]
        for _step in range(inner):
            if _stuck(members, alpha):
                break
            for i in members:
                G[i] = scale * _sparse_dot(data, indices, indptr, i, u) + p[i]
            tally[COST] += members.shape[0]
            up, down = _most_violating(members, G, alpha)
            violation = G[down] - G[up]
            if up == down or not violation > least:
                break
            _sparse_add(data, indices, indptr, up, spread, 1.0)
            both = _sparse_dot(data, indices, indptr, down, spread)
            for k in range(indptr[up], indptr[up + 1]):
                spread[indices[k]] = 0.0
            curvature = scale * (squares[up] + squares[down] - 2.0 * both)
            step = _move(alpha, up, down, violation, curvature, tally)
            _sparse_add(data, indices, indptr, up, u, step)
            _sparse_add(data, indices, indptr, down, u, -step)


@kernel
def extremes(G, alpha, rows):
    """Return the least G of `rows` (m,) that can grow, the largest of those that can fall.

    They are +infinity and -infinity where there are none.
    """
    least, most = np.inf, -np.inf
    for i in rows:
        g, a = G[i], alpha[i]
        if a < 1.0 and g < least:
            least = g
        if a > 0.0 and g > most:
            most = g
    return least, most


@inlined
def _in_order(keys, place, scratch):
    """Return the key that comes at a place, from 0, in ascending order; scratch has their number.

    Quickselect (Hoare 1961) with the median of three. A key is moved in any case, because a branch
    would be guessed wrong half of the time.
    """
    low, high = 0, keys.shape[0] - 1
    scratch[: high + 1] = keys
    while low < high:
        x, y, z = scratch[low], scratch[(low + high) // 2], scratch[high]
        pivot = max(min(x, y), min(max(x, y), z))
        below = low
        for s in range(low, high + 1):
            key = scratch[s]
            scratch[s], scratch[below] = scratch[below], key
            below += key < pivot
        if place < below:
            high = below - 1
            continue
        low = below
        for s in range(below, high + 1):
            key = scratch[s]
            scratch[s], scratch[low] = scratch[low], key
            low += key <= pivot
        if place < low:
            return pivot
    return scratch[place]


@inlined
def _lowest(keys, rows, count, scratch):
    """Return the `count` rows with the lowest keys in their order; equal keys in that of rows."""
    n = keys.shape[0]
    if count < n:
        bound = _in_order(keys, count - 1, scratch)
        ties = count
        for s in range(n):
            ties -= keys[s] < bound
        kept = 0
        for s in range(n):
            key = keys[s]
            keys[kept], rows[kept] = key, rows[s]
            same = key == bound
            kept += (key < bound) | (same & (ties > 0))
            ties -= same
        keys, rows = keys[:count], rows[:count]
    return rows[np.argsort(keys, kind="mergesort")]


@kernel
def violating_pairs(G, alpha, rows, least, most, limit, numbers, keys):
    """Return the most violating pairs of ascending `rows` (m,) int64, as (up_1, down_1, up_2, ...).

    `least` and `most` are from `extremes`. The s-th pair has the s-th least G of those that can
    grow and the s-th largest of those that can fall (eq. (3.18)), as long as it violates; there are
    at most `limit`. numbers (2, m or more) int64 and keys (3, m or more) float64 are written over.
    """
    ups, downs = numbers
    up_keys, down_keys, scratch = keys
    n_up, n_down = 0, 0
    for i in rows:  # written in any case: a branch would be guessed wrong half of the time
        g, a = G[i], alpha[i]
        ups[n_up], up_keys[n_up] = i, g
        n_up += (a < 1.0) & (g < most)
        downs[n_down], down_keys[n_down] = i, -g
        n_down += (a > 0.0) & (g > least)
    limit = min(limit, n_up, n_down)
    pairs = np.empty(2 * limit, np.int64)
    if limit == 0:
        return pairs
    up = _lowest(up_keys[:n_up], ups[:n_up], limit, scratch)
    down = _lowest(down_keys[:n_down], downs[:n_down], limit, scratch)
    found = 0
    while found < limit and G[up[found]] < G[down[found]]:
        pairs[2 * found], pairs[2 * found + 1] = up[found], down[found]
        found += 1
    return pairs[: 2 * found]


@kernel
def dealt(pairs):
    """Return pairs (2 m,) int64 of rows, those of the first and of the second half in turns.

    Neighbours in the order of violation part; dealt once more, other pairs come together.
    """
    order = pairs.copy()
    half = pairs.shape[0] // 4
    for s in range(half):
        order[4 * s : 4 * s + 2] = pairs[2 * s : 2 * s + 2]
        order[4 * s + 2 : 4 * s + 4] = pairs[2 * (half + s) : 2 * (half + s) + 2]
    return order


@kernel
def shrink(G, alpha, rows, least, most):
    """Return the `rows` (m,) int64 that are not at a bound which their G holds them to.

    `least` and `most` are from `extremes`.
    """
    kept = np.empty(rows.shape[0], np.int64)
    n = 0
    for i in rows:
        g, a = G[i], alpha[i]
        kept[n] = i
        n += not ((a == 1.0) & (g < least)) | ((a == 0.0) & (g > most))
    return kept[:n]
