"""Plane in which the clusters of a graph are drawn."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from distsvc.models.rows.threads import one_thread
from distsvc.models.support_vector.level_tree.directions import SHRUNK


def telling_plane(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the two directions (2, p) float32 of rows (m, p) that separate labels (m,) best.

    They are Fisher's discriminants (1936), of length 1. With two clusters, the second direction has
    the largest scatter inside clusters. For p <= 2 the directions are the columns; for p = 1 the
    second is 0.
    """
    if rows.shape[1] <= 2:
        return np.eye(2, rows.shape[1], dtype=np.float32)
    sizes, wide = np.bincount(labels), rows.astype(np.float64)
    middles = np.array([wide[labels == c].mean(axis=0) for c in range(len(sizes))])
    off, between = wide - middles[labels], middles - wide.mean(axis=0)
    within = off.T @ off / len(wide)
    ridge = 1e-6 * within
    apart = (between.T * sizes) @ between / len(wide) + ridge
    even = (np.trace(within) / len(within) or 1.0) * np.eye(len(within))
    with one_thread():
        _, found = eigh(apart, (1.0 - SHRUNK) * within + SHRUNK * even)
    leading = found[:, :-3:-1] / np.linalg.norm(found[:, :-3:-1], axis=0)
    return np.ascontiguousarray(leading.T, np.float32)
