"""Logarithms of kernel sums at two widths, and of distances to near points."""

import numpy as np

from distsvc.kernels.jit import kernel
from distsvc.kernels.level_tree import FARTHEST
from distsvc.kernels.rbf import LOG2_E, exp2, squared_distances

SQUARINGS = 7
"""The narrow kernel is the wide one squared so often: its gamma is 128 times as large."""

FAINTEST = np.float32(0.57)
"""Of the wide kernel, where the narrow one is as good as 0: 0.57^128 is 2^-104. Arithmetic on
numbers below 2^-126 is a hundred times slower."""

LAST_BITS = np.int32(2147483647)
"""Those of a NaN, above those of every distance."""


@kernel
def log_sums(X, S, a, gamma, out):
    """Set out[0] and out[1] to log sum_j a_j K(s_j, x), with gamma and with gamma / 128.

    X (n, d) float32, S (d, B) float32, a (B,) float32, positive, gamma float64, out (2, n) float64.
    Exponents are shifted by the nearest vector's, so that the logarithm is right for a row far from
    all of them.
    """
    b = S.shape[1]
    wide = gamma / 2.0**SQUARINGS
    scale = -np.float32(wide) * LOG2_E
    values = np.empty(b, np.float32)
    bits = values.view(np.int32)
    for i in range(X.shape[0]):
        squared_distances(S, b, X[i], values)
        nearest = bits[0]
        for j in range(b):
            nearest = min(nearest, bits[j])
        shift = min(np.int32(nearest).view(np.float32), FARTHEST)
        total, narrow = np.float32(0.0), np.float32(0.0)
        for j in range(b):
            value = exp2(scale * (values[j] - shift))
            total += a[j] * value
            value = max(value, FAINTEST)
            for _ in range(SQUARINGS):
                value *= value
            narrow += a[j] * value
        out[0, i] = np.log(np.float64(narrow)) - gamma * np.float64(shift)
        out[1, i] = np.log(np.float64(total)) - wide * np.float64(shift)


@kernel
def log_nearness(X, P, k, least, out):
    """Set out[i] to minus the logarithm of the distance from x_i to the k-th nearest of points.

    X (n, d) float32, P (d, m) float32, m > k, out (n,) float64. A point that x lies on is left out
    once, for a point is near others, not near itself. Squared distances below `least`, float32
    and positive, count as that. A row with distances that are not numbers gets NaN.
    """
    m = P.shape[1]
    squares = np.empty(m, np.float32)
    bits = squares.view(np.int32)  # integers order distances, which are not negative, alike
    for i in range(X.shape[0]):
        squared_distances(P, m, X[i], squares)
        found, wanted, nearest = np.int32(0), k, np.int32(-1)
        while found < wanted:
            last, nearest = nearest, LAST_BITS
            for j in range(m):
                nearest = min(nearest, bits[j] if bits[j] > last else LAST_BITS)
            if nearest == LAST_BITS:
                break
            if nearest == 0:
                wanted = k + 1
            for j in range(m):
                found += np.int32(bits[j] == nearest)
        square = np.int32(nearest).view(np.float32)
        out[i] = -0.5 * np.log(np.float64(max(square, least)))
