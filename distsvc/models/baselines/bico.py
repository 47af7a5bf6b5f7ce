"""BICO: k-means of a stream by way of a coreset, a tree of clustering features.

Fichtenberger, Gille, Schmidt, Schwiegelshohn and Sohler, "BICO: BIRCH meets coresets for k-means
clustering", 2013.

| the paper's | here |
|---|---|
| CF = (n, LS, SS) | ``weights``, ``means``, ``sums`` of `distsvc.kernels.coreset_tree` |
| reference point of a CF | ``references`` |
| m, the size of the coreset | ``size`` |
| T, the threshold | ``threshold`` |
| R_l, the radius of level l | T / 2^(3 + l), squared |
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin

from distsvc.errors import UnusableRowsError
from distsvc.job.constraints import HELD
from distsvc.job.parameters import RandomState
from distsvc.kernels.coreset_tree import insert_rows, rebuild
from distsvc.models.baselines.estimator import Baseline
from distsvc.models.baselines.merging import merged_centres
from distsvc.models.baselines.rules import Centres
from distsvc.models.rows.checkpoints import MAX_STATE_COUNT, State
from distsvc.models.rows.sampling import seed_of
from distsvc.models.rows.streams import StreamEstimator
from distsvc.models.rows.threads import of_blocks
from distsvc.models.rows.validation import validated
from distsvc.models.rules.fields import ArrayField, Facts, check_fields, forms_of, real, whole

POINTS_A_CLUSTER = 200
INSERT_BLOCK_ROWS = 8192
PIECE_ROWS = 1024
FIRST_THRESHOLD = 16.0 * (1.0 + 1e-9)
"""By a little more than 16, so that rounding does not keep the two nearest rows apart."""


@dataclass
class CoresetTree:
    """The tree of clustering features of the rows so far, as the kernels have it."""

    references: Annotated[np.ndarray, ArrayField("float64", "slots d")]
    means: Annotated[np.ndarray, ArrayField("float64", "slots d")]
    weights: Annotated[np.ndarray, ArrayField("float64", "slots", least=0.0)]
    sums: Annotated[np.ndarray, ArrayField("float64", "slots")]
    child: Annotated[np.ndarray, ArrayField("int64", "heads", least=-1)]
    sibling: Annotated[np.ndarray, ArrayField("int64", "slots", least=-1)]
    free: Annotated[np.ndarray, ArrayField("int64", "slots", least=0)]
    n_free: Annotated[np.ndarray, ArrayField("int64", "1", least=0)]
    threshold: Annotated[float, real(ge=0.0)] = 0.0

    @classmethod
    def empty(cls, size: int, n_features: int) -> CoresetTree:
        """Return the tree without rows; one slot more than `size` says when it is too full."""
        slots = size + 1
        return cls(
            references=np.zeros((slots, n_features)),
            means=np.zeros((slots, n_features)),
            weights=np.zeros(slots),
            sums=np.zeros(slots),
            child=np.full(slots + 1, -1),
            sibling=np.full(slots, -1),
            free=np.arange(slots)[::-1].copy(),
            n_free=np.array([slots]),
        )

    @property
    def used(self) -> np.ndarray:
        """The slots in use, ascending."""
        return np.flatnonzero(self.weights)

    def insert(self, X: np.ndarray) -> None:
        """Add rows X (n, d) float64, C order, in their order."""
        for first in range(0, len(X), INSERT_BLOCK_ROWS):
            block = np.ascontiguousarray(X[first : first + INSERT_BLOCK_ROWS], np.float64)
            done = 0
            while done < len(block):
                done = insert_rows(block, done, self.threshold, *self._nodes)
                while self.n_free[0] == 0:
                    self._raise_threshold()
                    rebuild(self.threshold, *self._nodes)

    @property
    def _nodes(self) -> tuple[np.ndarray, ...]:
        return (
            self.references, self.means, self.weights, self.sums,
            self.child, self.sibling, self.free, self.n_free,
        )  # fmt: skip

    def _raise_threshold(self) -> None:
        """Double the threshold; the first is 16 times the least squared distance of two rows.

        Until then it is 0, every distinct row is on its own, and equal ones are together.
        """
        if self.threshold > 0.0:
            self.threshold *= 2.0
        else:
            least = cKDTree(self.references).query(self.references, k=2)[0][:, 1].min()
            first = FIRST_THRESHOLD * float(least) ** 2
            self.threshold = max(first, float(np.finfo(float).tiny))
        if not np.isfinite(self.threshold):
            raise UnusableRowsError("X has values too large to be squared in float64")


class BICO(StreamEstimator, Baseline):
    """k-means of a stream: a small weighted summary is kept, and clustered when asked.

    Rows are taken one by one, in their order, into a tree of at most `size` clustering features;
    k-means with weights then clusters the features' means. For large `size` its cost on all rows is
    nearly that of k-means on all rows, whatever their order. Memory is O(size d).

    Parameters
    ----------
    n_clusters : int, default=8
        Clusters wanted. Fewer are returned where there are fewer distinct rows, with a warning.
    size : int or None, default=None
        Most clustering features. None: 200 ``n_clusters``, which the authors recommend, and
        at most a million.
    n_init : int, default=10
        Restarts of k-means on the coreset, by k-means++; the one of the lowest cost is kept.
    n_jobs : int or None, default=None
        Threads, for blocks of rows to label; as in `SupportVectorClustering`.
    random_state : int, RandomState or None, default=None
        Decides the restarts of k-means. The coreset is not random: `fit` takes the rows in the
        order in which they are, as `partial_fit` does.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        Cluster of every row that `fit` was given: the nearest centre.
    probabilities_ : ndarray of shape (n,), float32
        The share of its own cluster in every row, 1 / r^4 of the distance r to its centre, over
        that of all clusters.
    outlier_scores_ : ndarray of shape (n,), float64
        The distance of every row to the nearest hyperplane midway to another centre, with its sign
        turned: high near another cluster. No row is outside, however far it is from all others.
    cluster_centers_ : ndarray of shape (k, d), float64
        Computed when first asked for after `partial_fit`.
    coreset_points_ : ndarray of shape (m, d), float64
        Means of the clustering features.
    coreset_weights_ : ndarray of shape (m,), float64
        Rows of each; their sum is the number of rows seen.
    coreset_sums_ : ndarray of shape (m,), float64
        Sums of squared distances of the rows of each from their mean.
    inertia_ : float
        Weighted cost of the centres on the coreset plus the sum of ``coreset_sums_``. This is the
        sum of squared distances of all rows to the centre that their feature's mean belongs to,
        exactly: at least the k-means cost of the centres on all rows.
    n_seen_ : int
        Rows seen.

    Notes
    -----
    Departures: a feature holds the mean and the sum of squares about it instead of LS and SS, whose
    difference cancels for data far from 0; the nearest reference is found by looking at all, where
    the paper looks at those in one bucket of random projections; a feature's cost with a row is
    that about their common mean, as the paper has it and its code does not; until more than `size`
    distinct rows have come the threshold is 0, so that equal rows are together from the start.

    See Also
    --------
    sklearn.cluster.MiniBatchKMeans : k-means of batches, without a summary.

    References
    ----------
    Fichtenberger et al. (2013), "BICO: BIRCH Meets Coresets for k-Means Clustering".

    Examples
    --------
    >>> from distsvc.baselines import BICO
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(300, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    >>> model = BICO(n_clusters=3, random_state=0).fit(X)
    >>> model.cluster_centers_.shape
    (3, 2)

    """

    algorithm = "bico"
    tree_: CoresetTree
    n_seen_: int

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        size: int | None = None,
        n_init: int = 10,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.n_clusters = n_clusters
        self.size = size
        self.n_init = n_init
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit_rows(self, X: np.ndarray) -> None:
        self._begin(X.shape[1])
        self._checkpoint.last(self._restore)
        order = self._order(len(X), self.seed_)
        while self.n_seen_ < len(X):
            self._add(X[order[self.n_seen_ : self.n_seen_ + PIECE_ROWS]])
            self._checkpoint.keep(self.n_seen_, self._state)
        self.labels_ = self._labels(X)
        self._hold_rows(X)

    def _add_block(self, X: Any) -> None:
        first = not hasattr(self, "tree_")
        X = validated(self, X, reset=first)
        if first:
            self.check_parameters()
            self._begin(X.shape[1])
        self._forget_rows()
        self._add(X)

    @property
    def coreset_points_(self) -> np.ndarray:
        """Means (m, d) of the clustering features."""
        return self.tree_.means[self.tree_.used]

    @property
    def coreset_weights_(self) -> np.ndarray:
        """Rows (m,) of the clustering features."""
        return self.tree_.weights[self.tree_.used]

    @property
    def coreset_sums_(self) -> np.ndarray:
        """Sums of squares (m,) of the clustering features' rows about their means."""
        return self.tree_.sums[self.tree_.used]

    @property
    def cluster_centers_(self) -> np.ndarray:
        """Centres (k, d) of the clusters."""
        return self._solve()[0]

    @property
    def inertia_(self) -> float:
        """Cost of the centres on the coreset, with the sums of squares within its features."""
        return self._solve()[1]

    def _rule(self) -> Centres:
        return Centres.by_size(self.cluster_centers_, self.labels_)

    def _groups(self, k: int) -> np.ndarray:
        centres = self.cluster_centers_
        nearest = self._labels(self.coreset_points_)
        sizes = np.bincount(nearest, self.coreset_weights_, len(centres))
        return merged_centres(centres, sizes, k)

    def _begin(self, n_features: int) -> None:
        size = int(self.size or min(POINTS_A_CLUSTER * self.n_clusters, HELD))
        self.seed_ = seed_of(self.random_state)
        self.tree_, self.n_seen_ = CoresetTree.empty(size, n_features), 0

    def _add(self, X: np.ndarray) -> None:
        self.__dict__.pop("solution_", None)
        self.tree_.insert(X)
        self.n_seen_ += len(X)

    def _state(self) -> State:
        arrays = dict(vars(self.tree_))
        return {"threshold": arrays.pop("threshold"), "n_seen": self.n_seen_}, arrays

    def _restore(self, facts: Facts, arrays: dict[str, np.ndarray]) -> BICO:
        """Go on from a tree of the same size; `DataError` for what is none."""
        slots, d = self.tree_.means.shape
        forms, sizes = forms_of(CoresetTree), {"slots": slots, "heads": slots + 1, "d": d}
        check_fields(forms | {"n_seen": whole(0, MAX_STATE_COUNT)}, facts | arrays, sizes)
        self.n_seen_ = facts["n_seen"]
        self.tree_ = CoresetTree(**{name: (facts | arrays)[name] for name in forms})
        return self

    def _solve(self) -> tuple[np.ndarray, float]:
        """Return the centres and their cost, computed once after the rows last changed."""
        if not hasattr(self, "solution_"):
            points, weights = self.coreset_points_, self.coreset_weights_
            k = min(int(self.n_clusters), len(points))
            if k < self.n_clusters:
                warnings.warn(
                    f"{self.n_clusters} clusters were asked for, but only {k} found: "
                    "the coreset has no more points",
                    UserWarning,
                    stacklevel=4,
                )
            means = KMeans(k, n_init=self.n_init, random_state=self.seed_)
            means.fit(points, sample_weight=weights)
            cost = float(means.inertia_ + self.coreset_sums_.sum())
            self.solution_ = means.cluster_centers_, cost
        return self.solution_

    def _labels(self, X: np.ndarray) -> np.ndarray:
        centres = self.cluster_centers_

        def nearest(block: np.ndarray) -> np.ndarray:
            block = np.ascontiguousarray(block, np.float64)
            return pairwise_distances_argmin(block, centres).astype(np.int32)

        return of_blocks(nearest, X, self.n_jobs)
