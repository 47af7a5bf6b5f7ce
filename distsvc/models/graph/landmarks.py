"""The rule of clusters that landmarks stand for: a row goes with the nearest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.spatial import cKDTree

from distsvc.kernels.projection import project
from distsvc.kernels.shares import nearest_shares
from distsvc.models.graph.plane import telling_plane
from distsvc.models.rules.fields import ArrayField, ClustersField
from distsvc.models.rules.rule import Rule, ScoreWords
from distsvc.models.support_vector.boundary.labelling import NearestCluster
from distsvc.models.support_vector.boundary.rule import GAMMA, SOFTENED, grouped
from distsvc.models.support_vector.level_tree.rule import LevelRule, Scored

AMONG = 4_000
"""Landmarks among which is looked for how far they are apart."""


@dataclass(frozen=True)
class LandmarkRule(Scored, Rule):
    """The cluster of the nearest landmark along some axes; scores are the level tree's.

    Landmarks (m, p) are rows of the table on the `axes`, or centres of clusters, `cluster` (m,)
    their clusters. `gamma` is that of a kernel as wide as landmarks are apart, by which shares fall
    with distance. Rows are drawn along `plane_axes`.
    """

    form: ClassVar[str] = "landmarks"
    shared: ClassVar[str] = (
        "exp(-gamma r^2 / 2) of the distance r to the nearest landmark of its cluster, over that "
        "of all clusters"
    )
    meanings: ClassVar[Mapping[str, str]] = LevelRule.meanings
    words: ClassVar[ScoreWords] = LevelRule.words

    axes: Annotated[np.ndarray, ArrayField("float32", "p d", row_major=False)]
    landmarks: Annotated[np.ndarray, ArrayField("float32", "m p")]
    cluster: Annotated[np.ndarray, ClustersField("int32", "m")]
    gamma: Annotated[float, GAMMA]
    plane_axes: Annotated[np.ndarray, ArrayField("float32", "2 d")]

    @classmethod
    def of(
        cls,
        axes: np.ndarray,
        landmarks: np.ndarray,
        cluster: np.ndarray,
        points: np.ndarray,
        labels: np.ndarray,
        scored: dict[str, Any],
    ) -> LandmarkRule:
        """Return the rule of landmarks (m, p) on axes (p, d), and their clusters (m,) int32.

        Points (n, p) with labels (n,) say where clusters show best; `scored` are the fields of
        `Scored`.
        """
        return cls(
            axes=axes,
            landmarks=np.ascontiguousarray(landmarks, np.float32),
            cluster=cluster,
            gamma=_narrow_gamma(landmarks),
            plane_axes=telling_plane(points, labels) @ axes,
            **scored,
        )

    @property
    def n_clusters(self) -> int:
        """Clusters; each has a landmark."""
        return int(self.cluster.max()) + 1

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        """Return the published columns of centred rows Z (n, d) float32 by name."""
        score = self.scores(Z)
        return {"label": self.labels(Z), "score": score, "outlier": score < 0.0}

    def labels(self, Z: np.ndarray) -> np.ndarray:
        """Return the labels (n,) int32 of centred rows Z (n, d) float32, without their scores."""
        return self._nearest(project(Z, self.axes))

    def plane(self, Z: np.ndarray) -> np.ndarray:
        """Return the places (n, 2) float32 of centred rows Z (n, d) where clusters show best."""
        return project(Z, self.plane_axes)

    def shares(self, Z: np.ndarray) -> np.ndarray:
        """Return the shares (n, k) float32 of all clusters in centred rows Z (n, d) float32."""
        points, ends = self._grouped
        return nearest_shares(project(Z, self.axes), points, ends, SOFTENED * self.gamma)

    def check(self) -> None:
        """Raise DataError where vectors have more components than rows are projected on."""
        self.check_components()

    @cached_property
    def _grouped(self) -> tuple[np.ndarray, np.ndarray]:
        """The landmarks cluster by cluster, axis by axis, and where each cluster ends."""
        order, ends = grouped(self.cluster)
        return np.ascontiguousarray(self.landmarks[order].T), ends

    @cached_property
    def _nearest(self) -> NearestCluster:
        return NearestCluster(self.landmarks, self.cluster)


def _narrow_gamma(landmarks: np.ndarray) -> float:
    """Return the gamma of a kernel as wide as the landmarks (k, p) are apart, in the median."""
    some = landmarks[:AMONG]
    if len(some) < 2:
        return 1.0
    apart = cKDTree(some).query(some, k=2)[0][:, 1]
    apart = apart[apart > 0.0]
    return float(0.5 / np.median(apart) ** 2) if apart.size else 1.0
