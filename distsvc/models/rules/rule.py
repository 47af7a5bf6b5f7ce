"""The base class of rules: the part of a model that is saved, and that labels rows.

A rule is a few arrays and JSON values: all that workers and later runs need. It takes prepared
rows, which are scaled or mapped by the models of columns.

Pulls explain low scores: how much does a column, or a group of columns, make a row an outlier? A
pull is the mean of two effects. The gain is how much the row's score would rise if it had its
cluster's typical value in the column. The loss is how much a typical row's score would fall if it
had the row's value. The gain alone would miss a column if another column keeps the row outside,
too. The loss alone would miss unusual combinations of usual values.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from distsvc.models.rules.fields import Facts, Field, check_fields, forms_of

REASON_BYTES = 2**20
"""Maximum size of a block of rows to score, in bytes."""


@dataclass(frozen=True)
class Typical:
    """Typical values of each cluster, and usual scores, with which pulls compare a row."""

    values: np.ndarray  # (k, d) float64: medians of the prepared columns in each cluster
    score: float  # median score; for pulls, all higher scores count as equal to it
    least: float  # score below which reasons are computed; 0 if the model has outliers

    @classmethod
    def of(
        cls, Z: np.ndarray, labelled: Mapping[str, np.ndarray], k: int, has_outliers: bool
    ) -> Self:
        """Return the typical values of prepared pilot rows Z (m, d).

        `labelled` has the columns ``label`` and ``score`` of the rows. Medians are over rows with
        a score of at least the field `least`. A cluster without such rows has the medians over all
        clusters.
        """
        labels, scores = labelled["label"], labelled["score"]
        if not np.isfinite(scores).all():
            scores = np.zeros(len(Z))
        # Without outliers, the rows with the lowest 1 % of scores get reasons.
        low = 0.0 if has_outliers else np.quantile(scores, 0.01, method="lower")
        usual = scores >= low if (scores >= low).any() else np.ones(len(Z), bool)
        values = np.tile(np.median(Z[usual], axis=0), (k, 1)).astype(np.float64)
        for c in np.unique(labels[usual]):
            values[c] = np.median(Z[usual & (labels == c)], axis=0)
        return cls(values, float(np.median(scores[usual])), float(low))


@dataclass(frozen=True)
class ScoreWords:
    """Words that describe a rule's score and outliers on the report page.

    `meaning` is a paragraph about the score, and `axis` the title of its axis. If both are empty,
    the page describes the decision value f(x).
    """

    has_outliers: bool = True
    has_clusters: bool = True
    meaning: str = ""
    heading: str = "Inside or outside"  # title of the scores' histogram
    axis: str = ""
    boundary: float | None = 0.0  # limit between the scores of rows inside and outside, if any


class Rule(ABC):
    """Base class of rules, which label prepared rows.

    A subclass is a frozen dataclass of arrays and JSON values, annotated with their checks:
    `ArrayField` or `Fact`. The dimension ``d`` of an array is the number of prepared columns.
    """

    form: ClassVar[str]  # the rule's name in saved models
    float64: ClassVar[bool] = False  # whether prepared rows are float64 instead of float32
    meanings: ClassVar[Mapping[str, str]]  # words about the columns label, score and outlier
    shared: ClassVar[str] = ""  # words that define `shares`; empty if there are none
    words: ClassVar[ScoreWords] = ScoreWords()
    quick_pulls: ClassVar[bool] = False  # whether `pulls` is about as fast as `label`
    beside: ClassVar[Mapping[str, Field]] = {}  # checks of values that are saved beside the rule

    @property
    @abstractmethod
    def n_clusters(self) -> int:
        """Number k of clusters; labels are from 0 to k - 1."""

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns to publish for prepared rows Z (n, d), by name.

        All rules have ``label`` (n,) int32, ``score`` (n,) float32 and ``outlier`` (n,) bool; some
        have more columns. A row's values depend on no other row. A subclass implements either this
        method, or `labels` and `unrounded_scores`.
        """
        score = self.scores(Z)
        return {"label": self.labels(Z), "score": score, "outlier": score < 0.0}

    def labels(self, Z: np.ndarray) -> np.ndarray:
        return self.label(Z)["label"]

    def scores(self, Z: np.ndarray) -> np.ndarray:
        return self.unrounded_scores(Z).astype(np.float32, copy=False)

    def shares(self, Z: np.ndarray) -> np.ndarray:
        """Return the membership of prepared rows Z (n, d) in all clusters, (n, k) float32.

        A row's shares are at least 0 and sum to 1; `shared` defines them. A rule with an empty
        `shared` has no shares.
        """
        raise NotImplementedError

    def plane(self, Z: np.ndarray) -> np.ndarray | None:
        """Return positions (n, 2) of prepared rows Z (n, d) in a plane that separates clusters.

        Return None if the rule has no such plane.
        """
        return None

    def seen(self, Z: np.ndarray) -> np.ndarray:
        """Return the coordinates (n, q) of prepared rows Z (n, d) that decide their labels."""
        return Z

    def unrounded_scores(self, Z: np.ndarray) -> np.ndarray:
        """Return the scores (n,) of prepared rows Z (n, d) before they are rounded to float32."""
        return self.label(Z)["score"]

    def pulls(
        self, Z: np.ndarray, labels: np.ndarray, typical: Typical, firsts: np.ndarray
    ) -> np.ndarray:
        """Return the pull (n, g) float64 of each group of columns on rows Z (n, d).

        A pull explains a low score, in units of the score; the module's docstring defines it. It is
        negative if a group makes a row less of an outlier. `labels` (n,) are the rows' clusters,
        and `firsts` (g,) the first columns of the groups. This method computes about 2 g scores for
        each row.
        """
        usual = typical.values[labels].astype(Z.dtype)
        return pulls(self.unrounded_scores, Z, usual, typical.score, firsts)

    def arrays(self) -> dict[str, np.ndarray]:
        return {n: v for n, v in self.field_values().items() if isinstance(v, np.ndarray)}

    def facts(self) -> Facts:
        return {n: v for n, v in self.field_values().items() if not isinstance(v, np.ndarray)}

    @classmethod
    def restored(
        cls, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray], d: int | None = None
    ) -> Self:
        """Return a saved rule from its JSON values `facts` and its `arrays`, both by field.

        DataError is raised if a field is missing or wrong. `d` is the number of prepared columns,
        if it is known.
        """
        sizes = {} if d is None else {"d": d}
        # Fields with a default may be lacking in models of earlier versions.
        factories = {f.name: f.default_factory for f in fields(cls)}  # type: ignore[arg-type]
        defaults = {name: make() for name, make in factories.items() if make is not MISSING}
        known = {**defaults, **facts, **arrays}
        check_fields(forms_of(cls), known, sizes)
        check_fields({n: of for n, of in cls.beside.items() if n in known}, known, sizes)
        rule = cls(**{f.name: known[f.name] for f in fields(cls)})  # type: ignore[arg-type]
        rule.check()
        return rule

    def check(self) -> None:  # noqa: B027 - most rules have nothing more to check
        """Raise DataError if fields that are valid one by one contradict each other."""

    def field_values(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]


def pulls(
    scores: Callable[[np.ndarray], np.ndarray],
    Z: np.ndarray,
    usual: np.ndarray,
    top: float,
    firsts: np.ndarray,
) -> np.ndarray:
    """Return the pull (m, g) float64 of each group of columns on rows Z (m, d).

    The module's docstring defines pulls. ``scores(rows)`` returns the scores of any rows; scores
    above `top` are clipped to it. `usual` (m, d) are the typical rows of the clusters of Z. Groups
    start at the columns `firsts` (g,), ascending from 0.
    """

    def capped(rows: np.ndarray) -> np.ndarray:
        return np.minimum(scores(rows).astype(np.float64), top)

    found = np.zeros((len(Z), len(firsts)))
    own, whole = capped(Z), capped(usual)
    group_of = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=Z.shape[1]))
    i, g = np.nonzero(np.logical_or.reduceat(usual != Z, firsts, axis=1))
    step = max(1, REASON_BYTES // Z[:1].nbytes)
    for first in range(0, len(i), step):
        rows, groups = i[first : first + step], g[first : first + step]
        changed = group_of == groups[:, None]
        mended = np.where(changed, usual[rows], Z[rows])
        spoilt = np.where(changed, Z[rows], usual[rows])
        gained, lost = capped(mended) - own[rows], whole[rows] - capped(spoilt)
        found[rows, groups] = 0.5 * (gained + lost)
    return found
