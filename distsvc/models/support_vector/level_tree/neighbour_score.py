"""Outlier scores by the distances to nearest neighbours (Angiulli and Pizzuti 2002).

A score depends on the root mean square of these distances; Angiulli and Pizzuti use their sum.
Neighbours are searched among a sample of the table, as in Sugiyama and Borgwardt (2013).

In a normally distributed cluster, the logarithms of these mean distances are about normal above
their median, in any number of columns. So the median and a tail quantile estimate the share of the
cluster's rows beyond a distance.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri

from distsvc.kernels.nearest import log_nearness
from distsvc.models.rows.outlier_shares import SHARES_OUTSIDE

POINTS, SCORE_NEIGHBOURS = 500, 35
"""Number of rows among which neighbours are searched, and number of neighbours."""


@dataclass(frozen=True)
class NeighbourScore:
    """Score of rows by their nearness to other rows, negative outside.

    Nearness is minus the logarithm of the root mean square distance to near rows.
    """

    points: np.ndarray  # (q, m) float32: rows of the table, feature by feature
    least: float  # lower bound of mean squared distances, for duplicates
    limit: float  # nearness below which rows are outside
    unit: float  # unit of scores: standard deviation of nearness in a cluster

    @classmethod
    def of(
        cls,
        view: np.ndarray,
        labels: np.ndarray,
        nu: float | None,
        medians: np.ndarray | None = None,
    ) -> Self:
        """Fit a score to pilot rows (m, q) float32 along the components, with labels (m,).

        With `nu`, the limit is set so that this share of the pilot is outside. If pilot rows are
        random draws inside cells, `medians` (m, q) are the same rows at the medians of the cells.
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
            near = near if medians is None else cls(points, least, 0.0, 1.0).unrounded(medians)
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
    """Return the size of each large cluster, and the median and deviation of nearness in it."""
    sizes = np.bincount(labels)
    large = np.flatnonzero(sizes >= SHARES_OUTSIDE.min_size * sizes[sizes > 0].mean())
    found = np.array([np.quantile(near[labels == c], (0.5, tail)) for c in large])
    units = (found[:, 1] - found[:, 0]) / float(ndtri(tail))
    return sizes[large], found[:, 0], np.maximum(units, SHARES_OUTSIDE.min_unit)


def _limit(sizes: np.ndarray, middles: np.ndarray, units: np.ndarray) -> float:
    """Return the nearness below which a share `SHARES_OUTSIDE.outside` of all rows is expected.

    Nearness is taken as normal in each cluster (k,), with the medians `middles` and deviations
    `units`. The result is a deviation or more below every median, where nearness is about normal.
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
