"""The labelling of Ben-Hur et al. 2001: the components of the graph of all rows inside.

| "Support Vector Clustering", Ben-Hur, Horn, Siegelmann and Vapnik 2001 | here |
|---|---|
| adjacency A_ij, eq. (18): R(y) <= R on the segment | f(y) >= 0 on it |
| points sampled on a segment | ``segment_samples`` |
| bounded support vectors: unclassified or assigned to the closest cluster | ``noise`` |
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from distsvc.errors import ParameterError
from distsvc.kernels.complete_graph import spanning_forest
from distsvc.models.support_vector.boundary.labelling import (
    SEGMENT_TOLERANCE,
    DecisionFunction,
    halves,
)

MOST_VERTICES = 100_000
LEAF_VERTICES = 32
"""Maximum number of vertices of a box that is not halved."""

FIRST_NEIGHBOURS = 8
"""Number of nearest neighbours of every vertex that are tested first: most are connected."""


def inside_rows(f: DecisionFunction, X: np.ndarray) -> np.ndarray:
    """Return the distinct rows (m, d) of X (n, d) float32 that are inside, sorted.

    Inside is f >= -`SEGMENT_TOLERANCE`, which includes support vectors on the boundary. If no row
    is inside, the rows with the highest f are returned.

    Raises
    ------
    ParameterError
        There are more than 100,000.

    """
    values = f(X)
    inside = np.unique(X[values >= min(-SEGMENT_TOLERANCE, values.max())], axis=0)
    if len(inside) > MOST_VERTICES:
        raise ParameterError(
            f"labelling='complete-graph' takes at most {MOST_VERTICES} different rows inside, "
            f"found {len(inside)}; use 'equilibria' or 'balls'"
        )
    return inside


def joined_pairs(f: DecisionFunction, V: np.ndarray, samples: int) -> np.ndarray:
    """Return edges (p, 2) of a forest with the components of the complete graph.

    The vertices are V (n, d) float32, all different. The graph has an edge between any two whose
    segment is inside at `samples` inner points. Memory grows with n, time with the number of pairs
    that a bound on f cannot rule out.
    """
    order, first, last, child = _boxes(V)
    ranked = np.ascontiguousarray(V[order])
    low = np.array([ranked[i:j].min(axis=0) for i, j in zip(first, last, strict=True)])
    high = np.array([ranked[i:j].max(axis=0) for i, j in zip(first, last, strict=True)])
    level = np.float32(1.0 - SEGMENT_TOLERANCE)
    forest = spanning_forest(
        ranked, _nearest_pairs(ranked), first, last, child, low, high,
        f.S, f.a, f.gamma, samples, level,
    )  # fmt: skip
    return order[forest]


def _boxes(V: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the order (n,) of vertices, and first, last and child (c,) of every box, int64."""
    parts, first, child = [np.arange(len(V))], [0], [-1]
    order = np.arange(len(V))
    u = 0
    while u < len(parts):
        numbers = parts[u]
        order[first[u] : first[u] + len(numbers)] = numbers
        if len(numbers) > LEAF_VERTICES:
            child[u] = len(parts)
            left, right = halves(V, numbers)
            parts += [left, right]
            first += [first[u], first[u] + len(left)]
            child += [-1, -1]
        u += 1
    begin = np.array(first, np.int64)
    return order, begin, begin + [len(numbers) for numbers in parts], np.array(child, np.int64)


def _nearest_pairs(V: np.ndarray) -> np.ndarray:
    """Return pairs (m, 2) int64 of every vertex and its nearest ones, the shortest first."""
    n = len(V)
    k = min(FIRST_NEIGHBOURS + 1, n)
    distance, near = (found.reshape(n, k) for found in cKDTree(V).query(V, k=k))
    pairs = np.column_stack([np.repeat(np.arange(n), k), near.ravel()])
    return pairs[np.argsort(distance.ravel(), kind="stable")].astype(np.int64)
