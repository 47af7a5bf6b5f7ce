"""The bases of the baselines' estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from distsvc.job.parameters import check_parameters
from distsvc.models.baselines.rules import Splits
from distsvc.models.baselines.split_tree import SplitTree, centred
from distsvc.models.rows.checkpoints import NO_CHECKPOINT, Checkpoint
from distsvc.models.rows.validation import validated
from distsvc.models.rules.rule import Rule


class Baseline(ClusterMixin, BaseEstimator):
    """An estimator whose answer is a rule of a few arrays."""

    algorithm: str
    labels_: np.ndarray
    _checkpoint: Checkpoint = NO_CHECKPOINT
    """The states that a `fit` of more than a minute goes on from."""

    def check_parameters(self) -> None:
        """Raise ParameterError for a parameter that is not allowed."""
        check_parameters(self.algorithm, self.get_params())

    def _rule(self) -> Rule:
        """Return the rule of the fit; cluster 0 has most rows."""
        raise NotImplementedError


class TreeBaseline(Baseline):
    """A baseline whose clusters are the leaves of a tree."""

    tree_: SplitTree
    directions_: np.ndarray
    thresholds_: np.ndarray
    children_: np.ndarray
    clusters_: np.ndarray
    centre_: np.ndarray
    _spreads: np.ndarray

    def predict(self, X: Any) -> np.ndarray:
        """Return the cluster (n,) int32 of every row of X (n, d)."""
        check_is_fitted(self, "tree_")
        X = validated(self, X, reset=False)
        return self.clusters_[self.tree_.apply(centred(X, self.centre_))]

    def _label(self, Z: np.ndarray, ends: np.ndarray) -> None:
        """Label the rows Z (n, d) of `fit` by their leaves (n,)."""
        self.labels_, self._spreads = self.clusters_[ends], self.tree_.spreads(Z)

    def _rule(self) -> Splits:
        nodes = self.directions_, self.thresholds_, self.children_
        return Splits(*nodes, self.clusters_, self.centre_, self._spreads)
