"""Fuzzy c-means (Bezdek 1981) by alternating optimisation."""

import warnings
from dataclasses import KW_ONLY, dataclass

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from distsvc.job.parameters import RandomState
from distsvc.models.baselines.estimator import CentreBaseline
from distsvc.models.baselines.rules import Centres, memberships_of
from distsvc.models.bases.validation import TableLike, check_rows
from distsvc.models.rows.threads import map_blocks, map_threads


@dataclass(eq=False, repr=False)
class FuzzyCMeans(CentreBaseline):
    """k-means in which a row belongs to every cluster to some degree.

    Two steps alternate: the best memberships u for the centres, and the best centres for the
    memberships. Neither step raises the objective, the sum of u^m times squared distance.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    m : float, default=2.0
        The fuzzifier, above 1. Near 1, memberships are 0 or 1, as in k-means. For large m,
        memberships approach 1 / k, and all centres may end at the mean.
    tol : float, default=0.0001
        Iterations end when no membership has changed by more than this.
    max_iter : int, default=300
        Maximum number of iterations. `fit` warns if it is reached.
    n_init : int, default=3
        Number of starts, from rows drawn by k-means++. The start with the lowest final objective is
        used.
    n_jobs : int or None, default=None
        Number of threads for the starts and for blocks of rows; as in `SupportVectorClustering`.
    random_state : int, RandomState or None, default=None
        Seed of the starts.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        The cluster of the nearest centre, which has the highest membership; 0 the largest.
    probabilities_ : ndarray of shape (n,), float32
        The highest membership of every row.
    outlier_scores_ : ndarray of shape (n,), float64
        As in `KMeans`.
    memberships_ : ndarray of shape (n, k), float64
        The memberships of every row, which add up to 1. A row at a centre belongs to it alone.
    cluster_centers_ : ndarray of shape (k, d), float64
    objective_ : float
        The objective of ``memberships_`` and ``cluster_centers_``.
    objectives_ : ndarray of shape (n_iter,), float64
        The objective after every iteration. It never rises, except by rounding.
    n_iter_ : int

    See Also
    --------
    sklearn.cluster.KMeans : Each row belongs to one cluster.

    References
    ----------
    Bezdek (1981), "Pattern Recognition with Fuzzy Objective Function Algorithms".

    Examples
    --------
    >>> from distsvc.baselines import FuzzyCMeans
    >>> FuzzyCMeans(n_clusters=2).fit([[0.0], [1.0], [9.0], [9.0], [10.0]]).labels_
    array([1, 1, 0, 0, 0], dtype=int32)

    """

    n_clusters: int = 8
    _: KW_ONLY
    m: float = 2.0
    tol: float = 1e-4
    max_iter: int = 300
    n_init: int = 3
    n_jobs: int | None = None
    random_state: RandomState = None

    algorithm = "fuzzy-c-means"

    def _fit_centres(self, X: np.ndarray, shuffled: np.ndarray, seed: int) -> None:
        random = np.random.RandomState(seed)
        starts = [
            kmeans_plusplus(shuffled, int(self.n_clusters), random_state=random)[0]
            for _ in range(self.n_init)
        ]
        given = float(self.m), float(self.tol), int(self.max_iter)
        runs = map_threads(lambda start: alternate(shuffled, start, *given), starts, self.n_jobs)
        centres, objectives, converged = min(runs, key=lambda run: run[1][-1])
        if not converged:
            text = (
                f"memberships still change by more than tol after {self.max_iter} iterations; "
                "raise max_iter or tol"
            )
            warnings.warn(text, ConvergenceWarning, stacklevel=4)
        self.cluster_centers_ = Centres.by_size(centres, X).centres
        self.objectives_ = np.array(objectives)
        self.objective_, self.n_iter_ = objectives[-1], len(objectives)
        self.memberships_ = self._memberships(X)
        self.labels_ = self._labels(X)
        self._hold_rows(X)
        self.probabilities_ = self.memberships_.max(axis=1).astype(np.float32)

    def memberships(self, X: TableLike) -> np.ndarray:
        """Return the memberships of every row, which add up to 1.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows in memory.

        Returns
        -------
        memberships : ndarray of shape (n, k), float64

        Examples
        --------
        >>> from distsvc.baselines import FuzzyCMeans
        >>> model = FuzzyCMeans(n_clusters=2).fit([[0.0], [1.0], [9.0], [9.0], [10.0]])
        >>> model.memberships([[0.5], [9.5]]).round(1)
        array([[0., 1.],
               [1., 0.]])

        """
        self._settle()
        return self._memberships(check_rows(self, X, reset=False))

    def _memberships(self, X: np.ndarray) -> np.ndarray:
        centres, m = self.cluster_centers_, float(self.m)
        return map_blocks(
            lambda block: memberships_of(cdist(block, centres, "sqeuclidean"), m), X, self.n_jobs
        )

    def _sizes(self) -> np.ndarray:
        return self.memberships_.sum(axis=0)


def alternate(
    X: np.ndarray, centres: np.ndarray, m: float, tol: float, max_iter: int
) -> tuple[np.ndarray, list[float], bool]:
    """Iterate fuzzy c-means from initial centres (k, d) on rows X (n, d), both float64.

    Return the final centres, the objectives of all iterations, and True if `tol` was reached.
    """
    memberships = memberships_of(cdist(X, centres, "sqeuclidean"), m)
    objectives: list[float] = []
    converged = False
    while not converged and len(objectives) < max_iter:
        weights = memberships**m
        total = weights.sum(axis=0)[:, np.newaxis]
        # Means weighted by u^m minimise the objective. A centre without memberships stays.
        centres = np.divide(weights.T @ X, total, out=centres.copy(), where=total > 0.0)
        squared = cdist(X, centres, "sqeuclidean")
        before, memberships = memberships, memberships_of(squared, m)
        objectives.append(float((memberships**m * squared).sum()))
        converged = bool(np.abs(memberships - before).max() <= tol)
    return centres, objectives, converged
