"""Reasons of low scores: columns in which a row differs from the rows of its cluster.

The pull of a column, or of a group of columns, is the mean of two effects. One is the gain in score
if the row had its cluster's typical value in the column. The other is the loss if the typical row
had the row's value. The gain misses columns if another column keeps the row outside, too. The loss
misses unusual combinations of usual values.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

REASON_BYTES = 2**20
"""Maximum size of a block of rows to score, in bytes."""


@dataclass(frozen=True)
class Typical:
    """Usual values and scores of the pilot's rows."""

    values: np.ndarray  # (k, d) float64: medians of the prepared columns in each cluster
    score: float  # median score; higher scores are usual
    least: float  # rows with lower scores get reasons; 0 if the model has outliers

    @classmethod
    def of(
        cls, Z: np.ndarray, labelled: Mapping[str, np.ndarray], k: int, has_outliers: bool
    ) -> Self:
        """Return the typical values of prepared rows Z (m, d) with their labels and scores.

        Rows with low scores are excluded. A cluster without other rows gets the medians of the
        remaining table.
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


def pulls(
    scores: Callable[[np.ndarray], np.ndarray],
    Z: np.ndarray,
    usual: np.ndarray,
    top: float,
    firsts: np.ndarray,
) -> np.ndarray:
    """Return the pull (m, g) float64 of each group of columns on rows Z (m, d); see the module.

    `usual` (m, d) are the typical rows of their clusters. Scores above the usual score `top` are
    clipped to it. Groups start at the columns `firsts` (g,), ascending from 0.
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
