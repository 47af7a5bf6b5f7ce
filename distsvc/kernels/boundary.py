"""Equilibria of f(x) = sum_j a_j K(s_j, x) - 1, and the graph of segments inside a level set.

Points climb to equilibria (Pham, Le and Dang 2017, section 4), from rows or from the centres of
balls that cover the table (Jung, Lee and Lee 2010). Segments are sampled for their lowest f.

The complete graph (Ben-Hur et al. 2001) has an edge for every segment inside the level set. Its
components are found without testing all pairs. The vertices are in the leaves of a tree of boxes.
All pairs of two boxes are skipped if they are already joined, or if a bound on f shows that every
segment leaves the level set. The result is exact.
"""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot, total
from distsvc.kernels.level_tree import root_of
from distsvc.kernels.rbf import LOG2_E, exp2, kernel_row, lowest, squared_distances

STACK_SIZE = 1024
"""Stack size in pairs of boxes; each of at most 64 levels of the tree adds at most two pairs."""


@kernel
def climb(X, S, a, gamma, tolerance, max_iter):
    """Return the ends (n, d) float32 of mean-shift trajectories from the rows of X (n, d) float32.

    A step moves x to sum_j a_j K_j s_j / sum_j a_j K_j, K_j = K(s_j, x). S (d, B) and the positive
    weights a (B,) are float32. A trajectory ends when a step is at most `tolerance` / sqrt(2 gamma)
    long, or after `max_iter` steps. Mean shift is an EM algorithm: f never falls along a
    trajectory. Exponents are relative to the nearest vector's. So a point far from all vectors
    moves to the nearest vector, instead of to 0 / 0.
    """
    n, d = X.shape
    b = S.shape[1]
    scale = -np.float32(gamma) * LOG2_E
    smallest = np.float32(tolerance * tolerance / (2.0 * gamma))
    values, pulls = np.empty(b, np.float32), np.empty(b, np.float32)
    bits = values.view(np.int32)
    ends = X.copy()
    for i in range(n):
        x = ends[i]
        for _step in range(max_iter):
            squared_distances(S, b, x, values)
            # The bits of floats that are not negative have the order of the floats.
            shift = np.int32(lowest(bits)).view(np.float32)
            for j in range(b):
                values[j] = a[j] * exp2(scale * (values[j] - shift))
            mass = total(values)
            length = np.float32(0.0)
            for k in range(d):  # the step is a mean of differences, to lose fewer digits
                centre = x[k]
                for j in range(b):
                    pulls[j] = S[k, j] - centre
                part = dot(values, pulls) / mass
                x[k] += part
                length += part * part
            if length <= smallest:
                break
    return ends


@kernel
def ball_centres(X, radius):
    """Return the ascending indices (m,) int64 of the rows of X (n, d) float32 that are centres.

    A row is a centre unless an earlier centre is nearer than `radius` (float64).
    """
    n, d = X.shape
    enough = np.float32(radius * radius)
    S = np.empty((d, n), np.float32)
    distances = np.empty(n, np.float32)
    centres, m = np.empty(n, np.int64), 0
    for i in range(n):
        squared_distances(S, m, X[i], distances)
        if np.int32(lowest(distances[:m].view(np.int32))).view(np.float32) < enough:
            continue
        for k in range(d):
            S[k, m] = X[i, k]
        centres[m] = i
        m += 1
    return centres[:m]


@kernel
def merge_neighbours(P, arrived, radius):
    """Return the point (m,) int64 into which each of the points P (m, d) float32 merges.

    Points are visited in their order. Neighbours are points nearer than `radius` (float64).
    arrived (m,) bool is True for points that have stopped climbing. An arrived point absorbs its
    neighbours. Any other point merges into its nearest arrived neighbour, or absorbs its neighbours
    if none has arrived. Points that have merged are ignored.
    """
    m = P.shape[0]
    enough = np.float32(radius * radius)
    S = np.ascontiguousarray(P.T)
    distances = np.empty(m, np.float32)
    place = np.arange(m)
    for i in range(m):
        if place[i] != i:
            continue
        squared_distances(S, m, P[i], distances)
        nearest = -1
        if not arrived[i]:
            for j in range(m):
                if (
                    arrived[j]
                    and place[j] == j
                    and distances[j] < enough
                    and (nearest < 0 or distances[j] < distances[nearest])
                ):
                    nearest = j
        if nearest >= 0:
            place[i] = nearest
            continue
        for j in range(m):
            if j != i and place[j] == j and distances[j] < enough:
                place[j] = i
    for i in range(m):
        while place[place[i]] != place[i]:
            place[i] = place[place[i]]
    return place


@inlined
def sample_place(s, samples):
    """Return the position in (0, 1) of sample s on a segment; samples go from the middle outwards.

    The middle of a segment between two clusters is mostly outside both, so the search ends early.
    """
    place = (samples + 1) // 2 + (s + 1) // 2 * (1 if s % 2 == 1 else -1)
    return np.float32(place / (samples + 1))


@kernel
def lowest_on_segments(E, pairs, S, a, gamma, samples, enough):
    """Return the lowest sampled value of sum_j a_j K(s_j, .) on the segment of every pair.

    Segments join rows of E (M, d) float32; pairs (n, 2) int64 are row numbers. S (d, B), a (B,) and
    the result (n,) are float32. The `samples` points are equally spaced, without the end points.
    The search of a segment ends at the first value below `enough`, which is then returned.
    """
    d = E.shape[1]
    b = S.shape[1]
    scale = -np.float32(gamma) * LOG2_E
    values = np.empty(b, np.float32)
    x = np.empty(d, np.float32)
    out = np.empty(pairs.shape[0], np.float32)
    for i in range(pairs.shape[0]):
        start, end = E[pairs[i, 0]], E[pairs[i, 1]]
        lowest = np.float32(np.inf)
        for s in range(samples):
            share = sample_place(s, samples)
            for k in range(d):
                x[k] = start[k] + share * (end[k] - start[k])
            kernel_row(S, b, scale, x, values)
            total = dot(a, values)
            lowest = min(lowest, total)
            if lowest < enough:
                break
        out[i] = lowest
    return out


@inlined
def _distances(V, first, last, S, out):
    """Set out[i, j] = ||V[first + i] - S[:, j]||^2 in float64, for i < last - first."""
    d, b = S.shape
    for i in range(last - first):
        for j in range(b):
            out[i, j] = 0.0
        for k in range(d):
            at = np.float64(V[first + i, k])
            for j in range(b):
                gap = S[k, j] - at
                out[i, j] += gap * gap


@inlined
def _inside(from_p, from_q, apart, a, scale, samples, level, values):
    """Return True if sum_j a_j K(s_j, .) is at least `level` at all samples of a segment.

    from_p and from_q (B,) float64 are the squared distances of the ends from the vectors. `apart`
    is the squared distance between the ends. A point x = (1 - t) p + t q has
    ||x - s||^2 = (1 - t) ||p - s||^2 + t ||q - s||^2 - t (1 - t) ||p - q||^2,
    so the cost does not depend on the number of features.
    """
    b = a.shape[0]
    for s in range(samples):
        share = np.float64(sample_place(s, samples))
        rest, less = 1.0 - share, share * (1.0 - share) * apart
        for j in range(b):
            distance = rest * from_p[j] + share * from_q[j] - less
            values[j] = exp2(scale * np.float32(distance))
        if dot(a, values) < level:
            return False
    return True


@inlined
def _join(p, q, from_p, from_q, V, a, scale, samples, level, parent, size, forest, n_edges, values):
    """Add the edge p-q to the forest if it joins two components and is inside the level set.

    The edge is the segment between the vertices p and q. Returns the new number of edges of the
    forest. Other arguments are as in `_inside` and `spanning_forest`.
    """
    root, other = root_of(parent, p), root_of(parent, q)
    if root == other:
        return n_edges
    apart = 0.0
    for k in range(V.shape[1]):
        gap = np.float64(V[p, k]) - np.float64(V[q, k])
        apart += gap * gap
    if not _inside(from_p, from_q, apart, a, scale, samples, level, values):
        return n_edges
    if size[root] < size[other]:
        root, other = other, root
    parent[other] = root
    size[root] += size[other]
    forest[n_edges, 0], forest[n_edges, 1] = p, q
    return n_edges + 1


@inlined
def _never_inside(low_u, high_u, low_v, high_v, S, a, scale, samples, level, values):
    """Return True if a bound shows that no segment from box u to box v is inside.

    Sample s of any segment from u to v lies in a box between u and v. The weighted kernel sum at
    the vectors' distances from this box is an upper bound. No segment is inside if the bound is
    below `level` for one of the `samples`.
    """
    d, b = S.shape
    one, zero = np.float32(1.0), np.float32(0.0)
    for s in range(samples):
        share = sample_place(s, samples)
        for j in range(b):
            values[j] = zero
        for k in range(d):
            low = (one - share) * low_u[k] + share * low_v[k]
            high = (one - share) * high_u[k] + share * high_v[k]
            # The box is widened by more than the rounding of a sample.
            wider = np.float32(1e-6) * max(
                abs(low_u[k]), abs(low_v[k]), abs(high_u[k]), abs(high_v[k])
            )
            low, high = low - wider, high + wider
            for j in range(b):
                gap = max(low - S[k, j], S[k, j] - high)
                gap = gap if gap > zero else zero
                values[j] += gap * gap
        for j in range(b):
            values[j] = exp2(scale * values[j])
        # The tolerance is many times the rounding of a sum in float32.
        if dot(a, values) < level - np.float32(1e-4):
            return True
    return False


@inlined
def _is_whole(u, whole, first, last, child, parent):
    """Return True if all vertices of box u are known to be in one component; then set whole[u].

    The test of an inner box only compares its two halves.
    """
    if whole[u]:
        return True
    root = root_of(parent, first[u])
    if child[u] < 0:
        for i in range(first[u] + 1, last[u]):
            if root_of(parent, i) != root:
                return False
    else:
        left = child[u]
        if not (whole[left] and whole[left + 1]) or root_of(parent, first[left + 1]) != root:
            return False
    whole[u] = True
    return True


@kernel
def spanning_forest(V, near, first, last, child, low, high, S, a, gamma, samples, level):
    """Return the edges (p, 2) int64 of a spanning forest of the complete graph.

    The graph joins two vertices if sum_j a_j K(s_j, .) is at least `level` at the `samples` equally
    spaced inner points of the segment between them.

    V (n, d) float32 are the vertices. near (m, 2) int64 are pairs that are tested first. Box 0 is
    the root of the tree of boxes. Box u has the vertices from first[u] to last[u] (int64) and spans
    low[u] to high[u] (c, d) float32. Its halves are the later boxes child[u] (int64) and child[u] +
    1; child[u] is -1 in a leaf. S (d, B), a (B,) and level are float32, gamma is float64.
    """
    n = V.shape[0]
    scale = -np.float32(gamma) * LOG2_E
    b, most = S.shape[1], 1
    for u in range(child.size):
        if child[u] < 0:
            most = max(most, last[u] - first[u])
    values = np.empty(b, np.float32)
    from_u, from_v = np.empty((most, b)), np.empty((most, b))
    parent, size = np.arange(n), np.ones(n, np.int64)
    forest, n_edges = np.empty((n, 2), np.int64), 0
    for e in range(near.shape[0]):
        p, q = near[e]
        if root_of(parent, p) != root_of(parent, q):
            _distances(V, p, p + 1, S, from_u)
            _distances(V, q, q + 1, S, from_v)
            n_edges = _join(
                p, q, from_u[0], from_v[0], V, a, scale, samples, level,
                parent, size, forest, n_edges, values,
            )  # fmt: skip
    whole = np.zeros(child.size, np.bool_)
    for u in range(child.size - 1, -1, -1):
        _is_whole(u, whole, first, last, child, parent)
    waiting, n_waiting = np.zeros((STACK_SIZE, 2), np.int64), 1
    while n_waiting > 0:
        n_waiting -= 1
        u, v = waiting[n_waiting]
        both_whole = _is_whole(u, whole, first, last, child, parent) and _is_whole(
            v, whole, first, last, child, parent
        )
        if both_whole and root_of(parent, first[u]) == root_of(parent, first[v]):
            continue
        if u != v and _never_inside(
            low[u], high[u], low[v], high[v], S, a, scale, samples, level, values
        ):
            continue
        if child[u] < 0 and child[v] < 0:
            _distances(V, first[u], last[u], S, from_u)
            _distances(V, first[v], last[v], S, from_v)
            for p in range(first[u], last[u]):
                # The pairs of a box with itself are tested once.
                for q in range(max(first[v], p + 1) if u == v else first[v], last[v]):
                    n_edges = _join(
                        p, q, from_u[p - first[u]], from_v[q - first[v]], V, a, scale, samples,
                        level, parent, size, forest, n_edges, values,
                    )  # fmt: skip
            continue
        # Halve the larger box; the last pair of the stack is taken first.
        if u == v:
            left = child[u]
            waiting[n_waiting] = left, left + 1
            waiting[n_waiting + 1] = left + 1, left + 1
            waiting[n_waiting + 2] = left, left
            n_waiting += 3
            continue
        if last[u] - first[u] < last[v] - first[v]:
            u, v = v, u
        left = child[u]
        waiting[n_waiting] = left, v
        waiting[n_waiting + 1] = left + 1, v
        n_waiting += 2
    return forest[:n_edges]
