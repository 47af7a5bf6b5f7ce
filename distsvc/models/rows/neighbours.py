"""The nearest other rows of every row, exactly.

By a tree of boxes where columns are few; by products with all rows where they are many, which a
tree would look at anyway. scikit-learn has both, but importing it takes longer than a small job.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from distsvc.kernels.nearest import keep_nearest
from distsvc.models.rows.threads import on_threads

Found = tuple[np.ndarray, np.ndarray]
Search = Callable[[int], Found]
"""Finds the nearest of a block of rows, whose first is given."""

FEW_COLUMNS = 8
NEIGHBOUR_BLOCK_ROWS = 128

FLOAT32_SPACING = 2.0**-23
"""Twice the unit of float32."""


def nearest_others(
    rows: np.ndarray, k: int, n_jobs: int | None = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances (m, k) float64 to the k nearest others of rows (m, p), k < m.

    And their numbers (m, k) int64; both ascend by distance. Rows are shorter than 1e18. `n_jobs`
    threads do blocks of rows, which changes nothing; sums are on one thread each if the caller
    says so.
    """
    rows = np.ascontiguousarray(rows, np.float64)
    search = (_in_boxes if rows.shape[1] <= FEW_COLUMNS else _by_products)(rows, k)
    found = on_threads(search, range(0, len(rows), NEIGHBOUR_BLOCK_ROWS), n_jobs)
    distances, numbers = zip(*found, strict=True)
    return np.concatenate(distances), np.concatenate(numbers)


def _in_boxes(rows: np.ndarray, k: int) -> Search:
    """Return the search of a block in a tree of boxes."""
    from scipy.spatial import cKDTree

    tree = cKDTree(rows)

    def search(first: int) -> Found:
        block = rows[first : first + NEIGHBOUR_BLOCK_ROWS]
        distances, numbers = tree.query(block, k + 1)
        itself = numbers == np.arange(first, first + len(block))[:, None]
        itself[~itself.any(axis=1), -1] = True  # one of many equal rows: others came before it
        return distances[~itself].reshape(-1, k), numbers[~itself].reshape(-1, k)

    return search


def _by_products(rows: np.ndarray, k: int) -> Search:
    """Return the search of a block by its inner products with all rows.

    A product in float32 is wrong by no more than p + 2 times the unit of float32 times half the sum
    of the two squared lengths; four more are for what is added. So a lower bound of each distance
    is known, and the few that may count are worked out in float64.
    """
    rows = rows - rows.mean(axis=0)
    single = rows.astype(np.float32)
    wrong = (rows.shape[1] + 6) * FLOAT32_SPACING
    lows = ((1.0 - wrong) * np.einsum("ij,ij->i", rows, rows)).astype(np.float32)

    def search(first: int) -> Found:
        products = single[first : first + NEIGHBOUR_BLOCK_ROWS] @ single.T
        squares = np.full((len(products), k), np.inf)
        numbers = np.zeros((len(products), k), np.int64)
        keep_nearest(products, lows, rows, first, squares, numbers)
        return np.sqrt(squares), numbers

    return search
