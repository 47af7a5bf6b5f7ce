"""The model of a table's columns: stored rows become the rows that learners see.

Learning sees draws: a stored value stands for all values that round to it, and a random number,
keyed by row and column, chooses one. So rounding leaves no gaps that look like valleys. A flag or a
category is a normal variable above or below a threshold, as in probit models. Labelling sees the
means of the same cells, so that equal rows have equal labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from distsvc.models.columns.maps import NumberMap

MIN_SPIKE_SHARE = 0.1
MIN_SPIKE_VALUES = 12
"""Least share of rows at one end of a column that makes it zero-inflated, and the least number of
distinct values of such a column."""

MAX_REPEATED = 2.0
"""Times that a spike has more rows than each of the five values next to it."""

SAME = 1e-12
"""Relative range up to which a column counts as constant: a few rounding errors."""


@dataclass(frozen=True)
class Category:
    """A column of codes: flags, or levels of a category.

    Attributes
    ----------
    codes : ndarray of shape (L,), float64
        The codes that were learned, ascending.
    shares : ndarray of shape (L,), float64
        Shares of the rows with a value.

    """

    codes: np.ndarray
    shares: np.ndarray

    @property
    def width(self) -> int:
        """Latent columns: one for a flag, one for each level of a category."""
        return 1 if len(self.codes) == 2 else len(self.codes)

    def levels(self, x: np.ndarray) -> np.ndarray:
        """Return the level (n,) int64 of values x (n,), -1 for missing and unknown codes."""
        place = np.minimum(np.searchsorted(self.codes, x), len(self.codes) - 1)
        return np.where(self.codes[place] == x, place, -1)

    @cached_property
    def _thresholds(self) -> np.ndarray:
        return np.asarray(ndtri(1.0 - self.shares))

    @cached_property
    def _scales(self) -> np.ndarray:
        if self.width == 1:
            return np.ones(2)
        variances = self.shares * (1.0 - self.shares)
        return np.asarray(np.sqrt(variances / variances.sum()))

    def latent(self, levels: np.ndarray, uniforms: np.ndarray | None) -> np.ndarray:
        """Return the latent values (n, width) of levels (n,); NaN where a level is -1.

        `uniforms` (n, width) in (0, 1) draw them; without, they are the means of their side of the
        threshold.
        """
        chosen = range(1, 2) if self.width == 1 else range(len(self.codes))
        out = np.empty((len(levels), self.width))
        for place, level in enumerate(chosen):
            share, inside = self.shares[level], levels == level
            if uniforms is None:
                density = np.exp(-0.5 * self._thresholds[level] ** 2) / np.sqrt(2.0 * np.pi)
                z = np.where(inside, density / share, -density / (1.0 - share))
            else:
                u = uniforms[:, place]
                t = np.where(inside, 1.0 - share + u * share, u * (1.0 - share))
                z = ndtri(np.clip(t, 1e-6, 1.0 - 1e-6))
            out[:, place] = z * self._scales[level]
        out[levels < 0] = np.nan
        return out


@dataclass(frozen=True)
class Number:
    """A column of numbers: its map, and the map of its amounts where it is zero-inflated.

    `spike` is the value that so many rows share, NaN if there is none.
    """

    map: NumberMap
    spike: float
    amounts: NumberMap | None
    spike_share: float


@dataclass(frozen=True)
class ColumnModel:
    """The models of the columns that decide, and the places of these in a stored row.

    Attributes
    ----------
    used : ndarray of shape (c,), int64
        The places of the columns, in the order that learners see them.
    columns : sequence of `Number` and `Category`
        Their models.
    salts : ndarray of shape (c,), uint64
        Keys of the columns' random numbers; they follow from the ranks of the pilot's values.

    """

    used: np.ndarray
    columns: Sequence[Number | Category]
    salts: np.ndarray

    @classmethod
    def of(cls, pilot: np.ndarray, nominal: np.ndarray) -> ColumnModel:
        """Return the model of stored pilot rows (m, d) float64, NaN where missing.

        `nominal` (d,) bool says which columns hold codes of categories.
        """
        used: list[int] = []
        columns: list[Number | Category] = []
        salts: list[int] = []
        for place, x in enumerate(np.ascontiguousarray(pilot.T)):
            column = _column_of(x[~np.isnan(x)], bool(nominal[place]))
            salt = _salt(x)
            if column is None or salt in salts:  # constant, or a copy of another column
                continue
            used.append(place)
            columns.append(column)
            salts.append(salt)
        order = np.argsort(np.array(salts, np.uint64), kind="stable")
        return cls(
            np.array(used, np.int64)[order],
            [columns[i] for i in order],
            np.array(salts, np.uint64)[order],
        )

    @cached_property
    def numbers(self) -> list[tuple[int, NumberMap, float]]:
        """Place, map and spike of each number of the mixture."""
        return [
            (place, column.amounts or column.map, column.spike)
            for place, column in zip(self.used.tolist(), self.columns, strict=True)
            if isinstance(column, Number)
        ]

    def mixed(self, X: np.ndarray, keys: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return numbers (n, p) float64, NaN where missing, and levels (n, q) int32, -1 there.

        With the keys (n,) uint64 of rows the numbers are draws, without them means.
        """
        numbers, levels = [], []
        for place, column, salt in zip(self.used, self.columns, self.salts, strict=True):
            x = X[:, place]
            if isinstance(column, Category):
                levels.append(column.levels(x))
                continue
            amount = column.map
            if column.amounts is not None:
                amount, at_spike = column.amounts, x == column.spike
                levels.append(np.where(np.isnan(x), -1, at_spike))
                x = np.where(at_spike, np.nan, x)
            numbers.append(amount.means(x) if keys is None else amount.draws(x, unit(keys, salt)))
        n = len(X)
        return (
            np.stack(numbers, axis=1) if numbers else np.zeros((n, 0)),
            np.stack(levels, axis=1).astype(np.int32) if levels else np.zeros((n, 0), np.int32),
        )

    @property
    def n_levels(self) -> np.ndarray:
        """Levels (q,) int64 of each category of `mixed`."""
        found = []
        for column in self.columns:
            if isinstance(column, Category):
                found.append(len(column.codes))
            elif column.amounts is not None:
                found.append(2)
        return np.array(found, np.int64)

    def latent(self, X: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
        """Return rows (n, r) float64 in which every column is a continuous variable.

        Draws with the keys (n,) uint64 of the rows, means without; NaN where missing.
        """
        parts = []
        for place, column, salt in zip(self.used, self.columns, self.salts, strict=True):
            x = X[:, place]
            if isinstance(column, Category):
                uniforms = None
                if keys is not None:
                    uniforms = np.stack([unit(keys, salt, k) for k in range(column.width)], 1)
                parts.append(column.latent(column.levels(x), uniforms))
            elif keys is None:
                parts.append(column.map.means(x)[:, None])
            else:
                parts.append(column.map.draws(x, unit(keys, salt))[:, None])
        return np.hstack(parts) if parts else np.zeros((len(X), 0))


def unit(keys: np.ndarray, salt: Any, more: int = 0) -> np.ndarray:
    """Return uniform numbers (n,) in (0, 1) of rows with keys (n,) uint64, of one column."""
    z = keys + np.uint64(salt) + np.uint64((more * 0x9E3779B97F4A7C15) % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _salt(x: np.ndarray) -> int:
    """Return a number that follows from the ranks of a column's values (m,), NaN included."""
    _, ranks = np.unique(x, return_inverse=True, equal_nan=True)
    weights = unit(np.arange(len(x), dtype=np.uint64), 1)
    return int(np.frombuffer(np.float64(ranks @ weights).tobytes(), np.uint64)[0])


def _column_of(x: np.ndarray, nominal: bool) -> Number | Category | None:
    """Return the model of values (m,) without missing ones, None of a constant column."""
    distinct, counts = np.unique(x, return_counts=True)
    if len(distinct) < 2:
        return None
    if nominal or len(distinct) == 2:
        return Category(distinct, counts / counts.sum())
    if distinct[-1] - distinct[0] <= SAME * max(abs(distinct[0]), abs(distinct[-1])):
        return None
    whole = NumberMap.of(distinct, counts)
    if whole is None:
        return None
    spike = _spike_of(distinct, counts)
    if spike is None:
        return Number(whole, np.nan, None, 0.0)
    rest = distinct != spike
    amounts = NumberMap.of(distinct[rest], counts[rest])
    share = float(counts[~rest].sum() / counts.sum())
    return Number(whole, spike, amounts, share) if amounts else Number(whole, np.nan, None, 0.0)


def _spike_of(distinct: np.ndarray, counts: np.ndarray) -> float | None:
    """Return the extreme value that more rows have than its neighbours explain, None if none."""
    if len(distinct) < MIN_SPIKE_VALUES:
        return None
    for end, near in ((0, counts[1:6]), (-1, counts[-6:-1])):
        enough = counts[end] >= MIN_SPIKE_SHARE * counts.sum()
        if enough and counts[end] > MAX_REPEATED * near.max():
            return float(distinct[end])
    return None
