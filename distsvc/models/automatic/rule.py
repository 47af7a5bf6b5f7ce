"""The rule of a mixture's clusters, and rules of latent variables in prepared rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, cast

import numpy as np

from distsvc.errors import DataError
from distsvc.models.columns.model import PreparedLayout
from distsvc.models.mixture.density import MixtureRows, NormalMixture
from distsvc.models.rules.fields import ArrayField, ClustersField
from distsvc.models.rules.rule import Rule, ScoreWords
from distsvc.models.support_vector.level_tree.rule import LevelRule, Scored


@dataclass(frozen=True)
class MixtureRule(Scored, Rule):
    """The cluster with the highest posterior probability in a mixture; scores are by density.

    Columns of prepared rows are `numbers` (p,), missing where the column `absent` (p,) is not 0,
    and `levels` (q,), -1 where missing, of `n_levels` (q,). Component k has the `weights`, `means`,
    `covariances` (K, p, p), or (K, 1, p) if diagonal, and the `chances` (K, L) of all levels;
    `cluster` (K,) is its cluster.
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
        """Return the rule of a mixture, the clusters (K,) of its components, and what scores rows.

        Prepared rows are relative to the `origin` (D,), the mixture's are not. `scored` are the
        fields of `Scored`, of latent variables.
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
        """Clusters; each has a component."""
        return int(self.cluster.max()) + 1

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        """Return the published columns of prepared rows Z (n, d) float32 by name."""
        score = self.scores(Z)
        return {"label": self.labels(Z), "score": score, "outlier": score < 0.0}

    def labels(self, Z: np.ndarray) -> np.ndarray:
        """Return the labels (n,) int32 of prepared rows Z (n, d) float32."""
        return self.shares(Z).argmax(axis=1).astype(np.int32)

    def shares(self, Z: np.ndarray) -> np.ndarray:
        """Return the posterior probabilities (n, k) float32 of clusters in prepared rows Z."""
        numbers = Z[:, self.numbers].astype(np.float64)
        numbers[Z[:, self.absent] != 0.0] = np.nan
        levels = np.rint(Z[:, self.levels]).astype(np.int32)
        posterior = self._mixture.posterior(MixtureRows(numbers, levels, self.n_levels))
        out = np.zeros((len(Z), self.n_clusters))
        for component, cluster in enumerate(self.cluster):
            out[:, cluster] += posterior[:, component]
        return out.astype(np.float32)

    def check(self) -> None:
        """Raise DataError where the arrays do not go together."""
        self.check_components()
        d = self.components.shape[1]
        for name in ("numbers", "absent", "levels"):
            if (getattr(self, name) >= d).any():
                raise DataError(f"array {name}: expected places below {d}, found a higher one")
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
    def _mixture(self) -> NormalMixture:
        return NormalMixture(
            self.weights, self.means, self.covariances, self.chances, self.n_levels
        )


def of_latent(rule: Rule, layout: PreparedLayout) -> Rule:
    """Return a rule of latent variables as one of prepared rows: other columns have no weight."""

    def wide(directions: np.ndarray) -> np.ndarray:
        out = np.zeros((len(directions), layout.width), np.float32)
        out[:, layout.latent] = directions
        return out

    names = [name for name in ("components", "axes", "plane_axes") if hasattr(rule, name)]
    changed: dict[str, Any] = {name: wide(getattr(rule, name)) for name in names}
    return replace(rule, **changed)  # type: ignore[type-var]
