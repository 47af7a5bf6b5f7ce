"""Rule that gives a row the cluster of its nearest landmark."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from scipy.linalg import eigh
from scipy.spatial import cKDTree

from distsvc.kernels.rbf import nearest_shares
from distsvc.kernels.rows import project
from distsvc.models.rows.threads import one_thread
from distsvc.models.rules.fields import ArrayField, ClustersField
from distsvc.models.rules.rule import Rule, ScoreWords
from distsvc.models.support_vector.boundary.labelling import Nearest
from distsvc.models.support_vector.boundary.rule import GAMMA, SOFTENED, grouped
from distsvc.models.support_vector.level_tree.directions import SHRUNK
from distsvc.models.support_vector.level_tree.rule import LevelRule, Scored

MAX_SPACED = 4_000
"""Maximum number of landmarks from which the gamma of membership shares is computed."""

PLANE = 2.0
"""Minimum dimension of the rows around landmarks that `_share_gamma` assumes."""


@dataclass(frozen=True)
class LandmarkRule(Scored, Rule):
    """Rule that labels a row by its nearest landmark. Scores are as in `LevelRule`."""

    form: ClassVar[str] = "landmarks"
    shared: ClassVar[str] = (
        "exp(-gamma r^2 / 2) divided by its sum over all clusters, where r is the distance to a "
        "cluster's nearest landmark"
    )
    meanings: ClassVar[Mapping[str, str]] = LevelRule.meanings
    words: ClassVar[ScoreWords] = LevelRule.words

    axes: Annotated[np.ndarray, ArrayField("float32", "a d", row_major=False)]
    landmarks: Annotated[np.ndarray, ArrayField("float32", "m a")]  # positions along the axes
    cluster: Annotated[np.ndarray, ClustersField("int32", "m")]  # clusters of the landmarks
    gamma: Annotated[float, GAMMA]  # of the kernel for shares; see `_share_gamma`
    plane_axes: Annotated[np.ndarray, ArrayField("float32", "2 d")]  # plane of drawings

    @classmethod
    def of(
        cls,
        axes: np.ndarray,
        landmarks: np.ndarray,
        cluster: np.ndarray,
        points: np.ndarray,
        labels: np.ndarray,
        scored: dict[str, Any],
    ) -> Self:
        """Return the rule from landmarks (m, a), which are positions along the axes (a, d).

        `cluster` (m,) int32 has the cluster of each landmark. The plane for drawings is chosen so
        that it separates the points (n, a) by their labels (n,). `scored` has the values of the
        fields that the rule inherits from `Scored`.
        """
        return cls(
            axes=axes,
            landmarks=np.ascontiguousarray(landmarks, np.float32),
            cluster=cluster,
            gamma=_share_gamma(landmarks, int(cluster.max()) + 1),
            plane_axes=separating_plane(points, labels) @ axes,
            **scored,
        )

    @property
    def n_clusters(self) -> int:
        return int(self.cluster.max()) + 1

    def labels(self, Z: np.ndarray) -> np.ndarray:
        return self.cluster[self._nearest(project(Z, self.axes))]

    def plane(self, Z: np.ndarray) -> np.ndarray:
        """Return positions (n, 2) float32 of centred rows Z (n, d) in the plane of drawings."""
        return project(Z, self.plane_axes)

    def shares(self, Z: np.ndarray) -> np.ndarray:
        points, ends = self._grouped
        return nearest_shares(project(Z, self.axes), points, ends, SOFTENED * self.gamma)

    @cached_property
    def _grouped(self) -> tuple[np.ndarray, np.ndarray]:
        """Transposed landmarks (a, m), sorted by cluster, and the index (k,) after each cluster."""
        order, ends = grouped(self.cluster)
        return np.ascontiguousarray(self.landmarks[order].T), ends

    @cached_property
    def _nearest(self) -> Nearest:
        return Nearest(self.landmarks, self.cluster)


def _share_gamma(landmarks: np.ndarray, n_clusters: int) -> float:
    """Return the gamma of membership shares, computed from landmarks (k, p).

    In m dimensions, the density of a cluster at distance r from its nearest landmark is
    proportional to r^-m. If r is near the median spacing h of landmarks, the log density is about
    -m r^2 / (2 h^2), plus a constant. So gamma grows with m. m is estimated by maximum likelihood
    (Facco et al. 2017). If each cluster has only one landmark, m is `PLANE`.
    """
    some = landmarks[:MAX_SPACED].astype(np.float64)
    near = cKDTree(some).query(some, k=3)[0][:, 1:]
    near = near[(near[:, 0] > 0.0) & np.isfinite(near[:, 0])]
    if not len(near):
        return 1.0
    dimension = PLANE
    if len(landmarks) > n_clusters:
        logarithms = np.log(near[:, 1] / near[:, 0])
        dimension = len(near) / max(float(logarithms.sum()), np.finfo(float).tiny)
        dimension = min(max(dimension, PLANE), max(landmarks.shape[1], PLANE))
    return float((dimension - PLANE + SOFTENED) / np.median(near[:, 0]) ** 2)


def separating_plane(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return two directions (2, p) float32 along which rows (m, p) with labels (m,) separate best.

    They are Fisher's discriminants (1936), of length 1. With two clusters, the second direction has
    the largest scatter inside clusters. For p <= 2 the directions are the columns; for p = 1 the
    second direction is 0.
    """
    if rows.shape[1] <= 2:
        return np.eye(2, rows.shape[1], dtype=np.float32)
    sizes, wide = np.bincount(labels), rows.astype(np.float64)
    middles = np.array([wide[labels == c].mean(axis=0) for c in range(len(sizes))])
    off, between = wide - middles[labels], middles - wide.mean(axis=0)
    within = off.T @ off / len(wide)
    ridge = 1e-6 * within
    apart = (between.T * sizes) @ between / len(wide) + ridge
    even = (np.trace(within) / len(within) or 1.0) * np.eye(len(within))
    with one_thread():
        _, found = eigh(apart, (1.0 - SHRUNK) * within + SHRUNK * even)
    leading = found[:, :-3:-1] / np.linalg.norm(found[:, :-3:-1], axis=0)
    return np.ascontiguousarray(leading.T, np.float32)
