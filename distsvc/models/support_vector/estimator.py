"""Estimator of support vector clustering. `engine_for` chooses the engine that fits it."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from time import perf_counter
from typing import Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from distsvc.errors import ParameterError
from distsvc.inputs.rows import Input
from distsvc.job import parameters as allowed
from distsvc.models.bases.interface import PublishedSettings, StreamEstimator
from distsvc.models.bases.passes import OutlierEstimator, Passes, Phases, map_rows
from distsvc.models.bases.validation import LazyValues, TableLike, check_rows
from distsvc.models.bases.values import Values
from distsvc.models.rows.sampling import PILOT_ROWS, seed_of
from distsvc.models.support_vector.boundary.engine import BoundaryEngine
from distsvc.models.support_vector.boundary.labelling import SEGMENT_TOLERANCE
from distsvc.models.support_vector.engines import EitherEngine, engine_for, engine_for_blocks
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine

OF_CLUSTERS = ("n_clusters_", "equilibria_", "equilibrium_labels_", "epsilon_", "n_boundary_")
"""Attributes that depend on the clusters; `partial_fit` deletes them."""


@dataclass(eq=False, repr=False)
class SupportVectorClustering(PublishedSettings, StreamEstimator, OutlierEstimator):
    """Clusters of any shape: the connected parts of the regions where rows are dense.

    By default no parameter is needed. One-class support vector machines are trained with several
    kernel widths, in several subspaces. Each yields a tree of all level sets, and the cuts of these
    trees vote on the clusters. Features should be on comparable scales.

    With a number for `gamma`, the papers' method is used. A large-margin one-class SVM with a
    Gaussian kernel is trained by stochastic gradient descent on a budget of support vectors. Rows
    near its boundary climb to equilibrium points. Equilibria joined by a segment inside the domain
    are one cluster, and every row takes the label of its nearest boundary row. Rows with f(x) < 0
    are outliers. With ``solver="exact", labelling="complete-graph"`` and `nu` it is SVC (Ben-Hur et
    al. 2001), with ``labelling="balls"`` FSVC (Jung, Lee and Lee 2010).

    Parameters
    ----------
    n_clusters : int or None, default=None
        Clusters wanted; None to determine their number. If no tree has enough branches with rows,
        there are fewer clusters, and a warning. With a number, the level tree is used.
    nu : float in (0, 1] or None, default=None
        Share of rows outside. With the level tree, it shifts the scores and changes no cluster;
        None leaves about 0.4 % of the rows of a normal cluster outside. With a number for `gamma`,
        C is 1 / (nu rho*), and a share nu of the rows has f < 0, measured on up to 10,000 rows. The
        share is lower if many rows are equal, because equal rows are on the same side and rows with
        f = 0 are inside. rho* is the offset of the nu-one-class SVM (Schoelkopf et al. 2001) on at
        most 2000 rows. If `nu` and `C` are None, nu is 0.1.
    effort : {"fast", "default", "thorough"}, default="default"
        Number of models that vote. Up to 3 features, it is 3, 10 or 20. With more features, each
        subspace has 2, 3 or 10 models, and there are up to 4 ("fast") or 8 subspaces.
    granularity : {"coarse", "default", "fine"}, default="default"
        Depth of valley that divides two clusters. Splits are tested on up to 100,000 rows, and
        their significance z grows with the number of rows. So z is scaled to at most 3,000 rows
        (coarse) or 30,000 (default), or not scaled (fine). Fewer rows give coarser clusters.
    verbose : int, default=0
        If 1 or more, `fit` prints the duration of each phase.
    random_state : int, RandomState or None, default=None
        Seed of the order of rows.

    Other Parameters
    ----------------
    gamma : float, list of float or "auto", default="auto"
        Kernel width, K(x, x') = exp(-gamma ||x - x'||^2), per squared unit of X. Each value of a
        list has a level tree, and these vote. "auto" trains as many models as `effort` sets, or one
        with ``labelling="equilibria"``.
    C : float or None, default=None
        The papers' trade-off in J(w) = 1/2 ||w||^2 + (C/N) sum max(0, 1 - w.phi(x)), instead of
        `nu`. Pham, Le, Le and Tran (2016) do not divide by N: C is N times theirs. The level tree's
        default is 2.
    solver : {"bsgd", "sgd", "exact"}, default="bsgd"
        Algorithm 2 with a budget ("bsgd"), Algorithm 1 without (SGD-LMOC, "sgd"), or the optimum
        ("exact"). With `nu`, scikit-learn's OneClassSVM computes the optimum; with `C`, coordinate
        ascent on the dual, for at most 10,000 rows.
    budget : int or None, default=None
        Maximum number of support vectors with "bsgd". None is 200 for each model of the level tree,
        and 100 with equilibria.
    maintenance : {"merge", "project-nearest", "project-random", "removal"}, default="merge"
        The step when the budget is exceeded. Merging is not in the papers; it comes closest to the
        optimum. Projections are onto the cone, so weights stay non-negative.
    projection_size : int, default=5
        Number of vectors onto which a removed vector is projected (k in section 3.3.2).
    stopping : {"held-out", "step-norm"}, default="held-out"
        "held-out": J is measured every 10,000 steps on 2048 rows, which are not trained on if there
        are 40,960 rows or more. Training ends when the best of the last three values does not
        improve on the earlier best by a relative `tol`. "step-norm" is the papers' rule, ||w_{t+1}
        - w_t|| <= theta, which holds after at most 1.41 C / theta steps with any data.
    tol : float, default=0.001
        Threshold of the rule "held-out". Models of the level tree do all their steps.
    theta : float, default=0.01
        Threshold of the rule "step-norm".
    max_iter : int, default=200000
        Maximum number of descent steps, of sweeps for "exact" with `C`, and of rows to train on.
        Models of the level tree do 5 steps a row, at least 4,000 and at most 20,000.
    iterate : {"last", "average", "random"}, default="last"
        The iterate that is used. "average" is the mean of all iterates from the second epoch on
        (Theorem 7 of 2017), only with "sgd". "random" is the iterate of a second run after a random
        number of steps, uniform in 1 to T (Theorem 3 of 2016).
    labelling : {"auto", "equilibria", "level-tree", "complete-graph", "balls"}, default="auto"
        "equilibria" is Algorithm 3 of Pham, Le and Dang (2017). "level-tree" cuts the tree of the
        level sets of f at its significant splits; Algorithm 3 is its cut at level 0. "auto" is
        "level-tree" if `n_clusters` or a list of gammas is given, or if gamma is "auto" and the
        solver "bsgd"; otherwise it is "equilibria". "complete-graph" and "balls" need a table in
        memory, and the solver "exact" with `nu`. "complete-graph" joins any two rows inside whose
        segment is inside (at most 100,000 rows); rows outside take the label of the nearest row
        inside. With "balls", only the centres of balls climb, and merge on their way; rows take the
        label of the nearest centre.
    assignment : {"vote", "nearest"}, default="vote"
        With the level tree, a row's cluster has the largest weighted kernel sum ("vote"), or the
        row's nearest support vector ("nearest").
    bridging : bool, default=True
        Also test segments between support vectors inside the domain. Equilibria are then joined
        along the data, not only along straight lines. The papers have False, which splits curved
        clusters. Only with ``labelling="equilibria"``.
    epsilon : float, default=0.1
        Half-width of the extended boundary B_eps, in units of f. If B_eps contains fewer than 50 of
        up to 10,000 rows, it is widened, with a warning, but not with ``variant="published"``.
    segment_samples : int, default=20
        Number of points tested on the segment between two equilibria, or two rows of the complete
        graph. With "balls" it is 9, as in FSVC.
    boundary_size : int, default=2048
        Maximum number of boundary rows; a larger boundary is sampled.
    ball_radius : float, default=0.3
        With "balls": radius of a ball, in units of X. Fewer points climb if it is larger.
    merge_radius : float, default=0.1
        With "balls": distance, in units of X, below which climbing points merge.
    noise : bool, default=False
        Label rows with a `decision_function` below 0 as -1 in `labels_`, `predict` and `cut`, as
        HDBSCAN does.
    variant : {"default", "published"}, default="default"
        "published" runs Algorithms 1 to 3 of the papers as printed; the page "Departures from the
        papers" lists all differences. It needs `C`, and a number for `gamma`. The constructor
        `published` gives the papers' settings, too.
    n_jobs : int or None, default=None
        Number of threads. None is 1 unless `joblib.parallel_config` sets another number, -1 is all
        processors. The number changes no byte of an answer.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        Cluster of every row, also of outliers unless `noise`. 0 is the largest cluster on up to
        10,000 rows.
    probabilities_ : ndarray of shape (n,), float32
        Entry of `predict_proba` for every row's label, 0 to 1; 0 for rows that `noise` labels -1.
    outlier_scores_ : ndarray of shape (n,), float64
        Minus `decision_function` of every row: above 0 outside.
    n_clusters_ : int
        Number of clusters that have rows. For lazy rows, and after `partial_fit`, number of all
        clusters.
    support_vectors_ : ndarray of shape (B, d), float32
    dual_coef_ : ndarray of shape (B,), float32
        Weights of ``f(x) = sum_j dual_coef_[j] K(support_vectors_[j], x) - offset_``. With the
        level tree, f is a function of the winner's components, and `decision_function` is not f.
    offset_ : float
        Always 1, as in the papers.
    gamma_, C_ : float
        Values that were used; with several models, the values of the winner.
    tree_ : LevelTree of distsvc.models.support_vector.level_tree.tree
        The winner's tree, with births, deaths, masses, z and depths of its branches (level tree
        only).
    agreement_ : float
        Estimated probability that another sample of the table has the same answer (adjusted Rand
        index above 0.8). With `n_clusters`, the share of the models that propose the same answer.
        Level tree only.
    candidates_ : list of dict
        The best proposal for each number of clusters (level tree only). ``standing`` is its score,
        relative to the winner's; ``votes`` are relative to the maximum. ``separated`` is the share
        of near pairs of rows in different clusters, divided by this share of all pairs. ``support``
        is the share of the models with a similar proposal, and ``z`` is the lowest z of its splits.
    equilibria_ : ndarray of shape (M, d), float32
        Ends of the climbs; with "complete-graph", the distinct rows inside.
    equilibrium_labels_ : ndarray of shape (M,), int32
        Clusters of the equilibria; -1 outside the domain of novelty.
    epsilon_ : float
        Half-width of the boundary that was used (only with ``labelling="equilibria"``).
    n_boundary_ : int
        Number of rows of the table with ``|f| <= epsilon_``.
    n_iter_ : int
        Number of steps; with "exact" it is sweeps, or LIBSVM's iterations.
    seconds_ : dict of str to float
        Wall-clock time of `fit`. ``"training"`` includes the choice of gamma and C and the level
        trees, ``"clustering"`` the labels.
    notes_ : list of str
        Doubts about the answer, and cases that the papers leave undefined; also issued as warnings
        by `fit`.

    Notes
    -----
    Rows are centred and converted to float32. Rows are used in a random order that follows from
    their positions and `random_state`. The page "Departures from the papers" lists all departures
    and how to switch each off.

    `published` has the settings of Pham, Le and Dang (2017), section 5.2: Algorithm 2 with removal
    and a budget of 50, theta = 0.01, k = 5, and Algorithm 3 with m = 20, all as printed. The paper
    names no epsilon; 0.01 is from Pham, Le, Le and Tran (2016). `gamma` and `C` have no default.
    ``maintenance="project-nearest"`` is BSGD-PNN, ``"project-random"`` BSGD-PRN, and
    ``solver="sgd"`` SGD-LMOC.

    `partial_fit` does one step of phase one for each row of a block, in order. It needs the solver
    "bsgd" or "sgd", and grows no level tree. The first block determines the centre, gamma and C, so
    it should have some hundred rows. `predict` uses a boundary drawn from the rows of all blocks.
    After `fit`, `partial_fit` warns, discards the fitted model and starts over.

    `decision_function` is f, or with the level tree the outlier score. It is 0 where f lies between
    -1e-5 and 0, because rows on the boundary have such values by rounding. `score_samples` is
    higher by 1: it is w.phi(x) >= 0, except with the level tree.

    See Also
    --------
    AutoClustering : Uses a graph of near rows, too.
    IncrementalMDH : Hyperplanes, for many columns.
    sklearn.cluster.HDBSCAN : Another hierarchy of dense regions.

    References
    ----------
    Pham, Le and Dang (2017), "Scalable Support Vector Clustering Using
    Budget"; Pham, Le, Le and Tran (2016), "Fast Support Vector Clustering"; Ben-Hur, Horn,
    Siegelmann and Vapnik (2001), "Support Vector Clustering".

    Examples
    --------
    Two half-moons, without any parameter:

    >>> from distsvc import SupportVectorClustering
    >>> from sklearn.datasets import make_moons
    >>> X, _ = make_moons(400, noise=0.06, random_state=0)
    >>> model = SupportVectorClustering(random_state=0).fit(X)
    >>> model.n_clusters_
    2
    >>> model.labels_.shape
    (400,)

    The papers' method, with a width and a share of rows outside:

    >>> papers = SupportVectorClustering(gamma=8.0, nu=0.1, random_state=0).fit(X)
    >>> papers.n_clusters_
    2

    """

    gamma: float | Sequence[float] | np.ndarray | Literal["auto"] = "auto"
    _: KW_ONLY
    nu: float | None = None
    C: float | None = None
    solver: allowed.Solver = "bsgd"
    budget: int | None = None
    maintenance: allowed.Maintenance = "merge"
    projection_size: int = 5
    stopping: allowed.Stopping = "held-out"
    tol: float = 1e-3
    theta: float = 0.01
    max_iter: int = 200_000
    iterate: allowed.Iterate = "last"
    labelling: allowed.Labelling | allowed.InMemory = "auto"
    n_clusters: int | None = None
    effort: allowed.Effort = "default"
    granularity: allowed.Granularity = "default"
    assignment: allowed.Assignment = "vote"
    bridging: bool = True
    epsilon: float = 0.1
    segment_samples: int = 20
    boundary_size: int = 2048
    ball_radius: float = 0.3
    merge_radius: float = 0.1
    noise: bool = False
    variant: allowed.Variant = "default"
    n_jobs: int | None = None
    verbose: int = 0
    random_state: allowed.RandomState = None

    _algorithm = "support-vector"
    _engine: EitherEngine = field(init=False)

    def _fit_source(self, source: Input) -> None:
        started, phases = perf_counter(), Phases(self)
        engine = engine_for(self.get_params(), seed_of(self.random_state))
        engine.n_jobs = self.n_jobs
        if self.labelling in allowed.IN_MEMORY and not source.in_memory:
            raise ParameterError(
                f"labelling={self.labelling!r} needs all rows at once: give an array or a table "
                "in memory, or a sample"
            )
        passes = Passes(source, engine.seed)
        X, keys = passes.draw(engine.sample_ranges)
        phases.ended(f"sample of {passes.n_rows:,} rows")
        engine.set_pilot(passes.pilot, passes.n_rows)
        rows = engine.seen(X)
        del X
        engine.learn(rows, keys, passes.n_rows)
        del rows, keys
        trained = phases.ended("training")
        parts = ((engine.seen(block), keys) for block, keys in passes.again())
        engine.find_clusters(parts)
        phases.ended("clusters")
        self._begin(engine)
        self._label_passes(passes)
        if isinstance(engine, BoundaryEngine):
            self._rows = None
        self._take_decision()
        self._take_clusters()
        self.seconds_ = {"training": trained - started, "clustering": perf_counter() - trained}

    def partial_fit(self, X: TableLike, y: object = None) -> Self:
        held = getattr(self, "_engine", None)
        engine = held if isinstance(held, BoundaryEngine) and held.streams else None
        if held is not engine:
            self._warn_of_new_beginning()
        X = check_rows(self, X, reset=engine is None, ensure_min_samples=1 + (engine is None))
        if engine is None:
            engine = engine_for_blocks(self.get_params(), seed_of(self.random_state))
            engine.set_pilot(X[:PILOT_ROWS], len(X))
            self._begin(engine)
        engine.feed(engine.centred(X))
        self._forget(*OF_CLUSTERS)
        self._take_decision()
        return self

    def decision_function(self, X: TableLike) -> LazyValues:
        check_is_fitted(self, "dual_coef_")
        engine = self._engine
        if isinstance(engine, BoundaryEngine) and engine.streams:  # it may have no clusters yet
            X = check_rows(self, X, reset=False)
            return engine.decision.scores(engine.centred(X)).astype(np.float64)
        return map_rows(self, X, self._values("score"), self.n_jobs)

    def score_samples(self, X: TableLike) -> LazyValues:
        return self.decision_function(X) + self.offset_

    def cut(
        self,
        n_clusters: int | None = None,
        X: TableLike = None,
        *,
        level: float | None = None,
        significance: float | None = None,
    ) -> LazyValues:
        """Return the labels of another cut of the level tree, without training again.

        Give exactly one of `n_clusters`, `level` and `significance`.

        Parameters
        ----------
        n_clusters : int or None, default=None
            Clusters wanted, as in `fit`. If no tree has enough branches with rows, there are fewer
            clusters, and a warning.
        X : array-like or table of shape (n, d) or None, default=None
            Rows to label, as `fit` takes them; None for the rows of `fit`.
        level : float or None, default=None
            The clusters are the components of the winner's level set f(x) >= level. Level 0 is the
            papers' answer.
        significance : float or None, default=None
            The clusters result from all splits of the winner with at least this z.

        Returns
        -------
        labels : ndarray of shape (n,), int32
            Labels, computed lazily if X is lazy.

        Raises
        ------
        ValueError
            If the model has no level tree, if not exactly one of `n_clusters`, `level` and
            `significance` is given, or if the rows of `fit` were read block by block and X is None.

        Examples
        --------
        >>> from distsvc import SupportVectorClustering
        >>> from sklearn.datasets import make_blobs
        >>> X, _ = make_blobs(300, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
        >>> model = SupportVectorClustering(random_state=0).fit(X)
        >>> len(set(model.cut(2).tolist()))
        2

        """
        check_is_fitted(self, "dual_coef_")
        if not isinstance(self._engine, LevelTreeEngine):
            advice = "fit it with labelling='level-tree' (the default without a number for gamma)"
            if self._engine.streams:
                advice = "partial_fit grows no tree; call fit on a new estimator, with all rows"
            raise ParameterError(f"cut needs the level tree, and this model has none: {advice}")
        if sum(value is not None for value in (n_clusters, level, significance)) != 1:
            raise ValueError("give exactly one of n_clusters, level and significance")
        if n_clusters is not None:
            allowed.COUNT.check("n_clusters", n_clusters)
        for name, value in (("level", level), ("significance", significance)):
            if value is not None and not (isinstance(value, Real) and value == value):
                raise ValueError(f"{name} must be a number, found {value!r}")
        rule = self._engine.cut(n_clusters, level, significance)
        return self._labels_by(replace(self._values("label"), rule=rule), X, n_clusters)

    def _begin(self, engine: EitherEngine) -> None:
        self._forget("seconds_", "tree_", "agreement_", "candidates_", *OF_CLUSTERS)
        self._engine, self.notes_ = engine, engine.notes

    def _take_decision(self) -> None:
        engine = self._engine
        self.gamma_, self.C_, self.n_iter_ = engine.gamma, engine.C, engine.n_iter
        self.support_vectors_ = engine.original(engine.support_vectors)
        self.dual_coef_, self.offset_ = engine.decision.a, 1.0

    def _take_clusters(self) -> None:
        engine = self._engine
        self.n_clusters_ = engine.rule.n_clusters
        self.equilibria_ = engine.original(engine.equilibria)
        self.equilibrium_labels_ = engine.equilibrium_labels
        if isinstance(engine, LevelTreeEngine):
            answer, self.tree_ = engine.levels.answer, engine.levels.tree
            self.agreement_, self.candidates_ = answer.agreement, answer.candidates
        elif engine.parameters.labelling not in allowed.IN_MEMORY:
            self.epsilon_, self.n_boundary_ = engine.epsilon, engine.boundary.n_rows

    def _settle(self) -> None:
        check_is_fitted(self, "dual_coef_")
        if isinstance(self._engine, BoundaryEngine) and self._engine.pending:
            self._engine.find_pending_clusters()
            self._take_clusters()

    def _values(self, column: str) -> Values:
        engine, least = self._engine, -SEGMENT_TOLERANCE if self.noise else -np.inf
        return Values(engine.rule, engine.centre, column, least)
