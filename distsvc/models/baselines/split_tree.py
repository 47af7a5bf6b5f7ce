"""A binary tree of hyperplanes as arrays, and its leaves as clusters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from distsvc.kernels.projection import project

NO_CHILD = -1


@dataclass
class SplitTree:
    """A binary tree of hyperplanes, whose nodes are numbered as they are added; the root is 0.

    A row x goes to ``children[i][0]`` if ``directions[i]`` (d,) float32 . x is at most
    ``thresholds[i]``, else to ``children[i][1]``. A leaf has the children (-1, -1).
    """

    directions: list[np.ndarray | None] = field(default_factory=lambda: [None])
    thresholds: list[float] = field(default_factory=lambda: [0.0])
    children: list[tuple[int, int]] = field(default_factory=lambda: [(NO_CHILD, NO_CHILD)])

    def split(self, node: int, direction: np.ndarray, threshold: float) -> tuple[int, int]:
        """Split a leaf and return its children."""
        first = len(self.children)
        self.directions[node], self.thresholds[node] = direction, threshold
        self.children[node] = (first, first + 1)
        self.directions += [None, None]
        self.thresholds += [0.0, 0.0]
        self.children += [(NO_CHILD, NO_CHILD)] * 2
        return self.children[node]

    @property
    def leaves(self) -> np.ndarray:
        """Numbers (k,) of the leaves, ascending."""
        return np.flatnonzero(np.array(self.children)[:, 0] == NO_CHILD)

    def route(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the leaf (n,) int64 of every row of Z (n, d) float32, and its margin (n,) float32.

        A margin is the distance to the nearest hyperplane on the row's path, infinite if the root
        is a leaf. Directions must have unit length.
        """
        ends, margins = np.zeros(len(Z), np.int64), np.full(len(Z), np.inf, np.float32)
        for node, rows, positions in self._walk(Z):
            if positions is None:
                ends[rows] = node
            else:
                margins[rows] = np.minimum(margins[rows], np.abs(positions - self.thresholds[node]))
        return ends, margins

    def ends_and_spreads(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the leaf of every row, and every node's `spread` (n_nodes,), 1 in leaves."""
        ends, spreads = np.zeros(len(Z), np.int64), np.ones(len(self.children))
        for node, rows, positions in self._walk(Z):
            if positions is None:
                ends[rows] = node
            else:
                spreads[node] = spread(positions)
        return ends, spreads

    def _walk(self, Z: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
        """Yield every node with the numbers and positions (None in leaves) of its rows."""
        waiting = [(0, np.arange(len(Z)))]
        while waiting:
            node, rows = waiting.pop()
            direction, (left, right) = self.directions[node], self.children[node]
            if direction is None or left == NO_CHILD:
                yield node, rows, None
                continue
            positions = positions_along(take_rows(Z, rows), direction)
            yield node, rows, positions
            below = positions <= self.thresholds[node]
            waiting += [(left, rows[below]), (right, rows[~below])]

    def numbering(self, counts: np.ndarray) -> np.ndarray:
        """Return the cluster (n_nodes,) int32 of every leaf, -1 elsewhere.

        Leaves are numbered by their `counts` (n_nodes,) of rows, the largest first, then by node.
        """
        leaves = self.leaves
        numbers = np.full(len(self.children), NO_CHILD, np.int32)
        numbers[leaves[np.argsort(-counts[leaves], kind="stable")]] = np.arange(len(leaves))
        return numbers


def take_rows(Z: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return Z[rows] for ascending row numbers, without a copy if these are all rows."""
    return Z if len(rows) == len(Z) else Z[rows]


def spread(positions: np.ndarray) -> float:
    """Return the standard deviation of the positions (m,) of a node's rows; 1 if it would be 0."""
    if not len(positions) or np.ptp(positions) == 0.0:
        return 1.0
    return float(positions.std(dtype=np.float64))


def positions_along(Z: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Return the projections (n,) float32 of rows Z (n, d) float32 on a direction (d,) float32."""
    return project(Z, direction[np.newaxis])[:, 0]


def subtract_centre(X: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Return rows X (n, d) relative to the centre (d,), float32 in C order."""
    out = np.empty(X.shape, np.float32)
    return np.subtract(X, centre, out=out, dtype=np.float64, casting="unsafe")
