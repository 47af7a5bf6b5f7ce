"""Coordinate descent for the duals of linear one-class problems (Chou, Lin and Lin 2020).

The problem is min 1/2 scale a'XX'a + p'a over 0 <= a <= 1 with a constant sum of a. In the
code, a is `alpha` (n,) float64. p (n,) is float64.

The vector u = X'a, (d,) float64, is stored. A component of the gradient, G_i = scale u.x_i + p_i,
then costs one dot product (eq. (2.3)). A step moves a pair of rows: a_i grows and a_j falls by the
same amount. The pair violates optimality by G_j - G_i if a_i < 1 and a_j > 0. The curvature of the
objective along the step is scale |x_i - x_j|^2.

Rows (n, d) are in the arrays of CSR form: data float64, indices uint32 and indptr uint64. Unsigned
numbers need no test for negative indices, which would take half of the time of a product. If
`indices` is empty, rows are dense, and data has n d values.

`tally` (3,) float64 accumulates the change of the objective, the moved pairs, and the cost. As in
the paper, the unit of cost is one pass over a row: 1 for a component of the gradient, 1 for the
curvature, and 2 for the update of u.
"""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot, square_distance

BOUND_TOLERANCE = 1e-12
"""Distance from the bounds 0 and 1 below which alpha is set to the bound."""

SMALLEST = np.finfo(np.float64).tiny
"""Minimum curvature by which a step is divided; the curvature between equal rows is 0."""

CHANGE, MOVED, COST = 0, 1, 2
"""Indices in `tally`: change of the objective, number of moved pairs, and cost."""


@inlined
def _at_bound(a):
    """Return a, or the bound 0 or 1 if a differs from it only by rounding."""
    return 0.0 if a < BOUND_TOLERANCE else 1.0 if a > 1.0 - BOUND_TOLERANCE else a


@inlined
def _move(alpha, up, down, violation, curvature, tally):
    """Raise alpha[up] and lower alpha[down] by one step; return the step.

    The step minimises the objective within the bounds 0 and 1. An alpha at a bound is exactly 0 or
    1, since a comparison decides whether the row can move again.
    """
    room, stock = 1.0 - alpha[up], alpha[down]
    both = alpha[up] + alpha[down]
    step = violation / max(curvature, SMALLEST)
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
    """Return True if no alpha of the rows `members` can increase, or none can decrease."""
    can_grow, can_fall = 0, 0
    for i in members:
        can_grow += alpha[i] < 1.0
        can_fall += alpha[i] > 0.0
    return can_grow == 0 or can_fall == 0


@inlined
def _most_violating(members, G, alpha):
    """Return the most violating pair of the rows `members`.

    The first is the row with the lowest gradient G among the rows whose alpha can increase. The
    second is the row with the highest G among the rows whose alpha can decrease. The first is -1 if
    no alpha can increase, and the second is -1 if no alpha can decrease.
    """
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
def gradient(data, indices, indptr, u, p, scale, rows, G):
    """Write G_i = scale u.x_i + p_i for the `rows` (m,) int64 into G (n,) float64."""
    d = u.shape[0]
    for m in range(rows.shape[0]):
        i = rows[m]
        if indices.size == 0:
            G[i] = scale * dot(data[i * d : (i + 1) * d], u) + p[i]
        else:
            G[i] = scale * _sparse_dot(data, indices, indptr, i, u) + p[i]


@kernel
def products(X, weights, out):
    """Write w.x_i of every row of X (n, d) float64 and `weights` w (d,) into out (n,)."""
    for i in range(X.shape[0]):
        out[i] = dot(X[i], weights)


@kernel
def closeness(X, centre, out):
    """Write -|x_i - centre|^2 of every row of X (n, d) float64 into out (n,)."""
    for i in range(X.shape[0]):
        out[i] = -square_distance(X[i], centre)


@kernel
def weighted_sum(data, indices, indptr, weights, u):
    """Add sum_i weights_i x_i to u (d,)."""
    for i in range(weights.shape[0]):
        w = weights[i]
        if w != 0.0 and indices.size == 0:
            x = data[indptr[i] : indptr[i + 1]]
            for k in range(x.shape[0]):
                u[k] += w * x[k]
        elif w != 0.0:
            _sparse_add(data, indices, indptr, i, u, w)


@kernel
def squares(data, indptr, out):
    """Write |x_i|^2 of every row into out (n,)."""
    for i in range(out.shape[0]):
        row = data[indptr[i] : indptr[i + 1]]
        out[i] = dot(row, row)


@kernel
def descend(
    data, indices, indptr, squares, u, p, scale, order, size, inner, alpha, G, spread, tally
):
    """Move the most violating pair of each group of rows, at most `inner` times.

    A group is `size` consecutive rows of `order` (m,) int64. With groups of 2, the kernel performs
    Algorithm 2 of the paper, or the inner steps of Algorithm 5. With larger groups, it performs
    Algorithm 4 with r = `inner`. u and alpha are changed in place. The computed components of the
    gradient are written to G (n,) float64.

    Only sparse rows need `squares` (n,), their squared lengths, and `spread` (d,), which is zero
    before and after the call. The product of two rows is computed by writing one into `spread`,
    which is faster than merging sorted indices.
    """
    dense, d = indices.size == 0, u.shape[0]
    for begin in range(0, order.shape[0], size):
        members = order[begin : begin + size]
        for _step in range(inner):
            if _is_stuck(members, alpha):
                break
            for i in members:
                if dense:
                    G[i] = scale * dot(data[i * d : (i + 1) * d], u) + p[i]
                else:
                    G[i] = scale * _sparse_dot(data, indices, indptr, i, u) + p[i]
            tally[COST] += members.shape[0]
            up, down = _most_violating(members, G, alpha)
            violation = G[down] - G[up]
            if up == down or not violation > 0.0:
                break
            if dense:
                x, z = data[up * d : (up + 1) * d], data[down * d : (down + 1) * d]
                step = _move(alpha, up, down, violation, scale * square_distance(x, z), tally)
                for k in range(x.shape[0]):
                    u[k] += step * (x[k] - z[k])
            else:
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
    """Return the lowest gradient G where alpha < 1, and the highest G where alpha > 0.

    Only the `rows` (m,) int64 are compared. The lowest G is infinity if no alpha is below 1, and
    the highest G is -infinity if no alpha is above 0.
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
def _lowest(keys, rows, count):
    """Return the `count` rows with the lowest keys, ordered by key, then by row.

    `keys` and `rows` are overwritten.
    """
    n = keys.shape[0]
    if count < n:  # keep keys below the bound, and the first of the keys equal to it
        bound = np.partition(keys, count - 1)[count - 1]
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

    The s-th pair has the s-th lowest G of the rows whose alpha can increase, and the s-th highest G
    of the rows whose alpha can decrease (eq. (3.18)). At most `limit` violating pairs are returned.
    `least` and `most` are from `extremes`. numbers (2, m) int64 and keys (2, m) float64 are scratch
    memory, and may have more than m columns.
    """
    ups, downs = numbers
    up_keys, down_keys = keys
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
    up = _lowest(up_keys[:n_up], ups[:n_up], limit)
    down = _lowest(down_keys[:n_down], downs[:n_down], limit)
    found = 0
    while found < limit and G[up[found]] < G[down[found]]:
        pairs[2 * found], pairs[2 * found + 1] = up[found], down[found]
        found += 1
    return pairs[: 2 * found]


@kernel
def shrink(G, alpha, rows, least, most):
    """Return the part of `rows` (m,) int64 that a step may still move.

    A row is left out if alpha = 1 and G < least, or if alpha = 0 and G > most. No pair that
    contains this row violates optimality. `least` and `most` are from `extremes`.
    """
    kept = np.empty(rows.shape[0], np.int64)
    n = 0
    for i in rows:
        g, a = G[i], alpha[i]
        kept[n] = i
        n += not ((a == 1.0) & (g < least)) | ((a == 0.0) & (g > most))
    return kept[:n]
