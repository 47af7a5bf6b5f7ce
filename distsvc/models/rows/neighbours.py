"""The nearest other rows of every row, exactly.

By a tree of boxes where columns are few; by all distances where they are many, which a tree would
look at anyway. scikit-learn has both, but importing it takes longer than a small job.
"""

from __future__ import annotations

import numpy as np

from distsvc.kernels.nearest import keep_nearest

FEW_COLUMNS = 10
BLOCK_ROWS = 256


def nearest_others(rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances (m, k) float64 to the k nearest others of rows (m, p), k < m.

    And their numbers (m, k) int64; both ascend by distance. Sums are on one thread if the caller
    says so: several threads would give other last bits.
    """
    rows = np.ascontiguousarray(rows, np.float64)
    if rows.shape[1] > FEW_COLUMNS:
        return _of_all_distances(rows, k)
    from scipy.spatial import cKDTree

    distances, numbers = cKDTree(rows).query(rows, k + 1)
    itself = numbers == np.arange(len(rows))[:, None]
    itself[~itself.any(axis=1), -1] = True  # one of many equal rows: others came before it
    return distances[~itself].reshape(-1, k), numbers[~itself].reshape(-1, k)


def _of_all_distances(rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Do as `nearest_others`, by squared distances between a block of rows and all."""
    rows = rows - rows.mean(axis=0)
    squares = np.einsum("ij,ij->i", rows, rows)
    distances, numbers = np.full((len(rows), k), np.inf), np.zeros((len(rows), k), np.int64)
    for first in range(0, len(rows), BLOCK_ROWS):
        block = slice(first, first + BLOCK_ROWS)
        apart = squares[block, None] - 2.0 * (rows[block] @ rows.T) + squares
        keep_nearest(apart, first, distances[block], numbers[block])
    return np.sqrt(np.maximum(distances, 0.0)), numbers
