"""Numbers of clusters by their sizes."""

import numpy as np


def ranks_by_size(sizes: np.ndarray) -> np.ndarray:
    """Return the rank (k,) int32 of each size (k,), 0 for the largest; ties by index."""
    return np.argsort(np.argsort(-sizes, kind="stable")).astype(np.int32)
