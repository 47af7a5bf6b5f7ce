"""The trees of two baselines: a coreset tree for BICO, and a growing tree for SPDC.

A coreset tree of c slots summarises a stream by clustering features (number, mean, sum of squares).
It is stored in arrays: references, means (c, d), weights, sums (c,) float64; child (c + 1,) int64,
the first child of every slot, and of the root at place c; sibling (c,) int64; -1 ends lists. free
(c,) int64 with n_free (1,) int64 is a stack of unused slots, whose weight is 0. A slot summarises
`weights` rows by their mean and the sum of squares about it. Its reference, the first of these
rows, never moves.
"""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot, square_distance

CHUNK_COLUMNS = 32
"""Number of columns between two comparisons of a partial squared distance with its limit."""

FIRST_RADIUS = 0.0625
"""Squared radius of level 1, relative to the threshold; level l has 2^-(3 + l)."""


@inlined
def _squared_distance(a, b, limit):
    """Return the squared distance of a and b (d,), or a partial sum above the limit."""
    d = a.shape[0]
    total = 0.0
    start = 0
    while start < d and total <= limit:
        total += square_distance(a[start : start + CHUNK_COLUMNS], b[start : start + CHUNK_COLUMNS])
        start += CHUNK_COLUMNS
    return total


@inlined
def _nearest(x, head, references, sibling):
    """Return the slot, in a list, whose reference is nearest to x, or -1; and the distance."""
    best, nearest = np.inf, -1
    j = head
    while j >= 0:
        distance = _squared_distance(references[j], x, best)
        if distance < best:
            best, nearest = distance, j
        j = sibling[j]
    return nearest, best


@inlined
def _growth(weight, mean, other, other_mean):
    """Return the increase of the sum of squares if two weighted means are merged."""
    return weight * other / (weight + other) * _squared_distance(mean, other_mean, np.inf)


@inlined
def _absorb(i, j, means, weights, sums, free, n_free):
    """Add slot j to slot i and free it; its children are not moved."""
    sums[i] += sums[j] + _growth(weights[i], means[i], weights[j], means[j])
    weights[i] += weights[j]
    share = weights[j] / weights[i]
    for k in range(means.shape[1]):
        means[i, k] += share * (means[j, k] - means[i, k])
    weights[j] = 0.0
    free[n_free[0]] = j
    n_free[0] += 1


@kernel
def insert_rows(
    X, first, threshold, references, means, weights, sums, child, sibling, free, n_free
):
    """Add the rows of X (n, d) float64 from `first` on; return the first row without a free slot.

    A row starts at the root. If no child's reference is near enough, the row becomes a new child.
    Otherwise it joins the nearest child if that child's sum of squares stays within the threshold,
    or goes down to the children of that child.
    """
    n, d = X.shape
    for i in range(first, n):
        if n_free[0] == 0:
            return i
        x = X[i]
        parent, radius = sibling.shape[0], FIRST_RADIUS * threshold
        while True:
            near, distance = _nearest(x, child[parent], references, sibling)
            if near < 0 or distance > radius:
                n_free[0] -= 1
                new = free[n_free[0]]
                for k in range(d):
                    references[new, k] = x[k]
                    means[new, k] = x[k]
                weights[new], sums[new] = 1.0, 0.0
                child[new], sibling[new] = -1, child[parent]
                child[parent] = new
                break
            growth = _growth(weights[near], means[near], 1.0, x)
            if sums[near] + growth <= threshold:
                weights[near] += 1.0
                sums[near] += growth
                for k in range(d):
                    means[near, k] += (x[k] - means[near, k]) / weights[near]
                break
            parent, radius = near, 0.5 * radius
    return n


@kernel
def rebuild(threshold, references, means, weights, sums, child, sibling, free, n_free):
    """Merge slots under a higher threshold.

    The root's children are inserted again, as rows are. Then, from the top down, a child is merged
    into its parent if the parent's sum of squares stays within the threshold. The parent inherits
    its children, which are tried in turn.
    """
    root = sibling.shape[0]
    j, child[root] = child[root], -1
    while j >= 0:
        following = sibling[j]
        near, distance = _nearest(references[j], child[root], references, sibling)
        parent = near
        if near < 0 or distance > FIRST_RADIUS * threshold:
            parent = root
        sibling[j] = child[parent]
        child[parent] = j
        j = following
    waiting = np.empty(root, np.int64)
    n_waiting = 0
    j = child[root]
    while j >= 0:
        waiting[n_waiting] = j
        n_waiting += 1
        j = sibling[j]
    while n_waiting > 0:
        n_waiting -= 1
        i = waiting[n_waiting]
        j, child[i] = child[i], -1
        while j >= 0:
            following = sibling[j]
            growth = _growth(weights[i], means[i], weights[j], means[j])
            if sums[i] + sums[j] + growth <= threshold:
                last = child[j]
                if last >= 0:
                    while sibling[last] >= 0:
                        last = sibling[last]
                    sibling[last] = following
                    following = child[j]
                _absorb(i, j, means, weights, sums, free, n_free)
            else:
                sibling[j] = child[i]
                child[i] = j
                waiting[n_waiting] = j
                n_waiting += 1
            j = following


@inlined
def _learn_row(x, mean, leading, count, amnesia):
    """Update a leaf's mean (d,) and direction `leading` (d,) by x (d,), its `count`-th row.

    Returns the projection of x on the direction.
    """
    d = x.shape[0]
    inner, squared = 0.0, 0.0
    for k in range(d):
        mean[k] += (x[k] - mean[k]) / count
        inner += (x[k] - mean[k]) * leading[k]
        squared += leading[k] * leading[k]
    if squared == 0.0:
        for k in range(d):
            leading[k] = x[k] - mean[k]
    else:
        rate = min((1.0 + amnesia) / count, 0.5)
        step = rate * inner / np.sqrt(squared)
        for k in range(d):
            leading[k] = (1.0 - rate) * leading[k] + step * (x[k] - mean[k])
    inner, squared = 0.0, 0.0
    for k in range(d):
        inner += (x[k] - mean[k]) * leading[k]
        squared += leading[k] * leading[k]
    return inner / np.sqrt(squared) if squared > 0.0 else 0.0


@kernel
def stream_rows(
    X, first, directions, thresholds, children, means, leading, counts, windows, filled, amnesia
):
    """Learn from the rows of X (n, d) float32 from `first` on, until the window of a leaf is full.

    A row x goes down the tree to a leaf. In an inner node i it goes to children[i, 0] (m, 2) int64
    if directions[i] (m, d) float32 times x is at most thresholds[i] (m,) float64, else to
    children[i, 1]. The children of a leaf are -1. The leaf's means (m, d) float64 and counts (m,)
    int64 are updated. Its direction is a row u of leading (m, d) float64. The norm of u is the
    eigenvalue. CCIPCA updates it:

        u <- (1 - r) u + r (x - mean) ((x - mean) . u) / |u|,    r = min((1 + amnesia) / count, 1/2)

    The row's projection is appended to windows (m, w) float32 with filled (m,) int64 values.
    Returns the first row not used, and the leaf with a full window, or -1.
    """
    n = X.shape[0]
    for i in range(first, n):
        x = X[i]
        node = 0
        while children[node, 0] >= 0:
            place = dot(directions[node], x)
            node = children[node, 0] if place <= thresholds[node] else children[node, 1]
        counts[node] += 1
        place = _learn_row(x, means[node], leading[node], counts[node], amnesia)
        windows[node, filled[node]] = place
        filled[node] += 1
        if filled[node] == windows.shape[1]:
            return i + 1, node
    return n, -1
