"""Rule of a mixture, and conversion of rules of latent variables to prepared columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, cast

import numpy as np
from scipy.special import ndtri

from distsvc.errors import DataError
from distsvc.models.columns.model import PreparedLayout
from distsvc.models.mixture.density import NormalMixture
from distsvc.models.mixture.labeller import MixtureLabeller
from distsvc.models.mixture_clustering.rule import OfMixture, density_depth, density_tails
from distsvc.models.rows.outlier_shares import SHARES_OUTSIDE
from distsvc.models.rules.fields import ArrayField, ClustersField
from distsvc.models.rules.rule import Rule, ScoreWords
from distsvc.models.support_vector.level_tree.rule import LevelRule, Scored


@dataclass(frozen=True)
class MixtureRule(OfMixture, Scored, Rule):
    """Labels by posterior probability in a mixture; scores by distance to near rows.

    A row is also outside if its log density in the mixture is below the floor of its cluster. A
    wrong value can be near other rows' values, and fit no cluster's other columns. The score is the
    lower one of both, in standard deviations.

    Means are relative to the origin of prepared rows. `cluster` are the clusters of the components.
    """

    form: ClassVar[str] = "mixture"
    shared: ClassVar[str] = "the posterior probability of its cluster in the mixture"
    meanings: ClassVar[Mapping[str, str]] = LevelRule.meanings
    words: ClassVar[ScoreWords] = replace(
        LevelRule.words,
        meaning=f"{LevelRule.words.meaning} It is lower if the mixture's density at the row is so "
        "low that not one in 10^9 rows of a normal cluster has it: then no cluster fits the row's "
        "values together, and the row is outside.",
    )

    cluster: Annotated[np.ndarray, ClustersField("int32", "K")]
    floors: Annotated[np.ndarray, ArrayField("float64", "k", may_be_empty=True)] = field(
        default_factory=lambda: np.zeros(0)
    )
    spreads: Annotated[np.ndarray, ArrayField("float64", "k", above=0.0, may_be_empty=True)] = (
        field(default_factory=lambda: np.zeros(0))
    )

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

    def with_floors(self, Z: np.ndarray) -> MixtureRule:
        """Return the rule with floors of the densities in its clusters, from prepared rows Z.

        None of the rows of a normal cluster lies below the floor (`SHARES_OUTSIDE.never`).
        """
        labels, densities = self._labeller.labels_and_densities(Z)
        p = max(len(self.numbers), 1)
        middles, tails, _ = density_tails(densities, labels, self.n_clusters, p)
        tails = np.maximum(tails, density_depth(SHARES_OUTSIDE.tail, p))
        depth = density_depth(SHARES_OUTSIDE.never, p) / density_depth(SHARES_OUTSIDE.tail, p)
        spreads = tails / -float(ndtri(SHARES_OUTSIDE.tail))
        return replace(self, floors=middles - depth * tails, spreads=spreads)

    @property
    def n_clusters(self) -> int:
        """Number of clusters; each has one or more components."""
        return int(self.cluster.max()) + 1

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        labels, score = self._labels_and_scores(Z)
        score = score.astype(np.float32)
        return {"label": labels, "score": score, "outlier": score < 0.0}

    def labels(self, Z: np.ndarray) -> np.ndarray:
        return self._labeller.labels(Z)

    def unrounded_scores(self, Z: np.ndarray) -> np.ndarray:
        return self._labels_and_scores(Z)[1]

    def _labels_and_scores(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        near = super().unrounded_scores(Z)
        if not len(self.floors):  # a model of an earlier version
            return self.labels(Z), near
        labels, densities = self._labeller.labels_and_densities(Z)
        return labels, np.minimum(near, (densities - self.floors[labels]) / self.spreads[labels])

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
