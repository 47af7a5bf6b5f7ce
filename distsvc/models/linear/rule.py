"""Rules of linear models, whose boundary between inside and outside is a hyperplane or a ball."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from distsvc.kernels.linear import closeness, products
from distsvc.models.rows.scaling import check_finite
from distsvc.models.rules.fields import ArrayField, Fact, real
from distsvc.models.rules.rule import Rule, ScoreWords, Typical

DECISION_AXIS = "decision value; negative is outside"


@dataclass(frozen=True)
class LinearRule(Rule):
    """Base of the rules of a hyperplane and a ball, which have one cluster.

    `weights` are the hyperplane's w, or the ball's centre. `offset` is rho, or -R^2 of the ball. A
    row is outside if its decision value in `values` is lower than `offset`. `mean` is the mean of
    the prepared rows.
    """

    float64: ClassVar[bool] = True
    quick_pulls: ClassVar[bool] = True

    weights: Annotated[np.ndarray, ArrayField("float64", "d")]
    mean: Annotated[np.ndarray, ArrayField("float64", "d")]
    offset: Annotated[float, real()]
    ball: Annotated[bool, Fact(Literal[False])] = False

    @property
    def n_clusters(self) -> int:
        return 1

    def labels(self, Z: np.ndarray) -> np.ndarray:
        return np.zeros(len(Z), np.int32)

    def scores(self, Z: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            score = self.unrounded_scores(Z).astype(np.float32)
        check_finite(score)
        return score

    def values(self, Z: np.ndarray) -> np.ndarray:
        """Return the decision values (n,) float64 of rows Z (n, d) float64, without the offset."""
        return scores(Z, self.weights, self.ball)

    def unrounded_scores(self, Z: np.ndarray) -> np.ndarray:
        return self.values(Z) - self.offset

    def pulls(
        self, Z: np.ndarray, labels: np.ndarray, typical: Typical, firsts: np.ndarray
    ) -> np.ndarray:
        """Return each column group's contribution to a row being outside, (n, g) float64.

        For a ball, it is the group's part of the squared distance from the centre. For a
        hyperplane, it is the group's part of (mean of w.x) - w.x, which may be negative. Group i of
        the g groups begins at column firsts[i].
        """
        each = (Z - self.weights) ** 2 if self.ball else (self.mean - Z) * self.weights
        return np.add.reduceat(each, firsts, axis=1)


@dataclass(frozen=True)
class OneClassRule(LinearRule):
    """Rule of a hyperplane that separates the rows of one cluster from the origin."""

    form: ClassVar[str] = "linear-one-class"
    meanings: ClassVar[Mapping[str, str]] = {
        "label": "int32: always 0",
        "score": "float32: the decision value w.x - rho (hyperplane with normal w and offset rho); "
        "0 on the hyperplane",
        "outlier": "bool: score < 0, the row lies on the origin's side of the hyperplane",
    }
    words: ClassVar[ScoreWords] = ScoreWords(
        meaning="The decision value is w.x - rho, for a hyperplane with normal w and offset rho. "
        "It is negative on the origin's side of the hyperplane, and falls with the distance from "
        "the hyperplane.",
        axis=DECISION_AXIS,
        has_clusters=False,
    )


@dataclass(frozen=True)
class BallRule(LinearRule):
    """Rule of a ball: rows inside are one cluster."""

    form: ClassVar[str] = "linear-svdd"
    meanings: ClassVar[Mapping[str, str]] = {
        "label": "int32: always 0",
        "score": "float32: the decision value R^2 - |x - a|^2 (ball with radius R and centre a); 0 "
        "on the ball's surface",
        "outlier": "bool: score < 0, the row lies outside the ball",
    }
    words: ClassVar[ScoreWords] = ScoreWords(
        meaning="The decision value is the squared radius of the ball less the row's squared "
        "distance from its centre: negative outside.",
        axis=DECISION_AXIS,
        has_clusters=False,
    )

    ball: Annotated[bool, Fact(Literal[True])] = True


def scores(Z: np.ndarray, weights: np.ndarray, ball: bool) -> np.ndarray:
    """Return w.z (n,) for rows Z (n, d) and `weights` w, or -|z - w|^2 if `ball`; all float64."""
    found = np.empty(len(Z))
    (closeness if ball else products)(np.ascontiguousarray(Z), weights, found)
    return found
