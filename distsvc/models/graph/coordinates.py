"""Diffusion coordinates: positions of rows by their connections in a nearest-neighbour graph.

A random walk steps from a row to one of its nearest neighbours, more often to nearer ones. Rows
that the walk connects in few steps have similar entries in its leading eigenvectors. This holds for
clusters of any shape in many columns.

Source: Coifman and Lafon 2006, section 2.4, with the local scales of Zelnik-Manor and Perona 2004.
Departures: the graph has edges to nearest neighbours only. Coordinates sum over all numbers of
steps instead of one. The walk sometimes restarts at a random row, so that a disconnected graph has
coordinates, too.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.csgraph import reverse_cuthill_mckee
from threadpoolctl import threadpool_limits

from distsvc.models.graph.slow_modes import slowest_modes
from distsvc.models.rows.neighbours import nearest_others

NEIGHBOURS = 15
"""Number of nearest neighbours to which each point is joined."""


SCALED_BY = 7
"""Rank of the neighbour whose distance is a row's local scale."""

LEAST_WEIGHT = 1e-9
"""Minimum weight of an edge, so that isolated points stay connected."""

MOST_COORDINATES = 20
"""Number of diffusion coordinates."""


RESTARTS = 1e-3
"""Probability per step that the walk restarts at a random row."""

FEWEST_POINTS = 100
"""Minimum number of points for a graph."""


MOST_TIED = 0.1
"""Maximum share of the points whose 15th and 16th neighbours are equally near. On a lattice the
choice between them would be arbitrary, and so would the clusters."""

ROUNDING = 1e-5
"""Relative tolerance for equal distances."""


class Without(StrEnum):
    """Reason for which points have no coordinates."""

    FEW = "few"
    LATTICE = "lattice"
    PIECES = "pieces"


def diffusion_coordinates(points: np.ndarray, n_jobs: int | None = 1) -> np.ndarray | Without:
    """Return the coordinates (m, 20) float32 of distinct points (m, p), the leading first.

    Coordinate i is psi_i sqrt(l_i / (1 - l_i)). l_i are the largest eigenvalues of the walk below
    1, and psi_i its right eigenvectors, of mean square 1 in the stationary distribution. The entry
    of largest magnitude is positive.

    A `Without` is returned for fewer than 100 points, for a lattice, and for a graph in more pieces
    than there are coordinates. In that case all 20 modes only identify pieces. The neighbour search
    uses `n_jobs` threads.
    """
    if len(points) < FEWEST_POINTS:
        return Without.FEW
    with threadpool_limits(1):  # the last bits depend on the number of threads
        graph = neighbour_graph(points, n_jobs)
        if graph is None:
            return Without.LATTICE
        found = _walk_vectors(graph)
        if found is None:
            return Without.PIECES
    heaviest = np.take_along_axis(found, np.abs(found).argmax(axis=0)[None], axis=0)
    return (found * np.sign(heaviest)).astype(np.float32)


def neighbour_graph(points: np.ndarray, n_jobs: int | None = 1) -> csr_array | None:
    """Return the symmetric edge weights (m, m) float64 of near points (m, p); None for a lattice.

    A point is joined to its 15 nearest with the weight exp(-r^2 / (s t)), where r is the distance.
    s and t are the local scales of the two points: the distances to their 7th neighbours.
    """
    m, k = len(points), NEIGHBOURS
    distances, numbers = nearest_others(points, k + 1, n_jobs)
    last, next_one = distances[:, k - 1], distances[:, k]
    if np.isclose(last, next_one, rtol=ROUNDING, atol=0.0).mean() > MOST_TIED:
        return None
    distances, numbers = distances[:, :k], numbers[:, :k]
    scales = np.maximum(distances[:, SCALED_BY - 1], np.finfo(np.float32).tiny)
    exponents = distances / scales[:, None] * (distances / scales[numbers])
    weights = np.maximum(np.exp(-exponents), LEAST_WEIGHT).ravel()
    ends = np.repeat(np.arange(m), k), numbers.ravel()
    directed = coo_array((weights, ends), shape=(m, m)).tocsr()
    return directed.maximum(directed.T).tocsr()


def _walk_vectors(weights: csr_array) -> np.ndarray | None:
    """Return the scaled eigenvectors (m, 20) float64 of the walk; None for too many pieces."""
    order = reverse_cuthill_mckee(weights, symmetric_mode=True)  # near rows are near in memory
    weights = weights[order][:, order]
    degrees = weights.sum(axis=1)
    roots = np.sqrt(degrees)
    similar = (diags_array(1.0 / roots) @ weights @ diags_array(1.0 / roots)).tocsr()
    stationary = roots / np.linalg.norm(roots)
    modes = slowest_modes(similar, stationary, MOST_COORDINATES, RESTARTS)
    if modes is None:
        return None
    values, vectors = modes
    values = np.maximum(values, 1e-6)
    psi = vectors / stationary[:, None]
    # One more step restores the entries of rarely visited points, which rounding has removed.
    psi = (weights @ psi) / degrees[:, None] / values
    kept = (1.0 - RESTARTS) * values
    psi *= np.sqrt(kept / (1.0 - kept))
    found = np.empty_like(psi)
    found[order] = psi
    return found
