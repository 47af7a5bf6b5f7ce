"""Validity indices of a clustering, with and without known classes.

Rows with a negative label are unlabelled. Indices that compare clusters with classes count these
rows as one cluster; indices that use distances ignore these rows.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.spatial.distance import cdist, pdist

BLOCK_DISTANCES = 4_000_000
"""Maximum number of distances in memory at a time (32 MB)."""


class Index(NamedTuple):
    """Description of an index.

    Parameters
    ----------
    title : str
    direction : {"higher", "lower"}
        Whether higher or lower values are better.
    definition : str
        One or two sentences.

    See Also
    --------
    clustering_report : Computes all indices of a clustering.

    Examples
    --------
    >>> from distsvc.metrics import INDICES
    >>> INDICES["purity"].direction
    'higher'

    """

    title: str
    direction: str
    definition: str


INDICES: Mapping[str, Index] = {
    "compactness": Index(
        "Compactness",
        "lower",
        "Mean distance between two rows of the same cluster, weighted by the clusters' numbers of "
        "rows.",
    ),
    "davies_bouldin": Index(
        "Davies-Bouldin index",
        "lower",
        "Sum of the spreads of two clusters divided by the distance of their centres: the highest "
        "value of each cluster, averaged over clusters. Means little for nested or elongated "
        "clusters.",
    ),
    "purity": Index(
        "Purity",
        "higher",
        "Share of the rows that belong to the most frequent class of their cluster; grows with "
        "the number of clusters.",
    ),
    "rand_index": Index(
        "Rand index",
        "higher",
        "Share of all pairs of rows on which clusters and classes agree: together in both, or "
        "apart in both.",
    ),
    "adjusted_rand_index": Index(
        "Adjusted Rand index",
        "higher",
        "Rand index rescaled so that random labels score 0 on average and equal partitions 1.",
    ),
    "normalized_mutual_information": Index(
        "Normalized mutual information",
        "higher",
        "Information that clusters and classes share, divided by the mean of their entropies.",
    ),
}


def clustering_report(
    X: ArrayLike, labels: ArrayLike, y_true: ArrayLike | None = None
) -> dict[str, float]:
    """Compute every index of a clustering.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        The rows, scaled as for clustering.
    labels : array of shape (n_rows,)
        The cluster of each row; negative if it is unlabelled.
    y_true : array of shape (n_rows,) or None, default=None
        The known class of each row.

    Returns
    -------
    dict
        ``n_clusters``, ``compactness`` and ``davies_bouldin``; with `y_true` also ``purity``,
        ``rand_index``, ``adjusted_rand_index`` and ``normalized_mutual_information``. Undefined
        indices are NaN.

    See Also
    --------
    compactness, davies_bouldin, purity : Compute single indices.

    Examples
    --------
    >>> from distsvc.metrics import clustering_report
    >>> X = [[0.0], [1.0], [2.0], [8.0], [9.0]]
    >>> report = clustering_report(X, [0, 0, 0, 1, 1], ["a", "a", "b", "b", "b"])
    >>> report["n_clusters"], report["purity"]
    (2, 0.8)
    >>> round(report["adjusted_rand_index"], 3)
    0.167

    """
    _, kept = _labelled_rows(X, labels)
    report: dict[str, float] = {
        "n_clusters": len(np.unique(kept)),
        "compactness": compactness(X, labels),
        "davies_bouldin": davies_bouldin(X, labels),
    }
    if y_true is not None:
        report |= indices_from_contingency(contingency_table(labels, y_true))
    return report


def contingency_table(labels: ArrayLike, y_true: ArrayLike) -> Any:
    """Count the rows of each cluster in each class.

    Parameters
    ----------
    labels : array of shape (n_rows,)
        Clusters; all negative labels together are one cluster.
    y_true : array of shape (n_rows,)
        Classes: integers, booleans or strings.

    Returns
    -------
    scipy.sparse.csr_array of int64, shape (n_clusters, n_classes)
        Clusters and classes are in sorted order.

    See Also
    --------
    indices_from_contingency : Computes indices of such a table.

    Examples
    --------
    >>> from distsvc.metrics import contingency_table
    >>> labels, classes = [0, 0, 0, 1, 1], ["a", "a", "b", "b", "b"]
    >>> contingency_table(labels, classes).toarray()
    array([[2, 1],
           [0, 2]])

    """
    clusters, classes = np.asarray(labels), np.asarray(y_true)
    if clusters.ndim != 1 or clusters.shape != classes.shape:
        raise ValueError(
            "labels and y_true must be one-dimensional and of equal length, "
            f"found shapes {clusters.shape} and {classes.shape}"
        )
    if clusters.dtype.kind in "if":
        clusters = np.where(clusters < 0, -1, clusters)
    rows, i = np.unique(clusters, return_inverse=True)
    columns, j = np.unique(classes, return_inverse=True)
    ones = np.ones(len(clusters), dtype=np.int64)
    return coo_array((ones, (i, j)), shape=(len(rows), len(columns))).tocsr()


def indices_from_contingency(table: Any) -> dict[str, float]:
    """Compute the four indices that compare clusters with classes.

    Parameters
    ----------
    table : integer array or scipy sparse array of shape (n_clusters, n_classes)
        Number of rows of each cluster in each class. Empty clusters and classes are allowed.

    Returns
    -------
    dict
        ``purity``, ``rand_index``, ``adjusted_rand_index`` and ``normalized_mutual_information``
        (arithmetic mean of the entropies); all NaN for a table without rows.

    Notes
    -----
    Purity is as in Pham, Le and Dang (2017), section 5.2, except that N_ij is divided by N_i, the
    number of rows of the cluster, not by N_j, which would not give a share. For a single cluster
    or row, indices are as in scikit-learn.

    See Also
    --------
    clustering_report : Takes labels instead of counts.

    Examples
    --------
    >>> import numpy as np
    >>> from distsvc.metrics import indices_from_contingency
    >>> indices_from_contingency(np.array([[2, 1], [0, 2]]))["rand_index"]
    0.6

    """
    cells = coo_array(table)
    if cells.ndim != 2 or cells.dtype.kind not in "iu":
        raise ValueError(
            "a contingency table has two dimensions and integer counts, "
            f"found shape {cells.shape} of {cells.dtype}"
        )
    cells = cells.astype(np.int64).tocsr()
    if cells.nnz and cells.data.min() < 0:
        raise ValueError(f"a contingency table has no negative counts, found {cells.data.min()}")
    in_cluster, in_class = cells.sum(axis=1), cells.sum(axis=0)
    n_rows = int(in_class.sum())
    if n_rows == 0:
        names = ("purity", "rand_index", "adjusted_rand_index", "normalized_mutual_information")
        return dict.fromkeys(names, math.nan)
    # Python's integers, so that no number of rows overflows.
    same_both = _pairs(cells.data)
    same_cluster = _pairs(in_cluster)
    same_class = _pairs(in_class)
    all_pairs = n_rows * (n_rows - 1) // 2
    agreeing = all_pairs + 2 * same_both - same_cluster - same_class
    excess = 2 * (same_both * all_pairs - same_cluster * same_class)
    most_excess = all_pairs * (same_cluster + same_class) - 2 * same_cluster * same_class
    entropies = _entropy(in_cluster) + _entropy(in_class)
    shared = entropies - _entropy(cells.data)
    return {
        "purity": int(cells.max(axis=1).sum()) / n_rows,
        "rand_index": agreeing / all_pairs if all_pairs else 1.0,
        "adjusted_rand_index": 1.0
        if same_both == same_cluster == same_class
        else excess / most_excess,
        "normalized_mutual_information": (
            min(1.0, max(0.0, 2 * shared / entropies)) if entropies else 1.0
        ),
    }


def purity(labels: ArrayLike, y_true: ArrayLike) -> float:
    """Return the share of rows that belong to the most frequent class of their cluster.

    Parameters
    ----------
    labels : array of shape (n_rows,)
        Clusters; all negative labels together are one cluster.
    y_true : array of shape (n_rows,)
        Classes: integers, booleans or strings.

    Returns
    -------
    float
        0 to 1; it grows with the number of clusters.

    See Also
    --------
    indices_from_contingency : Defines purity, and its departure from the paper.

    Examples
    --------
    >>> from distsvc.metrics import purity
    >>> labels, classes = [0, 0, 0, 1, 1], ["a", "a", "b", "b", "b"]
    >>> purity(labels, classes)
    0.8

    """
    return indices_from_contingency(contingency_table(labels, y_true))["purity"]


def compactness(
    X: ArrayLike,
    labels: ArrayLike,
    max_rows: int = 10_000,
    random_state: int = 0,
) -> float:
    """Return the mean distance between two rows of a cluster, weighted by cluster size.

    Distances are Euclidean.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        The rows. The result is a distance, so it depends on the scale of the columns.
    labels : array of shape (n_rows,)
        The cluster of each row; rows with a negative label are dropped.
    max_rows : int, default=10000
        Maximum number of rows in a cluster for which all pairs are summed. The mean of a larger
        cluster is estimated from pairs drawn uniformly with replacement.
    random_state : int, default=0
        Seed of the pairs.

    Returns
    -------
    float
        NaN if no row is labelled.

    Notes
    -----
    The index is defined in Pham, Le and Dang (2017), section 5.2. Here each pair counts once,
    because the printed sum over ordered pairs would double the index. A cluster of one row adds 0;
    the paper's formula would divide 0 by 0.

    See Also
    --------
    davies_bouldin : Compares spreads with distances of centres.

    Examples
    --------
    >>> from distsvc.metrics import compactness
    >>> compactness([[0.0], [1.0], [8.0], [10.0]], [0, 0, 1, 1])
    1.5

    """
    if max_rows < 2:
        raise ValueError(f"max_rows must be at least 2, found {max_rows}")
    rows, kept = _labelled_rows(X, labels)
    order = np.argsort(kept, kind="stable")
    _, sizes = np.unique(kept, return_counts=True)
    rng = np.random.default_rng(random_state)
    n_sampled = int(sizes[sizes > max_rows].sum())
    total, start = 0.0, 0
    for size in sizes.tolist():
        members = rows[order[start : start + size]]
        start += size
        if size > max_rows:
            # A million pairs in all sampled clusters, and at least ten thousand in each.
            n_pairs = max(10_000, 1_000_000 * size // n_sampled)
            total += size * _sampled_mean_distance(members, n_pairs, rng)
        elif size > 1:
            total += size * _mean_distance(members)
    return total / len(rows) if len(rows) else math.nan


def davies_bouldin(X: ArrayLike, labels: ArrayLike) -> float:
    """Return the Davies-Bouldin index of the labelled rows; smaller is better.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        The rows.
    labels : array of shape (n_rows,)
        The cluster of each row; rows with a negative label are dropped.

    Returns
    -------
    float
        NaN if there is one cluster, or as many clusters as rows.

    See Also
    --------
    sklearn.metrics.davies_bouldin_score : The same index, up to rounding.

    Examples
    --------
    >>> from distsvc.metrics import davies_bouldin
    >>> davies_bouldin([[0.0], [1.0], [8.0], [9.0]], [0, 0, 1, 1])
    0.125

    """
    rows, kept = _labelled_rows(X, labels)
    clusters, index = np.unique(kept, return_inverse=True)
    if not 2 <= len(clusters) <= len(rows) - 1:
        return math.nan
    # Importing scikit-learn's function would take longer than a small job.
    groups = [rows[index == k] for k in range(len(clusters))]
    centres = np.array([group.mean(axis=0) for group in groups])
    pairs = zip(groups, centres, strict=True)
    spread = np.array([cdist(group, centre[None]).mean() for group, centre in pairs])
    apart = cdist(centres, centres)
    if np.allclose(spread, 0.0) or np.allclose(apart, 0.0):
        return 0.0
    apart[apart == 0.0] = math.inf
    return float(((spread[:, None] + spread) / apart).max(axis=1).mean())


def _labelled_rows(X: ArrayLike, labels: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    rows, clusters = np.asarray(X), np.asarray(labels)
    if rows.ndim != 2 or clusters.shape != rows.shape[:1]:
        raise ValueError(
            "X must have two dimensions and labels one entry for each row, "
            f"found shapes {rows.shape} and {clusters.shape}"
        )
    if clusters.dtype.kind not in "if" or not (clusters < 0).any():
        return rows, clusters
    labelled = clusters >= 0
    return rows[labelled], clusters[labelled]


def _pairs(counts: NDArray[np.int64]) -> int:
    return sum(n * (n - 1) for n in counts.tolist()) // 2


def _entropy(sizes: NDArray[np.int64]) -> float:
    shares = sizes[sizes > 0] / sizes.sum()
    return float(-(shares * np.log(shares)).sum())


def _mean_distance(rows: NDArray[Any]) -> float:
    n = len(rows)
    step = max(1, BLOCK_DISTANCES // n)
    total = 0.0
    for start in range(0, n, step):
        block, rest = rows[start : start + step], rows[start + step :]
        total += float(pdist(block).sum())
        if len(rest):
            total += float(cdist(block, rest).sum())
    return total / (n * (n - 1) / 2)


def _sampled_mean_distance(rows: NDArray[Any], n_pairs: int, rng: np.random.Generator) -> float:
    n = len(rows)
    step = max(1, BLOCK_DISTANCES // (4 * rows.shape[1] or 1))
    distances = np.empty(n_pairs)
    for start in range(0, n_pairs, step):
        size = min(step, n_pairs - start)
        i = rng.integers(n, size=size)
        j = rng.integers(n - 1, size=size)
        j += j >= i
        difference = rows[i].astype(np.float64) - rows[j]
        distances[start : start + size] = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    return float(distances.mean())
