"""The plane in which clusters along a graph are drawn."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from threadpoolctl import threadpool_limits

SHRUNK = 0.1
"""Share of the scatter inside clusters that is spread evenly over all directions."""

SLIGHT = 1e-6
"""Of the scatter inside clusters, what is added to that between them."""


def telling_plane(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the two directions (2, p) float32 along which rows (m, p) show their clusters best.

    The clusters, labels (m,), lie farthest apart there for their width (Fisher 1936). Of two
    clusters the second direction is the widest of those that are left. Directions have length 1.
    Up to two components are directions themselves, and of one the second is 0. Where the rows of a
    cluster are all equal, the clusters lie farthest apart along the directions.
    """
    if rows.shape[1] <= 2:
        return np.eye(2, rows.shape[1], dtype=np.float32)
    sizes, wide = np.bincount(labels), rows.astype(np.float64)
    middles = np.array([wide[labels == c].mean(axis=0) for c in range(len(sizes))])
    off, between = wide - middles[labels], middles - wide.mean(axis=0)
    within = off.T @ off / len(wide)
    apart = (between.T * sizes) @ between / len(wide) + SLIGHT * within
    even = (np.trace(within) / len(within) or 1.0) * np.eye(len(within))
    with threadpool_limits(1):
        _, found = eigh(apart, (1.0 - SHRUNK) * within + SHRUNK * even)
    leading = found[:, :-3:-1] / np.linalg.norm(found[:, :-3:-1], axis=0)
    return np.ascontiguousarray(leading.T, np.float32)
