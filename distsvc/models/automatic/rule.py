"""Rule of a mixture, and conversion of rules of latent variables to prepared columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, cast

import numpy as np

from distsvc.errors import DataError
from distsvc.models.columns.model import PreparedLayout
from distsvc.models.mixture.density import NormalMixture
from distsvc.models.mixture.labeller import MixtureLabeller
from distsvc.models.mixture_clustering.rule import OfMixture
from distsvc.models.rules.fields import ClustersField
from distsvc.models.rules.rule import Rule, ScoreWords
from distsvc.models.support_vector.level_tree.rule import LevelRule, Scored


@dataclass(frozen=True)
class MixtureRule(OfMixture, Scored, Rule):
    """Labels by posterior probability in a mixture; scores by distance to near rows.

    Means are relative to the origin of prepared rows. `cluster` are the clusters of the components.
    """

    form: ClassVar[str] = "mixture"
    shared: ClassVar[str] = "the posterior probability of its cluster in the mixture"
    meanings: ClassVar[Mapping[str, str]] = LevelRule.meanings
    words: ClassVar[ScoreWords] = LevelRule.words

    cluster: Annotated[np.ndarray, ClustersField("int32", "K")]

    @classmethod
    def of(
        cls,
        mixture: NormalMixture,
        layout: PreparedLayout,
        origin: np.ndarray,
        cluster: np.ndarray,
        scored: dict[str, Any],
    ) -> MixtureRule:
        """Return the rule of a mixture with the clusters (K,) of its components.

        `origin` (D,) is subtracted from the means, since prepared rows are relative to it. `scored`
        are the fields of `Scored` for latent variables.
        """
        own = ("weights", "covariances", "chances", "n_levels")
        rule = cls(
            **{name: getattr(mixture, name) for name in own},
            means=mixture.means - origin[layout.numbers],
            numbers=layout.numbers,
            absent=layout.absent,
            levels=layout.levels,
            cluster=cluster.astype(np.int32),
            **scored,
        )
        return cast(MixtureRule, of_latent(rule, layout))

    @property
    def n_clusters(self) -> int:
        """Number of clusters; each has one or more components."""
        return int(self.cluster.max()) + 1

    def labels(self, Z: np.ndarray) -> np.ndarray:
        return self._labeller.labels(Z)

    def shares(self, Z: np.ndarray) -> np.ndarray:
        """Return the posterior probabilities (n, k) float32 of clusters in prepared rows Z."""
        return self._labeller.shares(Z)

    def check(self) -> None:
        d = self.components.shape[1]
        for name in ("numbers", "absent", "levels"):
            if (getattr(self, name) >= d).any():
                raise DataError(
                    f"array {name}: expected column numbers below {d}, found a higher one"
                )
        super().check()

    @cached_property
    def _labeller(self) -> MixtureLabeller:
        places = self.numbers, self.absent, self.levels
        return MixtureLabeller(self.mixture, *places, self.cluster)


def of_latent(rule: Rule, layout: PreparedLayout) -> Rule:
    """Return a rule for latent variables as a rule for prepared rows; other columns weigh 0."""

    def wide(directions: np.ndarray) -> np.ndarray:
        out = np.zeros((len(directions), layout.width), np.float32)
        out[:, layout.latent] = directions
        return out

    names = [name for name in ("components", "axes", "plane_axes") if hasattr(rule, name)]
    changed: dict[str, Any] = {name: wide(getattr(rule, name)) for name in names}
    return replace(rule, **changed)  # type: ignore[type-var]
