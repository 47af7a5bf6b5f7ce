"""Equilibria of f(x) = sum_j a_j K(s_j, x) - 1, and the segments between them.

Points climb to equilibria (Pham, Le and Dang 2017, section 4), from rows or from the centres of
balls that cover the table (Jung, Lee and Lee 2010). Segments are sampled for their lowest f.
"""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import dot, total
from distsvc.kernels.rbf import LOG2_E, exp2, kernel_row, squared_distances


@kernel
def climb(X, S, a, gamma, tolerance, max_iter):
    """Iterate x <- P(x) = sum a_j K_j s_j / sum a_j K_j from every row of X until it stops moving.

    X (n, d) float32, S (d, B) float32, a (B,) float32, all positive. Returns the end points (n, d)
    float32. A trajectory ends when a step is at most `tolerance` / sqrt(2 gamma) long, or after
    `max_iter` steps. The map is mean shift, an EM algorithm: f never falls along a trajectory.
    Exponents are shifted by the nearest vector's, so that a start far from all vectors moves to the
    nearest one instead of to 0 / 0.
    """
    n, d = X.shape
    b = S.shape[1]
    scale = -np.float32(gamma) * LOG2_E
    smallest = np.float32(tolerance * tolerance / (2.0 * gamma))
    values, pulls = np.empty(b, np.float32), np.empty(b, np.float32)
    bits = values.view(np.int32)
    ends = X.copy()
    for i in range(n):
        x = ends[i]
        for _step in range(max_iter):
            squared_distances(S, b, x, values)
            nearest = bits[0]
            for j in range(b):
                nearest = min(nearest, bits[j])
            shift = np.int32(nearest).view(np.float32)
            for j in range(b):
                values[j] = a[j] * exp2(scale * (values[j] - shift))
            mass = total(values)
            length = np.float32(0.0)
            for k in range(d):
                centre = x[k]
                for j in range(b):
                    pulls[j] = S[k, j] - centre
                part = dot(values, pulls) / mass
                x[k] += part
                length += part * part
            if length <= smallest:
                break
    return ends


@kernel
def ball_centres(X, radius):
    """Return the numbers (m,) int64 of the rows of X (n, d) float32 that are centres, ascending.

    A row is a centre unless an earlier centre is nearer than `radius` (float64).
    """
    n, d = X.shape
    enough = np.float32(radius * radius)
    S = np.empty((d, n), np.float32)
    distances = np.empty(n, np.float32)
    centres, m = np.empty(n, np.int64), 0
    for i in range(n):
        squared_distances(S, m, X[i], distances)
        least = np.float32(np.inf)
        for j in range(m):
            least = min(least, distances[j])
        if least < enough:
            continue
        for k in range(d):
            S[k, m] = X[i, k]
        centres[m] = i
        m += 1
    return centres[:m]


@kernel
def merge_neighbours(P, arrived, radius):
    """Return the point (m,) int64 into which each of the points P (m, d) float32 merges.

    Points are visited in their order. Neighbours are points nearer than `radius` (float64). A point
    that has `arrived` (m,) bool absorbs its neighbours. One that has not merges into its nearest
    neighbour that has arrived; without one, it absorbs its neighbours. Points that have merged are
    skipped, and are nobody's neighbours.
    """
    m = P.shape[0]
    enough = np.float32(radius * radius)
    S = np.ascontiguousarray(P.T)
    distances = np.empty(m, np.float32)
    place = np.arange(m)
    for i in range(m):
        if place[i] != i:
            continue
        squared_distances(S, m, P[i], distances)
        nearest = -1
        if not arrived[i]:
            for j in range(m):
                if (
                    arrived[j]
                    and place[j] == j
                    and distances[j] < enough
                    and (nearest < 0 or distances[j] < distances[nearest])
                ):
                    nearest = j
        if nearest >= 0:
            place[i] = nearest
            continue
        for j in range(m):
            if j != i and place[j] == j and distances[j] < enough:
                place[j] = i
    for i in range(m):
        while place[place[i]] != place[i]:
            place[i] = place[place[i]]
    return place


@inlined
def sample_place(s, samples):
    """Return the place in (0, 1) of sample s of a segment, the middle first, then outwards.

    A segment between two clusters leaves them in the middle, so that the search ends early.
    """
    place = (samples + 1) // 2 + (s + 1) // 2 * (1 if s % 2 == 1 else -1)
    return np.float32(place / (samples + 1))


@kernel
def lowest_on_segments(E, pairs, S, a, gamma, samples, enough):
    """Return the lowest sampled value of sum_j a_j K(s_j, .) on the segment of every pair.

    E (M, d) float32, pairs (n, 2) int64, S (d, B) float32, a (B,) float32 -> (n,) float32. The
    `samples` points are equally spaced, without the end points. The search of a segment ends at the
    first value below `enough`, which is then returned.
    """
    d = E.shape[1]
    b = S.shape[1]
    scale = -np.float32(gamma) * LOG2_E
    values = np.empty(b, np.float32)
    x = np.empty(d, np.float32)
    out = np.empty(pairs.shape[0], np.float32)
    for i in range(pairs.shape[0]):
        start, end = E[pairs[i, 0]], E[pairs[i, 1]]
        lowest = np.float32(np.inf)
        for s in range(samples):
            share = sample_place(s, samples)
            for k in range(d):
                x[k] = start[k] + share * (end[k] - start[k])
            kernel_row(S, b, scale, x, values)
            total = dot(a, values)
            lowest = min(lowest, total)
            if lowest < enough:
                break
        out[i] = lowest
    return out
