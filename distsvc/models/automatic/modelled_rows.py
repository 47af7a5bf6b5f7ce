"""Pilot rows with modelled columns: random draws to fit mixtures, and medians to label."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from distsvc.models.columns.model import ColumnModel
from distsvc.models.mixture.density import MixtureRows
from distsvc.models.mixture.population import NumberCells, PopulationRows, ScaledNumbers


@dataclass(frozen=True)
class ModelledRows:
    """Pilot rows with modelled columns, as random draws and as medians of cells."""

    columns: ColumnModel
    row_numbers: np.ndarray  # (m,) int64: the rows' numbers in the table
    draws: MixtureRows  # draws of numbers, and levels of categories
    prepared: np.ndarray  # (m, D) float64: prepared rows, with medians of cells
    scales: tuple[ScaledNumbers, ...]  # mapped, then stored scale; components have no stored scale
    cells: NumberCells | None = None  # cells of rounded numbers; None if no number is rounded

    @classmethod
    def of(cls, columns: ColumnModel, X: np.ndarray, rows: np.ndarray) -> Self:
        drawn, prepared, layout = columns.prepared(X, rows), columns.prepared(X), columns.layout
        draws = layout.mixed(drawn)
        middles = np.where(np.isnan(draws.X), 0.0, prepared[:, layout.numbers])
        mapped = ScaledNumbers(drawn[:, layout.numbers], middles)
        if columns.axes is not None:  # components are not stored
            return cls(columns, rows, draws, prepared, (mapped,))
        indices, (stored, log_slopes, log_inside, chances), values = columns.draws(X, rows)
        scales = mapped, _as_stored(mapped, stored, values, log_slopes)
        cells = NumberCells(indices, log_inside, chances)
        is_rounded = bool((cells.indices >= 0).any())
        return cls(columns, rows, draws, prepared, scales, cells if is_rounded else None)

    @cached_property
    def medians(self) -> MixtureRows:
        """The same rows as `draws`, with medians of cells instead of random draws."""
        return self.columns.layout.mixed(self.prepared)

    def populations(self, m: int, n_jobs: int | None) -> PopulationRows:
        """Return the first m rows as `PopulationRows`, from which qualities are computed."""
        rows, numbers = self.draws, tuple(each.take(m) for each in self.scales)
        levels = rows.levels[:m].astype(np.int64)
        cells = None if self.cells is None else self.cells.take(m)
        present, flags = ~np.isnan(rows.X[:m]), self.columns.layout.flags
        return PopulationRows(numbers, present, levels, rows.n_levels, flags, n_jobs, cells)


def _as_stored(
    mapped: ScaledNumbers, draws: np.ndarray, values: np.ndarray, log_slopes: np.ndarray
) -> ScaledNumbers:
    """Return the numbers (n, p) on the stored scale, standardised.

    Missing numbers, and columns in which a number is infinite, stay `mapped`. `draws` (n, p) are
    random values from the cells of the stored `values` (n, p). `log_slopes` (n, p) are the log
    derivatives of `draws` with respect to the mapped draws.
    """
    mean, sd = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        stored = (draws - mean) / sd, (values - mean) / sd, log_slopes - np.log(sd)
    missing = np.isnan(values)
    finite = np.all([(np.isfinite(one) | missing).all(axis=0) for one in stored], axis=0)
    taken = ~missing & finite
    return ScaledNumbers(
        np.where(taken, stored[0], mapped.draws),
        np.where(taken, stored[1], mapped.middles),
        np.where(taken, stored[2], 0.0),
    )
