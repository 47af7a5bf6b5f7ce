"""Stochastic gradient descent for a kernel model whose number of vectors is limited by a budget.

Algorithms 1 and 2 of "Scalable Support Vector Clustering Using Budget" (Pham, Le, Dang). If a step
exceeds the budget, maintenance removes one vector, by one of four strategies.

A hit is a step whose row violates the margin, w.phi(x) < 1. With the step size 1/t, all earlier
hits have the equal weight C/t at step t. So the model is stored as w_{t+1} = (C/t) sum_j n_j
phi(s_j), with the numbers of hits n_j and a common scale. No step rescales the counts, and equal
weights are exactly equal. With removal, counts are whole numbers. Projection and merging make them
real, but never negative. They are float64, with a float32 copy for long sums.

The vector with the smallest count is removed (section 3.3), in a tie the oldest vector. The vector
just added is never removed, because otherwise the model would stop changing with removal.
"""

import numpy as np

from distsvc.kernels.jit import inlined, kernel, unchecked
from distsvc.kernels.lanes import dot, square_distance
from distsvc.kernels.rbf import LOG2_E, exp2, kernel_row, lowest, lowest_places, squared_distances

REMOVAL, PROJECT_NEAREST, PROJECT_RANDOM, MERGE = 0, 1, 2, 3
"""Codes of the maintenance strategies."""

N_VECTORS, STEP, HITS, MAINTAINED, STOPPED_FLAG, RANDOM = 0, 1, 2, 3, 4, 5
"""Indices in the array `state` of `descend`. The first four entries count vectors, steps, hits, and
calls of maintenance. Then come a flag, 1 if `theta` has stopped the descent, and the state of the
random number generator of PROJECT_RANDOM."""

ONE_BITS = np.int32(0x3F800000)
"""Bits of the float32 1 as an integer. Non-negative floats are compared by their bits, which have
the same order. A minimum of floats would not be vectorised, because of NaN."""


@inlined
def _set_count(counts, counts32, j, value):
    counts[j] = value
    counts32[j] = np.float32(value)


@inlined
def _smallest_count(counts32, born, n):
    """Return the first slot below n with the smallest count, in a tie the oldest vector's."""
    bits = counts32.view(np.int32)
    low = lowest(bits[:n])
    oldest = np.int64(9223372036854775807)
    for j in range(n):
        age = born[j] if bits[j] == low else np.int64(9223372036854775807)
        oldest = min(oldest, age)
    p = 0
    while born[p] != oldest:
        p += 1
    return p


@inlined
def _equal_vector(row, n):
    """Return the last slot whose vector equals the row x of this step, or n if there is none.

    `row` are the kernel values K(s_j, x) of the vectors. The value of an equal vector is 1.
    """
    bits = row.view(np.int32)
    top = np.int32(0)
    for j in range(n):
        top = max(top, bits[j])
    if top != ONE_BITS:
        return n
    same = n - 1
    while bits[same] != ONE_BITS:
        same -= 1
    return same


@inlined
def _random_others(n, p, m, state):
    """Return m different random slots below n, none of which is p."""
    chosen = np.empty(m, np.int64)
    for i in range(m):
        is_new = False
        while not is_new:
            z = state[RANDOM]  # xorshift (Marsaglia 2003)
            z ^= z << np.uint64(13)
            z ^= z >> np.uint64(7)
            z ^= z << np.uint64(17)
            state[RANDOM] = z
            j = np.int64(z % np.uint64(n))
            is_new = j != p
            for other in range(i):
                is_new = is_new and chosen[other] != j
        chosen[i] = j
    return chosen


@inlined
def _project(S, counts, counts32, p, row, chosen, scale):
    """Project vector p on the chosen vectors (m,), and add its weight to theirs.

    phi(p) is approximated by sum_i d_i phi(s_i) with d >= 0, by coordinate descent on m variables.
    `row` are the kernel values of all vectors at p. Departure from section 3.3.2: the projection is
    onto the cone of the chosen vectors, not their span. The loss never exceeds the loss of a
    removal. With negative weights, the ascent to equilibria would not be monotone.
    """
    m = chosen.shape[0]
    gram = np.empty((m, m), np.float32)
    share = np.zeros(m, np.float32)
    d = S.shape[0]
    for i in range(m):
        gram[i, i] = np.float32(1.0)
        for j in range(i):
            total = np.float32(0.0)
            for k in range(d):
                e = S[k, chosen[i]] - S[k, chosen[j]]
                total += e * e
            gram[i, j] = gram[j, i] = exp2(scale * total)
    for _sweep in range(100):
        change = np.float32(0.0)
        for i in range(m):
            rest = row[chosen[i]]
            for j in range(m):
                if j != i:
                    rest -= gram[i, j] * share[j]
            value = max(rest, np.float32(0.0))
            change = max(change, abs(value - share[i]))
            share[i] = value
        if change < np.float32(1e-6):
            break
    for i in range(m):
        j = chosen[i]
        _set_count(counts, counts32, j, counts[j] + counts[p] * share[i])


@unchecked
def _losses(counts32, n, n_p, row, loss, scale):
    """Set loss[j] to the loss if a vector of weight n_p merges with vector j; see `_merge`.

    row[j] is the squared distance between these two vectors.
    """
    one = np.float32(1.0)
    for j in range(n):
        n_j = counts32[j]
        h = n_p / (n_p + n_j)
        log_k = scale * row[j]
        between = n_p * exp2(log_k * (one - h) * (one - h)) + n_j * exp2(log_k * h * h)
        best = max(between, n_j + n_p * exp2(log_k))
        loss[j] = n_p * n_p + n_j * n_j + np.float32(2.0) * n_p * n_j * exp2(log_k) - best * best


@inlined
def _cheapest(loss, n, p):
    """Return the slot below n with the smallest loss, except p; the first if tied.

    The losses are overwritten with integers that have the order of the floats.
    """
    loss[p] = np.float32(np.inf)
    bits = loss.view(np.int32)
    for j in range(n):
        bits[j] = bits[j] if bits[j] >= 0 else -(bits[j] & np.int32(0x7FFFFFFF))
    low, q = lowest(bits[:n]), 0
    while bits[q] != low:
        q += 1
    return q


@inlined
def _merge(S, counts, counts32, n, p, row, loss, scale):
    """Merge vector p with the vector j that causes the smallest loss.

    The result z = h s_p + (1 - h) s_j has the weight n_p k^((1-h)^2) + n_j k^(h^2) with
    k = K(s_p, s_j), as in "Breaking the Curse of Kernelization" (Wang, Crammer, Vucetic). The
    search for j tries only h = n_p / (n_p + n_j) and h = 0, so that it is vectorised. The h of the
    best pair is then improved by a fixed-point iteration, along which the weight of z never falls.
    """
    n_p = counts32[p]
    squared_distances(S, n, np.ascontiguousarray(S[:, p]), row)
    _losses(counts32, n, n_p, row, loss, scale)
    q = _cheapest(loss, n, p)
    log_k = np.float64(scale) * row[q]
    h = counts[p] / (counts[p] + counts[q])
    if (
        counts[p] * 2.0 ** (log_k * (1 - h) ** 2) + counts[q] * 2.0 ** (log_k * h * h)
        < counts[q] + counts[p] * 2.0**log_k
    ):
        h = 0.0
    for _step in range(5):
        from_p = counts[p] * 2.0 ** (log_k * (1 - h) ** 2)
        from_q = counts[q] * 2.0 ** (log_k * h * h)
        h = from_p / (from_p + from_q)
    weight = counts[p] * 2.0 ** (log_k * (1 - h) ** 2) + counts[q] * 2.0 ** (log_k * h * h)
    for k in range(S.shape[0]):
        S[k, q] += np.float32(h) * (S[k, p] - S[k, q])
    _set_count(counts, counts32, q, weight)


@inlined
def squared_norm(S, counts32, n, scale, row, x):
    """Return ||sum_j n_j phi(s_j)||^2 for the first n vectors; `row` and `x` are work arrays."""
    total = 0.0
    for i in range(n):
        for k in range(S.shape[0]):
            x[k] = S[k, i]
        kernel_row(S, n, scale, x, row)
        total += np.float64(counts32[i]) * dot(counts32[:n], row[:n])
    return total


@inlined
def _maintain(S, counts, counts32, born, moments, state, row, loss, k, scale, strategy):
    """Reduce the model from n vectors to n - 1; the vector just added is in the last slot."""
    n = np.int64(state[N_VECTORS])
    p = _smallest_count(counts32, born, n - 1)
    if strategy == MERGE:
        _merge(S, counts, counts32, n, p, row, loss, scale)
    elif strategy != REMOVAL:
        kernel_row(S, n, scale, np.ascontiguousarray(S[:, p]), row)
        if strategy == PROJECT_NEAREST:
            for j in range(n):
                loss[j] = -row[j]
            loss[p] = np.float32(np.inf)
            chosen = lowest_places(loss[:n], min(k, n - 1))
        else:
            chosen = _random_others(n, p, min(k, n - 1), state)
        _project(S, counts, counts32, p, row, chosen, scale)
    for f in range(S.shape[0]):  # the vector just added takes the free slot
        S[f, p] = S[f, n - 1]
    counts[p], counts32[p] = counts[n - 1], counts32[n - 1]
    born[p], moments[p] = born[n - 1], moments[n - 1]
    state[N_VECTORS] = np.uint64(n - 1)
    state[MAINTAINED] += np.uint64(1)


@kernel
def descend(
    X, S, counts, counts32, born, moments, state, sums, gamma, C, budget, strategy, k, theta
):
    """Do one step of gradient descent for each row of X (n, d) float32; return the rows used.

    `strategy` is the code of a budget maintenance, such as `MERGE`. A projection uses k vectors.
    All arrays except X are changed in place:

    * S (d, capacity) float32: vectors; the capacity is at least min(budget, vectors + n) + 1
    * counts (capacity,) float64: numbers of hits, and their copy counts32 float32
    * born (capacity,) int64: the step of a vector's first hit
    * moments (capacity,) float64: sum of the harmonic numbers H_{s-1} over a vector's hits at steps
      s, from which the average of all w_t is computed
    * state (6,) uint64, see `N_VECTORS`
    * sums (2,) float64: H_t and, if theta > 0, ||sum_j n_j phi(s_j)||^2

    If theta > 0, the descent stops after a step with ||w_{t+1} - w_t|| <= theta, as in the
    papers. Here w_{t+1} is the model after the gradient step, before maintenance changes it.
    """
    scale = -np.float32(gamma) * LOG2_E
    capacity = S.shape[1]
    row = np.empty(capacity, np.float32)
    loss = np.empty(capacity, np.float32)
    x_buffer = np.empty(S.shape[0], np.float32)
    for i in range(X.shape[0]):
        x = X[i]
        n = np.int64(state[N_VECTORS])
        t = np.float64(state[STEP]) + 1.0
        kernel_row(S, n, scale, x, row)
        total = dot(counts32[:n], row[:n])
        hit = np.float64(total) * C < t - 1.0 or n == 0
        if theta > 0.0:  # the squared norm of the step, times t^2
            norm = C / max(t - 1.0, 1.0)
            step = norm * norm * sums[1] + (C * C - 2.0 * C * norm * total if hit else 0.0)
            sums[1] += 2.0 * total + 1.0 if hit else 0.0
        if hit:
            same = _equal_vector(row, n)
            if same == n:
                for f in range(S.shape[0]):
                    S[f, n] = x[f]
                _set_count(counts, counts32, n, 1.0)
                born[n] = np.int64(state[STEP])
                moments[n] = sums[0]
                state[N_VECTORS] += np.uint64(1)
            else:
                _set_count(counts, counts32, same, counts[same] + 1.0)
                moments[same] += sums[0]
            state[HITS] += np.uint64(1)
        state[STEP] += np.uint64(1)
        sums[0] += 1.0 / t
        if np.int64(state[N_VECTORS]) > budget:
            _maintain(S, counts, counts32, born, moments, state, row, loss, k, scale, strategy)
            if theta > 0.0:
                n = np.int64(state[N_VECTORS])
                sums[1] = squared_norm(S, counts32, n, scale, row, x_buffer)
        if theta > 0.0 and step <= (theta * t) ** 2:
            state[STOPPED_FLAG] = np.uint64(1)
            return i + 1
    return X.shape[0]


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
    """Maximise sum a - a'Ka/2 over 0 <= a <= bound, one a_i at a time; return the sweeps used.

    K (n, n) float64 has a unit diagonal. a (n,) float64 is the start, and is overwritten with the
    result. The ascent ends when no variable violates its optimality condition by more than
    `tolerance`. Between full sweeps, only variables that moved in their last visit are visited.
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
