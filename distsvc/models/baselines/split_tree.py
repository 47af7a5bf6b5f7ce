"""Trees of hyperplanes as arrays, whose leaves are clusters.

A row x goes from node i to ``children[i, 0]`` if ``directions[i]`` . x is at most
``thresholds[i]``, else to ``children[i, 1]``. Leaves have the children (-1, -1). Node 0 is the
root.
"""

from collections.abc import Iterator

import numpy as np

from distsvc.kernels.rows import project

NO_CHILD = -1

Nodes = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Directions (m, d) float32, thresholds (m,) float64 and children (m, 2) int64 of nodes."""


def walk(nodes: Nodes, Z: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
    """Yield each node, the numbers of its rows in Z (n, d) float32, and the rows' positions.

    Positions are projections on the node's direction, None in leaves.
    """
    directions, thresholds, children = nodes
    waiting = [(0, np.arange(len(Z)))]
    while waiting:
        node, rows = waiting.pop()
        left, right = children[node].tolist()
        if left == NO_CHILD:
            yield node, rows, None
            continue
        positions = positions_along(take_rows(Z, rows), directions[node])
        yield node, rows, positions
        below = positions <= float(thresholds[node])  # compared in float32
        waiting += [(left, rows[below]), (right, rows[~below])]


def leaves_by_size(children: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the cluster (m,) int32 of every leaf, -1 in other nodes.

    Leaves are numbered by `counts` (m,), their numbers of rows, the largest first; ties by node.
    """
    leaves = np.flatnonzero(children[:, 0] == NO_CHILD)
    numbers = np.full(len(children), NO_CHILD, np.int32)
    numbers[leaves[np.argsort(-counts[leaves], kind="stable")]] = np.arange(len(leaves))
    return numbers


def take_rows(Z: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return Z[rows] for ascending row numbers; Z itself if these are all rows."""
    return Z if len(rows) == len(Z) else Z[rows]


def spread(positions: np.ndarray) -> float:
    """Return the standard deviation of positions (m,), with 1 in place of 0."""
    if not len(positions) or np.ptp(positions) == 0.0:
        return 1.0
    return float(positions.std(dtype=np.float64))


def positions_along(Z: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Return the projections (n,) float32 of rows Z (n, d) float32 on a direction (d,) float32."""
    return project(Z, direction[np.newaxis])[:, 0]
