"""Rule of the nearest landmark: a row gets its cluster."""

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


@dataclass(frozen=True)
class LandmarkRule(Scored, Rule):
    """Cluster of the nearest landmark along some axes, with the level tree's scores.

    Attributes
    ----------
    axes : ndarray of shape (p, d), float32
        Axes on which rows are projected.
    landmarks : ndarray of shape (m, p), float32
        Rows of the table on the axes, or centres of clusters.
    cluster : ndarray of shape (m,), int32
        Clusters of the landmarks.
    gamma : float
        Parameter of a kernel as wide as the spacing of the landmarks, for shares.
    plane_axes : ndarray of shape (2, d), float32
        Axes of the plane in which rows are drawn.

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
        """Return the rule of landmarks (m, p) on axes (p, d) with their clusters (m,) int32.

        Points (n, p) with labels (n,) determine the plane; `scored` are the fields of `Scored`.
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
        """Number of clusters; each has a landmark."""
        return int(self.cluster.max()) + 1

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        """Return the published columns of centred rows Z (n, d) float32 by name."""
        score = self.scores(Z)
        return {"label": self.labels(Z), "score": score, "outlier": score < 0.0}

    def labels(self, Z: np.ndarray) -> np.ndarray:
        """Return the labels (n,) int32 of centred rows Z (n, d) float32."""
        return self._nearest(project(Z, self.axes))

    def plane(self, Z: np.ndarray) -> np.ndarray:
        """Return the positions (n, 2) float32 of centred rows Z (n, d) in the drawn plane."""
        return project(Z, self.plane_axes)

    def shares(self, Z: np.ndarray) -> np.ndarray:
        """Return the shares (n, k) float32 of all clusters in centred rows Z (n, d) float32."""
        points, ends = self._grouped
        return nearest_shares(project(Z, self.axes), points, ends, SOFTENED * self.gamma)

    @cached_property
    def _grouped(self) -> tuple[np.ndarray, np.ndarray]:
        """Landmarks sorted by cluster, axis by axis, and the end of each cluster."""
        order, ends = grouped(self.cluster)
        return np.ascontiguousarray(self.landmarks[order].T), ends

    @cached_property
    def _nearest(self) -> NearestCluster:
        return NearestCluster(self.landmarks, self.cluster)


def _narrow_gamma(landmarks: np.ndarray) -> float:
    """Return the gamma of a kernel as wide as the median spacing of the landmarks (k, p)."""
    some = landmarks[:4_000]  # enough for a median
    if len(some) < 2:
        return 1.0
    apart = cKDTree(some).query(some, k=2)[0][:, 1]
    apart = apart[apart > 0.0]
    return float(0.5 / np.median(apart) ** 2) if apart.size else 1.0
