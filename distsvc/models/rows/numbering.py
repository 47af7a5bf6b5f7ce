"""Numbers of clusters by their sizes."""

import numpy as np


def few_clusters_notes(sizes: np.ndarray, wanted: int | None) -> list[str]:
    """Return at most one note, if clusters are empty and fewer than `wanted` have rows.

    `sizes` (k,) are the rows by cluster. `wanted` is None if the fit chose the number of clusters.
    """
    used = int(np.count_nonzero(sizes))
    if wanted is None or used >= min(wanted, len(sizes)):
        return []
    return [f"{wanted} clusters were asked for, but only {used} have rows"]


def ranks_by_size(sizes: np.ndarray) -> np.ndarray:
    """Return the rank (k,) int32 of each size (k,), 0 for the largest; ties by index."""
    return np.argsort(np.argsort(-sizes, kind="stable")).astype(np.int32)
