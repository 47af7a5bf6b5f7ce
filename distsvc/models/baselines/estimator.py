"""What the baselines' estimators have in common."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin

from distsvc.job.parameters import check_parameters
from distsvc.models.rows.checkpoints import NO_CHECKPOINT, Checkpoint
from distsvc.models.rules.rule import Rule


class Baseline(ClusterMixin, BaseEstimator):
    """An estimator whose answer is a rule of a few arrays."""

    algorithm: str
    labels_: np.ndarray
    _checkpoint: Checkpoint = NO_CHECKPOINT
    """What `fit` goes on from, where that may take more than a minute."""

    def check_parameters(self) -> None:
        """Raise ParameterError for a parameter that is not allowed."""
        check_parameters(self.algorithm, self.get_params())

    def _rule(self) -> Rule:
        """Return what labels rows, after `fit`; cluster 0 has most rows."""
        raise NotImplementedError
