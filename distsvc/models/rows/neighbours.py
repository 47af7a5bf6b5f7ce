"""Exact nearest other rows of every row.

The search uses a tree of boxes for few columns, and inner products with all rows for many, where a
tree saves nothing. scikit-learn is not used, since its import takes longer than a small job.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from distsvc.kernels.nearest import keep_nearest
from distsvc.models.rows.threads import map_threads

Found = tuple[np.ndarray, np.ndarray]
Search = Callable[[int], Found]
"""Function that returns the neighbours of a block's rows, given the number of its first row."""

FEW_COLUMNS = 8
"""Maximum number of columns for the tree of boxes."""

NEIGHBOUR_BLOCK_ROWS = 128
"""Number of rows per block of the search."""


def nearest_others(
    rows: np.ndarray, k: int, n_jobs: int | None = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances (m, k) float64 of rows (m, p) to their k nearest others, k < m.

    The second result is the indices (m, k) int64; both ascend by distance. Rows are shorter than
    1e18. Blocks of rows run on `n_jobs` threads, which does not change results. The caller limits
    the threads of BLAS.
    """
    rows = np.ascontiguousarray(rows, np.float64)
    search = (_in_boxes if rows.shape[1] <= FEW_COLUMNS else _by_products)(rows, k)
    found = map_threads(search, range(0, len(rows), NEIGHBOUR_BLOCK_ROWS), n_jobs)
    distances, numbers = zip(*found, strict=True)
    return np.concatenate(distances), np.concatenate(numbers)


def _in_boxes(rows: np.ndarray, k: int) -> Search:
    """Return a function that searches the neighbours of a block of rows with a k-d tree."""
    from scipy.spatial import cKDTree

    tree = cKDTree(rows, leafsize=64)  # most leaves near a row are searched anyway

    def search(first: int) -> Found:
        block = rows[first : first + NEIGHBOUR_BLOCK_ROWS]
        distances, numbers = tree.query(block, k + 1)
        itself = numbers == np.arange(first, first + len(block))[:, None]
        itself[~itself.any(axis=1), -1] = True  # many equal rows: the row itself may be missing
        return distances[~itself].reshape(-1, k), numbers[~itself].reshape(-1, k)

    return search


def _by_products(rows: np.ndarray, k: int) -> Search:
    """Return a function that searches the neighbours of a block by inner products with all rows.

    The rounding error of a float32 product is at most (p + 2) u (|x|^2 + |y|^2) / 2, with u the
    float32 spacing; p + 6 also covers the sums. This gives a lower bound of each distance. Only
    distances whose bound is low enough are computed in float64.
    """
    rows = rows - rows.mean(axis=0)
    single = rows.astype(np.float32)
    # 2**-23 is the spacing of float32 at 1, twice the unit roundoff.
    wrong = (rows.shape[1] + 6) * 2.0**-23
    lows = ((1.0 - wrong) * np.einsum("ij,ij->i", rows, rows)).astype(np.float32)

    def search(first: int) -> Found:
        products = single[first : first + NEIGHBOUR_BLOCK_ROWS] @ single.T
        squares = np.full((len(products), k), np.inf)
        numbers = np.zeros((len(products), k), np.int64)
        keep_nearest(products, lows, rows, first, squares, numbers)
        return np.sqrt(squares), numbers

    return search
