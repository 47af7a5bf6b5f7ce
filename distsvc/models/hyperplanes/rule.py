"""The rule of a tree of hyperplanes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from distsvc.errors import DataError
from distsvc.kernels.hyperplanes import path_shares
from distsvc.models.hyperplanes.tree import ClusterTree, Cut
from distsvc.models.rules.fields import Facts, whole
from distsvc.models.rules.membership import BY_HYPERPLANES, SPLIT_SOFTNESS
from distsvc.models.rules.rule import Rule, ScoreWords


@dataclass(frozen=True)
class TreeRule(ClusterTree, Rule):
    """Rule that labels a row by its path in a tree cut into `cut_into` clusters.

    The score is the `Cut.label` margin. Rows are float32, relative to the centre of the fit.
    """

    form: ClassVar[str] = "imdh"
    shared: ClassVar[str] = BY_HYPERPLANES
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
        "outside. The score is the row's distance to the nearest hyperplane on its path, in "
        "standard deviations of the node's rows along the normal.",
        heading="Distance to the nearest hyperplane",
        axis="distance to the nearest hyperplane on the row's path, in standard deviations",
        boundary=None,
    )

    cut_into: Annotated[int, whole(1, 2**31)]

    @property
    def n_clusters(self) -> int:
        return self.cut_into

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        labels, margins = self._cut.label(Z)
        return {"label": labels, "score": margins, "outlier": np.zeros(len(Z), bool)}

    def shares(self, Z: np.ndarray) -> np.ndarray:
        cut, shares = self._cut, np.zeros((len(Z), self.cut_into), np.float32)
        nodes = self.V, self.thresholds, SPLIT_SOFTNESS * self.spreads, cut.children, cut.labels
        path_shares(Z, *nodes, shares)
        return shares

    def facts(self) -> Facts:
        return {"n_clusters": self.cut_into}

    @classmethod
    def restored(
        cls, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray], d: int | None = None
    ) -> Self:
        return super().restored({**facts, "cut_into": facts.get("n_clusters")}, arrays, d)

    def check(self) -> None:
        """Raise DataError unless the splits are all inner nodes, parents first, and sizes agree."""
        inner = np.flatnonzero(self.children[:, 0] >= 0)
        if not np.array_equal(np.sort(self.splits), inner):
            raise DataError("array splits: expected every node with children once, found others")
        place = np.full(len(self.children), len(inner))
        place[self.splits] = np.arange(len(inner))
        if (place[self.children[inner]] < place[inner, None]).any():
            raise DataError("array splits: expected parents before children, found a child first")
        if len(self.curve) != len(inner) + 1:
            raise DataError(f"array curve: expected {len(inner) + 1}, found {len(self.curve)}")
        if self.cut_into > len(self.curve):
            raise DataError(
                f"fact n_clusters: expected {len(self.curve)} at most, found {self.cut_into}"
            )

    @cached_property
    def _cut(self) -> Cut:
        return self.cut(self.cut_into)
