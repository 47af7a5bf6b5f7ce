"""Balls that cover a table, and the merging of their centres on the way to the equilibria."""

import numpy as np

from distsvc.kernels.jit import kernel
from distsvc.kernels.rbf import squared_distances


@kernel
def ball_centres(X, radius):
    """Return which rows (m,) int64 of X (n, d) float32 are centres, in their order.

    The first row that no ball has absorbed yet becomes a centre and absorbs all rows at a distance
    below `radius` (float64). That is: a row is a centre unless one of those before it is as near.
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
    """Return for each of the points P (m, d) float32 which one (m,) int64 it is moved to.

    Points are visited in their order. One that has `arrived` (m,) bool takes its neighbours, the
    points at a distance below `radius` (float64), to its place. One that has not joins its nearest
    neighbour that has, or, where there is none, takes its neighbours to its place. Points that were
    moved are not visited any more and are nobody's neighbours.
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
