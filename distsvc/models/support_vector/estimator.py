"""Support vector clustering: the domain of novelty and its components, or the tree of level sets.

| Pham, Le and Dang (2017), Pham, Le, Le and Tran (2016) | here |
|---|---|
| J(w), eq. (1); gamma, C | `SupportVectorClustering.gamma`, ``C`` or ``nu`` |
| Algorithms 1 and 2; B; k | ``solver``, ``budget``, ``maintenance``, ``projection_size`` |
| theta, the stopping threshold | ``theta`` with ``stopping="step-norm"`` |
| eps of B_eps; m sample points | ``epsilon``, ``segment_samples`` |
| alpha_i and x_i in f | ``dual_coef_``, ``support_vectors_`` |
| E | ``equilibria_`` |

Whatever the labelling, but for the level tree, phase two has four steps:

| step | "equilibria" | "complete-graph" | "balls" |
|---|---|---|---|
| points that label the rows | boundary rows | rows inside | centres of balls |
| where they end | after a climb | where they are | after a climb, merging |
| vertices that are tested in pairs | equilibria, vectors inside | rows inside | equilibria |
| clusters | components | components | components |

The file is long because the parameters, what they mean and how they are checked are half of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Real
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from distsvc.errors import ParameterError
from distsvc.models import sampling
from distsvc.models.sampling import PILOT_ROWS, Reservoir, seed_of
from distsvc.models.scaling import check_finite
from distsvc.models.support_vector import balls, complete_graph, labelling, training
from distsvc.models.support_vector.ensemble import BUDGET, PENALTY, Blocks, Ensemble, make_ensemble
from distsvc.models.support_vector.kernel_width import automatic_gamma
from distsvc.models.support_vector.labelling import (
    SEGMENT_TOLERANCE,
    Boundary,
    Clusters,
    DecisionFunction,
)
from distsvc.models.support_vector.level_sets import LevelSets
from distsvc.models.support_vector.level_tree import LevelTree
from distsvc.models.support_vector.stochastic_gradient import StochasticGradient
from distsvc.parameters import (
    COUNT,
    IN_MEMORY,
    Choice,
    check_parameters,
    check_streams,
    is_several,
)

Ranges = list[tuple[int, int]]
EVALUATION_ROWS = 2048
EXACT_ROWS = 10_000
DEFAULT_NU = 0.1
BOUNDARY_WANTED = 50
OF_THE_TREE = ("levels_", "tree_", "agreement_", "candidates_", "fitted_view_")
OF_THE_LABELLING = (
    "labelling", "bridging", "segment_samples", "boundary_size", "ball_radius", "merge_radius",
    "noise",
)  # fmt: skip
FEW_VECTORS = 100
"""The budget where the labelling is by equilibria."""


class SupportVectorClustering(ClusterMixin, BaseEstimator):
    """Clusters are the connected parts of the region where a one-class SVM is non-negative.

    A large-margin one-class SVM with a Gaussian kernel is trained by stochastic gradient descent on
    a budget of support vectors; rows near its boundary climb to equilibrium points; equilibria
    joined by a segment inside the region are one cluster; every row takes the label of its nearest
    boundary row. Rows with f(x) < 0 are outliers. Features should be on comparable scales.

    ``SupportVectorClustering(gamma, nu=nu, solver="exact", labelling="complete-graph")`` is SVC
    (Ben-Hur et al. 2001), and with ``labelling="balls"`` it is FSVC (Jung, Lee and Lee 2010).

    With ``gamma="auto"`` nothing has to be known: a few models of different widths and subspaces
    are trained, the tree of all level sets of each is grown, and a vote among the cuts of these
    trees decides (`consensus` and `level_tree` beside this module).

    Parameters
    ----------
    gamma : float, list of float or "auto"
        Kernel width, K(x, x') = exp(-gamma ||x - x'||^2), per squared unit of X. A list is a sweep:
        a level tree for each, and a vote. "auto" decides on 10 to 24 models
        (`make_ensemble`); with ``labelling="equilibria"`` it is one guess, `automatic_gamma`.
    nu : float in (0, 1] or None
        Share of rows allowed outside. C then follows from the exact equivalence C = 1 / (nu rho*),
        with rho* of the nu-one-class SVM (Schoelkopf et al. 2001) on at most 2000 rows, and the
        level of f is set so that a share nu of up to 10,000 rows lies outside. 0.1 when C is None
        too. With the level tree it only sets that level; without nu and C a row is outside where
        f + 1 is below a tenth of the median of the levels at which the clusters were born.
    C : float or None
        The papers' trade-off in J(w) = 1/2 ||w||^2 + (C/N) sum max(0, 1 - w.phi(x)), the convention
        of Pham, Le and Dang (2017); for that of Pham, Le, Le and Tran (2016), the sum of hinges,
        give C N. Not with `nu`. The level tree's own is 2.
    solver : {"bsgd", "sgd", "exact"}
        Algorithm 2 with a budget; Algorithm 1 without (SGD-LMOC); or the optimum. With `nu` that is
        scikit-learn's OneClassSVM, which is the same problem; with `C` it is coordinate ascent on
        the dual, for at most 10,000 rows.
    budget : int or None
        Support vectors kept by ``bsgd``; None for 200 of every model of the level tree, and 100
        with equilibria.
    maintenance : {"merge", "project-nearest", "project-random", "removal"}
        What happens when the budget is exceeded. Merging is not in the papers; in our measurements
        it comes closest to the optimum. Projections are onto the cone, so weights never turn
        negative.
    projection_size : int
        Vectors that a removed one is projected on (k in section 3.3.2).
    stopping : {"held-out", "step-norm"}
        "held-out": every 10,000 steps J is measured on 2048 rows (which are not trained on when
        there are 40,960 or more rows); training ends when the best of the last three values is not
        better than the best before by `tol`, relatively. "step-norm" is the papers' rule, ||w_{t+1}
        - w_t|| <= theta, which says little about convergence: it ends after at most 1.41 C / theta
        steps whatever the data.
    tol, theta : float
        Thresholds of the two rules. The level tree's models have no rule: they do all their steps.
    max_iter : int
        Most steps of stochastic gradient descent, or sweeps of ``exact`` with `C`. Models of the
        level tree do at most 20,000.
    average : bool
        Use the mean iterate (Theorem 7) in place of the last; only with ``sgd``.
    labelling : {"auto", "equilibria", "level-tree", "complete-graph", "balls"}
        "equilibria" is Algorithm 3 of Pham, Le and Dang (2017). "level-tree" cuts the tree of the
        level sets of f where its splits are significant; Algorithm 3's answer is its cut at level
        0. "auto" is the level tree unless gamma is a number or the solver is not ``bsgd``. Two more
        are for tables in memory only, and were proposed for the solver ``exact`` with `nu`.
        "complete-graph" joins any two rows inside whose segment is inside; rows outside take the
        label of the nearest one inside (at most 100,000 rows inside). With "balls" only the
        centres of balls climb, merging on their way, and rows take the label of the nearest centre.
    assignment : {"vote", "nearest"}
        With the level tree, a row takes the label of the cluster whose support vectors have the
        largest weighted kernel sum there, or of its nearest support vector.
    effort : {"fast", "default", "thorough"}
        How many models vote: up to 3 features 3, 10 or 20; in more 2, 3 or 10 in each of up to 4
        or 8 subspaces.
    granularity : {"coarse", "default", "fine"}
        Significance grows with the rows. z is what it would be with 3,000 rows, with 30,000, or
        with all that test a split: the fewer, the coarser. (All rows of a table do up to 100,000;
        of larger ones at least so many, and as many as there are rows for each model.)
    bridging : bool
        Test segments between support vectors inside the domain too, so that equilibria are joined
        along the data and not only along straight lines. The papers do not (False), which splits
        curved clusters where the segment between two equilibria leaves them. Only with
        ``labelling="equilibria"``.
    epsilon : float
        Half-width of the extended boundary, in units of f.
    segment_samples : int
        Points tested on the segment between two equilibria, or two rows of the complete graph.
        With "balls" they are 9, as in FSVC.
    boundary_size : int
        Most boundary rows kept (`distsvc.models.support_vector.labelling.Boundary` says which).
    ball_radius : float
        With "balls": rows nearer than this to a centre are in its ball, in units of X. The larger,
        the fewer points climb.
    merge_radius : float
        With "balls": points on their way nearer than this become one, so that no two equilibria
        are. In units of X; Pham, Le and Dang (2017) tries 0.1 to 1 for both radii.
    noise : bool
        Label rows outside, f(x) < 0, as -1 in `labels_`, `predict` and `cut`, as HDBSCAN does. Rows
        on the boundary, f(x) >= -1e-5, which is the rounding of f, are not outside.
    random_state : int, RandomState or None
        Decides the order of rows.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        Cluster of every row; outliers have one too unless `noise`. 0 is the largest cluster, as
        counted on up to 10,000 rows.
    n_clusters_ : int
    support_vectors_ : ndarray of shape (B, d), float32
    dual_coef_ : ndarray of shape (B,), float32
        Positive weights of f(x) = sum_j dual_coef_[j] K(support_vectors_[j], x) - offset_.
    offset_ : float
        Always 1, as in the papers.
    gamma_, C_ : float
        Values used; with several models the winner's.
    tree_ : LevelTree of distsvc.models.support_vector.level_tree
        The winner's tree: births, deaths, masses and z of its branches (level tree only).
    agreement_ : float
        Support: share of the models that find the answer, up to an adjusted Rand index of 0.8
        (level tree only). Below a half it is doubtful, and `fit` warns.
    candidates_ : list of dict
        The best proposal for each number of clusters: ``n_clusters``, ``votes`` relative to the
        winner's, ``support``, ``z`` of the weakest split kept, ``winner`` (level tree only).
    equilibria_ : ndarray of shape (M, d), float32
        With "complete-graph", where nothing climbs, the different rows inside.
    equilibrium_labels_ : ndarray of shape (M,), int32
        Their clusters; -1 outside the domain of novelty.
    n_iter_ : int
        Steps done; with ``exact`` sweeps, or LIBSVM's iterations.
    seconds_ : dict of str to float
        Wall-clock time that `fit` took: ``"training"``, phase one with its choice of gamma and C
        (and the growing of the level trees), and ``"clustering"``, phase two and the labels.
    notes_ : list of str
        Where the papers' procedure was undefined and what was done; also issued as warnings by
        `fit`.

    Notes
    -----
    Rows are centred and turned to float32. The result does not depend on the order of rows beyond
    the random order that follows from their positions and `random_state`. Sampling is without
    replacement within an epoch, where the papers sample with replacement.

    """

    descent_: StochasticGradient
    decision_: DecisionFunction
    clusters_: Clusters

    def __init__(
        self,
        gamma: float | Sequence[float] | str = "auto",
        *,
        nu: float | None = None,
        C: float | None = None,
        solver: str = "bsgd",
        budget: int | None = None,
        maintenance: str = "merge",
        projection_size: int = 5,
        stopping: str = "held-out",
        tol: float = 1e-3,
        theta: float = 0.01,
        max_iter: int = 200_000,
        average: bool = False,
        labelling: str = "auto",
        effort: str = "default",
        granularity: str = "default",
        assignment: str = "vote",
        bridging: bool = True,
        epsilon: float = 0.1,
        segment_samples: int = 20,
        boundary_size: int = 2048,
        ball_radius: float = 0.3,
        merge_radius: float = 0.1,
        noise: bool = False,
        random_state: Any = None,
    ):
        self.gamma = gamma
        self.nu = nu
        self.C = C
        self.solver = solver
        self.budget = budget
        self.maintenance = maintenance
        self.projection_size = projection_size
        self.stopping = stopping
        self.tol = tol
        self.theta = theta
        self.max_iter = max_iter
        self.average = average
        self.labelling = labelling
        self.effort = effort
        self.granularity = granularity
        self.assignment = assignment
        self.bridging = bridging
        self.epsilon = epsilon
        self.segment_samples = segment_samples
        self.boundary_size = boundary_size
        self.ball_radius = ball_radius
        self.merge_radius = merge_radius
        self.noise = noise
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> SupportVectorClustering:
        """Cluster the rows of X (n, d), float32 or float64, n >= 2.

        Raises
        ------
        ValueError
            For NaN or infinity in X, fewer than 2 rows, a parameter out of range, more than 10,000
            rows with ``solver="exact"`` and C, or more than 100,000 different rows inside with
            ``labelling="complete-graph"``.

        """
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        started = perf_counter()
        keys = sampling.row_keys(self.begin(), np.arange(len(X)))
        order = np.argsort(keys)
        self.set_pilot(X[order[:PILOT_ROWS]], len(X))
        Z = self.centred(X)
        ranges, ranked_keys = self.key_ranges(len(X)), keys[order]

        def blocks(epoch: int, some: Ranges) -> Iterator[np.ndarray]:
            return sampling.memory_blocks(ranked, ranked_keys, some, self.seed_, epoch)

        if self.by_levels_:
            Z = self.plan_.view(Z)
            ranked = Z[order]
            trees = self._grow_trees(len(Z), blocks)
            trained = perf_counter()
            self._find_levels(trees, Z, keys)
        else:
            ranked = Z[order]
            self.train(lambda epoch: blocks(epoch, ranges))
            trained = perf_counter()
            self._find_clusters(Z, keys)
        self.labels_ = self._labels(Z)
        self.seconds_ = {"training": trained - started, "clustering": perf_counter() - trained}
        for note in self.notes_:
            warnings.warn(note, UserWarning, stacklevel=2)
        return self

    def relabel(self, X: Any, **parameters: Any) -> SupportVectorClustering:
        """Cluster the rows X (n, d) of `fit` again, the model as it is trained.

        `parameters` are those of the labelling that change: ``labelling`` (but the level tree),
        ``bridging``, ``segment_samples``, ``boundary_size``, ``ball_radius``, ``merge_radius`` and
        ``noise``. The answer is that of `fit` with them; ValueError for others.
        """
        check_is_fitted(self, "labels_")
        for name in parameters:
            Choice(OF_THE_LABELLING).check("a parameter of relabel", name)
        if self.by_levels_ or parameters.get("labelling") == "level-tree":
            raise ValueError("a level tree is not labelled again; use cut")
        check_parameters("support-vector", self.get_params() | parameters)
        self.set_params(**parameters)
        Z = self._checked(X)
        started = perf_counter()
        self._find_clusters(Z, sampling.row_keys(self.seed_, np.arange(len(Z))))
        self.labels_ = self._labels(Z)
        self.seconds_ = self.seconds_ | {"clustering": perf_counter() - started}
        return self

    def partial_fit(self, X: Any, y: Any = None) -> SupportVectorClustering:
        """Do one step of phase one per row of a block X (n, d), in the rows' order.

        Rows should come in random order. The first block decides the centre, gamma and C, so it
        should have some hundred rows. `predict` after it labels with a boundary drawn from the rows
        of all blocks. Only the solvers ``bsgd`` and ``sgd`` can do this.
        """
        first = not hasattr(self, "reservoir_")
        X = validate_data(
            self,
            X,
            dtype=[np.float64, np.float32],
            reset=first,
            ensure_min_samples=2 if first else 1,
        )
        if first:
            self.begin()
            check_streams(self.get_params())
            self.by_levels_ = False
            self.set_pilot(X[:PILOT_ROWS], len(X))
            self.reservoir_ = Reservoir.empty(self.seed_, X.shape[1])
        Z = self.centred(X)
        self.descent_.feed(Z)
        self.reservoir_.add(Z)
        self.pilot_ = self.reservoir_.rows
        self._publish_model(self.descent_.vectors, self.descent_.coefficients)
        self.n_iter_ = self.descent_.n_steps
        self.__dict__.pop("clusters_", None)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the cluster (n,) int32 of every row of X (n, d).

        That of its nearest boundary row (with the complete graph row inside, with balls centre),
        or, with the level tree, of the support vectors whose weighted kernel sum is the largest
        there. With `noise` it is -1 for rows outside.
        """
        Z = self._checked(X)
        if not self.by_levels_ and not hasattr(self, "clusters_"):
            self._find_clusters(self.reservoir_.rows, self.reservoir_.keys)
        return self._labels(Z)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return f (n,) float64 of every row of X (n, d), negative outside every cluster."""
        Z = self._checked(X)
        if self.by_levels_:
            return self.levels_.voter(self.levels_.rows(Z))[1].astype(np.float64)
        return self.decision_(Z).astype(np.float64)

    def score_samples(self, X: Any) -> np.ndarray:
        """Return f + 1 = w.phi(x), (n,) float64: the weighted kernel sum, non-negative."""
        return self.decision_function(X) + self.offset_

    # The phases that `fit` and the distributed job have in common, in the order of their use.

    def begin(self) -> int:
        """Check the parameters, forget an earlier fit and return the seed of the row keys."""
        check_parameters("support-vector", self.get_params())
        for name in ("descent_", "clusters_", "reservoir_", "seconds_", *OF_THE_TREE):
            self.__dict__.pop(name, None)
        by_default = is_several(self.gamma) or (self.solver, self.gamma) == ("bsgd", "auto")
        self.by_levels_ = self.labelling == "level-tree" or (
            self.labelling == "auto" and by_default
        )
        self.seed_ = seed_of(self.random_state)
        self.notes_: list[str] = []
        return self.seed_

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Settle the centre, gamma and C from pilot rows (m, d), in the order of their keys."""
        if self.solver == "exact" and self.C is not None and n_rows > EXACT_ROWS:
            raise ParameterError(
                f"solver='exact' with C keeps the whole kernel matrix and takes at most "
                f"{EXACT_ROWS} rows, found {n_rows}; give nu, or use 'bsgd'"
            )
        self.centre_ = pilot.mean(axis=0, dtype=np.float64)
        self.pilot_ = self.centred(pilot)
        check_finite(self.pilot_)
        wide = self.pilot_.astype(np.float64)
        if (wide == wide[0]).all():
            self._note("all rows looked at are equal: they are one cluster")
        if self.by_levels_:
            self._plan_levels()
            return
        gamma: Any = self.gamma
        self.gamma_ = automatic_gamma(wide) if gamma == "auto" else float(gamma)
        self.nu_ = float(DEFAULT_NU if self.nu is None else self.nu)
        if self.solver == "exact":
            return
        if self.C is not None:
            self.C_ = float(self.C)
        else:
            self.C_ = training.penalty_for(wide, self.gamma_, self.nu_)
        self.descent_ = StochasticGradient(
            n_features=pilot.shape[1],
            gamma=self.gamma_,
            C=self.C_,
            budget=(self.budget or FEW_VECTORS) if self.solver == "bsgd" else None,
            maintenance=self.maintenance,
            projection_size=self.projection_size,
            theta=self.theta if self.stopping == "step-norm" else 0.0,
            average=self.average,
            seed=self.seed_,
        )

    def centred(self, X: np.ndarray) -> np.ndarray:
        """Return the rows as the kernels want them: centred, float32, C order."""
        return np.ascontiguousarray(X - self.centre_, np.float32)

    def key_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the blocks of an epoch: at most `max_iter` of the rows."""
        if self.by_levels_:
            return sampling.key_blocks(n_rows, min(n_rows, self.max_iter))
        if self.solver == "exact":
            return sampling.key_blocks(n_rows, n_rows)
        n_held_out = EVALUATION_ROWS if n_rows >= 20 * EVALUATION_ROWS else 0
        return sampling.key_blocks(n_rows, min(n_rows, self.max_iter), n_held_out)

    def train(self, blocks: Callable[[int], Iterable[np.ndarray]]) -> None:
        """Find the decision function; ``blocks(epoch)`` are the centred blocks of an epoch."""
        if self.solver != "exact":
            evaluation = self.pilot_[:EVALUATION_ROWS] if self.stopping == "held-out" else None
            training.descend(self.descent_, blocks, self.max_iter, evaluation, self.tol)
            S, a = self.descent_.vectors, self.descent_.coefficients
            self.n_iter_ = self.descent_.n_steps
        else:
            X = np.concatenate(list(blocks(0)))
            if self.C is None:
                S, a, self.C_, self.n_iter_ = training.solve_one_class(X, self.gamma_, self.nu_)
            else:
                self.C_ = float(self.C)
                S, a, self.n_iter_ = training.solve_penalised(
                    X, self.gamma_, self.C_, self.max_iter
                )
        self._publish_model(S, a)

    def choose(self, trees: Sequence[LevelTree], sums: Sequence[np.ndarray], n_rows: int) -> None:
        """Let the trees of all models vote, and publish the winner.

        The sums (3, b) of each are of its share of the `n_rows` rows of the table, and z is for so
        many: scaled to more it would take accidents of the share for significant.
        """
        n_tested = round(n_rows * self.plan_.share(n_rows))
        tested = [tree.tested(part, n_tested) for tree, part in zip(trees, sums, strict=True)]
        level = 1.0 if self.C is not None else None
        self.levels_ = levels = LevelSets(
            self.plan_, tested, self.view_, n_tested, self.granularity, level, self.nu,
            self.assignment == "nearest",
        )  # fmt: skip
        tree, answer = levels.tree, levels.answer
        f = DecisionFunction(tree.S, (tree.a / levels.boundary).astype(np.float32), tree.gamma)
        self.decision_, self.tree_ = f, tree
        self.agreement_, self.candidates_ = answer.support, answer.candidates
        self.n_clusters_ = answer.n_clusters
        self.gamma_, self.C_ = tree.gamma, self.plan_.members[answer.member].C
        self.n_iter_ = self.plan_.steps
        self.support_vectors_ = self._seen(tree.S.T)
        self.dual_coef_, self.offset_ = f.a, 1.0
        self.equilibria_ = self._seen(labelling.climb(f, levels.highest()))
        self.equilibrium_labels_ = np.arange(answer.n_clusters, dtype=np.int32)
        if level is not None and levels.boundary != level:
            self._note(
                f"C = {self.C_:g} leaves f < 0 everywhere; the level was set by the levels at "
                "which the clusters were born"
            )
        for doubt in levels.doubts():
            self._note(doubt)
        if answer.n_clusters == 1:
            self._note("no split is significant: the answer is one cluster")

    def cut(
        self,
        n_clusters: int | None = None,
        *,
        level: float | None = None,
        significance: float | None = None,
        X: Any = None,
    ) -> np.ndarray:
        """Return labels (n,) int32 of another cut of the level tree, without training again.

        Give one of `n_clusters`, for the clusters whose splits are most significant (fewer are
        returned where the tree has fewer branches); `level`, for the components of {x : f(x) >=
        level}, the papers' answer at level 0; and `significance`, for all splits with a z of at
        least so much. The labels are those of the rows of X (n, d), or of the rows of `fit`.
        """
        check_is_fitted(self, "levels_")
        if sum(value is not None for value in (n_clusters, level, significance)) != 1:
            raise ValueError("give one of n_clusters, level and significance")
        if n_clusters is not None:
            COUNT.check("n_clusters", n_clusters)
        for name, value in (("level", level), ("significance", significance)):
            if value is not None and not (isinstance(value, Real) and value == value):
                raise ValueError(f"{name} must be a number, found {value!r}")
        levels = self.levels_
        part = levels.numbered(levels.kept_by(n_clusters, level, significance))
        view = self.fitted_view_ if X is None else self._checked(X)
        return self._with_noise(*levels.labeller(part)(levels.rows(view)))

    def decision_facts(self) -> dict[str, Any]:
        """Return the numbers that phase two needs beside the decision function's arrays."""
        return {
            "gamma": self.gamma_,
            "epsilon": self.epsilon_,
            "boundary_size": self.boundary_size,
            "segment_samples": self.segment_samples,
        }

    def fitted_facts(self) -> dict[str, Any]:
        """Return the numbers that the fit arrived at."""
        if self.by_levels_:
            plan, tree = self.plan_, self.tree_
            return {
                "gamma": self.gamma_,
                "C": self.C_,
                "n_models": len(plan.members),
                "agreement": self.agreement_,
                "n_components": len(tree.S),
                "n_support_vectors": len(tree.a),
                "n_branches": tree.n_branches,
                "n_clusters": self.n_clusters_,
            }
        return {
            "gamma": self.gamma_,
            "C": self.C_,
            "epsilon": self.epsilon_,
            "n_iter": self.n_iter_,
            "n_support_vectors": len(self.dual_coef_),
            "n_boundary": len(self.boundary_.X),
            "n_boundary_found": int(self.boundary_.counts.sum()),
            "n_equilibria": len(self.equilibria_),
            "n_clusters": self.n_clusters_,
        }

    def set_equilibria(self, points: np.ndarray, ends: np.ndarray) -> None:
        """Make equilibria of the end points (m, d) of the points (m, d) that label the rows."""
        self.points_ = points
        if self.labelling == "complete-graph":
            self.equilibria_centred_, self.end_of_ = ends, np.arange(len(ends))
        else:
            merged = labelling.merge_equilibria(self.decision_, ends)
            self.equilibria_centred_, self.end_of_ = merged
        self.equilibria_ = self._original(self.equilibria_centred_)
        self.vertices_ = self.equilibria_centred_
        if self.bridging and self.labelling not in IN_MEMORY:
            S = np.ascontiguousarray(self.decision_.S.T)
            self.vertices_ = np.concatenate([self.vertices_, S[self.decision_(S) >= 0.0]])
        if len(self.equilibria_) == 1:
            self._note("all trajectories end at one equilibrium: the answer is one cluster")

    def set_clusters(self, pairs: np.ndarray) -> None:
        """Make clusters of the equilibria that the connected pairs (p, 2) of vertices join."""
        E = self.equilibria_centred_
        self.clusters_, self.equilibrium_labels_ = Clusters.from_equilibria(
            self.decision_,
            self.points_,
            self.end_of_,
            E,
            labelling.components(pairs, len(self.vertices_))[: len(E)],
            self.pilot_,
        )
        self.n_clusters_ = self.clusters_.n_clusters

    def _publish_model(self, S: np.ndarray, a: np.ndarray) -> None:
        """Set the level of f, and the attributes that follow from the support vectors."""
        f = DecisionFunction(S, a.astype(np.float32), self.gamma_)
        values = f(self.pilot_).astype(np.float64) + 1.0
        level = 1.0
        if self.nu is not None or self.C is None:
            if self.solver != "exact":
                level = float(np.quantile(values, self.nu_, method="lower"))
        elif values.max() < 1.0:
            level = float(np.quantile(values, self.nu_, method="lower"))
            self._note(
                f"C = {self.C_:g} leaves f < 0 everywhere; the level was set so that a share "
                f"{self.nu_} of the rows lies outside"
            )
        if level < 1e-3 * values.max():
            level = 1e-3 * float(values.max())
            self._note(
                "more than the share nu of the rows is far from every support vector; the level "
                "was set to a thousandth of the highest value of w.phi(x)"
            )
        kept = a > 0.0
        a = (a[kept] / level).astype(np.float32)
        self.decision_ = DecisionFunction(np.ascontiguousarray(S[:, kept]), a, self.gamma_)
        self.support_vectors_ = self._original(self.decision_.S.T)
        self.dual_coef_, self.offset_ = a, 1.0
        on_pilot = self.decision_(self.pilot_)
        wanted = min(BOUNDARY_WANTED, len(on_pilot))
        self.epsilon_ = labelling.widened_epsilon(on_pilot, self.epsilon, wanted)
        if self.labelling not in IN_MEMORY and not (np.abs(on_pilot) <= self.epsilon).any():
            self._note(
                f"no row looked at lies within epsilon = {self.epsilon:g} of the boundary; "
                "the nearest ones were taken"
            )

    def _plan_levels(self) -> None:
        explicit = None if isinstance(self.gamma, str) else np.atleast_1d(self.gamma).tolist()
        self.plan_: Ensemble = make_ensemble(
            self.pilot_,
            gammas=explicit,
            C=PENALTY if self.C is None else float(self.C),
            effort=self.effort,
            budget=(self.budget or BUDGET) if self.solver == "bsgd" else None,
            maintenance=self.maintenance,
            projection_size=self.projection_size,
            max_iter=self.max_iter,
            seed=self.seed_,
        )
        self.view_ = self.plan_.view(self.pilot_)

    def _grow_trees(self, n: int, blocks: Blocks) -> list[LevelTree]:
        """Train the models of the level tree on a table of n rows, and grow their trees."""
        plan, ranges = self.plan_, self.key_ranges(n)
        return [plan.grow(i, self.view_, ranges, blocks) for i in range(len(plan.members))]

    def _find_levels(self, trees: list[LevelTree], view: np.ndarray, keys: np.ndarray) -> None:
        """Test the trees' splits on viewed rows (n, q) with their keys (n,), and choose."""
        n, sums = len(view), []
        for number, tree in enumerate(trees):
            sums.append(tree.no_differences())
            tree.add_differences(view[self.plan_.rows_for(number, keys, n)], sums[-1])
        self.choose(trees, sums, n)
        self.fitted_view_ = view

    def _find_clusters(self, Z: np.ndarray, keys: np.ndarray) -> None:
        """Do phase two on the centred rows Z (n, d) with their keys (n,)."""
        f, samples = self.decision_, self.segment_samples
        if self.labelling == "complete-graph":
            points = ends = complete_graph.inside_rows(f, Z)
        elif self.labelling == "balls":
            points, samples = balls.ball_centres(Z, keys, self.ball_radius), balls.SAMPLES
            ends = balls.climb_together(f, points, self.merge_radius)
        else:
            self.boundary_ = Boundary.collect(f, Z, keys, self.epsilon_, self.boundary_size)
            points = self.boundary_.X
            ends = labelling.climb(f, points)
        self.set_equilibria(points, ends)
        if self.labelling in IN_MEMORY:
            pairs = complete_graph.joined_pairs(f, self.vertices_, samples)
        else:
            blocks = labelling.all_connected_pairs(f, self.vertices_, samples)
            pairs = np.concatenate(list(blocks))
        self.set_clusters(pairs)

    def _labels(self, Z: np.ndarray) -> np.ndarray:
        """Return the labels of centred rows, which for the level tree are viewed ones."""
        if self.by_levels_:
            return self._with_noise(*self.levels_.voter(self.levels_.rows(Z)))
        clusters = self.clusters_
        return self._with_noise(
            *labelling.label_rows(self.decision_, clusters, clusters.labeller(), Z)
        )

    def _with_noise(self, labels: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the labels (n,) int32, with `noise` -1 where f (n,) is below 0."""
        return np.where(self.noise & (values < -SEGMENT_TOLERANCE), np.int32(-1), labels)

    def _note(self, text: str) -> None:
        if text not in self.notes_:
            self.notes_.append(text)

    def _seen(self, rows: np.ndarray) -> np.ndarray:
        """Return rows (n, q) of the winner's view in the features of X."""
        return self._original(rows @ self.plan_.components[: rows.shape[1]])

    def _original(self, Z: np.ndarray) -> np.ndarray:
        return (Z + self.centre_).astype(np.float32)

    def _checked(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "decision_")
        Z = self.centred(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))
        return self.plan_.view(Z) if self.by_levels_ else Z
