"""k-means: a third proposal if the number of clusters is given and columns stay as stored."""

from __future__ import annotations

import numpy as np

from distsvc.models.rows.agreement import SAME_ANSWER, rand_indices
from distsvc.models.rows.numbering import ranks_by_size
from distsvc.models.rows.threads import one_thread

STARTS = 10
"""Number of runs of k-means, each with its own random start."""


def about_centres(
    rows: np.ndarray, n_clusters: int, seed: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return centres (k, p) float32 of rows (m, p), labels (m,) int32, and their support.

    The run of k-means with the lowest inertia is returned, its largest cluster first. The support
    is the share of all runs with nearly the same labels. If fewer than `n_clusters` rows differ,
    each of them is a cluster.
    """
    from sklearn.cluster import KMeans  # which takes a second to import

    k = min(n_clusters, len(np.unique(rows, axis=0)))
    with one_thread():  # several would give other last bits
        found = [
            KMeans(k, n_init=1, random_state=seed % 2**32 + start).fit(rows)
            for start in range(STARTS)
        ]
    best = int(np.argmin([one.inertia_ for one in found]))
    agreement = rand_indices([found[best].labels_, *(one.labels_ for one in found)])[0, 1:]
    number = ranks_by_size(np.bincount(found[best].labels_, minlength=k))
    order = np.argsort(number)
    centres = np.ascontiguousarray(found[best].cluster_centers_[order], np.float32)
    return centres, number[found[best].labels_], float((agreement > SAME_ANSWER).mean())
