"""Leaves of a growing tree that each learn their first principal component from a stream."""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot

MOST_RATE = 0.5
"""A row moves a direction at most half of the way, however young the leaf is."""


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
        rate = min((1.0 + amnesia) / count, MOST_RATE)
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

    A row x goes down the tree, to children[i, 0] (m, 2) int64 where directions[i] (m, d) float32
    times x is at most thresholds[i] (m,) float64, else to children[i, 1], to a leaf, whose children
    are -1. Its mean (means (m, d) float64) and counts (m,) int64 take the row in, its direction
    (leading (m, d) float64, of the length of the eigenvalue) turns by

        u <- (1 - r) u + r (x - mean) ((x - mean) . u) / |u|,    r = min((1 + amnesia) / count, 1/2)

    and the row's projection is the next in windows (m, w) float32, of which filled (m,) int64 are
    used. Returns the first row that was not learned from and the leaf with a full window, or -1.
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
