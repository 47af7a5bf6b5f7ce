"""Rule that labels rows by a cut of a level tree, and scores them by near rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np

from distsvc.errors import DataError
from distsvc.kernels.rbf import nearest_shares, vote_shares
from distsvc.kernels.rows import project
from distsvc.models.rows.outlier_shares import SHARES_OUTSIDE
from distsvc.models.rules.fields import FLAG, ArrayField, ClustersField, real
from distsvc.models.rules.rule import Rule, ScoreWords
from distsvc.models.support_vector.boundary.rule import (
    CLUSTER_MEANING,
    GAMMA,
    OUTLIER_MEANING,
    SOFTENED,
)
from distsvc.models.support_vector.level_tree.neighbour_score import NeighbourScore
from distsvc.models.support_vector.level_tree.tree import Voter

TRUSTED, MOST_TRUSTED = 0.25, 2.0
"""Minimum and maximum of the exponent `LevelRule._power`, which is larger for wider kernels."""


@dataclass(frozen=True)
class Scored:
    """Base of rules that score rows by a `NeighbourScore`."""

    components: Annotated[np.ndarray, ArrayField("float32", "c d", row_major=False)]
    near_points: Annotated[np.ndarray, ArrayField("float32", "c W")]
    near_least: Annotated[float, GAMMA]
    near_limit: Annotated[float, real()]
    near_unit: Annotated[float, real(ge=SHARES_OUTSIDE.min_unit)]

    @staticmethod
    def fields_of(components: np.ndarray, score: NeighbourScore) -> dict[str, Any]:
        """Return the fields of `Scored` by name. The score takes coordinates along `components`."""
        near = {f"near_{name}": value for name, value in vars(score).items()}
        return {"components": components, **near}

    def seen(self, Z: np.ndarray) -> np.ndarray:
        return project(Z, self.components)

    def unrounded_scores(self, Z: np.ndarray) -> np.ndarray:
        return self.neighbour_score.unrounded(project(Z, self.components))

    @cached_property
    def neighbour_score(self) -> NeighbourScore:
        return NeighbourScore(self.near_points, self.near_least, self.near_limit, self.near_unit)


@dataclass(frozen=True)
class LevelRule(Scored, Rule):
    """Rule that labels a row by the cluster with the largest weighted kernel sum.

    Support vectors have the coordinates S along the first q components, the weights a and the
    clusters `part`. With `nearest`, a row gets the cluster of its nearest support vector instead.
    """

    form: ClassVar[str] = "level-tree"
    shared: ClassVar[str] = (
        "a power of the kernel sum of a cluster's support vectors, divided by the sum of these "
        "powers over all clusters; wider kernels have a higher power"
    )
    meanings: ClassVar[Mapping[str, str]] = {
        "label": CLUSTER_MEANING,
        "score": "float32: how near other rows are; negative outside, in standard deviations of "
        "the scores in a cluster",
        "outlier": OUTLIER_MEANING,
    }
    words: ClassVar[ScoreWords] = ScoreWords(
        meaning="The score measures how near other rows are: rows far from others have low scores. "
        "A row with a score below 0 is outside: 0.4 % of the rows of a normal cluster, or the "
        "share nu if given. The unit is the standard deviation of the scores in a cluster, so a "
        "row at -2 lies two standard deviations beyond the limit. A score is minus the logarithm "
        "of the root mean square distance to the 35 nearest of 500 rows of the table.",
        axis="score by near rows; negative is outside every cluster",
    )

    S: Annotated[np.ndarray, ArrayField("float32", "q B")]
    a: Annotated[np.ndarray, ArrayField("float32", "B", above=0.0)]
    part: Annotated[np.ndarray, ClustersField("int64", "B")]
    gamma: Annotated[float, GAMMA]
    nearest: Annotated[bool, FLAG]

    @property
    def n_clusters(self) -> int:
        return int(self.part.max()) + 1

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        view = project(Z, self.components)
        score = self.neighbour_score(view)
        return {"label": self._voted(view), "score": score, "outlier": score < 0.0}

    def labels(self, Z: np.ndarray) -> np.ndarray:
        return self._voted(project(Z, self.components[: len(self.S)]))

    def shares(self, Z: np.ndarray) -> np.ndarray:
        S, a, ends = self._voter.groups
        view = project(Z, self.components[: len(S)])
        if self.nearest:
            return nearest_shares(view, S, ends, SOFTENED * self.gamma)
        return vote_shares(view, S, a, ends, float(self.gamma), self._power)

    def check(self) -> None:
        found, most = len(self.S), len(self.components)
        if found > most:
            raise DataError(f"array S: expected at most {most} components, found {found}")

    def _voted(self, view: np.ndarray) -> np.ndarray:
        return self._voter.labels(np.ascontiguousarray(view[:, : len(self.S)]))

    @cached_property
    def _power(self) -> float:
        """Exponent of a cluster's kernel sum, when membership shares are computed.

        A kernel of variance h^2 widens clusters of variance s^2. The logarithm of the ratio of two
        clusters' kernel sums is thus smaller than that of their densities, by the factor
        s^2 / (s^2 + h^2). The exponent makes up for this factor, in part.
        """
        weights, V, inside = self.a.astype(np.float64), self.S.T.astype(np.float64), 0.0
        for c in range(self.n_clusters):
            own = self.part == c
            off = V[own] - np.average(V[own], axis=0, weights=weights[own])
            inside += float((weights[own] * (off**2).mean(axis=1)).sum())
        wide = 0.5 / self.gamma * float(weights.sum())
        ratio = wide / inside if inside > 0.0 else np.inf
        return min(TRUSTED * (1.0 + ratio), MOST_TRUSTED)

    @cached_property
    def _voter(self) -> Voter:
        return Voter(self.S, self.a, self.gamma, self.part, nearest=self.nearest)
