"""The components of the complete graph of segments inside a level set, without testing all pairs.

Vertices are in the leaves of a tree of boxes. Pairs already joined are skipped. All pairs of two
boxes are skipped at once if they are joined, or if a bound on f over the box of the segments'
points shows that every segment leaves the level set. The result is exact.
"""

import numpy as np

from distsvc.kernels.equilibria import sample_place
from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot
from distsvc.kernels.rbf import LOG2_E, exp2
from distsvc.kernels.union_find import root_of

LEVEL_TOLERANCE = np.float32(1e-4)
"""Minimum distance of a bound below the level: many times the rounding of a sum in float32."""

WIDER = np.float32(1e-6)
"""Share of its coordinates by which a box is widened, more than the rounding of a sample."""

STACK_SIZE = 1024
"""Maximum number of pairs of boxes on the stack: a pair adds up to two more at each of the 64
levels at most."""


@inlined
def _distances(V, first, last, S, out):
    """Set out[i, j] = ||V[first + i] - S[:, j]||^2, float64, of the vertices of a leaf."""
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
    """Return True if sum_j a_j K(s_j, .) is at least `level` at all inner points of a segment.

    from_p, from_q (B,) float64 are the squared distances of its ends from the vectors, `apart` that
    between its ends. A point x = (1 - t) p + t q has ||x - s||^2 = (1 - t) ||p - s||^2 + t ||q -
    s||^2 - t (1 - t) ||p - q||^2, so the cost does not depend on the number of features.
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
    """Join the components of two vertices if they differ and the segment is inside.

    Returns the new number of edges of the forest.
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
    """Return True if a bound shows that no segment between two boxes is inside.

    Sample s of all these segments lies in one box, and a vector's kernel is largest at the nearest
    point of that box.
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
            wider = WIDER * max(abs(low_u[k]), abs(low_v[k]), abs(high_u[k]), abs(high_v[k]))
            low, high = low - wider, high + wider
            for j in range(b):
                gap = max(low - S[k, j], S[k, j] - high)
                gap = gap if gap > zero else zero
                values[j] += gap * gap
        for j in range(b):
            values[j] = exp2(scale * values[j])
        if dot(a, values) < level - LEVEL_TOLERANCE:
            return True
    return False


@inlined
def _is_whole(u, whole, first, last, child, parent):
    """Return True if all vertices of box u are known to be in one component, and record it.

    For an inner box it follows from its two halves.
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
    """Return edges (p, 2) int64 of a forest with the components of all connected pairs.

    Two vertices are connected when sum_j a_j K(s_j, .) is at least `level` at the `samples` equally
    spaced inner points of the segment between them.

    V (n, d) float32 are the vertices. near (m, 2) int64 are pairs that are tested first. Box 0 is
    the root of the tree of boxes. Box u has the vertices from first[u] to last[u] (int64) and spans
    low[u] .. high[u] (c, d) float32. Its halves are the later boxes child[u] (int64) and child[u] +
    1; child[u] is -1 in a leaf. S (d, B) and a (B,) float32, gamma float64, samples int, level
    float32. Memory is proportional to V.
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
