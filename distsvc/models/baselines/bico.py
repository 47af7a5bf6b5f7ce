"""BICO: k-means of a stream by a coreset, which is a tree of clustering features."""

import warnings
from dataclasses import KW_ONLY, dataclass

import numpy as np
from scipy.spatial import cKDTree
from sklearn.cluster import KMeans

from distsvc.errors import UnusableRowsError
from distsvc.job.parameters import MAX_IN_MEMORY, RandomState
from distsvc.kernels.baselines import insert_rows, rebuild
from distsvc.models.baselines.estimator import CentreBaseline, StreamBaseline
from distsvc.models.baselines.rules import Centres
from distsvc.models.rows.sampling import BLOCK_ROWS, seed_of

POINTS_A_CLUSTER = 200
"""Default number of clustering features per cluster, as the authors advise."""


class CoresetTree:
    """Tree of clustering features, in the arrays that `distsvc.kernels.baselines` describes."""

    def __init__(self, size: int, n_features: int):
        slots = size + 1  # once the last slot is used, the tree is too large
        self.references = np.zeros((slots, n_features))
        self.means = np.zeros((slots, n_features))
        self.weights = np.zeros(slots)
        self.sums = np.zeros(slots)
        self.child = np.full(slots + 1, -1)
        self.sibling = np.full(slots, -1)
        self.free = np.arange(slots)[::-1].copy()
        self.n_free = np.array([slots])
        self.threshold = 0.0

    @property
    def used(self) -> np.ndarray:
        return np.flatnonzero(self.weights)

    def insert(self, X: np.ndarray) -> None:
        X = np.ascontiguousarray(X, np.float64)
        nodes = (
            self.references, self.means, self.weights, self.sums,
            self.child, self.sibling, self.free, self.n_free,
        )  # fmt: skip
        done = 0
        while done < len(X):
            done = insert_rows(X, done, self.threshold, *nodes)
            while self.n_free[0] == 0:
                self._raise_threshold()
                rebuild(self.threshold, *nodes)

    def _raise_threshold(self) -> None:
        """Double the threshold; if it is 0, set it to 16 times the smallest squared distance."""
        if self.threshold > 0.0:
            self.threshold *= 2.0
        else:
            least = cKDTree(self.references).query(self.references, k=2)[0][:, 1].min()
            # The factor is slightly above 16, so that the two nearest rows merge despite rounding.
            first = 16.0 * (1.0 + 1e-9) * float(least) ** 2
            self.threshold = max(first, float(np.finfo(float).tiny))
        if not np.isfinite(self.threshold):
            raise UnusableRowsError(
                "X has values too large to be squared in float64; scale the columns"
            )


@dataclass(eq=False, repr=False)
class BICO(StreamBaseline, CentreBaseline):
    """k-means of a stream, by a small weighted summary of its rows.

    The summary, called coreset, is a tree of at most `size` clustering features (m in the paper).
    Rows are added to it one by one. Weighted k-means then clusters the means of the features. If
    `size` is large, the result is nearly as good as k-means on all rows, whatever their order.
    Memory is O(size d).

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters. With fewer distinct rows, there are fewer clusters and a warning.
    size : int or None, default=None
        Maximum number of clustering features. If None, it is 200 ``n_clusters``, as the authors
        advise, but at most a million.
    n_init : int, default=10
        Number of k-means++ starts on the coreset. The start with the lowest cost is used.
    n_jobs : int or None, default=None
        Number of threads for blocks of rows; as in `SupportVectorClustering`.
    random_state : int, RandomState or None, default=None
        Seed of the starts, and of the order in which `fit` takes the rows. `partial_fit` takes
        them in their own order.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        Cluster of every row of `fit`: the nearest centre. Clusters are numbered by their number of
        rows in the coreset, 0 the largest.
    probabilities_, outlier_scores_
        As in `KMeans`.
    cluster_centers_ : ndarray of shape (k, d), float64
        Computed at the first use after `partial_fit`.
    coreset_points_ : ndarray of shape (m, d), float64
        Means of the clustering features.
    coreset_weights_ : ndarray of shape (m,), float64
        Number of rows of each feature; the sum is ``n_seen_``.
    coreset_sums_ : ndarray of shape (m,), float64
        Sum of squared distances of each feature's rows from their mean.
    inertia_ : float
        Sum of squared distances of all rows from cluster centres, an upper bound of the k-means
        cost. A row's centre is here the centre nearest to the mean of the row's feature.
    n_seen_ : int
        Number of rows so far.

    Notes
    -----
    The page "Departures from the papers" lists the departures. Until more than `size` distinct rows
    have come, only equal rows share a feature.

    See Also
    --------
    sklearn.cluster.MiniBatchKMeans : k-means of batches, without a summary.

    References
    ----------
    Fichtenberger et al. (2013), "BICO: BIRCH Meets Coresets for k-Means Clustering".

    Examples
    --------
    >>> from distsvc.baselines import BICO
    >>> model = BICO(n_clusters=2).partial_fit([[0.0], [8.0]]).partial_fit([[9.0], [9.5]])
    >>> model.predict([[1.0], [10.0]])
    array([1, 0], dtype=int32)

    """

    n_clusters: int = 8
    _: KW_ONLY
    size: int | None = None
    n_init: int = 10
    n_jobs: int | None = None
    random_state: RandomState = None

    algorithm = "bico"

    def _fit_rows(self, X: np.ndarray) -> None:
        self._begin(X)
        order = self._order(len(X), self.seed_)
        for first in range(0, len(X), BLOCK_ROWS):
            self._add(X[order[first : first + BLOCK_ROWS]])
        self.labels_ = self._labels(X)
        self._hold_rows(X)

    @property
    def coreset_points_(self) -> np.ndarray:
        return self.tree_.means[self.tree_.used]

    @property
    def coreset_weights_(self) -> np.ndarray:
        return self.tree_.weights[self.tree_.used]

    @property
    def coreset_sums_(self) -> np.ndarray:
        return self.tree_.sums[self.tree_.used]

    @property
    def cluster_centers_(self) -> np.ndarray:  # type: ignore[override]
        return self._solve()[0]

    @property
    def inertia_(self) -> float:
        return self._solve()[1]

    def _sizes(self) -> np.ndarray:
        nearest = self._labels(self.coreset_points_)
        return np.bincount(nearest, self.coreset_weights_, len(self.cluster_centers_))

    def _begin(self, X: np.ndarray) -> None:
        size = int(self.size or min(POINTS_A_CLUSTER * self.n_clusters, MAX_IN_MEMORY))
        self.seed_ = seed_of(self.random_state)
        self.tree_, self.n_seen_ = CoresetTree(size, X.shape[1]), 0

    def _add(self, X: np.ndarray) -> None:
        self.__dict__.pop("solution_", None)
        self.tree_.insert(X)
        self.n_seen_ += len(X)

    def _solve(self) -> tuple[np.ndarray, float]:
        """Return the centres (k, d) and `inertia_`; cached until more rows are added."""
        if not hasattr(self, "solution_"):
            points, weights = self.coreset_points_, self.coreset_weights_
            k = min(int(self.n_clusters), len(points))
            if k < self.n_clusters:
                warnings.warn(
                    f"{self.n_clusters} clusters were asked for, but only {k} found: "
                    f"the summary of the rows (coreset) has only {k} points",
                    UserWarning,
                    stacklevel=4,
                )
            means = KMeans(k, n_init=self.n_init, random_state=self.seed_)
            means.fit(points, sample_weight=weights)
            cost = float(means.inertia_ + self.coreset_sums_.sum())
            self.solution_ = Centres.by_size(means.cluster_centers_, points, weights).centres, cost
        return self.solution_
