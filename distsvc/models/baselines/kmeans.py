"""scikit-learn's k-means, called C-Means in the papers, with a rule that labels rows in jobs."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from sklearn.cluster import KMeans as ScikitKMeans

from distsvc.job.parameters import FirstCentres, RandomState
from distsvc.models.baselines.estimator import CentreBaseline
from distsvc.models.baselines.rules import Centres


@dataclass(eq=False, repr=False)
class KMeans(CentreBaseline):
    """k-means: every row belongs to the cluster with the nearest centre.

    `sklearn.cluster.KMeans` computes the centres, which minimise the sum of squared distances.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    init : {"k-means++", "random"}, default="k-means++"
        Method of drawing the first centres. Hofmeyr (2021) draws them at random.
    n_init : int, default=10
        Number of starts. The start with the lowest final ``inertia_`` is used.
    max_iter : int, default=300
        Maximum number of iterations of a start.
    tol : float, default=0.0001
        Iterations end when the centres move by less than this, relative to the columns' variances.
    n_jobs : int or None, default=None
        Number of threads for blocks of rows; as in `SupportVectorClustering`.
    random_state : int, RandomState or None, default=None
        Seed of the starts.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        The cluster of the nearest centre, 0 the largest.
    probabilities_ : ndarray of shape (n,), float32
        Share of every row in its own cluster: 1 / r^4 divided by its sum over all clusters, with r
        the distance to a centre.
    outlier_scores_ : ndarray of shape (n,), float64
        Minus the distance of every row to the nearest border of its cluster: high near another
        cluster. No row counts as outside, however far it is from all others.
    cluster_centers_ : ndarray of shape (k, d), float64
    inertia_ : float
        The sum of squared distances to the centres.
    n_iter_ : int
        Number of iterations of the start that is used.

    See Also
    --------
    FuzzyCMeans : Rows belong to several clusters to some degree.
    BICO : k-means of a stream.

    References
    ----------
    Lloyd (1982), "Least Squares Quantization in PCM".

    Examples
    --------
    >>> from distsvc.baselines import KMeans
    >>> KMeans(n_clusters=2).fit([[0.0], [1.0], [8.0], [9.0], [9.5]]).labels_
    array([1, 1, 0, 0, 0], dtype=int32)

    """

    n_clusters: int = 8
    _: KW_ONLY
    init: FirstCentres = "k-means++"
    n_init: int = 10
    max_iter: int = 300
    tol: float = 1e-4
    n_jobs: int | None = None
    random_state: RandomState = None

    algorithm = "kmeans"

    def _fit_centres(self, X: np.ndarray, shuffled: np.ndarray, seed: int) -> None:
        means = ScikitKMeans(
            int(self.n_clusters),
            init=self.init,
            n_init=int(self.n_init),
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            random_state=seed,
        ).fit(shuffled)
        self.inertia_, self.n_iter_ = float(means.inertia_), int(means.n_iter_)
        self.cluster_centers_ = Centres.by_size(means.cluster_centers_, X).centres
        self.labels_ = self._labels(X)
        self._hold_rows(X)
