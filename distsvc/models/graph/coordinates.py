"""Diffusion coordinates: rows placed by how they hang together along a graph of near rows.

A walk goes from a row to one of its nearest neighbours, rather to the nearer ones. Rows between
which it goes often, in few steps or many, have similar entries in the leading eigenvectors of the
walk, however their clusters wind through many columns.

Source: Coifman and Lafon 2006, section 2.4, with the local scales of Zelnik-Manor and Perona 2004.
Departures: the graph has the nearest neighbours alone; coordinates add up all numbers of steps
instead of taking one; and the walk restarts from a random row now and then, so that a graph in
pieces has coordinates, too.
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

SCALED_BY = 7
"""The nearest neighbour whose distance is a row's local scale."""

LEAST_WEIGHT = 1e-9
"""Of an edge between rows that are near each other only for want of nearer ones."""

MOST_COORDINATES = 20

RESTARTS = 1e-3
"""Share of the steps after which the walk is at a random row."""

FEWEST_POINTS = 100
"""Points, at least, of a graph that tells anything."""


MOST_TIED = 0.1
"""Share of the points, at most, whose 15th and 16th neighbours are equally near. On a lattice it is
arbitrary which of them counts, and so would be the clusters."""

ROUNDING = 1e-5


class Without(StrEnum):
    """Why points have no coordinates."""

    FEW = "few"
    LATTICE = "lattice"
    PIECES = "pieces"


def diffusion_coordinates(points: np.ndarray, n_jobs: int | None = 1) -> np.ndarray | Without:
    """Return the coordinates (m, 20) float32 of different points (m, p), the leading first.

    Coordinate i is psi_i sqrt(l_i / (1 - l_i)), with l_i the largest eigenvalues of the walk below
    1 and psi_i its right eigenvectors, of mean square 1 in the walk's stationary distribution. The
    entry of largest size is positive. There are none of fewer than 100 points, of a lattice, and of
    points whose graph is in more pieces than there are coordinates: where all 20 walks are slower
    than restarts, they say which pieces were found, and not how these lie. `n_jobs` threads look
    for neighbours.
    """
    if len(points) < FEWEST_POINTS:
        return Without.FEW
    with threadpool_limits(1):  # several would give other last bits
        graph = neighbour_graph(points, n_jobs)
        if graph is None:
            return Without.LATTICE
        found = _walk_vectors(graph)
        if found is None:
            return Without.PIECES
    heaviest = np.take_along_axis(found, np.abs(found).argmax(axis=0)[None], axis=0)
    return (found * np.sign(heaviest)).astype(np.float32)


def neighbour_graph(points: np.ndarray, n_jobs: int | None = 1) -> csr_array | None:
    """Return the weights (m, m) float64, symmetric, of the edges between near points (m, p).

    A point is joined to its 15 nearest, with the weight exp(-r^2 / (s t)), where r is the distance
    and s and t are the local scales of the two: the distances to the 7th neighbour. None for a
    lattice.
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
    """Return the scaled eigenvectors (m, 20) float64 of the walk with these weights (m, m).

    None of a graph in pieces.
    """
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
    # A further step, exact for points that the walk hardly visits, whose entries are rounded away.
    psi = (weights @ psi) / degrees[:, None] / values
    kept = (1.0 - RESTARTS) * values
    psi *= np.sqrt(kept / (1.0 - kept))
    found = np.empty_like(psi)
    found[order] = psi
    return found
