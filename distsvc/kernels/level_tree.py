"""Tree of the level sets {f >= level}, and the significance of its splits.

The edges of a graph have heights, and are added by falling height. An edge joins two components, or
its ends are in one component already. The mass of a component is the sum of its vertices' masses. A
component is born at the level at which this mass reaches a given minimum. An edge is a split if it
joins two components that are already born. The component born at the lower level then dies.

The edges that joined components are a maximum spanning tree: no other path between two vertices has
a higher lowest edge. Removing edges that are splits therefore leaves the clusters between them.
"""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot
from distsvc.kernels.rbf import LOG2_E, MAX_SQUARED_DISTANCE, exp2, lowest, squared_distances

FIXED_POINT_UNITS = 2.0**30
"""Units per 1 in fixed-point sums of kernel values. Integer sums do not depend on the order of the
rows or on the partitions of the table. Sums of up to 2^33 rows fit int64."""

EXACT_SUM_ROWS = 2**20
"""Number of rows per partial sum in float64. These sums are whole numbers up to 2^50, thus exact,
and their loops vectorise better than loops over int64."""

MIN_BOUND_RATIO = np.float32(1.001)
"""Factor on upper bounds of kernel sums in `vote`; it covers rounding errors many times."""

INFINITE = np.float32(np.inf).view(np.int32)
"""Bits of the float32 infinity."""

BATCH = 4
"""Number of rows in every step of `vote`, so that the processor overlaps their work."""


@inlined
def root_of(parent, i):
    """Return the root of vertex i in a union-find forest, and halve the path from i to it.

    parent (n,), int64 or int32, is the parent of every vertex; a root is its own parent.
    """
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@kernel
def merge_components(heights, falling, mass, pairs, edge_heights, least_mass):
    """Join the components of a connected graph along its edges, into a tree of branches.

    Vertices have `heights` (n,) float32 and `mass` (n,) float64. `falling` (n,) int64 are the
    vertices in the order of falling height. Edges are `pairs` (m, 2) int64 of vertices, in the
    order of falling `edge_heights` (m,) float32.

    A component becomes a branch when its mass reaches `least_mass`. Branches are numbered in the
    order of their births; the root is the branch that never dies. If two branches meet, the branch
    with the lower birth level dies, or in a tie the branch with the lower peak.

    Returns the ascending indices (n - 1,) int64 of the edges that joined two components, and five
    arrays (b,) of the branches: birth levels float32, highest vertices int64, masses at death
    float64, surviving branches int64, and joining edges int64, as positions in the first result.
    The last two are -1 for the root.
    """
    n = heights.size
    parent = np.arange(n)
    top = np.arange(n)
    total = mass.copy()
    branch = np.full(n, -1)
    births = np.empty(n, np.float32)
    peaks = np.empty(n, np.int64)
    masses = np.empty(n)
    parents = np.full(n, -1)
    joints = np.full(n, -1)
    tree = np.empty(n - 1, np.int64)
    n_branches, n_joined = 0, 0
    waiting = 0
    for e in range(pairs.shape[0]):
        # Vertices above the edge that have the mass of a branch alone are born first.
        while waiting < n and heights[falling[waiting]] >= edge_heights[e]:
            i = falling[waiting]
            waiting += 1
            if mass[i] >= least_mass:
                branch[i] = n_branches
                births[n_branches] = heights[i]
                n_branches += 1
        a, b = root_of(parent, pairs[e, 0]), root_of(parent, pairs[e, 1])
        if a == b:
            continue
        # Component a survives: its branch was born at a higher level or, in a tie, peaks higher.
        elder = births[branch[a]] if branch[a] >= 0 else np.float32(-np.inf)
        younger = births[branch[b]] if branch[b] >= 0 else np.float32(-np.inf)
        if younger > elder or (younger == elder and heights[top[b]] > heights[top[a]]):
            a, b = b, a
        if branch[b] >= 0:
            dead = branch[b]
            peaks[dead], masses[dead] = top[b], total[b]
            parents[dead], joints[dead] = branch[a], n_joined
        if heights[top[b]] > heights[top[a]]:
            top[a] = top[b]
        tree[n_joined] = e
        n_joined += 1
        parent[b] = a
        total[a] += total[b]
        if branch[a] < 0 and (total[a] >= least_mass or n_joined == n - 1):
            branch[a] = n_branches
            births[n_branches] = edge_heights[e]
            n_branches += 1
    a = root_of(parent, 0)
    if branch[a] < 0:
        branch[a], births[0], n_branches = 0, heights[a], 1
    peaks[branch[a]], masses[branch[a]] = top[a], total[a]
    return (
        tree,
        births[:n_branches],
        peaks[:n_branches],
        masses[:n_branches],
        parents[:n_branches],
        joints[:n_branches],
    )


@kernel
def forest_parts(n, edges, kept):
    """Return the component (n,) int32 of each of the n vertices of a graph.

    The graph has the edges (m, 2) int64 for which kept (m,) bool is True. Components are numbered
    by their first vertices.
    """
    parent = np.arange(n)
    for e in range(edges.shape[0]):
        if kept[e]:
            a, b = root_of(parent, edges[e, 0]), root_of(parent, edges[e, 1])
            parent[max(a, b)] = min(a, b)
    part = np.empty(n, np.int32)
    n_parts = np.int32(0)
    for i in range(n):
        a = root_of(parent, i)
        if a == i:
            part[i] = n_parts
            n_parts += np.int32(1)
        else:
            part[i] = part[a]
    return part


@kernel
def add_differences(X, peaks, saddles, gamma, sums, ties=False):
    """Add the kernel sums of rows X, for the test of every split, to `sums`.

    X (n, d), peaks and saddles (d, s) are float32, gamma is float64. With D = K(peak, x) -
    K(saddle, x), the sums (4, s) int64 are of D, of D^2, of 1 (the number of rows), and of
    K(peak, x). All but the number of rows are in units of 1 / FIXED_POINT_UNITS.

    Rows exactly at the peak or the saddle are skipped, since a support vector is a row itself and
    would raise the density at its own position. If `ties` is True, no row is skipped.
    """
    n, s = X.shape[0], peaks.shape[1]
    scale = -np.float32(gamma) * LOG2_E
    to_peak = np.empty(s, np.float32)
    to_saddle = np.empty(s, np.float32)
    difference = np.empty(s, np.float32)
    at_peak = np.empty(s, np.float32)
    zero = np.float32(0.0)
    on = np.float32(-1.0) if ties else zero
    for start in range(0, n, EXACT_SUM_ROWS):
        stop = min(start + EXACT_SUM_ROWS, n)
        first, second, third = np.zeros(s), np.zeros(s), np.zeros(s)
        left_out = np.zeros(s, np.int32)
        for i in range(start, stop):
            squared_distances(peaks, s, X[i], to_peak)
            squared_distances(saddles, s, X[i], to_saddle)
            for j in range(s):
                out = min(to_peak[j], to_saddle[j]) <= on
                left_out[j] += np.int32(out)
                near = exp2(scale * to_peak[j])
                apart = near - exp2(scale * to_saddle[j])
                difference[j] = zero if out else apart
                at_peak[j] = zero if out else near
            for j in range(s):
                d = np.float64(difference[j])
                first[j] += np.rint(d * FIXED_POINT_UNITS)
                second[j] += np.rint(d * d * FIXED_POINT_UNITS)
                third[j] += np.rint(np.float64(at_peak[j]) * FIXED_POINT_UNITS)
        for j in range(s):
            sums[0, j] += np.int64(first[j])
            sums[1, j] += np.int64(second[j])
            sums[2, j] += stop - start - np.int64(left_out[j])
            sums[3, j] += np.int64(third[j])


@kernel
def vote(X, S, a, ends, gamma):
    """Return the group of vectors with the largest weighted kernel sum at each row, (n,) int32.

    X (n, d), S (d, B) and the positive weights a (B,) are float32, gamma is float64. The vectors of
    group c are from ends[c - 1] to ends[c], ends (k,) int64. The first of equal groups wins.

    Exponents are relative to the nearest vector's, so that sums of distant rows do not vanish.
    Bounds decide most rows without their sums. The lower bound for the nearest vector's group is
    its smallest weight, since the relative kernel value of the nearest vector is 1. The upper bound
    for another group is its total weight times the kernel value of its nearest vector.
    """
    n, b, k = X.shape[0], S.shape[1], ends.size
    scale = -np.float32(gamma) * LOG2_E
    least, most = np.zeros(k, np.float32), np.zeros(k, np.float32)
    start = 0
    for c in range(k):
        for j in range(start, ends[c]):
            least[c] = a[j] if j == start else min(least[c], a[j])
            most[c] += a[j]
        most[c] *= MIN_BOUND_RATIO
        start = ends[c]
    values = np.empty((BATCH, b), np.float32)
    bits = values.view(np.int32)  # integers order squared distances alike
    lows = np.empty((BATCH, k), np.int32)
    groups = np.empty(n, np.int32)
    for first in range(0, n, BATCH):
        rows = min(BATCH, n - first)
        for r in range(rows):
            squared_distances(S, b, X[first + r], values[r])
        for r in range(rows):
            start = 0
            for c in range(k):
                lows[r, c] = min(lowest(bits[r, start : ends[c]]), INFINITE)
                start = ends[c]
        for r in range(rows):
            best = 0
            for c in range(1, k):
                best = c if lows[r, c] < lows[r, best] else best
            shift = min(np.int32(lows[r, best]).view(np.float32), MAX_SQUARED_DISTANCE)
            settled = shift < MAX_SQUARED_DISTANCE
            for c in range(k):
                further = np.int32(lows[r, c]).view(np.float32) - shift
                settled &= c == best or most[c] * exp2(scale * further) < least[best]
            groups[first + r] = best
            if not settled:
                groups[first + r] = _largest(values[r], a, ends, scale, shift)
    return groups


@inlined
def _largest(values, a, ends, scale, shift):
    """Return the group of vectors with the largest kernel sum at a row, for `vote`.

    `values` are the squared distances of the row from the vectors, and are overwritten. `shift` is
    the smallest of them.
    """
    for j in range(values.shape[0]):
        values[j] = exp2(scale * (values[j] - shift))
    best, most, start = 0, np.float32(-1.0), 0
    for c in range(ends.size):
        part = dot(a[start : ends[c]], values[start : ends[c]])
        start = ends[c]
        if part > most:
            best, most = c, part
    return best
