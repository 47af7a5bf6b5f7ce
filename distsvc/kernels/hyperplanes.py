"""Incremental minimum-density hyperplanes in a complete binary tree.

The kernels learn hyperplanes from rows, find the leaf of a row, and compute its cluster shares.

Nodes are numbered from 0 by level; node j has the children 2 j + 1 and 2 j + 2. Its hyperplane is
{x: v.(x - mean) = b} with ||v|| = 1 and b relative to the node's own mean. Arrays with one number
for each feature are float32; b and variances, which a row changes only a little, are float64. Means
can be float32: rounding stops their updates only after some 10^7 visits. By then, their sampling
error is a thousand times their rounding error.
"""

import math

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot, fma, projection

MIN_SQUARED_BANDWIDTH = 1e-30
"""Minimum squared bandwidth of a density estimate; below it, projections have no variance."""

ROWS_TOGETHER = 256
"""Number of rows that descend a tree together; rows and tree fit into a first-level cache."""


@inlined
def _normalise(x, mean, v):
    """Make v a unit vector, or the direction of x - mean if v is 0."""
    if not v.any():
        for k in range(v.shape[0]):
            v[k] = x[k] - mean[k]
    square = dot(v, v)
    if square > np.float32(0.0):
        scale = np.float32(1.0 / math.sqrt(square))
        for k in range(v.shape[0]):
            v[k] *= scale


@inlined
def _decay(t):
    """Return the square of (t + 1)^-1/5, a factor of a node's bandwidth at its t-th row."""
    return (t + 1.0) ** (2.0 * -0.2)


@kernel
def bandwidth_decays(out):
    """Write the squares of (t + 1)^-1/5 for t = 0, 1, ... to `out` (n,), for the kernel `learn`."""
    for t in range(out.shape[0]):
        out[t] = _decay(t)


@kernel
def learn(X, means, V, b, variances, visits, alpha, penalty, bandwidth, most_visits, clip, decays):
    """Update the nodes on each row's path from the root, row by row (Hofmeyr, 2021, Algorithm 1).

    X (n, d), means and V (nodes, d) are float32. b and variances (nodes,), of the projections, are
    float64, and visits (nodes,) int64. The arrays of the nodes are changed in place. A path ends in
    the bottom level, whose nodes have a mean and visits but no hyperplane.

    Let t be the node's number of visits with this row, but at most `most_visits`. Mean and variance
    are updated first, and start as if the node had already learned from a row of zeros. Then

        p = v.(x - mean),    h = bandwidth sigma (t + 1)^-0.2 with sigma = sqrt(variance),
        g = (b - p) / h^3 exp(-(b - p)^2 / 2 h^2),
        v <- v - sqrt(d) g (x - mean) / (t + 1), normalised,
        b <- b + (g - 2 penalty max(|b| - alpha sigma, 0) sign(b)) / (t + 1).

    b is clipped at `clip` alpha sigma. The row goes to the first child if its new p is below the
    new b. While the projections have no variance, v becomes the direction of x - mean.

    One pass over the features computes the update, and a second pass writes it. With e = x - mean
    and the step c, the new v has ||v - c e||^2 = 1 - 2 c p + c^2 ||e||^2 and (v - c e).e = p -
    c ||e||^2.

    decays (m,) float64 is the table of `bandwidth_decays`. The power in h is slow, and computed
    only if t >= m.
    """
    d = X.shape[1]
    bottom = visits.shape[0] // 2
    rate_of_v = math.sqrt(d)
    for i in range(X.shape[0]):
        x = X[i]
        node = 0
        while node < bottom:
            visits[node] += 1
            t = min(visits[node], most_visits)
            rate = 1.0 / (t + 1.0)
            kept = t * rate
            mean, v = means[node], V[node]
            p, square = projection(v, x, mean)
            p *= kept
            norm2 = kept * kept * square
            variance = kept * variances[node] + rate * p * p
            decay = decays[t] if t < decays.shape[0] else _decay(t)
            h2 = bandwidth * bandwidth * variance * decay
            offset = b[node]
            g = 0.0
            if h2 > MIN_SQUARED_BANDWIDTH:
                gap = offset - p
                g = gap * math.exp(-0.5 * gap * gap / h2) / (h2 * math.sqrt(h2))
            elif square > np.float32(0.0):
                p = math.sqrt(norm2)
                for k in range(d):
                    v[k] = np.float32(kept / p) * (x[k] - mean[k])
            step = rate_of_v * g * rate
            turned = 1.0 - 2.0 * step * p + step * step * norm2
            # The closed form of the length is exact unless its terms cancel.
            exact = h2 > MIN_SQUARED_BANDWIDTH and turned > 0.01 * (1.0 + step * step * norm2)
            scale = 1.0 / math.sqrt(turned) if exact else 1.0
            pull, keep, away = np.float32(rate), np.float32(scale), np.float32(scale * step * kept)
            for k in range(d):
                e = x[k] - mean[k]
                mean[k] = fma(pull, e, mean[k])
                v[k] = fma(-away, e, keep * v[k])
            p = scale * (p - step * norm2)
            # Rounding changes the length slowly: restore it now and then.
            if not exact or visits[node] % 1024 == 0:
                _normalise(x, mean, v)
                p = projection(v, x, mean)[0]
            sigma = math.sqrt(variance)
            excess = abs(offset) - alpha * sigma
            offset += rate * g
            if excess > 0.0:
                offset -= math.copysign(2.0 * penalty * rate * excess, b[node])
            if clip < np.inf:
                most = clip * alpha * sigma
                offset = min(max(offset, -most), most)
            variances[node] = variance
            b[node] = offset
            node = 2 * node + (1 if p < offset else 2)
        visits[node] += 1
        mean, pull = means[node], np.float32(1.0 / (min(visits[node], most_visits) + 1.0))
        for k in range(d):
            mean[k] = fma(pull, x[k] - mean[k], mean[k])


@kernel
def route(X, V, thresholds, spreads, children):
    """Return the last node (n,) int32 of each row's path down a tree, and the margins (n,) float32.

    X (n, d) and V (nodes, d) are float32. A row x goes to children[j, 0] if V[j].x < thresholds[j],
    else to children[j, 1]. children (nodes, 2) int32 are negative at the end of a path. The margin
    is the least |V[j].x - thresholds[j]| / spreads[j] on the path, or infinity without hyperplanes.

    Rows of a block descend together, level by level, so that memory accesses of several rows
    overlap. Node indices are unsigned, which saves a check for negative indices.
    """
    n = X.shape[0]
    ends = np.zeros(n, np.int32)
    margins = np.full(n, np.float32(np.inf))
    for first in range(0, n, ROWS_TOGETHER):
        descending = True
        while descending:
            descending = False
            for i in range(first, min(first + ROWS_TOGETHER, n)):
                node = np.uint64(ends[i])
                if children[node, 0] >= 0:
                    gap = dot(V[node], X[i]) - thresholds[node]
                    margins[i] = min(margins[i], np.float32(abs(gap) / spreads[node]))
                    ends[i] = children[node, 0] if gap < 0.0 else children[node, 1]
                    descending = True
    return ends, margins


@kernel
def add_rows(X, ends, counts, sums, squares):
    """Add rows of X (n, d) float32 to the sums of their nodes, ends (n,) int32.

    The sums of 1, x and ||x||^2 over a node's rows x are counts (nodes,), sums (nodes, d) and
    squares (nodes,), all float64.
    """
    for i in range(X.shape[0]):
        x = X[i]
        node = ends[i]
        counts[node] += 1.0
        total = sums[node]
        for k in range(x.shape[0]):
            total[k] += x[k]
        squares[node] += dot(x, x)


@kernel
def path_shares(X, V, thresholds, widths, children, labels, shares):
    """Add each row's shares of the clusters of a tree of hyperplanes to `shares` (n, k) float32.

    The root's share is 1. A node's first child gets 1 / (1 + exp((V.x - threshold) / width)) of the
    node's share, and the second child the rest. Leaves add their shares to their clusters.

    Rows X (n, d) and normals V (m, d) are float32, thresholds and widths (m,) float64. children (m,
    2) int32 are later nodes, negative in leaves. labels (m,) int32 are the clusters of the leaves.
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
