"""What a fitted support vector clustering says of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from distsvc.models.rows.passes import Values, answered
from distsvc.models.rows.validation import validated
from distsvc.models.support_vector.boundary.engine import BoundaryEngine
from distsvc.models.support_vector.boundary.labelling import SEGMENT_TOLERANCE
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine, check_cut

OF_ONE_FIT = ("seconds_", "tree_", "agreement_", "candidates_")


class Answers(ClusterMixin, BaseEstimator):
    """Labels and scores rows by the engine that fitted them."""

    _engine: LevelTreeEngine | BoundaryEngine
    _rows: np.ndarray | None
    noise: bool

    def predict(self, X: Any) -> Any:
        """Return the cluster (n,) int32 of every row of X (n, d).

        That of its nearest boundary row (with the complete graph row inside, with balls centre); of
        the level tree's largest weighted kernel sum there. With `noise` rows outside have -1.
        """
        self._settle()
        return answered(self, X, self._values("label"))

    def predict_proba(self, X: Any) -> Any:
        """Return the shares (n, k) float32 of all clusters in rows X (n, d); a row's add up to 1.

        That of its cluster is the largest. They tell nothing of whether it is outside.
        """
        self._settle()
        return answered(self, X, self._values("share"))

    def decision_function(self, X: Any) -> Any:
        """Return f (n,) float64 of X (n, d), with the level tree its score: negative is outside."""
        check_is_fitted(self, "dual_coef_")
        engine = self._engine
        if isinstance(engine, BoundaryEngine) and engine.streams:  # it may have no clusters yet
            return engine.values(self._seen(X)).astype(np.float64)
        return answered(self, X, self._values("score"))

    def score_samples(self, X: Any) -> Any:
        """Return `decision_function` + 1, (n,) float64: w.phi(x) >= 0, but for the level tree."""
        return self.decision_function(X) + self.offset_

    def cut(
        self,
        n_clusters: int | None = None,
        *,
        level: float | None = None,
        significance: float | None = None,
        X: Any = None,
    ) -> np.ndarray:
        """Return labels (n,) int32 of another cut of the level tree, without training again.

        Give one of `n_clusters`, for the answer of a fit that is given so many (fewer are returned
        where no tree has as many branches); `level`, for the components of {x : f(x) >= level} of
        the winner, the papers' answer at level 0; and `significance`, for all its splits with a z
        of at least so much. Labels are of the rows of X (n, d), or of those of `fit`.
        """
        check_is_fitted(self, "tree_")
        assert isinstance(self._engine, LevelTreeEngine)
        check_cut(n_clusters, level, significance)
        rows = self._rows if X is None else self._seen(X)
        if rows is None:
            raise ValueError("the rows were read block by block and not kept: give X")
        return self._with_noise(self._engine.cut(n_clusters, level, significance, rows), rows)

    def _begin(
        self, engine: LevelTreeEngine | BoundaryEngine, rows: np.ndarray | None = None
    ) -> None:
        """Forget an earlier fit; keep the seen rows (n, q) that a cut of a level tree is of."""
        for name in OF_ONE_FIT:
            self.__dict__.pop(name, None)
        self._engine, self.notes_ = engine, engine.notes
        self._rows = rows if isinstance(engine, LevelTreeEngine) else None

    def _take_decision(self) -> None:
        """Publish what the engine has trained."""
        engine = self._engine
        self.gamma_, self.C_, self.n_iter_ = engine.gamma, engine.C, engine.n_iter
        self.support_vectors_ = engine.original(engine.support_vectors)
        self.dual_coef_, self.offset_ = engine.decision.a, 1.0

    def _take_clusters(self) -> None:
        """Publish the clusters that the engine has found."""
        engine = self._engine
        self.n_clusters_ = engine.rule.n_clusters
        self.equilibria_ = engine.original(engine.equilibria)
        self.equilibrium_labels_ = engine.equilibrium_labels
        if isinstance(engine, LevelTreeEngine):
            answer = engine.levels.answer
            self.tree_ = engine.levels.tree
            self.agreement_, self.candidates_ = answer.support, answer.candidates

    def _settle(self) -> None:
        """Find the clusters of a stream, when they are first asked for."""
        check_is_fitted(self, "dual_coef_")
        if isinstance(self._engine, BoundaryEngine) and self._engine.pending:
            self._engine.find_pending_clusters()
            self._take_clusters()

    def _seen(self, X: Any) -> np.ndarray:
        """Return rows X (n, d) as the engine looks at them, (n, q) float32."""
        check_is_fitted(self, "dual_coef_")
        return self._engine.seen(validated(self, X, reset=False))

    def _values(self, column: str) -> Values:
        """Return what labels or scores raw rows."""
        engine, least = self._engine, -SEGMENT_TOLERANCE if self.noise else -np.inf
        return Values(engine.rule, engine.centre, column, least)

    def _with_noise(self, labels: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return labels (n,) int32 of seen rows, with `noise` -1 where their value is below 0."""
        outside = self._engine.values(rows) < -SEGMENT_TOLERANCE if self.noise else False
        return np.where(outside, np.int32(-1), labels)
