"""Duals of one-class problems, solved by coordinate descent.

Linear: min 1/2 scale a'Qa + p'a, 0 <= a <= 1, sum a constant, Q = XX'.

The vector u = X'a is stored, so a component of the gradient, G_i = scale u.x_i + p_i, costs one dot
product (Chou, Lin and Lin 2020, eq. (2.3)). A pair moves along a_i + t, a_j - t, which keeps the
sum. It violates optimality by G_j - G_i if a_i < 1 and a_j > 0, and has the curvature
scale |x_i - x_j|^2. Rows are dense or CSR. With CSR, one row of a pair is spread out over a zeroed
vector, which is faster than merging sorted indices. Indices are uint32 and offsets of rows uint64,
because signed indices are checked for being negative, which took half of the time of a product.

`tally` (3,) float64 accumulates the change of the objective, the pairs moved, and the cost. As in
the paper, the unit of cost is one pass over a row: 1 for a component of the gradient, 1 for Q_ij
and 2 for the update of u.
"""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot, square_distance

BOUND_TOLERANCE = 1e-12
"""Distance from a bound that rounding can cause; closer values of alpha are set to the bound."""

CHANGE, MOVED, COST = 0, 1, 2
"""Places in `tally`."""


@inlined
def _at_bound(a):
    """Return a, or the bound 0 or 1 if the two differ only by rounding."""
    return 0.0 if a < BOUND_TOLERANCE else 1.0 if a > 1.0 - BOUND_TOLERANCE else a


@inlined
def _move(alpha, up, down, violation, curvature, tally):
    """Move mass from one row to another, to the minimum within the bounds; return the mass.

    Bounds are written exactly, since comparisons with them decide whether a row can move again.
    """
    room, stock = 1.0 - alpha[up], alpha[down]
    both = alpha[up] + alpha[down]
    step = violation / max(curvature, 1e-12)
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
def _is_stuck(members, alpha):
    """Return True if no alpha of a group can increase, or none can decrease."""
    can_grow, can_fall = 0, 0
    for i in members:
        can_grow += alpha[i] < 1.0
        can_fall += alpha[i] > 0.0
    return can_grow == 0 or can_fall == 0


@inlined
def _most_violating(members, G, alpha):
    """Return the member with the least G that can increase, and that with the most to decrease."""
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
    """As `gradient_dense`, for rows in CSR form."""
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
    """As `weighted_sum_dense`, for rows in CSR form."""
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
    """As `squares_dense`, for rows in CSR form."""
    for i in range(squares.shape[0]):
        row = data[indptr[i] : indptr[i + 1]]
        squares[i] = dot(row, row)


@kernel
def descend_dense(X, u, p, scale, order, size, inner, alpha, G, tally):
    """Go through groups of rows; move the most violating pair of a group up to `inner` times.

    A group is `size` consecutive rows of `order` (m,) int64. Groups of 2 are Algorithm 2, or the
    inner steps of Algorithm 5. Larger groups are Algorithm 4 with r = `inner`. A group without a
    violating pair is skipped. X (n, d). u (d,) and alpha (n,) are changed; G (n,) receives the
    gradients computed.
    """
    for begin in range(0, order.shape[0], size):
        members = order[begin : begin + size]
        for _step in range(inner):
            if _is_stuck(members, alpha):
                break
            for i in members:
                G[i] = scale * dot(X[i], u) + p[i]
            tally[COST] += members.shape[0]
            up, down = _most_violating(members, G, alpha)
            violation = G[down] - G[up]
            if up == down or not violation > 0.0:
                break
            x, z = X[up], X[down]
            step = _move(alpha, up, down, violation, scale * square_distance(x, z), tally)
            for k in range(u.shape[0]):
                u[k] += step * (x[k] - z[k])


@kernel
def descend_sparse(
    data, indices, indptr, squares, u, p, scale, order, size, inner, alpha, G, spread, tally
):
    """As `descend_dense`, for rows in CSR form.

    squares (n,) are |x_i|^2. `spread` (d,) is a scratch array of zeros; it is zeroed again on
    return.
    """
    for begin in range(0, order.shape[0], size):
        members = order[begin : begin + size]
        for _step in range(inner):
            if _is_stuck(members, alpha):
                break
            for i in members:
                G[i] = scale * _sparse_dot(data, indices, indptr, i, u) + p[i]
            tally[COST] += members.shape[0]
            up, down = _most_violating(members, G, alpha)
            violation = G[down] - G[up]
            if up == down or not violation > 0.0:
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
    """Return the least G where alpha can increase, and the largest where it can decrease.

    Only `rows` (m,) count. Without such rows the results are infinity and -infinity.
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
    """Return the key at a place, from 0, in ascending order; `scratch` is as long as `keys`.

    Quickselect (Hoare 1961) with the median of three. Every key is moved, because a branch would be
    mispredicted half of the time.
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
    """Return the `count` rows with the lowest keys, ordered by key, then by row."""
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

    `least` and `most` are from `extremes`. The s-th pair has the s-th least G of the rows that can
    increase and the s-th largest of those that can decrease (eq. (3.18)). At most `limit` violating
    pairs are returned. `numbers` (2, m) int64 and `keys` (3, m) float64, or longer, are scratch.
    """
    ups, downs = numbers
    up_keys, down_keys, scratch = keys
    n_up, n_down = 0, 0
    for i in rows:  # always written: a branch would be mispredicted half of the time
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
def interleave(pairs):
    """Return pairs (2 m,) int64 of rows, alternating between the first and the second half.

    Pairs come sorted by violation. Mixing the halves puts different pairs into one group in each
    sweep.
    """
    order = pairs.copy()
    half = pairs.shape[0] // 4
    for s in range(half):
        order[4 * s : 4 * s + 2] = pairs[2 * s : 2 * s + 2]
        order[4 * s + 2 : 4 * s + 4] = pairs[2 * (half + s) : 2 * (half + s) + 2]
    return order


@kernel
def shrink(G, alpha, rows, least, most):
    """Return the `rows` (m,) int64 without those whose G keeps alpha at a bound.

    `least` and `most` are from `extremes`.
    """
    kept = np.empty(rows.shape[0], np.int64)
    n = 0
    for i in rows:
        g, a = G[i], alpha[i]
        kept[n] = i
        n += not ((a == 1.0) & (g < least)) | ((a == 0.0) & (g > most))
    return kept[:n]


@kernel
def gram_matrix(X, gamma):
    """Return K (n, n) float64, K_ij = exp(-gamma ||x_i - x_j||^2), of X (n, d) float64."""
    n = X.shape[0]
    K = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            K[i, j] = K[j, i] = np.exp(-gamma * square_distance(X[i], X[j]))
    return K


@kernel
def coordinate_ascent(K, a, bound, tolerance, max_sweeps):
    """Maximise sum a - a'Ka/2 over 0 <= a <= bound by coordinates; return the number of sweeps.

    K (n, n) float64 with a unit diagonal; a (n,) float64 is the start and is overwritten. Ends when
    no variable violates its optimality condition by more than `tolerance`. Between full sweeps only
    the variables that moved in the last one are visited.
    """
    n = K.shape[0]
    g = np.ones(n)
    for i in range(n):
        if a[i] != 0.0:
            for j in range(n):
                g[j] -= a[i] * K[i, j]
    active = np.ones(n, np.bool_)
    full = True
    for sweep in range(max_sweeps):
        worst = 0.0
        for i in range(n):
            if not (full or active[i]):
                continue
            value = min(max(a[i] + g[i], 0.0), bound)
            change = value - a[i]
            active[i] = abs(change) > tolerance
            if change != 0.0:
                worst = max(worst, abs(change))
                a[i] = value
                row = K[i]
                for j in range(n):
                    g[j] -= change * row[j]
        if worst <= tolerance:
            if full:
                return sweep + 1
            full = True
        else:
            full = sweep % 10 == 9
    return max_sweeps
