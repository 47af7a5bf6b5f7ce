"""Shares of all clusters in a row: by votes, nearest points, or a tree of hyperplanes."""

import math

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot
from distsvc.kernels.rbf import LOG2_E, ZERO, exp2, least_square, squared_distances


@inlined
def _normalise(shares):
    """Divide shares by their sum."""
    total = ZERO
    for c in range(shares.size):
        total += shares[c]
    for c in range(shares.size):
        shares[c] /= total


@kernel
def vote_shares(X, S, a, ends, gamma, power):
    """Return the shares (n, k) float32 of groups of vectors in the weighted kernel sums at rows.

    X (n, d), S (d, B), a (B,) float32, positive, ends (k,) int64 as in `level_tree.vote`. Shares
    are proportional to the groups' sums to the `power` (float64). Exponents are shifted by the
    nearest vector's, so that sums of distant rows do not vanish.
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
    """Return the shares (n, k) float32 of groups of points by the point nearest to each row.

    X (n, d), S (d, B) float32, ends (k,) int64: group c is the points from ends[c - 1] to ends[c].
    Shares are proportional to exp(-scale r^2), where r is the distance to the nearest point of a
    group.
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
    """Add each row's shares of the leaves of a hyperplane tree to `shares` (n, k) float32.

    X (n, d), V (nodes, d) float32, thresholds and widths (nodes,) float64, children (nodes, 2)
    int32: later nodes, or negative in leaves; labels (nodes,) int32. The first child gets 1 / (1 +
    exp((V.x - threshold) / width)) of a node's share.
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
    """Set others and other_shares (n, m), int32 and float32, to the largest other shares.

    shares (n, k) float32 are overwritten with -1 where used; labels (n,) int32 are the rows' own
    clusters; m < k. Shares descend; ties are in the order of clusters.
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
