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
from distsvc.models.rules.fields import ArrayField, ClustersField
from distsvc.models.rules.rule import Rule, ScoreWords
from distsvc.models.support_vector.level_tree.rule import LevelRule, Scored


@dataclass(frozen=True)
class MixtureRule(Scored, Rule):
    """Labels by posterior probability in a mixture; scores by distance to near rows.

    Fields of the mixture are as in `NormalMixture`; means are relative to the origin of prepared
    rows. `numbers` and `levels` are columns of prepared rows; a column of `absent` is 0 unless the
    number is missing. `cluster` are the clusters of the components.
    """

    form: ClassVar[str] = "mixture"
    shared: ClassVar[str] = "the posterior probability of its cluster in the mixture"
    meanings: ClassVar[Mapping[str, str]] = LevelRule.meanings
    words: ClassVar[ScoreWords] = LevelRule.words

    weights: Annotated[np.ndarray, ArrayField("float64", "K", above=0.0)]
    means: Annotated[np.ndarray, ArrayField("float64", "K p", may_be_empty=True)]
    covariances: Annotated[np.ndarray, ArrayField("float64", "K s p", may_be_empty=True)]
    chances: Annotated[np.ndarray, ArrayField("float64", "K L", may_be_empty=True)]
    n_levels: Annotated[np.ndarray, ArrayField("int64", "q", may_be_empty=True, least=1)]
    numbers: Annotated[np.ndarray, ArrayField("int64", "p", may_be_empty=True, least=0)]
    absent: Annotated[np.ndarray, ArrayField("int64", "p", may_be_empty=True, least=0)]
    levels: Annotated[np.ndarray, ArrayField("int64", "q", may_be_empty=True, least=0)]
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

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        score = self.scores(Z)
        return {"label": self.labels(Z), "score": score, "outlier": score < 0.0}

    def labels(self, Z: np.ndarray) -> np.ndarray:
        return self.shares(Z).argmax(axis=1).astype(np.int32)

    def shares(self, Z: np.ndarray) -> np.ndarray:
        """Return the posterior probabilities (n, k) float32 of clusters in prepared rows Z."""
        return self._labeller.shares(Z)

    def mixture_at(self, origin: np.ndarray) -> NormalMixture:
        """Return the mixture of rows from which the origin (D,) is not subtracted."""
        return replace(self._mixture, means=self.means + origin[self.numbers])

    def check(self) -> None:
        d = self.components.shape[1]
        for name in ("numbers", "absent", "levels"):
            if (getattr(self, name) >= d).any():
                raise DataError(
                    f"array {name}: expected column numbers below {d}, found a higher one"
                )
        if self.covariances.shape[1] not in (1, self.means.shape[1]):
            raise DataError(
                f"array covariances: expected 1 or {self.means.shape[1]} rows, found "
                f"{self.covariances.shape[1]}"
            )
        if int(self.n_levels.sum()) != self.chances.shape[1]:
            raise DataError(
                f"array chances: expected {int(self.n_levels.sum())} levels, found "
                f"{self.chances.shape[1]}"
            )

    @cached_property
    def _labeller(self) -> MixtureLabeller:
        places = self.numbers, self.absent, self.levels
        return MixtureLabeller(self._mixture, *places, self.cluster)

    @cached_property
    def _mixture(self) -> NormalMixture:
        return NormalMixture(
            self.weights, self.means, self.covariances, self.chances, self.n_levels
        )


def of_latent(rule: Rule, layout: PreparedLayout) -> Rule:
    """Return a rule of latent variables for prepared rows: other columns have weight 0."""

    def wide(directions: np.ndarray) -> np.ndarray:
        out = np.zeros((len(directions), layout.width), np.float32)
        out[:, layout.latent] = directions
        return out

    names = [name for name in ("components", "axes", "plane_axes") if hasattr(rule, name)]
    changed: dict[str, Any] = {name: wide(getattr(rule, name)) for name in names}
    return replace(rule, **changed)  # type: ignore[type-var]
