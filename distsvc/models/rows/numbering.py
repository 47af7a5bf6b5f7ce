"""The numbering of clusters by size, and a note on clusters without rows."""

import numpy as np


def few_clusters_notes(sizes: np.ndarray, wanted: int | None) -> list[str]:
    """Return a note, in a list, if fewer clusters than `wanted` have rows; [] otherwise.

    `sizes` (k,) are the numbers of rows by cluster. There is no note if no cluster is empty, or if
    the fit chose the number of clusters (`wanted` None).
    """
    used = int(np.count_nonzero(sizes))
    if wanted is None or used >= min(wanted, len(sizes)):
        return []
    return [f"{wanted} clusters were asked for, but only {used} have rows"]


def ranks_by_size(sizes: np.ndarray) -> np.ndarray:
    """Return the rank (k,) int32 of each size (k,), 0 for the largest; ties keep their order."""
    return np.argsort(np.argsort(-sizes, kind="stable")).astype(np.int32)
