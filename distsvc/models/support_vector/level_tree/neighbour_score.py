"""Outlier scores by the distances to nearest neighbours (Angiulli and Pizzuti 2002).

A score depends on the root mean square of these distances; Angiulli and Pizzuti use their sum.
Neighbours are searched among a sample of the table, as in Sugiyama and Borgwardt (2013).

In a normal cluster, the logarithm of this mean distance is about normal above its median, in any
number of columns. So the median and one quantile of a cluster estimate how many of its rows lie
beyond a distance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from distsvc.kernels.nearest import log_nearness
from distsvc.models.rows.outlier_shares import SHARES_OUTSIDE

POINTS, SCORE_NEIGHBOURS = 500, 35
"""Number of rows among which neighbours are searched, and number of neighbours."""


@dataclass(frozen=True)
class NeighbourScore:
    """Score of rows by near rows, negative outside.

    Nearness is minus the logarithm of the distance.
    """

    points: np.ndarray  # (q, m) float32: rows of the table, feature by feature
    least: float  # mean squared distance below which rows count as equally near: duplicates
    limit: float  # nearness below which rows are outside
    unit: float  # standard deviation of nearness in a cluster, the unit of scores

    @classmethod
    def of(
        cls,
        view: np.ndarray,
        labels: np.ndarray,
        nu: float | None,
        values: np.ndarray | None = None,
    ) -> NeighbourScore:
        """Return the score from pilot rows (m, q) float32 along the components, and their labels.

        With `nu`, the limit is set so that this share of the pilot is outside. `values` (m, q) are
        the pilot rows as they are labelled, if they are learned from otherwise, as draws.
        """
        n_points = max(min(len(view), POINTS), SCORE_NEIGHBOURS + 1)
        points = np.ascontiguousarray(np.resize(view, (n_points, view.shape[1])).T)
        tiny = float(np.finfo(np.float32).tiny)
        near = cls(points, tiny, 0.0, 1.0).unrounded(view)
        apart = np.exp(-2.0 * near[near < -0.5 * np.log(2.0 * tiny)])
        least = float(np.float32(np.quantile(apart, SHARES_OUTSIDE.tail) if apart.size else 1.0))
        near = np.minimum(near, -0.5 * np.log(least))
        inside, limit, units = np.ones(len(near), bool), 0.0, np.ones(1)
        for tail in (SHARES_OUTSIDE.first_tail, SHARES_OUTSIDE.tail):
            sizes, middles, units = _usual(near[inside], labels[inside], tail)
            limit = _limit(sizes, middles, units)
            inside = near >= limit
        if nu is not None:
            near = near if values is None else cls(points, least, 0.0, 1.0).unrounded(values)
            limit = float(np.quantile(near, nu, method="lower"))
        return cls(points, least, limit, float(np.median(units)))

    def unrounded(self, view: np.ndarray) -> np.ndarray:
        """Return the scores (n,) float64 of rows (n, q) float32 along the components."""
        near = np.empty(len(view))
        log_nearness(
            np.ascontiguousarray(view), self.points, SCORE_NEIGHBOURS, np.float32(self.least), near
        )
        near -= self.limit
        near /= self.unit
        return np.maximum(near, -3e38)  # finite in float32

    def __call__(self, view: np.ndarray) -> np.ndarray:
        """Return `unrounded` as float32."""
        return self.unrounded(view).astype(np.float32)


def _usual(
    near: np.ndarray, labels: np.ndarray, tail: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sizes, medians and standard deviations (k,) of nearness (m,) by cluster.

    Small clusters are left out.
    """
    sizes = np.bincount(labels)
    large = np.flatnonzero(sizes >= SHARES_OUTSIDE.min_size * sizes[sizes > 0].mean())
    found = np.array([np.quantile(near[labels == c], (0.5, tail)) for c in large])
    units = (found[:, 1] - found[:, 0]) / float(ndtri(tail))
    return sizes[large], found[:, 0], np.maximum(units, SHARES_OUTSIDE.min_unit)


def _limit(sizes: np.ndarray, middles: np.ndarray, units: np.ndarray) -> float:
    """Return the nearness below which `SHARES_OUTSIDE.outside` of the clusters' rows is expected.

    The limit is more than a standard deviation below every median, where the normal model fits.
    """
    outside = SHARES_OUTSIDE.outside
    below = float((middles + float(ndtri(0.01 * outside)) * units).min())
    above = float((middles - units).min())
    for _ in range(50):
        limit = 0.5 * (below + above)
        if sizes @ ndtr((limit - middles) / units) > outside * sizes.sum():
            above = limit
        else:
            below = limit
    return below
