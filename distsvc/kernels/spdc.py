"""Leaves of a growing tree, each of which learns its first principal component from a stream."""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot


@inlined
def _learn_row(x, mean, leading, count, amnesia):
    """Update a leaf's mean and leading (d,) with its count-th row; return the row's projection."""
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

    A row x goes down the tree to a leaf: to children[i, 0] (m, 2) int64 if directions[i] (m, d)
    float32 times x is at most thresholds[i] (m,) float64, else to children[i, 1]; -1 in a leaf. The
    leaf's means (m, d) float64 and counts (m,) int64 are updated. Its direction, leading (m, d)
    float64, as long as the eigenvalue, turns by CCIPCA:

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
