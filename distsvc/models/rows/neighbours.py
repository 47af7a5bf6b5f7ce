"""The exact nearest neighbours of every row among the other rows.

scikit-learn is not used, since its import takes longer than a small job.
"""

import numpy as np

from distsvc.kernels import nearest
from distsvc.models.rows.threads import map_threads

NEIGHBOUR_BLOCK_ROWS = 128


def nearest_others(
    rows: np.ndarray, k: int, n_jobs: int | None = 1, n_searched: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances and indices of the k nearest other rows of each row, nearest first.

    Both are (n, k), float64 and int64, for the first n = `n_searched` of the rows (m, p), by
    default all. Rows are rounded to float32; their lengths must be below 1e18. `n_jobs` threads
    search blocks of rows, which does not change results.
    """
    points = np.ascontiguousarray(rows, np.float32)
    wide = points.astype(np.float64)
    n = len(rows) if n_searched is None else min(n_searched, len(rows))
    squares, numbers = np.empty((n, k)), np.empty((n, k), np.int64)

    def search(first: int) -> None:
        own = slice(first, first + NEIGHBOUR_BLOCK_ROWS)
        nearest.set_nearest(points, wide, first, squares[own], numbers[own])

    map_threads(search, range(0, n, NEIGHBOUR_BLOCK_ROWS), n_jobs)
    return np.sqrt(squares), numbers
