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
from distsvc.models.rows.threads import of_blocks
from distsvc.models.rows.validation import validated
from distsvc.models.rules.rule import Rule


class Baseline(ClusterMixin, BaseEstimator):
    """An estimator whose answer is a rule of a few arrays."""

    algorithm: str
    n_jobs: int | None
    labels_: np.ndarray
    _checkpoint: Checkpoint = NO_CHECKPOINT
    """The states that a `fit` of more than a minute goes on from."""

    def check_parameters(self) -> None:
        """Check the parameters, as `fit` does first.

        Raises
        ------
        ParameterError
            For a parameter that is not allowed.

        Examples
        --------
        >>> from distsvc.baselines import BICO
        >>> from distsvc.errors import ParameterError
        >>> try:
        ...     BICO(n_clusters=0).check_parameters()
        ... except ParameterError as error:
        ...     print(error)
        n_clusters must be a whole number of at least 1, found 0

        """
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
        """Return the cluster of every row.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows in memory.

        Returns
        -------
        labels : ndarray of shape (n,), int32

        Examples
        --------
        >>> from distsvc.baselines import DePDDP
        >>> from sklearn.datasets import make_blobs
        >>> X, _ = make_blobs(300, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
        >>> model = DePDDP(n_clusters=3).fit(X)
        >>> bool((model.predict(X) == model.labels_).all())
        True

        """
        check_is_fitted(self, "tree_")
        X = validated(self, X, reset=False)

        def labelled(block: np.ndarray) -> np.ndarray:
            return self.clusters_[self.tree_.apply(centred(block, self.centre_))]

        return of_blocks(labelled, X, self.n_jobs)

    def _label(self, Z: np.ndarray, ends: np.ndarray) -> None:
        """Label the rows Z (n, d) of `fit` by their leaves (n,)."""
        self.labels_, self._spreads = self.clusters_[ends], self.tree_.spreads(Z)

    def _rule(self) -> Splits:
        nodes = self.directions_, self.thresholds_, self.children_
        return Splits(*nodes, self.clusters_, self.centre_, self._spreads)
