"""Logarithms of kernel sums at two widths, and of distances to near points."""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot
from distsvc.kernels.rbf import BATCH, LOG2_E, exp2, least_square, squared_distances

SQUARINGS = 7
"""The narrow kernel is the wide one squared so often: its gamma is 128 times as large."""

MIN_WIDE_KERNEL = np.float32(0.57)
"""Of the wide kernel, where the narrow one is as good as 0: 0.57^128 is 2^-104. Arithmetic on
numbers below 2^-126 is a hundred times slower."""

LAST_BITS = np.int32(2147483647)
"""Those of a NaN, above those of every distance."""

GROUPS = 32
"""Of points; the nearest of each bound the k-th nearest of all. More where k is as many."""


@kernel
def log_sums(X, S, a, gamma, out):
    """Set out[0] and out[1] to log sum_j a_j K(s_j, x), with gamma and with gamma / 128.

    X (n, d) float32, S (d, B) float32, a (B,) float32, positive, gamma float64, out (2, n) float64.
    Exponents are shifted by the nearest vector's, so that the logarithm is right for a row far from
    all of them.
    """
    n, b = X.shape[0], S.shape[1]
    wide = gamma / 2.0**SQUARINGS
    scale = -np.float32(wide) * LOG2_E
    values, nearest = np.empty((BATCH, b), np.float32), np.empty(BATCH, np.float32)
    for first in range(0, n, BATCH):
        rows = min(BATCH, n - first)
        for r in range(rows):
            squared_distances(S, b, X[first + r], values[r])
        for r in range(rows):
            nearest[r] = least_square(values[r])
        for r in range(rows):
            row, shift = values[r], nearest[r]
            for j in range(b):
                row[j] = exp2(scale * (row[j] - shift))
            out[1, first + r] = dot(a, row)
            for j in range(b):
                value = max(row[j], MIN_WIDE_KERNEL)
                for _ in range(SQUARINGS):
                    value *= value
                row[j] = value
            out[0, first + r] = dot(a, row)
        for r in range(rows):
            i, square = first + r, np.float64(nearest[r])
            out[0, i] = np.log(out[0, i]) - gamma * square
            out[1, i] = np.log(out[1, i]) - wide * square


@kernel
def log_wide_sum(X, S, a, gamma, out):
    """Set out[i] to log sum_j a_j K(s_j, x_i), with gamma / 128: out[1] of `log_sums`.

    X (n, d) float32, S (d, B) float32, a (B,) float32, positive, gamma float64, out (n,) float64.
    The first steps are those of `log_sums`; as a piece that both call they take a tenth longer.
    """
    n, b = X.shape[0], S.shape[1]
    wide = gamma / 2.0**SQUARINGS
    scale = -np.float32(wide) * LOG2_E
    values, nearest = np.empty((BATCH, b), np.float32), np.empty(BATCH, np.float32)
    for first in range(0, n, BATCH):
        rows = min(BATCH, n - first)
        for r in range(rows):
            squared_distances(S, b, X[first + r], values[r])
        for r in range(rows):
            nearest[r] = least_square(values[r])
        for r in range(rows):
            row, shift = values[r], nearest[r]
            for j in range(b):
                row[j] = exp2(scale * (row[j] - shift))
            out[first + r] = dot(a, row)
        for r in range(rows):
            out[first + r] = np.log(out[first + r]) - wide * np.float64(nearest[r])


@inlined
def _lowest_of_groups(bits, lows, groups):
    """Set lows[:groups] to the least of bits in each group, that of equal j % groups."""
    half = lows.shape[0]
    for j in range(half):
        lows[j] = min(bits[j], bits[j + half])
    while half > groups:
        half //= 2
        for j in range(half):
            lows[j] = min(lows[j], lows[j + half])


@inlined
def _bound(lows, k):
    """Return the lowest of lows that is above so many less one, and that number.

    It is k, or one more where the lowest is 0. Equal ones count once.
    """
    bound = lows[0]
    for j in range(lows.shape[0]):
        bound = min(bound, lows[j])
    wanted = k + np.int32(bound == 0)
    for _ in range(1, wanted):
        last, bound = bound, LAST_BITS
        for j in range(lows.shape[0]):
            bound = min(bound, lows[j] if lows[j] > last else LAST_BITS)
    return bound, wanted


@inlined
def _lowest_but(bits, bound, wanted):
    """Return the `wanted`-th lowest of bits, which is at most the bound."""
    below, highest = np.int32(0), np.int32(0)
    for j in range(bits.shape[0]):
        less = bits[j] < bound
        below += np.int32(less)
        highest = max(highest, bits[j] if less else np.int32(0))
    if below > wanted:
        return _climbed(bits, wanted)
    return highest if below == wanted else bound


@inlined
def _climbed(bits, wanted):
    """Return the lowest of bits that are not negative with so many at or below it, or LAST_BITS."""
    found, lowest = np.int32(0), np.int32(-1)
    while found < wanted and lowest < LAST_BITS:
        last, lowest = lowest, LAST_BITS
        for j in range(bits.shape[0]):
            lowest = min(lowest, bits[j] if bits[j] > last else LAST_BITS)
        for j in range(bits.shape[0]):
            found += np.int32(bits[j] == lowest)
    return lowest


@kernel
def log_nearness(X, P, k, least, out):
    """Set out[i] to minus the logarithm of the distance from x_i to the k-th nearest of points.

    X (n, d) float32, P (d, m) float32, m > k, out (n,) float64. A point that x lies on is left out
    once, for a point is near others, not near itself. Squared distances below `least`, float32
    and positive, count as that. A row with distances that are not numbers gets NaN.

    Points are in groups by their numbers. The k-th lowest of the groups' lowest distances bounds
    the k-th lowest of all, and mostly is it: one more look at all of them tells.
    """
    n, (d, m) = X.shape[0], P.shape
    groups = GROUPS
    while groups <= k:
        groups *= 2
    width = 2 * groups
    while width < m:
        width *= 2
    points = np.full((d, width), np.float32(np.inf))
    points[:, :m] = P
    squares = np.empty((BATCH, width), np.float32)
    bits = squares.view(np.int32)  # integers order distances, which are not negative, alike
    lows = np.empty((BATCH, width // 2), np.int32)
    bounds, wanted = np.empty(BATCH, np.int32), np.empty(BATCH, np.int32)
    for first in range(0, n, BATCH):
        rows = min(BATCH, n - first)
        for r in range(rows):
            squared_distances(points, width, X[first + r], squares[r])
        for r in range(rows):
            _lowest_of_groups(bits[r], lows[r], groups)
        for r in range(rows):
            bounds[r], wanted[r] = _bound(lows[r, :groups], k)
        for r in range(rows):
            lowest = _lowest_but(bits[r], bounds[r], wanted[r])
            out[first + r] = max(np.int32(lowest).view(np.float32), least)
        for r in range(rows):
            out[first + r] = -0.5 * np.log(out[first + r])
