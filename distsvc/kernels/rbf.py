"""Values and weighted sums of the Gaussian kernel K(s, x) = exp(-gamma ||s - x||^2).

Support vectors are stored feature by feature: ``S[k, j]`` is feature k of vector j. Loops over
vectors thus run along contiguous memory and vectorise. Values are float32. A row's result depends
only on this row, not on its block.
"""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot, fma

LOG2_E = np.float32(1.4426950408889634)
"""Base-2 logarithm of e."""

ZERO = np.float32(0.0)

MAX_SQUARED_DISTANCE = np.finfo(np.float32).max
"""Maximum result of `least_square`. It is finite, since infinity minus infinity would be NaN."""

ROW_LANES = 256
"""Maximum number of rows whose sums are computed together, term by term."""

TERMS = 32
"""Number of terms in a partial sum; a single long sum would lose more bits to rounding."""


@inlined
def exp2(t):
    """Return 2^t in float32 for t <= 0, with a relative error below 3e-7.

    2^0 is exactly 1. Below t = -100 the result is 2^-100, whose product with a weight is not
    subnormal: arithmetic on subnormal numbers is slow. The integer part of t becomes the exponent
    bits. The rest r, in [-1/2, 1/2], is the argument of the Taylor polynomial of degree 6.
    """
    t = max(t, np.float32(-100.0))
    whole = np.int32(t - np.float32(0.5))
    r = t - np.float32(whole)
    p = np.float32(0.00015403530393381608)
    p = fma(r, p, np.float32(0.0013333558146428443))
    p = fma(r, p, np.float32(0.009618129107628477))
    p = fma(r, p, np.float32(0.05550410866482158))
    p = fma(r, p, np.float32(0.24022650695910072))
    p = fma(r, p, np.float32(0.6931471805599453))
    p = fma(r, p, np.float32(1.0))
    return p * np.int32((whole + np.int32(127)) << np.int32(23)).view(np.float32)


@inlined
def squared_distances(S, n, x, out):
    """Set out[j] = ||S[:, j] - x||^2 for j < n. S (d, B) and x (d,) are float32.

    Squares are added in the order of the features, each with one rounding. Loops that add 8, 4 or
    2 features at a time save reads and writes of `out`, and give the same values.
    """
    d = x.shape[0]
    if d >= 8:
        _first_eight(S, n, x, out)
        k = 8
    elif d >= 4:
        x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
        for j in range(n):
            e0, e1, e2, e3 = S[0, j] - x0, S[1, j] - x1, S[2, j] - x2, S[3, j] - x3
            total = e0 * e0
            total = fma(e1, e1, total)
            total = fma(e2, e2, total)
            total = fma(e3, e3, total)
            out[j] = total
        k = 4
    elif d >= 2:
        x0, x1 = x[0], x[1]
        for j in range(n):
            e0, e1 = S[0, j] - x0, S[1, j] - x1
            total = e0 * e0
            total = fma(e1, e1, total)
            out[j] = total
        k = 2
    else:
        x0 = x[0]
        for j in range(n):
            e0 = S[0, j] - x0
            out[j] = e0 * e0
        k = 1
    while k + 4 <= d:
        x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
        for j in range(n):
            e0, e1, e2, e3 = S[k, j] - x0, S[k + 1, j] - x1, S[k + 2, j] - x2, S[k + 3, j] - x3
            total = out[j]
            total = fma(e0, e0, total)
            total = fma(e1, e1, total)
            total = fma(e2, e2, total)
            total = fma(e3, e3, total)
            out[j] = total
        k += 4
    if k + 2 <= d:
        x0, x1 = x[k], x[k + 1]
        for j in range(n):
            e0, e1 = S[k, j] - x0, S[k + 1, j] - x1
            total = out[j]
            total = fma(e0, e0, total)
            total = fma(e1, e1, total)
            out[j] = total
        k += 2
    if k < d:
        x0 = x[k]
        for j in range(n):
            e0 = S[k, j] - x0
            out[j] = fma(e0, e0, out[j])


@inlined
def _first_eight(S, n, x, out):
    """Set out[j] to the squared distance along the first eight features."""
    x0, x1, x2, x3, x4, x5, x6, x7 = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
    for j in range(n):
        e0, e1, e2, e3 = S[0, j] - x0, S[1, j] - x1, S[2, j] - x2, S[3, j] - x3
        e4, e5, e6, e7 = S[4, j] - x4, S[5, j] - x5, S[6, j] - x6, S[7, j] - x7
        total = e0 * e0
        total = fma(e1, e1, total)
        total = fma(e2, e2, total)
        total = fma(e3, e3, total)
        total = fma(e4, e4, total)
        total = fma(e5, e5, total)
        total = fma(e6, e6, total)
        total = fma(e7, e7, total)
        out[j] = total


@inlined
def lowest(bits):
    """Return the minimum of an int32 array, or the maximum int32 if the array is empty."""
    low = np.int32(2147483647)
    for j in range(bits.shape[0]):
        low = min(low, bits[j])
    return low


@inlined
def least_square(squares):
    """Return the smallest of the squared distances, but at most `MAX_SQUARED_DISTANCE`."""
    return min(np.int32(lowest(squares.view(np.int32))).view(np.float32), MAX_SQUARED_DISTANCE)


@inlined
def lowest_places(values, count):
    """Return the indices of the `count` lowest values (n,), sorted by value and then by index.

    If n is less than `count`, all are returned. ``np.argsort`` would take longer to compile.
    """
    places, m = np.empty(count, np.int64), 0
    for i in range(values.shape[0]):
        if m == count and not values[i] < values[places[m - 1]]:
            continue
        at = min(m, count - 1)
        while at > 0 and values[places[at - 1]] > values[i]:
            places[at] = places[at - 1]
            at -= 1
        places[at] = i
        m = min(m + 1, count)
    return places[:m]


@inlined
def kernel_row(S, n, scale, x, out):
    """Set out[j] = 2^(scale ||S[:, j] - x||^2) for j < n, where scale = -gamma log2(e)."""
    squared_distances(S, n, x, out)
    for j in range(n):
        out[j] = exp2(scale * out[j])


@kernel
def weighted_sums(X, S, a, gamma):
    """Return sum_j a_j K(s_j, x_i), (n,) float32, for every row x_i of X.

    X (n, d), S (d, B) and a (B,) are float32, gamma is float64. Loops are vectorised over rows.
    Terms are added in the order of the vectors, in partial sums of `TERMS` terms.
    """
    n, d = X.shape
    b = S.shape[1]
    scale = -np.float32(gamma) * LOG2_E
    vectors = np.ascontiguousarray(S.T)
    rows = np.empty((d, ROW_LANES), np.float32)
    squares, run = np.empty(ROW_LANES, np.float32), np.empty(ROW_LANES, np.float32)
    sums = np.empty(ROW_LANES, np.float32)
    out = np.empty(n, np.float32)
    for first in range(0, n, ROW_LANES):
        n_rows = min(ROW_LANES, n - first)
        for r in range(n_rows):
            for k in range(d):
                rows[k, r] = X[first + r, k]
        sums[:] = ZERO
        for start in range(0, b, TERMS):
            run[:] = ZERO
            for j in range(start, min(start + TERMS, b)):
                squared_distances(rows, n_rows, vectors[j], squares)
                for r in range(n_rows):
                    run[r] = fma(a[j], exp2(scale * squares[r]), run[r])
            for r in range(n_rows):
                sums[r] += run[r]
        for r in range(n_rows):
            out[first + r] = sums[r]
    return out


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
    """Return the shares (n, k) float32 of k clusters in every row of X (n, d).

    A share is proportional to the cluster's weighted kernel sum at the row, raised to the `power`
    (float64). The shares of a row add up to 1. The vectors of cluster c are the columns of S (d, B)
    from ends[c - 1] to ends[c], and a (B,) are the weights of all vectors. S and a are float32,
    ends (k,) is int64. Kernel values are divided by the nearest vector's value, so that sums don't
    vanish far from all vectors.
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
    """Return the shares (n, k) float32 of k clusters in every row of X (n, d) float32.

    A share is proportional to exp(-scale r^2), where r is the row's distance from the cluster's
    nearest point. The shares of a row add up to 1. The points of cluster c are the columns of
    S (d, B) float32 from ends[c - 1] to ends[c], ends (k,) int64.
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
