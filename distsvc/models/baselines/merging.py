"""Merging of a fit's clusters into fewer, for `Baseline.cut`."""

import numpy as np
from scipy.spatial.distance import cdist

from distsvc.models.baselines.split_tree import NO_CHILD


def merged_centres(centres: np.ndarray, sizes: np.ndarray, k: int) -> np.ndarray:
    """Return the group (m,) int64, 0 to k - 1, of each centre (m, d).

    Ward's method: repeatedly merge the groups a and b whose merger raises the sum of squares least,
    by |a| |b| / (|a| + |b|) ||mean_a - mean_b||^2. Ties go to the first pair. `sizes` (m,) are the
    centres' numbers of rows, which may be 0.
    """
    means, sizes = centres.astype(np.float64), sizes.astype(np.float64)
    groups = np.arange(len(means))
    alive = np.ones(len(means), bool)
    squared = cdist(means, means, "sqeuclidean")
    while alive.sum() > k:
        both = sizes[:, np.newaxis] + sizes
        product = sizes[:, np.newaxis] * sizes
        share = np.divide(product, both, out=np.zeros_like(both), where=both > 0.0)
        costs = np.where(np.triu(np.outer(alive, alive), 1), share * squared, np.inf)
        kept, gone = divmod(int(costs.argmin()), len(means))
        total = sizes[kept] + sizes[gone]
        weight = sizes[gone] / total if total > 0.0 else 0.5
        means[kept] += weight * (means[gone] - means[kept])
        sizes[kept], alive[gone] = total, False
        groups[groups == gone] = kept
        squared[kept] = squared[:, kept] = ((means - means[kept]) ** 2).sum(axis=1)
    return np.unique(groups, return_inverse=True)[1].ravel()


def first_splits(children: np.ndarray, clusters: np.ndarray, k: int) -> np.ndarray:
    """Return the group (m,) int64, 0 to k - 1, of each cluster in a tree after k - 1 splits.

    `children` (n_nodes, 2) are numbered in the order of splits, and -1 in leaves. `clusters`
    (n_nodes,) are the clusters of leaves, and -1 in inner nodes.
    """
    splits = np.flatnonzero(children[:, 0] != NO_CHILD)
    splits = splits[np.argsort(children[splits, 0])]  # parents come first
    groups = np.arange(len(children))
    for node in splits[k - 1 :].tolist():
        groups[children[node]] = groups[node]
    leaves = np.flatnonzero(clusters >= 0)
    order = leaves[np.argsort(clusters[leaves])]
    return np.unique(groups[order], return_inverse=True)[1].ravel()


def by_size(groups: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return groups (m,) renumbered by their sums of `sizes` (m,), 0 the largest, as int32.

    Ties go to the group with the first member.
    """
    rows = np.bincount(groups, weights=sizes)
    first = np.unique(groups, return_index=True)[1]
    numbers = np.empty(len(rows), np.int32)
    numbers[np.lexsort((first, -rows))] = np.arange(len(rows))
    return numbers[groups]
