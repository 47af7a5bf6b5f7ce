"""Shares of clusters in rows, which sum to 1 in each row.

They come from kernel sums, from distances to nearest points, or from a tree of hyperplanes.
"""

import math

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot
from distsvc.kernels.rbf import LOG2_E, ZERO, exp2, least_square, squared_distances


@inlined
def _normalise(shares):
    """Divide the shares (k,) of a row by their sum, in place."""
    total = ZERO
    for c in range(shares.size):
        total += shares[c]
    for c in range(shares.size):
        shares[c] /= total


@kernel
def vote_shares(X, S, a, ends, gamma, power):
    """Return shares (n, k) float32 of clusters by their weighted kernel sums at rows X (n, d).

    The clusters are the groups of vectors S (d, B) with weights a (B,), both float32, and `ends`,
    as in `level_tree.vote`. A share is proportional to the cluster's kernel sum to the `power`
    (float64). Sums are relative to the kernel value of the nearest vector, since they would vanish
    far from all vectors.
    """
    n, b = X.shape[0], S.shape[1]
    scale = -np.float32(gamma) * LOG2_E
    exponent = np.float32(power)
    values = np.empty(b, np.float32)
    shares = np.empty((n, ends.size), np.float32)
    for i in range(n):
        squared_distances(S, b, X[i], values)
        shift = least_square(values)
        for j in range(b):
            values[j] = exp2(scale * (values[j] - shift))
        start, total = 0, ZERO
        for c in range(ends.size):
            part = dot(a[start : ends[c]], values[start : ends[c]])
            start = ends[c]
            total += part
            shares[i, c] = part
        for c in range(ends.size):
            shares[i, c] = (shares[i, c] / total) ** exponent
        _normalise(shares[i])
    return shares


@kernel
def nearest_shares(X, S, ends, scale):
    """Return shares (n, k) float32 of clusters by their points nearest to rows X (n, d) float32.

    Cluster c has the columns of S (d, B) float32 from ends[c - 1] to ends[c]; ends (k,) int64. A
    share is proportional to exp(-scale r^2), with r the distance to the cluster's nearest point.
    """
    n, b = X.shape[0], S.shape[1]
    factor = -np.float32(scale) * LOG2_E
    values = np.empty(b, np.float32)
    shares = np.empty((n, ends.size), np.float32)
    for i in range(n):
        squared_distances(S, b, X[i], values)
        shift = least_square(values)
        start = 0
        for c in range(ends.size):
            group = values[start : ends[c]]
            start = ends[c]
            shares[i, c] = exp2(factor * (least_square(group) - shift))
        _normalise(shares[i])
    return shares


@kernel
def path_shares(X, V, thresholds, widths, children, labels, shares):
    """Add the shares of clusters by a tree of hyperplanes to `shares` (n, k) float32.

    The root's share is 1. A node's first child gets 1 / (1 + exp((V.x - threshold) / width)) of the
    node's share, and the second child the rest. Leaves add their shares to their clusters.

    Rows X (n, d) and normals V (m, d) are float32; thresholds and widths (m,) float64. Children (m,
    2) int32 are later nodes, negative in leaves; labels (m,) int32 are the leaves' clusters.
    """
    nodes = V.shape[0]
    arrived = np.empty(nodes)
    for i in range(X.shape[0]):
        arrived[:] = 0.0
        arrived[0] = 1.0
        for node in range(nodes):
            if arrived[node] <= 0.0:
                continue
            first, second = children[node]
            if first < 0:
                shares[i, labels[node]] += np.float32(arrived[node])
                continue
            gap = (dot(V[node], X[i]) - thresholds[node]) / widths[node]
            below = 1.0 / (1.0 + math.exp(min(max(gap, -700.0), 700.0)))
            arrived[first] = arrived[node] * below
            arrived[second] = arrived[node] * (1.0 - below)


@kernel
def largest_others(shares, labels, others, other_shares):
    """Set `others` (n, m) int32 to the clusters with the largest shares besides a row's own.

    `other_shares` (n, m) float32 are set to their shares, in descending order; ties are in the
    order of clusters. `labels` (n,) int32 are the rows' own clusters, and m < k. Used entries of
    `shares` (n, k) float32 are overwritten with -1.
    """
    for i in range(shares.shape[0]):
        row = shares[i]
        row[labels[i]] = -1.0
        for place in range(others.shape[1]):
            best = 0
            for c in range(1, row.size):
                if row[c] > row[best]:
                    best = c
            others[i, place], other_shares[i, place] = best, row[best]
            row[best] = -1.0
