"""Numbers of clusters by their sizes."""

from __future__ import annotations

import numpy as np


def ranks_by_size(sizes: np.ndarray) -> np.ndarray:
    """Return the rank (k,) int32 of each size (k,), 0 for the largest; ties by place."""
    rank = np.empty(len(sizes), np.int32)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return rank
