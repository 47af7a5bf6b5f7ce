"""A tree of clustering features (number, mean, sum of squares) that summarises a stream of rows.

A tree of c slots is stored in arrays: references, means (c, d), weights, sums (c,) float64; child
(c + 1,) int64, the first child of every slot, and of the root at place c; sibling (c,) int64; -1
ends lists. free (c,) int64 with n_free (1,) int64 is a stack of unused slots, whose weight is 0. A
slot summarises `weights` rows by their mean and the sum of squares about it. Its reference, the
first of these rows, never moves.
"""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import square_distance

CHUNK_COLUMNS = 32
FIRST_RADIUS = 0.0625
"""Squared radius of level 1 over the threshold; level l has threshold / 2^(3 + l)."""


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
    """Return the slot of a list with the reference nearest to x, or -1, and its distance."""
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
    """Return the increase of the sum of squares by merging two weighted means."""
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

    From the root down: if no reference is near enough, a row becomes a new child. It joins the
    nearest child if its sum of squares stays within the threshold, else it goes to its children.
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
