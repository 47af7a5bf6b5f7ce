"""Reasons of low scores: the columns in which a row differs from the rows of its cluster.

A column counts twice, or a group of columns that belong together. The row, with the cluster's
typical value in that column, may come nearer to a usual score; and the typical row, with the row's
value there, may fall from one. The first alone says nothing where two columns are far off, for
either keeps the row outside; the second alone nothing where only the combination is odd.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

PIECE_BYTES = 2**20
"""Of the rows that are scored at a time."""

LOWEST = 0.01
"""Share of the rows, by their scores, that are explained where there are no outliers."""


@dataclass(frozen=True)
class Typical:
    """Usual values and scores of the pilot's rows.

    `values` (k, d) float64 are the medians of every column of prepared rows in every cluster;
    `score` is the median of the scores: whatever is above it is usual. Rows with a score below
    `least` are explained; it is 0 where these are the outliers.
    """

    values: np.ndarray
    score: float
    least: float

    @classmethod
    def of(
        cls, Z: np.ndarray, labelled: Mapping[str, np.ndarray], k: int, has_outliers: bool
    ) -> Typical:
        """Return what is typical of prepared rows Z (m, d) with their labels and scores.

        Rows of low scores are left out, and a cluster that has no others is like all rows.
        """
        labels, scores = labelled["label"], labelled["score"]
        if not np.isfinite(scores).all():
            scores = np.zeros(len(Z))
        low = 0.0 if has_outliers else np.quantile(scores, LOWEST, method="lower")
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
    """Return how much each group of columns takes rows from their typical rows, (m, g) float64.

    Parameters
    ----------
    scores
        Gives the scores (n,) of rows (n, d).
    Z : ndarray of shape (m, d), float32 or float64
    usual : ndarray of shape (m, d)
        The typical row of each, of the same type.
    top : float
        A score that is as usual; higher ones count as this.
    firsts : ndarray of shape (g,), int
        The first column of each group, rising from 0; a group goes up to the next.

    """

    def capped(rows: np.ndarray) -> np.ndarray:
        return np.minimum(scores(rows).astype(np.float64), top)

    found = np.zeros((len(Z), len(firsts)))
    own, whole = capped(Z), capped(usual)
    group_of = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=Z.shape[1]))
    i, g = np.nonzero(np.logical_or.reduceat(usual != Z, firsts, axis=1))
    step = max(1, PIECE_BYTES // Z[:1].nbytes)
    for first in range(0, len(i), step):
        rows, groups = i[first : first + step], g[first : first + step]
        changed = group_of == groups[:, None]
        mended = np.where(changed, usual[rows], Z[rows])
        spoilt = np.where(changed, Z[rows], usual[rows])
        gained, lost = capped(mended) - own[rows], whole[rows] - capped(spoilt)
        found[rows, groups] = 0.5 * (gained + lost)
    return found
