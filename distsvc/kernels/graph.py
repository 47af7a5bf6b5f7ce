"""The complete graph of segments inside a level set: its components, without testing every pair.

Vertices stand in the leaves of a tree of boxes. Pairs that are joined already are passed over, and
so are all pairs of two boxes at once where they are joined, or where a bound on f over the box of
the segments' points shows that every segment leaves the level set. All of that is exact.
"""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot
from distsvc.kernels.rbf import LOG2_E, exp2
from distsvc.kernels.union_find import root_of

LEVEL_TOLERANCE = np.float32(1e-4)
"""How far below the level a bound has to be: many times the rounding of a sum in float32."""

WIDER = np.float32(1e-6)
"""Boxes are widened by this share of their coordinates: more than rounding moves a sample by."""

WAITING = 1024
"""Pairs of boxes that wait at most: a pair leaves up to two more than before, level by level, and
halving ends after 64 levels."""


@inlined
def _share(s, samples):
    """Return the place in (0, 1) of sample s of a segment: the middle first, then outwards."""
    place = (samples + 1) // 2 + (s + 1) // 2 * (1 if s % 2 == 1 else -1)
    return np.float32(place / (samples + 1))


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
    """Return whether sum_j a_j K(s_j, .) is at least `level` at all inner points of a segment.

    from_p, from_q (B,) float64 are the squared distances of its ends from the vectors, and `apart`
    that of its ends. A point x = (1 - t) p + t q has ||x - s||^2 = (1 - t) ||p - s||^2 + t ||q -
    s||^2 - t (1 - t) ||p - q||^2, so it costs the same whatever the number of features.
    """
    b = a.shape[0]
    for s in range(samples):
        share = np.float64(_share(s, samples))
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

    Returns the number of edges of the forest then.
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
    """Return whether a bound shows that no segment between two boxes is inside.

    Sample s of all these segments lies in one box; a vector's kernel is largest at the nearest
    point of it.
    """
    d, b = S.shape
    one, zero = np.float32(1.0), np.float32(0.0)
    for s in range(samples):
        share = _share(s, samples)
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
    """Note and return whether all vertices of box u are known to be in one component.

    What is known of an inner box follows from its two halves.
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

    V (n, d) float32 are the vertices. near (m, 2) int64 are pairs that are tested first. The tree
    of boxes has its root in place 0: box u holds the vertices from first[u] to last[u] (int64) and
    spans low[u] .. high[u] (c, d) float32; its halves are the boxes child[u] (int64) and child[u] +
    1, which come behind it, or it is a leaf and child[u] is -1. S (d, B) and a (B,) float32, gamma
    float64, samples int, level float32. Needs memory in proportion to V.
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
    waiting, n_waiting = np.zeros((WAITING, 2), np.int64), 1
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
        # halve the larger one; the pair that waits last is looked at first
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
