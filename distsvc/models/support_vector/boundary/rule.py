"""Rule that labels a row by the nearest stored point (Algorithm 3, line 10)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np

from distsvc.kernels.rbf import nearest_shares
from distsvc.models.rules.fields import LARGEST_FLOAT32, ArrayField, ClustersField, Field, real
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.boundary.labelling import DecisionFunction, Nearest

GAMMA = real(gt=0.0, le=LARGEST_FLOAT32)
CLUSTER_MEANING = (
    "int32, >= 0: the cluster, also of outliers; on a first run, 0 is the largest cluster of a "
    "sample"
)
OUTLIER_MEANING = "bool: score < 0, the row lies outside every cluster"

SOFTENED = 0.5
"""Factor on gamma in the computation of membership shares; fewer shares are then near 0 or 1."""


@dataclass(frozen=True)
class BoundaryRule(Rule):
    """Rule that labels a row by the cluster of the nearest stored point.

    The `points` are boundary rows, rows inside, or centres of balls.
    The score of a row is f(x) = sum_j a_j K(s_j, x) - 1. Support vector s_j is a column of S.
    """

    form: ClassVar[str] = "support-vector"
    shared: ClassVar[str] = (
        "exp(-gamma r^2 / 2) divided by its sum over all clusters, where r is the distance to a "
        "cluster's nearest point"
    )
    meanings: ClassVar[Mapping[str, str]] = {
        "label": CLUSTER_MEANING,
        "score": "float32: f(x), the decision value; 0 on the boundary, negative outside",
        "outlier": OUTLIER_MEANING,
    }

    beside: ClassVar[Mapping[str, Field]] = {
        "equilibria": ArrayField("float32", "e d", may_be_empty=True),
        "equilibrium_labels": ArrayField("int32", "e", least=-1, may_be_empty=True),
    }

    S: Annotated[np.ndarray, ArrayField("float32", "d B")]
    a: Annotated[np.ndarray, ArrayField("float32", "B")]
    points: Annotated[np.ndarray, ArrayField("float32", "m d")]
    cluster: Annotated[np.ndarray, ClustersField("int32", "m")]
    gamma: Annotated[float, GAMMA]

    @property
    def n_clusters(self) -> int:
        return int(self.cluster.max()) + 1

    def labels(self, Z: np.ndarray) -> np.ndarray:
        return self.cluster[self._nearest(Z)]

    def unrounded_scores(self, Z: np.ndarray) -> np.ndarray:
        return DecisionFunction(self.S, self.a, self.gamma).scores(Z)

    def shares(self, Z: np.ndarray) -> np.ndarray:
        points, ends = self._grouped
        return nearest_shares(Z, points, ends, SOFTENED * self.gamma)

    @cached_property
    def _grouped(self) -> tuple[np.ndarray, np.ndarray]:
        """Points (d, m) sorted by cluster, and end indices (k,) of clusters."""
        order, ends = grouped(self.cluster)
        return np.ascontiguousarray(self.points[order].T), ends

    @cached_property
    def _nearest(self) -> Nearest:
        return Nearest(self.points, self.cluster)


def grouped(cluster: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order (m,) that sorts points by cluster, and end indices (k,) of clusters."""
    return np.argsort(cluster, kind="stable"), np.cumsum(np.bincount(cluster)).astype(np.int64)
