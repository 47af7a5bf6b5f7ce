"""iMDH: a divisive tree of minimum-density hyperplanes, learned in streaming passes."""

from dataclasses import KW_ONLY, dataclass
from typing import Self

from sklearn.utils.validation import check_is_fitted

from distsvc.inputs.rows import Input
from distsvc.job.parameters import Elbow, Growth, RandomState, TreeScale, check_parameters
from distsvc.models.bases.interface import PublishedSettings, StreamEstimator
from distsvc.models.bases.passes import ClusterEstimator, Passes, Phases
from distsvc.models.bases.validation import TableLike, check_rows
from distsvc.models.bases.values import Values
from distsvc.models.hyperplanes.engine import TreeEngine, TreeStream
from distsvc.models.rows.sampling import PILOT_ROWS, seed_of

CHOSEN = ("cluster_tree_", "n_clusters_", "valleys_", "clearest_valley_", "agreement_")
"""Attributes that depend on the chosen clusters; `partial_fit` deletes them."""


@dataclass(eq=False, repr=False)
class IncrementalMDH(PublishedSettings, StreamEstimator, ClusterEstimator):
    """Clusters are the leaves of a tree of hyperplanes through regions of low density.

    A complete binary tree is learned from a stream of rows. Each node moves its hyperplane to lower
    density by stochastic gradient descent. The tree is then pruned by the within-cluster sum of
    squares, to the elbow of its curve or to a given number of clusters.

    Parameters
    ----------
    depth : int, default=8
        Levels of the tree, D in the paper, 1 to 16. There are at most 2^(depth - 1) clusters.
    n_clusters : int or None, default=None
        Clusters wanted (iMDH_k), or None for the elbow (iMDH). If fewer leaves have rows, there are
        fewer clusters and a warning.
    alpha : float, default=0.5
        Distance of a hyperplane from its node's mean above which it is penalised, in standard
        deviations sigma of the projections. The paper has 0.1.
    penalty : float, default=10.0
        Weight of the penalty, C of eq. (3), at most 100. Below about 1, hyperplanes leave their
        means.
    bandwidth : float, default=1.0
        Kernel bandwidth at a node's t-th row, in units of sigma (t + 1)^-1/5.
    clip : float, default=5.0
        Maximum distance of a hyperplane from its node's mean, in units of alpha * sigma. 0 is no
        limit, as in the paper; large first steps can then leave a hyperplane beyond all rows.
    passes : int or None, default=None
        Passes over the rows, each in another order. None: 1 to 5, enough to learn from 250,000
        rows. The paper has 1.
    max_effective_samples : int or None, default=None
        A row weighs at least 1 / max_effective_samples in its nodes, so that old rows are
        forgotten and the tree follows a drifting stream. None never forgets.
    n_init : int or None, default=None
        Number of trees, each from another order of the rows. The tree with the highest mean
        adjusted Rand index with the others is chosen. None: 5 to 60, so that all trees together
        learn from about four million rows. The paper has 1. With ``n_clusters=None``, if the trees
        agree too little, the number of clusters is lowered until they agree, with a warning.
    growth : {"prune", "forward"}, default="prune"
        Construction of the models H_K. "prune" removes splits from the full tree (section 3).
        "forward" adds them from the root, the best first (a later option of the author's code).
    elbow : {"weighted", "angle"}, default="weighted"
        Rule for the number of clusters. "angle" is eq. (22), "weighted" the author's later rule.
    valley : float, default=3.2
        Minimum z of a valley (`distsvc.models.hyperplanes.tree.valley`). The answer is one cluster
        if ``clearest_valley_``, computed on up to 10,000 rows, is lower. 0 switches the test off,
        as in the paper. Only with ``n_clusters=None``.
    max_samples : int or None, default=1000000
        Approximate maximum number of rows to learn from, drawn at random; at least 100. None for
        all. Values up to the default are reduced for wide rows, to 256 MiB.
    scale : {"standard", "none"}, default="standard"
        Divide each column by its standard deviation before learning, so that clusters do not depend
        on units. Attributes and scores stay in the columns' units. With "none", features should
        have variances of about 1.
    n_jobs : int or None, default=None
        Threads for the trees and for blocks of rows; as in `SupportVectorClustering`.
    verbose : int, default=0
        If 1 or more, `fit` prints the duration of each phase.
    random_state : int, RandomState or None, default=None
        Seed of the order of rows.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        Cluster of every row, 0 the largest among the rows learned from. Equal to ``predict(X)``.
    probabilities_ : ndarray of shape (n,), float32
        Share of each row's own cluster, as in `predict_proba`.
    outlier_scores_ : ndarray of shape (n,), float64
        Minus `score_samples`: high near another cluster. No row counts as outside, however far it
        is from all others.
    n_clusters_ : int
    cluster_tree_ : TreeRule of distsvc.models.hyperplanes.tree
        The nodes with their hyperplanes, rows and sums of squares, and the order of splits. Rows
        are relative to ``centre_``; sums of squares are of the scaled columns.
    agreement_ : float
        Share of the other trees that give the same answer (adjusted Rand index above 0.8). It
        estimates the probability that another sample does. NaN with one tree.
    valleys_ : ndarray of shape (k - 1,), float64
        z of each split in the answer, the most important split first.
    clearest_valley_ : float
        The largest z of a tree's splits, as the median over all trees. Trees are cut at their
        elbow or into `n_clusters`.
    centre_ : ndarray of shape (d,), float64
        The origin of the rows.
    n_samples_ : int
        Rows learned from.
    notes_ : list of str
        Remarks on the fit; also issued as warnings by `fit`.

    Notes
    -----
    `published` has the settings of Hofmeyr (2021), section 4: one tree from one pass over all rows
    without scaling, alpha = 0.1, no clipping, the elbow of eq. (22), and no test for a valley. The
    page "Departures from the papers" lists all departures and how to switch each off.

    `score_samples` is the distance of a row to the nearest hyperplane on its path, in standard
    deviations of the node's rows along the normal. It is infinite if there is one cluster.

    `partial_fit` learns one tree from the rows in their order, in one pass. The first block sets
    the centre. Each block is counted for pruning right after the tree has learned from it. After
    `fit`, `partial_fit` discards the fit and begins a new tree, with a warning.

    See Also
    --------
    AutoClustering : Clusters of any shape.
    distsvc.baselines.DePDDP : A tree of cuts along principal components.

    References
    ----------
    Hofmeyr (2021), "Clustering Large Data Sets with Incremental Estimation of
    Low-density Separating Hyperplanes".

    Examples
    --------
    >>> from distsvc import IncrementalMDH
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(600, centers=4, n_features=10, random_state=0)
    >>> X = (X - X.mean(axis=0)) / X.std(axis=0)
    >>> model = IncrementalMDH(random_state=0).fit(X)
    >>> model.n_clusters_
    4

    """

    depth: int = 8
    n_clusters: int | None = None
    _: KW_ONLY
    alpha: float = 0.5
    penalty: float = 10.0
    bandwidth: float = 1.0
    clip: float = 5.0
    passes: int | None = None
    max_effective_samples: int | None = None
    n_init: int | None = None
    growth: Growth = "prune"
    elbow: Elbow = "weighted"
    valley: float = 3.2
    max_samples: int | None = 1_000_000
    scale: TreeScale = "standard"
    n_jobs: int | None = None
    verbose: int = 0
    random_state: RandomState = None

    _algorithm = "imdh"

    def _fit_source(self, source: Input) -> None:
        engine = self._begin()
        passes = Passes(source, engine.seed)
        engine.set_width(source.n_features)
        X, keys = passes.draw(engine.key_ranges)
        engine.set_pilot(passes.pilot, passes.n_rows)
        rows = engine.centred(X)
        del X
        phases = Phases(self)
        grown = engine.grow_all(rows, keys, passes.n_rows)
        phases.ended("trees")
        engine.choose(grown)
        phases.ended("choice")
        self.centre_, self.n_samples_ = engine.centre, engine.n_samples
        self._publish()
        self._label_passes(passes)

    def partial_fit(self, X: TableLike, y: object = None) -> Self:
        first = not hasattr(self, "_stream")
        if first and hasattr(self, "cluster_tree_"):
            self._warn_of_new_beginning()
        X = check_rows(self, X, reset=first)
        if first:
            engine = self._begin()
            engine.set_pilot(X[:PILOT_ROWS], len(X))
            engine.set_scale()
            self._stream = TreeStream(engine, X.shape[1])
        self._stream.add(X)
        self._forget(*CHOSEN)
        self.centre_, self.n_samples_ = self._engine.centre, self._stream.n_rows
        self.notes_ = []
        return self

    def _values_of_cut(self, n_clusters: int) -> Values:
        return Values(self._engine.rule.cut(n_clusters), self._engine.centre, "label")

    def _begin(self) -> TreeEngine:
        """Check the parameters, delete an earlier fit and return a new engine."""
        check_parameters(self._algorithm, self.get_params())
        self._forget("_stream", *CHOSEN)
        self._engine = TreeEngine(self.get_params(), seed_of(self.random_state))
        self._engine.n_jobs = self.n_jobs
        return self._engine

    def _publish(self) -> None:
        engine = self._engine
        self.cluster_tree_, self.n_clusters_ = engine.rule, engine.rule.n_clusters
        self.agreement_ = engine.agreement
        self.valleys_, self.clearest_valley_ = engine.valleys, engine.clearest_valley
        self.notes_ = engine.notes

    def _settle(self) -> None:
        """Choose the clusters of a stream, if they are not chosen yet."""
        if hasattr(self, "_stream") and "cluster_tree_" not in vars(self):
            self._stream.choose()
            self._publish()
        check_is_fitted(self, "cluster_tree_")
