"""Rules that label rows if columns are modelled: by a mixture, or by landmarks of a graph."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self, TypeVar

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

AnyRule = TypeVar("AnyRule", bound=Rule)


@dataclass(frozen=True)
class DensityFloors(OfMixture):
    """Base class of rules that find outliers both by near rows and by density.

    A wrong value can be usual in its column, but not beside the row's other values. So a row is
    also outside if its log density in a mixture is below its cluster's floor. A row's score is the
    minimum of its score by near rows and its log density minus the floor, in standard deviations.
    Models of earlier versions have no floors; then only near rows count. Means are relative to the
    origin of prepared rows.
    """

    words: ClassVar[ScoreWords] = replace(
        LevelRule.words,
        meaning=f"{LevelRule.words.meaning} A row is also outside if no cluster has its "
        "combination of values. The limit is the density that only one in 10^9 rows of a normal "
        "cluster falls below.",
    )

    floors: Annotated[np.ndarray, ArrayField("float64", "k", may_be_empty=True)] = field(
        default_factory=lambda: np.zeros(0), kw_only=True
    )
    spreads: Annotated[np.ndarray, ArrayField("float64", "k", above=0.0, may_be_empty=True)] = (
        field(default_factory=lambda: np.zeros(0), kw_only=True)
    )

    def with_floors(self, Z: np.ndarray) -> Self:
        """Return the rule with a minimum log density for each cluster, its floor.

        Floors are estimated from prepared rows Z. A share `SHARES_OUTSIDE.never` of the rows of a
        normal cluster lies below the floor.
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
        """Return labels (n,) of prepared rows Z (n, D), and their log densities (n,)."""

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
                    f"array {name}: expected column numbers below {d}, found a higher number"
                )
        if len(self.floors) not in (0, self.n_clusters):
            found = len(self.floors)
            raise DataError(f"array floors: expected {self.n_clusters} values, found {found}")
        super().check()


def mixture_fields(
    mixture: NormalMixture, layout: PreparedLayout, origin: np.ndarray
) -> dict[str, Any]:
    """Convert a mixture to the fields of `OfMixture`. Means become relative to `origin` (D,)."""
    places = {name: getattr(layout, name) for name in ("numbers", "absent", "levels")}
    own = ("weights", "covariances", "chances", "n_levels")
    means = mixture.means - origin[layout.numbers]
    return {name: getattr(mixture, name) for name in own} | places | {"means": means}


@dataclass(frozen=True)
class MixtureRule(DensityFloors, Scored, Rule):
    """Rule that labels rows by their posterior probabilities in a mixture."""

    form: ClassVar[str] = "mixture"
    shared: ClassVar[str] = "the posterior probability of its cluster in the mixture"
    meanings: ClassVar[Mapping[str, str]] = LevelRule.meanings

    cluster: Annotated[np.ndarray, ClustersField("int32", "K")]  # clusters of the components

    @property
    def n_clusters(self) -> int:
        return int(self.cluster.max()) + 1

    def labels(self, Z: np.ndarray) -> np.ndarray:
        return self.labeller.labels(Z)

    def labels_and_densities(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.labeller.labels_and_densities(Z)

    def shares(self, Z: np.ndarray) -> np.ndarray:
        return self.labeller.shares(Z)

    @cached_property
    def labeller(self) -> MixtureLabeller:
        places = self.numbers, self.absent, self.levels
        return MixtureLabeller(self.mixture, *places, self.cluster)


@dataclass(frozen=True)
class FlooredLandmarkRule(DensityFloors, LandmarkRule):
    """Rule that labels rows by the nearest landmark, and finds outliers also by density.

    The densities are from a mixture with one component for each cluster.
    """

    form: ClassVar[str] = "floored-landmarks"

    def labels_and_densities(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.labels(Z), self.labeller.labels_and_densities(Z)[1]


def of_latent(rule: AnyRule, layout: PreparedLayout) -> AnyRule:
    """Convert a rule of latent variables to a rule of prepared rows; other columns weigh 0."""

    def wide(directions: np.ndarray) -> np.ndarray:
        out = np.zeros((len(directions), layout.width), np.float32)
        out[:, layout.latent] = directions
        return out

    names = [name for name in ("components", "axes", "plane_axes") if hasattr(rule, name)]
    changed: dict[str, Any] = {name: wide(getattr(rule, name)) for name in names}
    return replace(rule, **changed)  # type: ignore[type-var]
