"""What labels rows by a tree of hyperplanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from distsvc.models.hyperplanes.tree import ClusterTree, Cut
from distsvc.models.rules import Rule, ScoreWords


@dataclass(frozen=True)
class TreeRule(ClusterTree, Rule):
    """A tree and the number of clusters, ``cut_into``, that it is cut into.

    The score is the distance to the nearest hyperplane on the row's path, in that node's standard
    deviations along its normal. Rows are relative to the centre of the fit, float32.
    """

    form: ClassVar[str] = "imdh"
    meanings: ClassVar[Mapping[str, str]] = {
        "label": "int32, >= 0: the cluster, 0 the largest on a sample",
        "score": "float32, >= 0: distance to the nearest hyperplane on the row's path through the "
        "tree, in standard deviations of its node's rows along its normal; infinity where there is "
        "one cluster",
        "outlier": "bool: always false, for a tree of hyperplanes divides all of space",
    }
    words: ClassVar[ScoreWords] = ScoreWords(
        has_outliers=False,
        meaning="A tree of hyperplanes divides all of space among its clusters, so no row lies "
        "outside. The score tells how near a row comes to belonging elsewhere: its distance to the "
        "nearest hyperplane on its path, in standard deviations of the node's rows along its "
        "normal.",
        heading="Distance to the nearest hyperplane",
        axis="distance to the nearest hyperplane on the row's path, in standard deviations",
        boundary=None,
    )

    cut_into: int

    @property
    def n_clusters(self) -> int:
        """Clusters, all of which had rows in the sample."""
        return self.cut_into

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        """Return label, score and outlier (n,) of prepared rows Z (n, d) float32."""
        labels, margins = self._cut.label(Z)
        return {"label": labels, "score": margins, "outlier": np.zeros(len(Z), bool)}

    def facts(self) -> dict[str, Any]:
        """Return the number of clusters."""
        return {"n_clusters": self.cut_into}

    @classmethod
    def restored(cls, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the rule that `facts` and `arrays` hold, among others."""
        return super().restored({"cut_into": facts["n_clusters"]}, arrays)

    @cached_property
    def _cut(self) -> Cut:
        return self.cut(self.cut_into)
