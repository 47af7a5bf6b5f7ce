"""Labellings of tables in memory: by the complete graph (SVC), and by balls (FSVC).

| "Support Vector Clustering", Ben-Hur, Horn, Siegelmann and Vapnik 2001 | here |
|---|---|
| adjacency A_ij, eq. (18): R(y) <= R on the segment | f(y) >= 0 on it |
| points sampled on a segment | ``segment_samples`` |
| bounded support vectors: unclassified or assigned to the closest cluster | ``noise`` |

| "Fast support-based clustering method for large-scale problems", Jung, Lee and Lee 2010 | here |
|---|---|
| radius of the balls that the table is divided into | ``ball_radius`` |
| distance below which moving points are merged | ``merge_radius`` |
| descent of R^2 | ascent of f (trajectories with the same ends, since R^2 = const - 2 rho f) |
| points tested on a segment between two equilibria | `BALL_SAMPLES` |

The steps of FSVC follow the authors' public program. The page "Departures from the papers" lists
what differs.
"""

import numpy as np
from scipy.spatial import cKDTree

from distsvc.errors import ParameterError
from distsvc.kernels import boundary as kernels
from distsvc.models.support_vector.boundary.labelling import (
    CLIMB_STEPS,
    CLIMB_TOLERANCE,
    SEGMENT_TOLERANCE,
    DecisionFunction,
    halves,
)

MOST_VERTICES = 100_000
LEAF_VERTICES = 32
"""Maximum number of vertices in a box that is not halved."""

BURST = 5
"""Number of steps of every point between two merges."""

ARRIVED = 1e-2
"""Maximum distance that a point moves in `BURST` steps if it has arrived, in units of sigma."""

BALL_SAMPLES = 9


def inside_rows(f: DecisionFunction, X: np.ndarray) -> np.ndarray:
    """Return the distinct rows (m, d) of X (n, d) float32 that are inside, sorted.

    Inside is f >= -`SEGMENT_TOLERANCE`, which includes support vectors on the boundary. If no row
    is inside, the rows with the highest f are returned.
    """
    values = f(X)
    inside = np.unique(X[values >= min(-SEGMENT_TOLERANCE, values.max())], axis=0)
    if len(inside) > MOST_VERTICES:
        raise ParameterError(
            f"labelling='complete-graph' takes at most {MOST_VERTICES} distinct rows inside the "
            f"boundary, found {len(inside)}; use 'equilibria' or 'balls'"
        )
    return inside


def joined_pairs(f: DecisionFunction, V: np.ndarray, samples: int) -> np.ndarray:
    """Return edges (p, 2) of a forest with the components of the complete graph.

    The vertices are the distinct rows of V (n, d) float32. Two vertices have an edge if their
    segment is inside at `samples` inner points. Memory grows with n, and time with the number of
    pairs that a bound on f cannot rule out.
    """
    order, first, last, child = _boxes(V)
    ranked = np.ascontiguousarray(V[order])
    low = np.array([ranked[i:j].min(axis=0) for i, j in zip(first, last, strict=True)])
    high = np.array([ranked[i:j].max(axis=0) for i, j in zip(first, last, strict=True)])
    n = len(ranked)
    # Nearest neighbours come first, since most of them are connected.
    k = min(8 + 1, n)
    distance, near = (found.reshape(n, k) for found in cKDTree(ranked).query(ranked, k=k))
    pairs = np.column_stack([np.repeat(np.arange(n), k), near.ravel()]).astype(np.int64)
    pairs = pairs[np.argsort(distance.ravel(), kind="stable")]
    level = np.float32(1.0 - SEGMENT_TOLERANCE)
    forest = kernels.spanning_forest(
        ranked, pairs, first, last, child, low, high, f.S, f.a, f.gamma, samples, level
    )
    return order[forest]


def _boxes(V: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return a tree of boxes of V (n, d): order (n,), first, last and child (c,), all int64.

    Box i contains the vertices order[first[i] : last[i]]. Its halves are the boxes child[i] and
    child[i] + 1; child[i] is -1 in a leaf.
    """
    order = np.arange(len(V))
    parts, first, child = [order.copy()], [0], []
    for u, numbers in enumerate(parts):  # halves are appended, and visited later
        order[first[u] : first[u] + len(numbers)] = numbers
        child.append(len(parts) if len(numbers) > LEAF_VERTICES else -1)
        if child[u] > 0:
            parts += halves(V, numbers)
            first += [first[u], first[u] + len(parts[-2])]
    begin = np.array(first, np.int64)
    return order, begin, begin + [len(numbers) for numbers in parts], np.array(child, np.int64)


def ball_centres(X: np.ndarray, keys: np.ndarray, radius: float) -> np.ndarray:
    """Return the centres (m, d) float32 of balls that cover the rows X (n, d) float32.

    Centres are chosen among the rows, in the order of their random keys (n,) uint64.
    """
    shuffled = np.ascontiguousarray(X[np.argsort(keys)])
    return shuffled[kernels.ball_centres(shuffled, float(radius))]


def climb_together(f: DecisionFunction, X: np.ndarray, radius: float) -> np.ndarray:
    """Return the ends (m, d) of points X (m, d) float32 that climb f and merge on their way.

    After every `BURST` steps, if any point has arrived, points absorb neighbours nearer than
    `radius` (`distsvc.kernels.boundary.merge_neighbours`). As in the authors' program, f between
    two points is not tested: `radius` alone decides how near two equilibria may be.
    """
    points, member = X.copy(), np.arange(len(X))
    arrived = np.zeros(len(X), bool)
    for _ in range(CLIMB_STEPS // BURST):
        moving = np.flatnonzero(~arrived)
        if not moving.size:
            break
        before = points[moving]
        after = kernels.climb(before, f.S, f.a, f.gamma, CLIMB_TOLERANCE, BURST)
        points[moving] = after
        arrived[moving] = np.linalg.norm(after - before, axis=1) < ARRIVED * f.sigma
        if arrived.any():
            target = kernels.merge_neighbours(points, arrived, float(radius))
            remaining, target = np.unique(target, return_inverse=True)
            points, arrived, member = points[remaining], arrived[remaining], target[member]
    return points[member]
