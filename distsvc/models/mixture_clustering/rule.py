"""The rule of the algorithm "mixture", and outlier limits of log densities."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Self

import numpy as np
from scipy.special import gammaincinv

from distsvc.errors import DataError
from distsvc.models.mixture.density import NormalMixture
from distsvc.models.mixture.labeller import MixtureLabeller
from distsvc.models.rows.outlier_shares import SHARES_OUTSIDE
from distsvc.models.rules.fields import ArrayField
from distsvc.models.rules.rule import Rule, ScoreWords


def density_tails(densities: np.ndarray, labels: np.ndarray, k: int, p: int) -> np.ndarray:
    """Return the median, tail length and outlier limit of each cluster, as an array (3, k).

    They are computed from the log `densities` (m,) of rows with the `labels` (m,), in a mixture of
    p numbers. Their meaning is explained in `ComponentRule`. For small clusters, the medians over
    all larger clusters are returned.
    """
    sizes = np.bincount(labels, minlength=k)
    large = sizes >= SHARES_OUTSIDE.min_size * len(labels) / max((sizes > 0).sum(), 1)
    found = np.zeros((3, k))
    for c in np.flatnonzero(large):
        found[:, c] = _tail(np.sort(densities[labels == c]), max(p, 1))
    found[:, ~large] = np.median(found[:, large], axis=1)[:, None]
    return found


def _tail(densities: np.ndarray, p: int) -> tuple[float, float, float]:
    """Return three statistics of ascending log densities (m,) of one cluster with p numbers.

    They are the median, the length of the lower tail in nats, and the distance of the outlier limit
    below the median in tail lengths.
    """
    usual, outside = SHARES_OUTSIDE.tail, SHARES_OUTSIDE.outside
    share, inside = SHARES_OUTSIDE.first_tail, densities
    for number in range(4):  # each round skips the outliers of the previous round
        middle, low = np.median(inside), np.quantile(inside, share)
        unit = density_depth(usual, p) / density_depth(share, p)
        tail = max(float(middle - low) * unit, SHARES_OUTSIDE.min_unit)
        limit = density_depth(outside, p) / density_depth(usual, p)
        if number == 0:
            share = (usual - outside) / (1.0 - outside)
        inside = densities[densities >= middle - limit * tail]
    return float(middle), tail, limit


def density_depth(share: float, p: int) -> float:
    """Return the distance from the median of a log density to its quantile `share`, in nats.

    The density is normal in p columns, and the log density is taken at rows drawn from it.
    """
    return float(gammaincinv(0.5 * p, 1.0 - share) - gammaincinv(0.5 * p, 0.5))


@dataclass(frozen=True)
class OfMixture(Rule):
    """Base class of rules that label rows by a mixture.

    The fields from `weights` to `n_levels` are the fields of a `NormalMixture`. `numbers`, `absent`
    and `levels` are indices of columns of prepared rows, as in `MixtureLabeller`.
    """

    weights: Annotated[np.ndarray, ArrayField("float64", "K", above=0.0)]
    means: Annotated[np.ndarray, ArrayField("float64", "K p", may_be_empty=True)]
    covariances: Annotated[np.ndarray, ArrayField("float64", "K s p", may_be_empty=True)]
    chances: Annotated[np.ndarray, ArrayField("float64", "K L", may_be_empty=True, above=0.0)]
    n_levels: Annotated[np.ndarray, ArrayField("int64", "q", may_be_empty=True, least=1)]
    numbers: Annotated[np.ndarray, ArrayField("int64", "p", may_be_empty=True, least=0)]
    absent: Annotated[np.ndarray, ArrayField("int64", "u", may_be_empty=True, least=0)]
    levels: Annotated[np.ndarray, ArrayField("int64", "q", may_be_empty=True, least=0)]

    @cached_property
    def mixture(self) -> NormalMixture:
        return NormalMixture(
            self.weights, self.means, self.covariances, self.chances, self.n_levels
        )

    @cached_property
    def labeller(self) -> MixtureLabeller:
        """The labeller whose clusters are the components of the mixture."""
        return MixtureLabeller(self.mixture, self.numbers, self.absent, self.levels)

    def check(self) -> None:
        p = self.means.shape[1]
        if self.covariances.shape[1] not in (1, p):
            found = self.covariances.shape[1]
            raise DataError(f"array covariances: expected 1 or {p} rows, found {found}")
        if int(self.n_levels.sum()) != self.chances.shape[1]:
            found, expected = self.chances.shape[1], int(self.n_levels.sum())
            raise DataError(f"array chances: expected {expected} levels, found {found}")
        if len(self.absent) not in (0, p):
            raise DataError(f"array absent: expected {p} columns, found {len(self.absent)}")


@dataclass(frozen=True)
class ComponentRule(OfMixture):
    """Rule that labels a row by its most probable component, and scores it by the density.

    `middles` (K,) are the clusters' medians of the log density. `tails` (K,) are the lengths of the
    lower tails, in nats. A row is an outlier if its log density is lower than the median by more
    than `limits` (K,) tails.
    """

    form: ClassVar[str] = "components"
    shared: ClassVar[str] = "the posterior probability of its component in the mixture"
    meanings: ClassVar[Mapping[str, str]] = {
        "label": "int32, >= 0: the component with the highest posterior probability; on a first "
        "run, 0 is the largest component of a sample",
        "score": "float32: log density in the mixture, relative to the row's cluster and in units "
        "of the cluster's tail; negative is outside",
        "outlier": "bool: the score is negative",
    }
    words: ClassVar[ScoreWords] = ScoreWords(
        meaning="The score is the logarithm of the mixture's density at a row, relative to the "
        "rows of its cluster. One unit is the distance from the median to the 5 % quantile of the "
        "log densities in the cluster. The score has no lower bound.",
        axis="score by density; negative is outside every cluster",
    )

    middles: Annotated[np.ndarray, ArrayField("float64", "K")]
    tails: Annotated[np.ndarray, ArrayField("float64", "K", least=SHARES_OUTSIDE.min_unit)]
    limits: Annotated[np.ndarray, ArrayField("float64", "K", above=0.0)]

    @classmethod
    def of(
        cls,
        mixture: NormalMixture,
        places: tuple[np.ndarray, np.ndarray, np.ndarray],
        Z: np.ndarray,
    ) -> Self:
        """Return the rule of a mixture; its outlier limits are fitted to prepared rows Z (m, d).

        `places` are the fields `numbers`, `absent` and `levels`.
        """
        posterior, densities = MixtureLabeller(mixture, *places)(Z)
        labels = posterior.argmax(axis=1)
        tails = density_tails(densities[:, 1], labels, mixture.n_components, len(places[0]))
        return cls(
            mixture.weights, mixture.means, mixture.covariances, mixture.chances,
            mixture.n_levels, *places, *tails,
        )  # fmt: skip

    @property
    def n_clusters(self) -> int:
        return len(self.weights)

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        posterior, densities = self.labeller(Z)
        labels = posterior.argmax(axis=1).astype(np.int32)
        score = self._scores(labels, densities[:, 1]).astype(np.float32)
        return {"label": labels, "score": score, "outlier": score < 0.0}

    def shares(self, Z: np.ndarray) -> np.ndarray:
        return self.labeller.shares(Z)

    def unrounded_scores(self, Z: np.ndarray) -> np.ndarray:
        posterior, densities = self.labeller(Z)
        return self._scores(posterior.argmax(axis=1), densities[:, 1])

    def log_densities(self, Z: np.ndarray) -> np.ndarray:
        """Return the log densities (n,) of the known values in prepared rows Z (n, d)."""
        return self.labeller(Z)[1][:, 0]

    def check(self) -> None:
        super().check()
        if self.covariances.shape[1] > 1:
            try:
                np.linalg.cholesky(self.covariances)
            except np.linalg.LinAlgError:
                raise DataError("array covariances: expected positive definite matrices") from None

    def _scores(self, labels: np.ndarray, densities: np.ndarray) -> np.ndarray:
        below = (self.middles[labels] - densities) / self.tails[labels]
        return np.asarray(self.limits[labels] - below)
