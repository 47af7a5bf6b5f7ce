"""Diffusion coordinates: positions of rows by their connections in a nearest-neighbour graph.

A random walk steps from a row to one of its nearest neighbours, most often to the nearest. Rows
that the walk connects in few steps have similar entries in its leading eigenvectors. So clusters of
any shape, in many columns, are compact in these coordinates.

Source: Coifman and Lafon 2006, section 2.4, with the local scales of Zelnik-Manor and Perona 2004.
Departures: the graph has edges to nearest neighbours only. Coordinates are sums over walks of any
number of steps; the source uses a fixed number. The walk sometimes restarts at a random row, so
that disconnected graphs have coordinates, too.
"""

from enum import StrEnum

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from distsvc.kernels.rows import walk_on
from distsvc.models.rows.neighbours import nearest_others
from distsvc.models.rows.principal_components import with_fixed_signs
from distsvc.models.rows.threads import one_thread

GRAPH_NEIGHBOURS = 15
"""Number of nearest neighbours to which each point is joined."""

SCALED_BY = 7
"""Rank of the neighbour whose distance is a point's local scale."""

MOST_COORDINATES = 20
"""Number of diffusion coordinates."""

N_DIFFUSED = 32
"""Number of vectors that the eigensolver iterates. It exceeds `MOST_COORDINATES`, because spare
vectors speed up the convergence."""

RESTARTS = 1e-3
"""Probability per step that the walk restarts at a random row."""

FEWEST_POINTS = 100
"""Minimum number of points for a graph."""

MOST_TIED = 0.1
"""Maximum share of points whose last neighbour in the graph is as near as the first one left out.
With more ties, as on a lattice, the choice of neighbours and so the clusters are arbitrary."""


class NoGraphReason(StrEnum):
    """Reason why points have no graph, and so no coordinates."""

    FEW = "few"
    LATTICE = "lattice"
    PIECES = "pieces"


def diffusion_coordinates(points: np.ndarray, n_jobs: int | None = 1) -> np.ndarray | NoGraphReason:
    """Return diffusion coordinates (m, 20) float32 of distinct points (m, p), or a `NoGraphReason`.

    Coordinate i is psi_i sqrt(l_i / (1 - l_i)). l_i are the walk's 20 largest eigenvalues below 1,
    descending. psi_i are its right eigenvectors, of mean square 1 in the stationary distribution.
    The entry of largest magnitude is positive.

    No coordinates are computed for fewer than `FEWEST_POINTS` points, a lattice, or a graph in more
    than 20 pieces, whose coordinates would only identify the pieces. The neighbour search uses
    `n_jobs` threads.
    """
    if len(points) < FEWEST_POINTS:
        return NoGraphReason.FEW
    with one_thread():  # the last bits depend on the number of threads
        graph = neighbour_graph(points, n_jobs)
        if graph is None:
            return NoGraphReason.LATTICE
        found = _walk_vectors(graph)
        if found is None:
            return NoGraphReason.PIECES
    return with_fixed_signs(found, axis=0).astype(np.float32)


def neighbour_graph(points: np.ndarray, n_jobs: int | None = 1) -> csr_array | None:
    """Return symmetric edge weights (m, m) float64 between points (m, p); None for a lattice.

    Each point is joined to its `GRAPH_NEIGHBOURS` nearest points. Two points at distance r have the
    weight exp(-r^2 / (s t)). s and t are their local scales: each point's distance to its
    neighbour of rank `SCALED_BY`.
    """
    m, k = len(points), GRAPH_NEIGHBOURS
    distances, numbers = nearest_others(points, k + 1, n_jobs)
    last, next_one = distances[:, k - 1], distances[:, k]
    if np.isclose(last, next_one, rtol=1e-5, atol=0.0).mean() > MOST_TIED:
        return None
    distances, numbers = distances[:, :k], numbers[:, :k]
    scales = np.maximum(distances[:, SCALED_BY - 1], np.finfo(np.float32).tiny)
    exponents = distances / scales[:, None] * (distances / scales[numbers])
    weights = np.maximum(np.exp(-exponents), 1e-9).ravel()  # isolated points stay connected
    ends = np.repeat(np.arange(m), k), numbers.ravel()
    directed = coo_array((weights, ends), shape=(m, m)).tocsr()
    return directed.maximum(directed.T).tocsr()


def _walk_vectors(weights: csr_array) -> np.ndarray | None:
    """Return coordinates (m, 20) float64 from the graph's `weights`; None for over 20 pieces."""
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


def slowest_modes(
    similar: csr_array, stationary: np.ndarray, k: int, restarts: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the k largest eigenvalues (k,), descending, and eigenvectors (m, k), both float64.

    The matrix `similar` (m, m) float64 is symmetric, with eigenvalues from -1 to 1, m >= 32 and k
    <= 20. Its unit eigenvector `stationary` (m,) of eigenvalue 1 is excluded. The result is None if
    the k-th eigenvalue is at least 1 - `restarts`. An eigenvector with eigenvalue l has the decay
    1 - (1 - `restarts`) l. Iterations end when the residual of every eigenvector is at most 1e-3
    times its decay, or after 20 iterations.

    Each iteration applies a polynomial to a block of vectors, and then computes the best vectors in
    the span of the block. The polynomial is small on the spectrum, except at its upper end. Methods
    for one vector, such as Lanczos's, can miss some of several equal eigenvalues. Each piece of a
    graph adds such an eigenvalue.

    Source: Chebyshev-filtered subspace iteration, Zhou, Saad, Tiago and Chelikowsky 2006.
    Departures: the block has twelve spare vectors. The polynomial is computed in float32, and its
    degree follows from the spectrum. The residual is relative to the decay.
    """
    parts = similar.data.astype(np.float32), similar.indices, similar.indptr
    block = np.random.default_rng(0).normal(size=(len(stationary), N_DIFFUSED))
    low, high = 0.0, 1.0
    for _ in range(20):
        block = _filtered(parts, block.astype(np.float32), low, high).astype(np.float64)
        block -= np.outer(stationary, stationary @ block)
        block = np.linalg.qr(block / np.linalg.norm(block, axis=0))[0]
        walked = similar @ block
        walked -= np.outer(stationary, stationary @ walked)
        values, turns = np.linalg.eigh(block.T @ walked)
        values, turns = values[::-1], turns[:, ::-1]
        if values[k - 1] >= 1.0 - restarts:  # Ritz values are lower bounds
            return None
        block = block @ turns
        wrong = np.linalg.norm(walked @ turns[:, :k] - block[:, :k] * values[:k], axis=0)
        if np.all(wrong <= 1e-3 * (1.0 - (1.0 - restarts) * values[:k])):
            break
        low, high = float(values[-1]), float(values[0])
    return values[:k], block[:, :k]


def _filtered(
    parts: tuple[np.ndarray, np.ndarray, np.ndarray], block: np.ndarray, low: float, high: float
) -> np.ndarray:
    """Return P(A) block, (m, 32) float32, with a Chebyshev polynomial P of the matrix A.

    `parts` are the arrays of A in CSR form. P is small on [-1, low], and A has the largest
    eigenvalue `high`.
    """
    half, middle = 0.5 * (low + 1.0), 0.5 * (low - 1.0)
    growth = np.arccosh((high - middle) / half)
    # The slowest mode grows by a factor of e^8 relative to the block's last one.
    steps = int(np.clip(8.0 / growth, 2, 100))
    a, b = np.float32(1.0 / half), np.float32(-middle / half)
    before, now = block, np.zeros_like(block)
    walk_on(*parts, before, now, a, b, np.float32(0.0))
    for _ in range(steps - 1):
        walk_on(*parts, now, before, 2 * a, 2 * b, np.float32(1.0))
        before, now = now, before
    return now
