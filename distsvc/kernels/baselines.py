"""The trees of two baselines: a coreset tree for BICO, and a growing tree for SPDC.

A coreset tree summarises a stream of rows by at most c clustering features, each stored in a slot.
Slot i represents weights[i] rows with the mean means[i]; sums[i] is the sum of squared distances
from the mean. The reference point references[i] is the slot's first row and never moves.

Arrays of slots are references, means (c, d), weights and sums (c,) float64. The children of a slot
are a linked list. child[i] is the first child of slot i; child[c] is the first child of the root.
child is (c + 1,) int64. sibling[j] is the next child of j's parent; sibling is (c,) int64. -1 ends
a list. The first n_free[0] entries of free (c,) int64 are the unused slots, whose weight is 0.
"""

import numpy as np

from distsvc.kernels.jit import always_inlined, inlined, kernel
from distsvc.kernels.lanes import dot, square_distance

CHUNK_COLUMNS = 32
"""Number of columns between two comparisons of a partial squared distance with its limit."""

FIRST_RADIUS = 0.0625
"""Squared radius around the root's children, relative to the threshold. A row farther than this
from all references becomes a new child. The squared radius is halved from level to level."""


@always_inlined  # a call would take four times as long
def _squared_distance(a, b, limit):
    """Return the squared distance of a and b (d,). The sum ends early if it exceeds `limit`."""
    d = a.shape[0]
    total = 0.0
    start = 0
    while start < d and total <= limit:
        total += square_distance(a[start : start + CHUNK_COLUMNS], b[start : start + CHUNK_COLUMNS])
        start += CHUNK_COLUMNS
    return total


@inlined
def _nearest(x, head, references, sibling):
    """Return the slot whose reference is nearest to x, and the squared distance.

    The searched slots are `head` and the slots after it in its list of children. If the list is
    empty, `head` and the returned slot are -1.
    """
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
    """Return the increase of the sum of squares if slots with these weights and means merge."""
    return weight * other / (weight + other) * _squared_distance(mean, other_mean, np.inf)


@inlined
def _absorb(i, j, means, weights, sums, free, n_free):
    """Merge slot j into slot i, and add j to the free slots; lists of children do not change."""
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
    """Insert the rows of X (n, d) float64 from number `first` on into a coreset tree.

    Each row descends from the root. If no child's reference is within the radius of the level, the
    row becomes a new child. Otherwise it joins the nearest child, if that child's sum of squares
    stays within the threshold. If it does not, the row descends to this child's children.

    Return n, or the number of the first row for which no slot was free.
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
    """Merge slots of a coreset tree after its threshold was raised.

    The root's children are inserted again, as rows are. Then, from the top down, a child is merged
    into its parent if the parent's sum of squares stays within the threshold. The children of a
    merged child become children of the parent, and are tested next.
    """
    root = sibling.shape[0]
    # Insert the root's children again.
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
    # Merge children into parents; `waiting` is a stack of slots whose children are not yet tested.
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
                if last >= 0:  # test the children of j next
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
    """Update the mean (d,) and the direction `leading` (d,) of a leaf with a new row x (d,).

    `count` is the number of the leaf's rows, including x. Return the projection of x - mean on the
    direction. The docstring of `stream_rows` has the formula.
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

    A row x descends the tree to a leaf. In an inner node i it goes to children[i, 0] if
    directions[i].x is at most thresholds[i], else to children[i, 1]. The children of a leaf are -1.
    The leaf's mean, count and direction are updated. The direction is a row u of `leading`, whose
    norm is the eigenvalue. It is updated by CCIPCA:

        u <- (1 - r) u + r (x - mean) ((x - mean) . u) / |u|,    r = min((1 + amnesia) / count, 1/2)

    The row's projection is appended to the leaf's window, which has filled[i] values. Return the
    number of the first row that was not used, and the leaf whose window is full, or -1.

    Arrays of nodes are directions (m, d) and windows (m, w) float32, means and leading (m, d) and
    thresholds (m,) float64, children (m, 2), counts and filled (m,) int64.
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
