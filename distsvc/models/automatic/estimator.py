"""The scikit-learn estimator of the default algorithm, for tables and for sources of blocks."""

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

import numpy as np

from distsvc.errors import UnusableRowsError
from distsvc.inputs.rows import Input
from distsvc.job.parameters import Effort, Granularity, RandomState
from distsvc.kernels.ahead import compiling_ahead
from distsvc.models.automatic.engine import AutomaticEngine
from distsvc.models.bases.mixed import MixedClusterEstimator
from distsvc.models.bases.passes import Passes, Phases
from distsvc.models.bases.values import Values
from distsvc.models.rows import sampling
from distsvc.models.rows.sampling import seed_of
from distsvc.models.rows.threads import both, n_threads, one_thread
from distsvc.models.rules.joined import clusters_to_join, joined


@dataclass(eq=False, repr=False)
class AutoClustering(MixedClusterEstimator):
    """Clusters by the best of several views of a table, such as a graph and a mixture.

    Each column is modelled, so that rounding, skew, flags, categories and zeros do not look like
    gaps between clusters. Then two views propose partitions: level trees of a graph of up to 10,000
    rows, and mixtures. One cluster is a proposal, too. The BIC compares the proposals, with each
    cluster as one population whose columns may depend on each other. Another sample of the table
    might prefer another proposal, so other samples are simulated. The answer is the proposal with
    the highest mean adjusted Rand index with the proposals that these samples prefer.

    Some tables keep their columns as stored, if they have no categories and no missing values:

    - at most three columns, one of them continuous
    - more than 40 columns of signals, such as pixels, or more than 1,000 columns
    - rows that are normalised, or that lie on a few points

    Such columns should be on comparable scales. Level trees of the columns decide if their clusters
    are clear, or if there is no graph; otherwise level trees of the graph decide. With
    `n_clusters`, k-means also makes a partition. The partition is chosen whose clusters have more
    even sizes and separate fewer neighbours.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Number of clusters; None to find it. A warning is issued if fewer clusters are found, as in
        a table of few distinct values. A mixture has at most 400 clusters.
    nu : float in (0, 1] or None, default=None
        Share of the rows that are outliers; None for the default limit, beyond which 0.4 % of the
        rows of a normal cluster lie.
    effort : {"fast", "default", "thorough"}, default="default"
        Number of models whose level trees vote, as in `SupportVectorClustering`.
    granularity : {"coarse", "default", "fine"}, default="default"
        Depth of the valleys between clusters, as in `SupportVectorClustering`.
    noise : bool, default=False
        Label rows with a `decision_function` below 0 as -1 in `labels_`, `predict` and `cut`.
    min_cluster_size : int or None, default=None
        Minimum number of rows of a cluster; a smaller cluster is merged into its nearest cluster.
        Sizes are estimated on up to 10,000 rows.
    n_jobs : int or None, default=None
        Number of threads, as in `SupportVectorClustering`.
    verbose : int, default=0
        If 1 or more, `fit` prints the duration of each phase.
    random_state : int, RandomState or None, default=None
        Seed of the sample of rows, and of the models of level trees.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        Cluster of every row, also of outliers. With `noise`, the label of outliers is -1.
    probabilities_ : ndarray of shape (n,), float32
        Membership of every row in its cluster, 0 to 1: its entry in `predict_proba`.
    outlier_scores_ : ndarray of shape (n,), float64
        Minus `decision_function` of every row; above 0 for outliers.
    exemplars_ : list of ndarray of int64
        Indices of the rows deepest inside each cluster, at most five.
    n_clusters_ : int
    algorithm_ : {"graph", "mixture", "support-vector", "centres"}
        View that gave the answer. It is the graph or a mixture if columns are modelled. If they
        stay as stored, it is the graph, level trees of the columns ("support-vector"), or k-means
        ("centres").
    why_ : str
        Reason for the choice of the view, in sentences.
    agreement_ : float
        Estimated probability that another sample of the table has this answer (adjusted Rand index
        above 0.8). If columns are modelled, it is the share of simulated samples that prefer this
        answer. Without `n_clusters`, a mixture's partition is weighted by its agreement with
        mixtures of half of the rows. If columns stay as stored, it is estimated as in
        `SupportVectorClustering`; with `n_clusters`, it is the share of the models, or of the runs
        of k-means, that find this answer.
    likeness_ : float or None
        Adjusted Rand index between the answer and the most probable other answer, if columns are
        modelled. None if no other answer is known.
    notes_ : list of str
        Remarks on the fit; also issued as warnings by `fit`.

    See Also
    --------
    SupportVectorClustering : The level tree alone, and the papers' method.
    IncrementalMDH : Hyperplanes, which can be read as rules.

    Notes
    -----
    `decision_function` and `score_samples` are equal. They are minus the logarithm of the distance
    to near rows, relative to the outlier limit, in standard deviations of a cluster.
    ``cut(n_clusters)`` returns the labels that a fit with `n_clusters` would have.

    Examples
    --------
    >>> from distsvc import AutoClustering
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = StandardScaler().fit_transform(load_iris().data)
    >>> model = AutoClustering(random_state=0).fit(X)
    >>> model.n_clusters_
    2
    >>> model.algorithm_
    'mixture'

    """

    n_clusters: int | None = None
    _: KW_ONLY
    nu: float | None = None
    effort: Effort = "default"
    granularity: Granularity = "default"
    noise: bool = False
    min_cluster_size: int | None = None
    n_jobs: int | None = None
    verbose: int = 0
    random_state: RandomState = None

    def _values_of_cut(self, n_clusters: int) -> Values:
        return replace(self._values("label"), rule=self._engine.cut(n_clusters))

    def _values(self, column: str) -> Values:
        least = 0.0 if self.noise else -np.inf
        return replace(super()._values(column), rule=self._rule, least=least)

    def _fit_source(self, source: Input) -> None:
        engine = AutomaticEngine(self.get_params(), seed_of(self.random_state))
        n = engine.column_trees.n_jobs = engine.graph.n_jobs = n_threads(self.n_jobs)
        with compiling_ahead(n):
            self._fit_in_passes(engine, source)

    def _fit_in_passes(self, engine: AutomaticEngine, source: Input) -> None:
        phases, levels = Phases(self), engine.column_trees
        passes = Passes(source, levels.seed)
        X, keys = passes.draw(levels.sample_ranges)  # the graph uses a part of this sample
        n_rows = passes.n_rows
        phases.ended(f"sample of {n_rows:,} rows")
        engine.model_columns(passes.pilot, passes.pilot_keys, self._nominal(X.shape[1]))
        if engine.columns is None and np.isnan(passes.pilot).any():
            raise UnusableRowsError(
                "X has missing values and no column that varies: expected at least one column with "
                "two different values"
            )
        engine.set_pilot(engine.learner_rows(passes.pilot, passes.pilot_keys), n_rows)
        own = slice(0, sampling.slice_by_key(keys, *engine.graph.key_ranges(n_rows)[-1]).stop)
        of_graph = engine.learner_rows(X[own].copy(), keys[own]), keys[own]
        if engine.columns is None:
            rows = levels.seen(X)
            del X
            levels.learn(rows, keys, n_rows)
            del rows, keys
            levels.find_clusters(())
            phases.ended("level trees of the columns")
        if engine.uses_graph:
            learn_graph = partial(engine.learn_graph, *of_graph)
            with one_thread():  # threads that set limits in turns would restore wrong ones
                both(learn_graph, engine.learn_mixtures, self.n_jobs)
            phases.ended("neighbour graph, with its models and their vote")
        self._take(engine, passes.pilot, n_rows)
        self._label_passes(passes)

    def _take(self, engine: AutomaticEngine, pilot: np.ndarray, n_rows: int) -> None:
        """Choose the answer, merge clusters below `min_cluster_size`, and set fitted attributes.

        Sizes are counted on stored pilot rows (m, d) and scaled to a table of `n_rows`.
        """
        engine.choose()
        self._forget()
        self._engine = engine
        self._rule = engine.rule
        if self.min_cluster_size is not None:
            least = self.min_cluster_size * len(pilot) / n_rows
            rows = self._values("label").prepared(pilot)
            into = clusters_to_join(engine.rule, rows, None, least)
            self._rule = engine.rule if into is None else joined(engine.rule, into)
        answer = engine.answer
        self.algorithm_, self.why_ = answer.view, answer.why
        self.agreement_, self.likeness_ = answer.agreement, answer.likeness
        self.n_clusters_, self.notes_ = self._rule.n_clusters, engine.notes
