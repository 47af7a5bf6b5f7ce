"""Clustering that chooses its algorithm: the level tree, or a tree of hyperplanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from distsvc.inputs.rows import Input
from distsvc.job.constraints import COUNT
from distsvc.job.parameters import check_parameters
from distsvc.models.automatic.engine import HYPERPLANES, LEVEL_TREE, AutomaticEngine
from distsvc.models.hyperplanes.engine import TreeEngine
from distsvc.models.hyperplanes.estimator import IncrementalMDH
from distsvc.models.rows import sampling
from distsvc.models.rows.passes import ClusterEstimator, Passes, Values, answered
from distsvc.models.rows.sampling import PILOT_ROWS, seed_of
from distsvc.models.support_vector.estimator import SupportVectorClustering

TREE_ROWS = 20_000
"""Most rows that trees of hyperplanes are learned from: more hardly change them."""

SHARED = ("n_clusters", "random_state")
"""Parameters that both have; the others are the level tree's."""


class AutoClustering(ClusterEstimator):
    """Clusters by the level tree where its models agree, and by iMDH where they do not.

    Both are fitted, but for tables of up to 3 columns, which the level tree sees whole. Where more
    than half of its models find its answer, that is the answer; else it is iMDH's, learned from at
    most 20,000 rows, unless that is one cluster. Scores and outliers are the level tree's either
    way. Features should be on comparable scales.

    Parameters
    ----------
    n_clusters : int or None
        Clusters wanted; None to find their number.
    nu : float in (0, 1] or None
        Share of rows that lie outside; None where the rows decide it.
    effort : {"fast", "default", "thorough"}
    granularity : {"coarse", "default", "fine"}
        As in `SupportVectorClustering`.
    random_state : int, RandomState or None
        Decides the order of rows.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        Cluster of every row; outliers have one, too.
    n_clusters_ : int
    algorithm_ : {"support-vector", "imdh"}
        Whose answer it is.
    why_ : str
        Why, in sentences.
    agreement_ : float
        Support: share of the level tree's models that find its answer.
    likeness_ : float or None
        Adjusted Rand index of both answers on up to 10,000 rows; None where one was asked.
    notes_ : list of str
        Remarks on the fit; also issued as warnings by `fit`.

    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        nu: float | None = None,
        effort: str = "default",
        granularity: str = "default",
        random_state: Any = None,
    ):
        self.n_clusters = n_clusters
        self.nu = nu
        self.effort = effort
        self.granularity = granularity
        self.random_state = random_state

    def parameters_of_both(self) -> dict[str, dict[str, Any]]:
        """Return all parameters of the level tree and of iMDH that are fitted, by algorithm."""
        own = self.get_params()
        trees = IncrementalMDH(**{name: own[name] for name in SHARED}, max_samples=TREE_ROWS)
        levels = SupportVectorClustering(**own)
        return {LEVEL_TREE: levels.get_params(), HYPERPLANES: trees.get_params()}

    def decision_function(self, X: Any) -> Any:
        """Return the score (n,) float64 of every row of X (n, d), negative outside all clusters."""
        self._settle()
        return answered(self, X, self._values("score"))

    def score_samples(self, X: Any) -> Any:
        """Return the score (n,) float64 of every row of X (n, d), as `decision_function`."""
        return self.decision_function(X)

    def cut(self, n_clusters: int, X: Any) -> Any:
        """Return the cluster (n,) int32 of every row of X (n, d) for another number of clusters.

        By the algorithm whose answer it is, without learning again. There are fewer where no tree
        has so many branches.
        """
        self._settle()
        COUNT.check("n_clusters", n_clusters)
        rule, centre = self._engine.cut(n_clusters), self._engine.centre
        return answered(self, X, Values(rule, centre, "label"))

    def _begin(self) -> AutomaticEngine:
        check_parameters("auto", self.get_params())
        return AutomaticEngine(self.parameters_of_both(), seed_of(self.random_state))

    def _fit_array(self, X: np.ndarray) -> None:
        engine = self._begin()
        levels = engine.levels
        keys = sampling.row_keys(levels.seed, np.arange(len(X)))
        order = sampling.lowest(keys, len(X))
        engine.set_pilot(X[order[:PILOT_ROWS]], len(X))
        rows = levels.seen(X)
        levels.learn(rows, keys, len(X))
        levels.find_clusters([(rows, keys)], len(X))
        if engine.asks_trees:
            first = _first(engine.trees, keys[order], len(X))
            engine.learn_trees(X[order[first]], keys[order[first]], len(X))
        self._take(engine)
        self.labels_ = self._values("label")(X)

    def _fit_source(self, source: Input) -> None:
        engine = self._begin()
        levels = engine.levels
        passes = Passes(source, levels.seed)
        X, keys = passes.draw(engine.key_ranges)
        n_rows = passes.n_rows
        engine.set_pilot(passes.pilot, n_rows)
        if engine.asks_trees:
            first = _first(engine.trees, keys, n_rows)
            engine.learn_trees(X[first], keys[first], n_rows)
        rows = levels.seen(X)
        del X
        levels.learn(rows, keys, n_rows)
        del rows, keys
        parts = ((levels.seen(block), keys) for block, keys in passes.again())
        levels.find_clusters(parts, n_rows)
        self._take(engine)
        self.labels_ = passes.labels(self._values("label"))

    def _take(self, engine: AutomaticEngine) -> None:
        """Let the engine choose, and publish the answer."""
        engine.choose()
        self._engine = engine
        self.algorithm_, self.why_ = engine.chosen, engine.why()
        self.agreement_, self.likeness_ = engine.support, engine.likeness
        self.n_clusters_, self.notes_ = engine.rule.n_clusters, engine.notes


def _first(trees: TreeEngine, keys: np.ndarray, n_rows: int) -> slice:
    """Return which of a table's ascending keys (n,) belong to the rows that trees learn from."""
    return slice(0, sampling.slice_by_key(keys, *trees.key_ranges(n_rows)[-1]).stop)
