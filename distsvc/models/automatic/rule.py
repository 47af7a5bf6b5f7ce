"""Rules of modelled columns, and conversion of rules of latent variables to prepared columns."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self, cast

import numpy as np
from scipy.special import ndtri

from distsvc.errors import DataError
from distsvc.models.columns.model import PreparedLayout
from distsvc.models.graph.landmarks import LandmarkRule
from distsvc.models.mixture.density import NormalMixture
from distsvc.models.mixture.labeller import MixtureLabeller
from distsvc.models.mixture_clustering.rule import OfMixture, density_depth, density_tails
from distsvc.models.rows.outlier_shares import SHARES_OUTSIDE
from distsvc.models.rules.fields import ArrayField, ClustersField
from distsvc.models.rules.rule import Rule, ScoreWords
from distsvc.models.support_vector.level_tree.rule import LevelRule, Scored


@dataclass(frozen=True)
class DensityFloors(OfMixture):
    """Base of rules that score rows by near rows, and by a mixture's density if it is very low.

    A wrong value can be near other rows' values, and fit no cluster's other columns. So a row is
    also outside if its log density in the mixture is below the floor of its cluster. The score is
    the lower one of both, in standard deviations. Without floors, which models of earlier versions
    lack, near rows decide alone. Means are relative to the origin of prepared rows.
    """

    words: ClassVar[ScoreWords] = replace(
        LevelRule.words,
        meaning=f"{LevelRule.words.meaning} It is lower if a row's density in the clusters is so "
        "low that not one in 10^9 rows of a normal cluster has it: then no cluster fits the row's "
        "values together, and the row is outside.",
    )

    floors: Annotated[np.ndarray, ArrayField("float64", "k", may_be_empty=True)] = field(
        default_factory=lambda: np.zeros(0), kw_only=True
    )
    spreads: Annotated[np.ndarray, ArrayField("float64", "k", above=0.0, may_be_empty=True)] = (
        field(default_factory=lambda: np.zeros(0), kw_only=True)
    )

    def with_floors(self, Z: np.ndarray) -> Self:
        """Return the rule with floors of the densities in its clusters, from prepared rows Z.

        None of the rows of a normal cluster lies below the floor (`SHARES_OUTSIDE.never`).
        """
        labels, densities = self.labels_and_densities(Z)
        p = max(len(self.numbers), 1)
        middles, tails, _ = density_tails(densities, labels, self.n_clusters, p)
        tails = np.maximum(tails, density_depth(SHARES_OUTSIDE.tail, p))
        depth = density_depth(SHARES_OUTSIDE.never, p) / density_depth(SHARES_OUTSIDE.tail, p)
        spreads = tails / -float(ndtri(SHARES_OUTSIDE.tail))
        return replace(self, floors=middles - depth * tails, spreads=spreads)

    @abstractmethod
    def labels_and_densities(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return labels (n,) and log densities (n,) of prepared rows Z (n, D)."""

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        labels, score = self._labels_and_scores(Z)
        score = score.astype(np.float32)
        return {"label": labels, "score": score, "outlier": score < 0.0}

    def unrounded_scores(self, Z: np.ndarray) -> np.ndarray:
        return self._labels_and_scores(Z)[1]

    def _labels_and_scores(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        near = super().unrounded_scores(Z)
        if not len(self.floors):
            return self.labels(Z), near
        labels, densities = self.labels_and_densities(Z)
        return labels, np.minimum(near, (densities - self.floors[labels]) / self.spreads[labels])

    def check(self) -> None:
        d = self.components.shape[1]  # type: ignore[attr-defined]
        for name in ("numbers", "absent", "levels"):
            if (getattr(self, name) >= d).any():
                raise DataError(
                    f"array {name}: expected column numbers below {d}, found a higher one"
                )
        if len(self.floors) not in (0, self.n_clusters):
            found = len(self.floors)
            raise DataError(f"array floors: expected {self.n_clusters} clusters, found {found}")
        super().check()


def _of_mixture(
    mixture: NormalMixture, layout: PreparedLayout, origin: np.ndarray
) -> dict[str, Any]:
    """Return the fields of `OfMixture`; `origin` (D,) is subtracted from the means."""
    places = {name: getattr(layout, name) for name in ("numbers", "absent", "levels")}
    own = ("weights", "covariances", "chances", "n_levels")
    means = mixture.means - origin[layout.numbers]
    return {name: getattr(mixture, name) for name in own} | places | {"means": means}


@dataclass(frozen=True)
class MixtureRule(DensityFloors, Scored, Rule):
    """Labels by posterior probability in a mixture. `cluster` are its components' clusters."""

    form: ClassVar[str] = "mixture"
    shared: ClassVar[str] = "the posterior probability of its cluster in the mixture"
    meanings: ClassVar[Mapping[str, str]] = LevelRule.meanings

    cluster: Annotated[np.ndarray, ClustersField("int32", "K")]

    @classmethod
    def of(
        cls,
        mixture: NormalMixture,
        layout: PreparedLayout,
        origin: np.ndarray,
        cluster: np.ndarray,
        scored: dict[str, Any],
    ) -> Self:
        """Return the rule of a mixture with the clusters (K,) of its components.

        `origin` (D,) is subtracted from the means, since prepared rows are relative to it. `scored`
        are the fields of `Scored` for latent variables.
        """
        fields = _of_mixture(mixture, layout, origin)
        rule = cls(**fields, cluster=cluster.astype(np.int32), **scored)
        return cast(Self, of_latent(rule, layout))

    @property
    def n_clusters(self) -> int:
        """Number of clusters; each has one or more components."""
        return int(self.cluster.max()) + 1

    def labels(self, Z: np.ndarray) -> np.ndarray:
        return self._labeller.labels(Z)

    def labels_and_densities(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._labeller.labels_and_densities(Z)

    def shares(self, Z: np.ndarray) -> np.ndarray:
        """Return the posterior probabilities (n, k) float32 of clusters in prepared rows Z."""
        return self._labeller.shares(Z)

    @cached_property
    def _labeller(self) -> MixtureLabeller:
        places = self.numbers, self.absent, self.levels
        return MixtureLabeller(self.mixture, *places, self.cluster)


@dataclass(frozen=True)
class FlooredLandmarkRule(DensityFloors, LandmarkRule):
    """Labels by the nearest landmark, with a floor of the density in a mixture of the clusters."""

    form: ClassVar[str] = "floored-landmarks"

    @classmethod
    def of_clusters(
        cls, rule: LandmarkRule, mixture: NormalMixture, layout: PreparedLayout, origin: np.ndarray
    ) -> Self:
        """Return the rule with a mixture whose components are its clusters."""
        return cls(**rule.field_values(), **_of_mixture(mixture, layout, origin))

    def labels_and_densities(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.labels(Z), self._densities.labels_and_densities(Z)[1]

    @cached_property
    def _densities(self) -> MixtureLabeller:
        places = self.numbers, self.absent, self.levels
        return MixtureLabeller.of_components(self.mixture, *places)


def of_latent(rule: Rule, layout: PreparedLayout) -> Rule:
    """Return a rule for latent variables as a rule for prepared rows; other columns weigh 0."""

    def wide(directions: np.ndarray) -> np.ndarray:
        out = np.zeros((len(directions), layout.width), np.float32)
        out[:, layout.latent] = directions
        return out

    names = [name for name in ("components", "axes", "plane_axes") if hasattr(rule, name)]
    changed: dict[str, Any] = {name: wide(getattr(rule, name)) for name in names}
    return replace(rule, **changed)  # type: ignore[type-var]
