"""The map of one column of numbers: from stored values to nearly normal ones.

Learning takes random draws from the cells of stored values, because rounding would leave gaps.
Labels and scores take the medians of cells, so that equal values are mapped equally.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri

from distsvc.kernels.scaling import interpolate
from distsvc.models.columns.density import (
    INVERSES,
    MAX_CELLS,
    SCALES,
    Cells,
    ColumnDensity,
    best_density,
    step_of,
)
from distsvc.models.rows.scaling import ROBUST_BEND, ROBUST_LIMIT, compressed
from distsvc.models.rules.fields import Facts

ON_GRID = 1e-6
"""Maximum distance of a rounded value from a multiple of the step, in steps."""

MIN_BEND = 1e-6
"""Minimum range of a column, relative to its largest value, at which a root or logarithm is tried.

Below it, these scales are nearly straight lines over the column, and lose digits.
"""

MAX_RANGES = 1e12
"""Maximum distance from the learned range, in units of its length, for values outside the domain of
the scale. Values that are farther away are mapped as if they were at this distance."""

ROUNDING = 2.0**-23
"""Maximum distance of values that count as equal, relative to their size.

It is the error of two roundings to 32-bit floats.
"""


@dataclass(frozen=True)
class GivenColumn:
    """Kind and scale of a column from the job file; None if the column's values decide."""

    kind: str | None = None
    scale: str | None = None


AS_FOUND = GivenColumn()


@dataclass(frozen=True)
class NumberMap:
    """A monotone map of a column's stored numbers to a nearly normal scale.

    A column with one peak is mapped to a standard normal by its distribution function. A column
    with several peaks is only standardised on its scale, so that the peaks stay apart. Mapped
    values grow logarithmically beyond `ROBUST_LIMIT`. The arrays tabulate the map, which is
    linear between neighbouring entries.
    """

    scale: str  # key of `SCALES`
    step: float  # width of the cell of a stored value; 0 for a continuous column
    low: float  # minimum of the learned values
    high: float  # maximum of the learned values
    first_edge: float  # upper end of the cell of `low`; the lower end is -inf unless `step` is 0
    last_edge: float  # lower end of the cell of `high`; the upper end is inf unless `step` is 0
    places: np.ndarray  # (g,) float64: places on the scale
    scores: np.ndarray  # (g,) float64: normal quantiles of the probabilities below `places`
    targets: np.ndarray  # (g,) float64: mapped values; `scores` unless there are several peaks
    values: np.ndarray  # (h,) float64: stored values
    mapped: np.ndarray  # (h,) float64: mapped medians of the cells of `values`
    is_ordinal: bool = False  # whether `places` are thresholds between neighbouring values

    @classmethod
    def of(
        cls, distinct: np.ndarray, counts: np.ndarray, given: GivenColumn = AS_FOUND
    ) -> Self | None:
        """Fit the map to ascending distinct values (u,), u > 1, with counts (u,).

        Return None if no density fits.
        """
        cells = Cells.of(distinct, counts)
        step = 0.0 if given.kind == "continuous" else step_of(distinct, counts)
        if given.kind == "ordinal" and len(distinct) <= MAX_CELLS:
            return cls._ordinal(distinct, cells, step or float(np.diff(distinct).min()))
        density = best_density(cells, possible_scales(distinct, given))
        if _free_bic(cells, step, len(distinct)) > _bic_of(density):
            return cls._ordinal(distinct, cells, step)
        if density is None:
            return None
        places, scores = density.knots()
        targets = scores
        if not density.is_unimodal(cells):
            mean, sd = density.moments
            targets = (places - mean) / sd
        found = cls(density.scale, step, *_ends(distinct), places, scores, targets, *_NO_TABLE)
        return found._tabled(distinct)

    @property
    def kind(self) -> str:
        """Kind of the values: "ordinal", "continuous", "count" or "rounded"."""
        if self.is_ordinal:
            return "ordinal"
        if self.step == 0.0:
            return "continuous"
        return "count" if self.step == 1.0 and self.low >= 0.0 else "rounded"

    def describes(
        self, distinct: np.ndarray, counts: np.ndarray, given: GivenColumn = AS_FOUND
    ) -> bool:
        """Return True if this map describes new rows as well as a newly fitted map would.

        The new rows have the `distinct` values (u,) with `counts` (u,), which must be rounded to
        the step of this map. The log-likelihood of this map must reach the BIC of a map that is
        fitted to the new rows, with the `given` kind and scale.
        """
        if self.step and not self.has_steps(distinct, self.step):
            return False
        if len(distinct) < 2:
            return bool(((distinct >= self.low) & (distinct <= self.high)).all())
        cells = Cells.of(distinct, counts)
        step = 0.0 if given.kind == "continuous" else step_of(distinct, counts)
        if step and not self.step:
            return False
        best = _bic_of(best_density(cells, possible_scales(distinct, given)))
        return self.log_likelihood(cells) >= max(best, _free_bic(cells, step, len(distinct)))

    def has_steps(self, x: np.ndarray, step: float) -> bool:
        """Return True if values x (n,) differ from `low` by whole steps, up to rounding errors."""
        places = (x - self.low) / step
        # Float64 rounds the values, and the step, whose error counts once for each place.
        digit = np.spacing(max(abs(self.low), abs(self.high))) / step
        errors = np.abs(places - places.round())
        return bool((errors <= ON_GRID + (1.0 + np.abs(places)) * digit).all())

    @classmethod
    def _ordinal(cls, distinct: np.ndarray, cells: Cells, step: float) -> Self:
        """Return the map of an ordinal column, with a threshold between neighbouring values.

        As in an ordered probit model, a value stands for an interval between two thresholds. Its
        share of the rows is the probability of the interval for a standard normal variable.
        """
        scores = ndtri(np.cumsum(cells.counts)[:-1] / cells.counts.sum())
        edges = cells.edges
        if len(edges) == 1:  # a table needs two places, and the second one may be anywhere
            edges, scores = edges[0] + np.array([0.0, step]), scores[0] + np.array([0.0, 1.0])
        found = cls("identity", step, *_ends(distinct), edges, scores, scores, *_NO_TABLE)
        return replace(found, is_ordinal=len(distinct) > 2)._tabled(distinct)

    def _tabled(self, distinct: np.ndarray) -> Self:
        """Return this map with the tables `values` and `mapped` for ascending distinct values (u,).

        If there are more than `MAX_CELLS` values, mapped values are divided into `MAX_CELLS` / 2
        intervals. The table has only the first and the last value of each interval.
        """
        middle = self._scores_in_cells(distinct, np.full(len(distinct), 0.5))
        mapped = interpolated(middle, self.scores, self.targets)
        if len(distinct) > MAX_CELLS:
            place = compressed(mapped)
            borders = np.linspace(place[0], place[-1], MAX_CELLS // 2 + 1)[1:-1]
            first = np.searchsorted(place, borders)
            inner = np.unique(np.concatenate([[0], first - 1, first, [len(distinct) - 1]]))
            distinct, mapped = distinct[inner], mapped[inner]
        rising = np.concatenate([[True], np.diff(np.maximum.accumulate(mapped)) > 1e-12])
        return replace(self, values=distinct[rising], mapped=mapped[rising])

    def _scores_in_cells(self, x: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Return a normal score (n,) inside the cell of each x (n,).

        `shares` (n,) are the quantiles: 0.5 gives the median of a cell.
        """
        return _between(*self._ends_of_cells(x), shares)

    def _ends_of_cells(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the normal scores (n,) of the lower and upper ends of the cells of x (n,)."""
        if self.is_ordinal:
            ends = np.concatenate([[-np.inf], self.scores, [np.inf]])
            place = np.searchsorted(self.places, x)
            return ends[place], ends[place + 1]
        half = 0.5 * self.step
        scale = SCALES[self.scale]
        low, high = scale(x - half), scale(x + half)
        # Values off the scale belong to the outermost cells, which are open.
        low = np.where(np.isposinf(low), scale(np.array(self.last_edge)), low)
        high = np.where(np.isneginf(high), scale(np.array(self.first_edge)), high)
        if half:
            low = np.where(x <= self.low + half, -np.inf, low)
            high = np.where(x >= self.high - half, np.inf, high)
        return self._scores_at(low), self._scores_at(high)

    def _scores_at(self, place: np.ndarray) -> np.ndarray:
        """Return the normal scores (n,) of places (n,) on the scale, infinite ones included."""
        finite = np.isfinite(place)
        scores = interpolated(np.where(finite, place, 0.0), self.places, self.scores)
        return np.where(finite, scores, place)

    def log_likelihood(self, cells: Cells) -> float:
        """Return the log-likelihood of the rows in `cells` by this map's distribution."""
        inner = self._scores_at(SCALES[self.scale](cells.edges))
        _, a, b = _lower_tail(np.append(-np.inf, inner), np.append(inner, np.inf))
        chances = np.maximum(ndtr(b) - ndtr(a), np.finfo(float).tiny)
        return float(cells.counts @ np.log(chances))

    def _beyond(self, x: np.ndarray) -> np.ndarray:
        """Return the mapped values (n,) of stored values x (n,) outside the learned range.

        A value outside the domain of the scale, such as 50 for "logit", is extrapolated along the
        line through both ends of the learned range.
        """
        place = SCALES[self.scale](x)
        mapped = interpolated(np.where(np.isfinite(place), place, 0.0), self.places, self.targets)
        ends = np.where(x < self.low, self.mapped[0], self.mapped[-1])
        outside = np.where(x < self.low, np.minimum(mapped, ends), np.maximum(mapped, ends))
        with np.errstate(over="ignore"):
            ranges = np.where(x < self.low, x - self.low, x - self.high) / (self.high - self.low)
        ranges = np.clip(ranges, -MAX_RANGES, MAX_RANGES)
        off_scale = ends + ranges * (self.mapped[-1] - self.mapped[0])
        return np.where(np.isfinite(place), outside, off_scale)

    def mapped_to(self, x: np.ndarray, uniforms: np.ndarray | None) -> np.ndarray:
        """Map each x (n,) to the median of its cell, or to a random draw from its cell.

        Draws need random numbers `uniforms` (n,) in (0, 1). If these are None, return medians.
        """
        if uniforms is not None:
            scores = self._scores_in_cells(x, uniforms)
            return compressed(interpolated(scores, self.scores, self.targets))
        out = interpolated(x, self.values, self.mapped)
        # A rounded extreme keeps the place of its open cell, if columns have cells.
        below = self.low - (rounding_error(self.low, self.step) if self.step else 0.0)
        above = self.high + (rounding_error(self.high, self.step) if self.step else 0.0)
        beyond = (x < below) | (x > above)
        if beyond.any():
            out[beyond] = self._beyond(x[beyond])
        return compressed(out)

    def draws(self, x: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Draw a stored value from the cell of each x (n,); return an array with four rows, (4, n).

        0. the draw, which may be infinite in an open cell
        1. the log derivative of the draw with respect to the mapped draw
        2. the log density of the mapped draw inside its cell
        3. the probability of the cell

        ``mapped_to(x, uniforms)`` returns the mapped draws.
        """
        low, high = self._ends_of_cells(x)
        scores = _between(low, high, uniforms)
        _, a, b = _lower_tail(low, high)
        chances = np.maximum(ndtr(b) - ndtr(a), np.finfo(float).tiny)
        mapped = interpolated(scores, self.scores, self.targets)
        beyond = np.maximum(np.abs(mapped) - ROBUST_LIMIT, 0.0)
        piece = np.searchsorted(self.scores, scores, side="right") - 1
        piece = np.clip(piece, 0, len(self.places) - 2)
        per_place, per_score = (
            np.diff(one)[piece] / np.diff(self.targets)[piece] for one in (self.places, self.scores)
        )
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            bend = np.log1p(beyond / ROBUST_BEND)  # log derivative of `compressed`, negated
            values, slopes = INVERSES[self.scale](interpolated(scores, self.scores, self.places))
            log_inside = np.log(per_score / chances) + bend
            log_inside -= 0.5 * (scores**2 + np.log(2.0 * np.pi))
            return np.stack([values, np.log(slopes * per_place) + bend, log_inside, chances])

    def facts(self) -> Facts:
        names = ("scale", "step", "low", "high", "first_edge", "last_edge")
        sizes = {"knots": len(self.places), "values": len(self.values)}
        kind = {"is_ordinal": True} if self.is_ordinal else {}
        return {name: getattr(self, name) for name in names} | sizes | kind

    def tables(self) -> list[np.ndarray]:
        return [self.places, self.scores, self.targets, self.values, self.mapped]

    @classmethod
    def restored(cls, facts: Facts, cut: Callable[[int], np.ndarray]) -> Self:
        """Return the map from its saved `facts`; ``cut(n)`` returns the next n saved numbers."""
        if facts["scale"] not in SCALES:
            raise ValueError(f"expected a scale, one of {list(SCALES)}, found {facts['scale']!r}")
        own = {k: v for k, v in facts.items() if k not in ("knots", "values")}
        sizes = [facts["knots"]] * 3 + [facts["values"]] * 2
        own.update(zip(_TABLES, map(cut, sizes), strict=True))
        return cls(**own)


def _free_bic(cells: Cells, step: float, n_distinct: int) -> float:
    """Return the BIC of a column if each cell has a free probability.

    It is -inf if the column is continuous (`step` 0), or if its values share cells.
    """
    if not step or n_distinct > MAX_CELLS:
        return -np.inf
    n, n_cells = cells.counts.sum(), len(cells.counts)
    return float(cells.counts @ np.log(cells.counts / n)) - 0.5 * (n_cells - 1) * float(np.log(n))


def _bic_of(density: ColumnDensity | None) -> float:
    return -np.inf if density is None else density.bic


_TABLES = ("places", "scores", "targets", "values", "mapped")
_NO_TABLE = np.zeros(0), np.zeros(0)


def _ends(distinct: np.ndarray) -> tuple[float, float, float, float]:
    """Return `low`, `high`, `first_edge` and `last_edge` of a `NumberMap` for ascending values."""
    edges = (distinct[0] + distinct[1]) / 2.0, (distinct[-2] + distinct[-1]) / 2.0
    return float(distinct[0]), float(distinct[-1]), float(edges[0]), float(edges[1])


def possible_scales(distinct: np.ndarray, given: GivenColumn) -> list[str]:
    """Return the scale from the job file, or else the scales to try for ascending values (u,)."""
    if given.scale is not None:
        return [given.scale]
    scales = ["identity"]
    bent = distinct[-1] - distinct[0] > MIN_BEND * distinct[-1]
    if distinct[0] >= 0.0 and bent:
        scales += ["root", "log"]
        if distinct[-1] <= 1.0 and len(distinct) > 4:
            scales.append("logit")
    return scales


def rounding_error(value: float, gap: float) -> float:
    """Return the maximum difference of a stored number from `value` that counts as rounding.

    Equal numbers may differ by rounding, such as a 32-bit and a 64-bit float, or results of two
    computations. `gap` is the distance of `value` to its nearest learned neighbour, or 0 if it is
    unknown. The result is at most a quarter of a known gap.
    """
    error = max(ROUNDING * abs(value), ON_GRID * gap)
    return min(error, 0.25 * gap) if gap else error


def interpolated(x: np.ndarray, knots: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Evaluate at x (n,) the piecewise linear function that has the `values` (g,) at `knots` (g,).

    The outermost pieces extend beyond the knots.
    """
    if len(knots) == 1:
        return np.where(np.isnan(x), np.nan, values[0])
    out = np.empty(len(x))
    interpolate(np.ascontiguousarray(x, np.float64), knots, values, out)
    return out


def _lower_tail(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mirror the cells whose middle is above 0, because probabilities near 1 lose digits.

    `low` and `high` (n,) are normal scores of the ends of cells. Return a mask (n,) of the mirrored
    cells, and the ends (n,) of all cells after that.
    """
    upper = low > -high
    return upper, np.where(upper, -high, low), np.where(upper, -low, high)


def _between(low: np.ndarray, high: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the normal scores (n,) below which a `share` (n,) of each cell's probability lies.

    `low` and `high` (n,) are the normal scores of the ends of the cells.
    """
    upper, a, b = _lower_tail(low, high)
    t = np.where(upper, 1.0 - share, share)
    below, above = ndtr(a), ndtr(b)
    mass = below + t * (above - below)
    with np.errstate(invalid="ignore"):  # ends of open cells are infinite
        linear = np.where(np.isfinite(a), a + t * (b - a), b)
    found = np.where(mass > 1e-280, ndtri(np.clip(mass, 1e-280, 1.0)), linear)
    found = np.clip(found, a, b)
    return np.where(upper, -found, found)
