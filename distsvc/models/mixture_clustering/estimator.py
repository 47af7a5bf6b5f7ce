"""The scikit-learn estimator of the algorithm "mixture"."""

from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from distsvc.inputs.rows import Input
from distsvc.job.parameters import RandomState
from distsvc.models.bases.interface import StreamEstimator
from distsvc.models.bases.mixed import MixedClusterEstimator
from distsvc.models.bases.passes import Passes, Phases, map_rows
from distsvc.models.bases.validation import LazyValues, TableLike, check_rows
from distsvc.models.bases.values import Values
from distsvc.models.mixture_clustering.engine import MixtureEngine
from distsvc.models.mixture_clustering.rule import ComponentRule
from distsvc.models.rows import sampling
from distsvc.models.rows.sampling import seed_of


class LogDensities(Values):
    """Function from rows to their log densities in a mixture; it can be pickled for workers."""

    def of_centred(self, Z: np.ndarray) -> np.ndarray:
        """Return the log densities (n,) float64 of prepared rows Z (n, d) float32."""
        assert isinstance(self.rule, ComponentRule)
        return self.rule.log_densities(Z)


@dataclass(eq=False, repr=False)
class MixtureClustering(StreamEstimator, MixedClusterEstimator):
    """Clusters by a mixture of normals and independent categories.

    Each column is first mapped to a scale on which it is nearly normal. The map accounts for
    rounding, skew, counts and many zeros. Flags and text are categories. Missing values are
    integrated out. The Bayesian information criterion (BIC) chooses the number of components and
    the form of their covariances: full, diagonal along common axes ("tied"), or diagonal. Learning
    uses up to 10,000 rows, drawn at random.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components, at most 400; None to choose it by the BIC, up to 20. A warning is
        issued if the mixture has fewer components, mostly because the sample is too small.
    n_jobs : int or None, default=None
        Number of threads, as in `SupportVectorClustering`.
    verbose : int, default=0
        If 1 or more, `fit` prints the duration of each phase.
    random_state : int, RandomState or None, default=None
        Seed of the sample of rows that is drawn from larger tables.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        Component with the highest posterior probability; 0 is the largest one.
    probabilities_ : ndarray of shape (n,), float32
        Posterior probability of the row's component.
    outlier_scores_ : ndarray of shape (n,), float64
        Minus the `decision_function`; above 0 for outliers.
    n_clusters_ : int
        Number of components.
    weights_ : ndarray of shape (K,), float64
        Share of each component in the rows.
    means_ : ndarray of shape (K, p), float64
        Means of the numbers after the map of each column.
    covariances_ : ndarray of shape (K, p, p), float64
        Covariances of the numbers after the map of each column.
    covariance_type_ : {"full", "tied", "diagonal"}
        Form of the covariances.
    chances_ : list of ndarray of shape (K, L), float64
        Probabilities of the L levels of each category.
    number_columns_, category_columns_ : ndarray of shape (p,) and (q,), int64
        Indices of the columns of X with numbers, and with categories. A column with many zeros is
        in both. Constant columns and copies of other columns are in neither.
    notes_ : list of str
        Remarks on the fit; also issued as warnings by `fit`.

    See Also
    --------
    AutoClustering : The default, which compares mixtures with other views.

    Notes
    -----
    The mixture is fitted by expectation maximisation (EM), with the conjugate prior of Fraley and
    Raftery (2007). Tied covariances are semi-tied (Gales 1999). In addition, 0.0025 of a column's
    variance is added to its variance in every component. No component is therefore narrower than a
    twentieth of the column's standard deviation.

    `score_samples` is the log density of a mapped row's known values in the mixture, in nats.
    `decision_function` is the log density minus the outlier limit of the row's cluster. Its unit is
    the distance between the median and the 5 % quantile of the cluster's log densities. It is
    negative for four in a thousand rows of a normal cluster.

    The first block of `partial_fit` is fitted as by `fit`. Further blocks refine the mixture, but
    not the maps of columns or the number of components, by incremental EM (Neal and Hinton 1998).

    References
    ----------
    Fraley and Raftery (2007), "Bayesian Regularization for Normal Mixture Estimation and
    Model-Based Clustering". Gales (1999), "Semi-tied Covariance Matrices for Hidden Markov Models".

    Examples
    --------
    >>> import numpy as np
    >>> from distsvc import MixtureClustering
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(600, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    >>> X[::10, 0] = np.nan
    >>> model = MixtureClustering(random_state=0).fit(X)
    >>> model.n_clusters_
    3
    >>> model.weights_.round(1)
    array([0.3, 0.3, 0.3])

    """

    n_components: int | None = None
    _: KW_ONLY
    n_jobs: int | None = None
    verbose: int = 0
    random_state: RandomState = None

    def score_samples(self, X: TableLike) -> LazyValues:
        self._settle()
        engine = self._engine
        densities = LogDensities(engine.rule, engine.origin, "score", columns=engine.columns)
        return map_rows(self, X, densities, self.n_jobs)

    def bic(self, X: TableLike) -> float:
        """Return the Bayesian information criterion of the mixture for rows; lower is better.

        Compare only models that were fitted to the same rows, because otherwise their maps of the
        columns differ.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            Rows, as `fit` takes them.

        Returns
        -------
        bic : float
            Parameters times log(n), less twice the log-likelihood, as in scikit-learn.

        Examples
        --------
        >>> from distsvc import MixtureClustering
        >>> from sklearn.datasets import make_blobs
        >>> X, _ = make_blobs(600, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
        >>> one, three = (MixtureClustering(k, random_state=0).fit(X) for k in (1, 3))
        >>> three.bic(X) < one.bic(X)
        True

        """
        densities = np.asarray(self.score_samples(X))
        parameters = self._engine.mixture.n_parameters
        return float(parameters * np.log(len(densities)) - 2.0 * densities.sum())

    def _values_of_cut(self, n_clusters: int) -> Values:
        engine = self._engine
        _, rule = engine.fit_components(n_clusters)
        return Values(rule, engine.origin, "label", columns=engine.columns)

    def partial_fit(self, X: TableLike, y: object = None) -> Self:
        if not hasattr(self, "_engine"):
            self.fit(X)
        else:
            X = check_rows(self, self._as_numbers(X, reset=False), reset=False, **self._allowed)
            self._engine.add(X)
            self._publish()
        self._forget()
        return self

    def _fit_source(self, source: Input) -> None:
        phases = Phases(self)
        engine = MixtureEngine(self.get_params(), seed_of(self.random_state))
        passes = Passes(source, engine.seed)
        passes.draw(engine.key_ranges)
        phases.ended(f"sample of {passes.n_rows:,} rows")
        pilot, keys = passes.pilot, passes.pilot_keys
        columns = engine.model_columns(pilot, keys, self._nominal(pilot.shape[1]))
        engine.set_pilot(columns.latent(pilot, sampling.rows_of(engine.seed, keys)), passes.n_rows)
        engine.learn()
        self._forget()
        self._engine = engine
        self._publish()
        phases.ended("models of the columns, and mixtures")
        self._label_passes(passes)

    def _settle(self) -> None:
        check_is_fitted(self, "weights_")

    def _publish(self) -> None:
        engine, rule, columns = self._engine, self._engine.rule, self._engine.columns
        self.weights_, self.means_ = rule.weights, rule.means
        self.covariances_ = rule.covariances
        if engine.mixture.shape == "diagonal":
            self.covariances_ = rule.covariances[:, 0, :, None] * np.eye(rule.means.shape[1])
        self.covariance_type_ = engine.mixture.shape
        ends = np.cumsum(rule.n_levels)[:-1]
        self.chances_ = np.split(rule.chances, ends, axis=1) if len(rule.n_levels) else []
        self.number_columns_ = np.searchsorted(columns.firsts, rule.numbers, "right") - 1
        self.category_columns_ = np.searchsorted(columns.firsts, rule.levels, "right") - 1
        self.n_clusters_, self.notes_ = rule.n_clusters, engine.notes
