"""What support vector clustering labels rows by: a cut of the level tree, or the boundary's points.

| Pham, Le and Dang (2017) | here |
|---|---|
| alpha_i and x_i in f | ``a``, ``S`` |
| B_eps, whose points label all rows (Algorithm 3, line 10) | `BoundaryRule.points` |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from distsvc.kernels.projection import project
from distsvc.models.fields import (
    LARGEST_FLOAT32,
    SMALLEST_FLOAT32,
    Array,
    Clusters,
    Field,
    Flag,
    Number,
)
from distsvc.models.rules import Rule
from distsvc.models.support_vector.labelling import DecisionFunction, Nearest
from distsvc.models.support_vector.level_tree import Voter

GAMMA = Number(above=0.0, most=LARGEST_FLOAT32)
LABEL = "int32, >= 0: the cluster, 0 the largest on a sample; outliers have one too"
OUTLIER = "bool: f(x) < 0, the row lies outside every cluster"


@dataclass(frozen=True)
class LevelRule(Rule):
    """The cluster whose support vectors have the largest weighted kernel sum at a row.

    Attributes
    ----------
    components : ndarray of shape (q, d), float32
        Directions that rows are projected on first.
    S : ndarray of shape (q, B), float32
        Support vectors, feature by feature.
    a : ndarray of shape (B,), float32
        Their weights in g(x) = sum_j a_j K(s_j, x).
    part : ndarray of shape (B,), int64
        Their clusters.
    gamma : float
    level : float
        The level of g at which the score, f(x) = g(x) / level - 1, is 0.
    nearest : bool
        Rows take the cluster of their nearest support vector instead.

    """

    form: ClassVar[str] = "level-tree"
    meanings: ClassVar[Mapping[str, str]] = {
        "label": LABEL,
        "score": "float32: f(x), the density relative to the least of any cluster's rows, less 1",
        "outlier": OUTLIER,
    }
    needs: ClassVar[Mapping[str, Field]] = {
        "components": Array("float32", "q d", row_major=False),
        "S": Array("float32", "q B"),
        "a": Array("float32", "B", above=0.0),
        "part": Clusters("int64", "B"),
        "gamma": GAMMA,
        "level": Number(least=SMALLEST_FLOAT32, most=LARGEST_FLOAT32),
        "nearest": Flag(),
    }

    components: np.ndarray
    S: np.ndarray
    a: np.ndarray
    part: np.ndarray
    gamma: float
    level: float
    nearest: bool

    @property
    def n_clusters(self) -> int:
        """Clusters; each has a support vector."""
        return int(self.part.max()) + 1

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        """Return the published columns of centred rows Z (n, d) float32 by name."""
        label, score = self._voter(project(Z, self.components))
        return {"label": label, "score": score, "outlier": score < 0.0}

    @cached_property
    def _voter(self) -> Voter:
        return Voter(self.S, self.a, self.gamma, self.part, self.level, self.nearest)


@dataclass(frozen=True)
class BoundaryRule(Rule):
    """The cluster of the nearest of some points, mostly on the boundary of the domain of novelty.

    A point's label is its own.

    Attributes
    ----------
    S : ndarray of shape (d, B), float32
        Support vectors, feature by feature.
    a : ndarray of shape (B,), float32
        Their weights in the score, f(x) = sum_j a_j K(s_j, x) - 1.
    points : ndarray of shape (m, d), float32
    cluster : ndarray of shape (m,), int32
        The points' clusters.
    gamma : float

    """

    form: ClassVar[str] = "support-vector"
    meanings: ClassVar[Mapping[str, str]] = {
        "label": LABEL,
        "score": "float32: f(x), the decision value; 0 is the boundary of the domain of novelty",
        "outlier": OUTLIER,
    }
    needs: ClassVar[Mapping[str, Field]] = {
        "S": Array("float32", "d B"),
        "a": Array("float32", "B"),
        "points": Array("float32", "m d"),
        "cluster": Clusters("int32", "m"),
        "gamma": GAMMA,
    }
    beside: ClassVar[Mapping[str, Field]] = {
        "equilibria": Array("float32", "e d", may_be_empty=True),
        "equilibrium_labels": Array("int32", "e", least=-1, may_be_empty=True),
    }

    S: np.ndarray
    a: np.ndarray
    points: np.ndarray
    cluster: np.ndarray
    gamma: float

    @property
    def n_clusters(self) -> int:
        """Clusters; each has a point."""
        return int(self.cluster.max()) + 1

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        """Return the published columns of centred rows Z (n, d) float32 by name."""
        score = DecisionFunction(self.S, self.a, self.gamma)(Z)
        label = self.cluster[self._nearest(Z)]
        return {"label": label, "score": score, "outlier": score < 0.0}

    @cached_property
    def _nearest(self) -> Nearest:
        return Nearest(self.points)
