"""The density of one column of numbers: which scale fits best, and how many peaks there are.

A stored value stands for a cell: the interval that rounds to it. The likelihood of a row is the
probability of its cell. A cell has a probability on every scale, so the BICs of scales are
comparable without a Jacobian.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit, log_ndtr, ndtr, ndtri

from distsvc.kernels.mixture import MIN_RELATIVE_SD, fit_cells

MAX_CELLS = 150
"""Maximum number of cells of a column; if it has more values, neighbouring ones share a cell."""

MAX_NORMALS = 3
"""Maximum number of normal components in a column's density."""

DENSITY_STEPS, DENSITY_TOLERANCE = 80, 1e-2
"""Maximum EM iterations, and the gain in nats below which they end."""

DENSITY_ROUNDING = 1e-9
"""Maximum change of a density between cells that counts as rounding, relative to its maximum."""

ORIGIN_GRID = 4096.0
"""Grid step of the origin in `ColumnDensity.moments`, relative to the spread of the density.

Squares are summed about a grid point near the mean, so that the variance keeps its digits.
"""

KNOTS_PER_NORMAL = 64
"""Number of points for each normal at which a distribution function is tabulated."""


def _root(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0.0, -np.inf, np.sqrt(np.maximum(x, 0.0)))


def _log(x: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(x, 0.0))


def _logit(x: np.ndarray) -> np.ndarray:
    share = np.clip(x, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.log(share) - np.log1p(-share)


SCALES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "identity": lambda x: x,
    "root": _root,
    "log": _log,
    "logit": _logit,
}
"""Monotone scales by name; values outside a scale's domain become infinite."""


INVERSES: dict[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "identity": lambda place: (place, np.ones_like(place)),
    "root": lambda place: (place * np.abs(place), 2.0 * np.abs(place)),
    "log": lambda place: (np.exp(place), np.exp(place)),
    "logit": lambda place: (expit(place), expit(place) * (1.0 - expit(place))),
}
"""Inverses of `SCALES`: functions that return values and derivatives at places on the scale."""


@dataclass(frozen=True)
class Cells:
    """The cells of a column, with row counts. The first and the last cell extend to infinity."""

    edges: np.ndarray  # (m - 1,) float64: borders between neighbouring cells
    counts: np.ndarray  # (m,) float64: number of rows in each cell
    low: float  # minimum of the column
    high: float  # maximum of the column

    @classmethod
    def of(cls, values: np.ndarray, counts: np.ndarray) -> Self:
        """Return the cells of distinct ascending values (u,) with their counts (u,)."""
        middles = values[:-1] + np.diff(values) / 2.0
        low, high = float(values[0]), float(values[-1])
        if len(values) <= MAX_CELLS:
            return cls(middles, counts.astype(np.float64), low, high)
        before = np.cumsum(counts)[:-1]
        wanted = before[-1] * np.arange(1, MAX_CELLS) / MAX_CELLS
        cuts = np.unique(np.minimum(np.searchsorted(before, wanted), len(middles) - 1))
        sums = np.add.reduceat(counts, np.concatenate([[0], cuts + 1]))
        return cls(middles[cuts], sums.astype(np.float64), low, high)


def step_of(values: np.ndarray, counts: np.ndarray) -> float:
    """Return the step to which a column is rounded, or 0 if the column is continuous.

    The step is the commonest gap between neighbouring distinct values (u,) with `counts` (u,) rows.
    A column is continuous if it has more distinct values than half of its rows.
    """
    if len(values) < 2 or 2 * len(values) > counts.sum():
        return 0.0
    gaps = np.diff(values)
    _, first, place = np.unique(gaps.astype(np.float32), return_index=True, return_inverse=True)
    rows = np.minimum(counts[1:], counts[:-1])
    return float(gaps[first[np.argmax(np.bincount(place, rows))]])


@dataclass(frozen=True)
class ColumnDensity:
    """The density of a column on a scale: a mixture of normals, or uniform."""

    scale: str  # key of `SCALES`
    weights: np.ndarray  # (k,) float64
    means: np.ndarray  # (k,) float64: means of the normals, or the lower end if uniform
    sds: np.ndarray  # (k,) float64: standard deviations, or the upper end if uniform
    bic: float  # log-likelihood of the cells - 0.5 n_parameters log(rows)
    uniform: bool = False

    def knots(self) -> tuple[np.ndarray, np.ndarray]:
        """Return ascending places (g,) on the `scale`, and their normal scores (g,).

        A normal score is the quantile of a standard normal with the same probability below it.
        """
        if self.uniform:
            low, high = self.means[0], self.sds[0]
            scores = np.linspace(-6.0, 6.0, 2 * KNOTS_PER_NORMAL)
            places = low + (high - low) * ndtr(scores)
            rising = np.concatenate([[True], np.diff(places) > 0.0])  # the outermost may round
            return places[rising], scores[rising]
        z = np.linspace(-7.0, 7.0, KNOTS_PER_NORMAL if len(self.means) > 1 else 2)
        places = np.unique((self.means + self.sds * z[:, None]).ravel())
        below = self._log_mass(places)
        above = self._log_mass(places, upper=True)
        lower = below < above
        with np.errstate(under="ignore"):
            scores = np.where(lower, ndtri(np.exp(below)), -ndtri(np.exp(above)))
        usable = np.isfinite(scores)
        places, scores = places[usable], scores[usable]
        rising = np.concatenate([[True], np.diff(np.maximum.accumulate(scores)) > 1e-9])
        return places[rising], scores[rising]

    def _log_mass(self, places: np.ndarray, upper: bool = False) -> np.ndarray:
        """Return the log probabilities (g,) below `places` (g,), or above them if `upper`."""
        z = (places[:, None] - self.means) / self.sds
        terms = log_ndtr(-z if upper else z) + np.log(self.weights)
        top = terms.max(axis=1)
        return np.asarray(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))

    def is_unimodal(self, cells: Cells) -> bool:
        """Return True if the density has at most one peak between the two outermost cells.

        The places of rows in the outermost cells are unknown, so a peak there means nothing.
        """
        edges = SCALES[self.scale](cells.edges)
        if self.uniform or len(self.means) == 1 or len(edges) < 4:
            return True
        below = ndtr((edges[:, None] - self.means) / self.sds) @ self.weights
        density = np.diff(below) / np.diff(edges)
        steps = np.diff(density)
        rises = steps[np.abs(steps) > DENSITY_ROUNDING * density.max()] > 0.0
        return not np.any(~rises[:-1] & rises[1:])

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of the density on its scale, such as the logarithm."""
        # Squares of a distant mean would cancel the variance, so sums are about an origin nearby.
        # It is 0 for most columns.
        grid = ORIGIN_GRID * float(np.ptp(self.means) + self.sds.max())
        origin = round(float(self.means[0]) / grid) * grid
        apart = self.means - origin
        mean = float(self.weights @ apart)
        square = float(self.weights @ (self.sds**2 + apart**2)) - mean**2
        return origin + mean, float(np.sqrt(max(square, 0.0)))


def best_density(cells: Cells, scales: list[str]) -> ColumnDensity | None:
    """Fit several densities on each of the `scales`, and return the density with the highest BIC.

    Another scale must have a higher BIC than "identity" twice: with its best density, and with a
    single normal. Return None if no scale is defined for all edges of cells.
    """
    best: ColumnDensity | None = None
    plain = -np.inf  # BIC of one normal on the scale "identity"
    for scale in scales:
        edges = SCALES[scale](cells.edges)
        found = list(_densities(cells, edges, scale)) if np.isfinite(edges).all() else []
        if not found:
            continue
        own = max(found, key=lambda density: density.bic)
        if best is None or (own.bic > best.bic and found[0].bic > plain):
            best = own
        if scale == "identity":
            plain = found[0].bic
    return best


def _densities(cells: Cells, edges: np.ndarray, scale: str) -> Iterator[ColumnDensity]:
    """Yield densities of 1 to `MAX_NORMALS` normals, and on "identity" also a uniform density.

    `edges` (m - 1,) are the edges of cells on the scale.
    """
    counts, n = cells.counts, float(cells.counts.sum())
    share = np.cumsum(counts)[:-1] / n
    z = ndtri(np.clip(share, 0.5 / n, 1.0 - 0.5 / n))
    if len(edges) < 2:
        yield ColumnDensity(
            scale, np.ones(1), edges - z, np.ones(1), float(counts @ np.log(counts / n))
        )
        return
    # The first normal: a weighted regression of the edges on their normal scores.
    weight = share * (1.0 - share)
    weight = weight / weight.sum()
    z_mean, e_mean = float(weight @ z), float(weight @ edges)
    sd = float(weight @ ((z - z_mean) * (edges - e_mean)) / (weight @ (z - z_mean) ** 2))
    if not sd > 0.0:
        return
    mean = e_mean - sd * z_mean
    closed = np.concatenate([[-np.inf], edges, [np.inf]])
    for k in range(1, MAX_NORMALS + 1):
        parameters = 3 * k - 1
        if parameters > max(2, len(edges)):
            break
        starts = ndtri((np.arange(k) + 0.5) / k) if k > 1 else np.zeros(1)
        w, m, s = np.full(k, 1.0 / k), mean + sd * starts, np.full(k, sd / k**0.7)
        likelihood = fit_cells(
            closed, counts, w, m, s, MIN_RELATIVE_SD * sd, DENSITY_STEPS, DENSITY_TOLERANCE
        )
        yield ColumnDensity(scale, w, m, s, likelihood - 0.5 * parameters * np.log(n))
    if scale == "identity":
        widths = np.diff(edges)
        gap = (cells.high - cells.low) / n  # the mean gap, added beyond the extremes
        # An outermost cell is as wide as the next one, or less if its value is near its edge.
        low = max(edges[0] - widths[0], 2.0 * cells.low - edges[0])
        high = min(edges[-1] + widths[-1], 2.0 * cells.high - edges[-1])
        low, high = min(low, cells.low - gap), max(high, cells.high + gap)
        parts = np.diff(np.concatenate([[low], edges, [high]])) / (high - low)
        bic = float(counts @ np.log(parts)) - np.log(n)
        yield ColumnDensity(scale, np.ones(1), np.array([low]), np.array([high]), bic, uniform=True)
