"""The previous run's answer, which the default algorithm goes on from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distsvc.models.automatic.rule import MixtureRule
from distsvc.models.columns.model import ColumnModel, PreparedLayout
from distsvc.models.graph.landmarks import LandmarkRule
from distsvc.models.mixture.density import MixtureRows
from distsvc.models.rules.rule import Rule


@dataclass(frozen=True)
class PreviousAnswer:
    """The answer of the previous run in tonight's rows.

    Attributes
    ----------
    labels : ndarray of shape (m,), int32
        Labels of the pilot's first rows.
    rule : Rule
        The rule that gave them.
    origin : ndarray of shape (D,), float64
        The origin of the rows that the rule takes.
    columns : ColumnModel or None
        Models of tonight's columns in the previous run; None if they were used as stored.

    """

    labels: np.ndarray
    rule: Rule
    origin: np.ndarray
    columns: ColumnModel | None = None

    @property
    def by_landmarks(self) -> bool:
        """Whether landmarks of a graph gave the labels."""
        return isinstance(self.rule, LandmarkRule)

    def posterior(self, rows: MixtureRows, layout: PreparedLayout) -> tuple[np.ndarray, np.ndarray]:
        """Return posteriors (n, K) of rows, at most m, and the clusters (K,) of their components.

        If a mixture of the same columns was the answer, it gives both. Otherwise each cluster is a
        component, and the posteriors are 0 and 1.
        """
        rule, names = self.rule, ("numbers", "absent", "levels", "n_levels")
        if isinstance(rule, MixtureRule) and all(
            np.array_equal(getattr(rule, name), getattr(layout, name)) for name in names
        ):
            return rule.mixture_at(self.origin).posterior(rows), rule.cluster.astype(np.int64)
        labels = np.unique(self.labels[: len(rows)], return_inverse=True)[1]
        return np.eye(int(labels.max()) + 1)[labels], np.arange(labels.max() + 1)
