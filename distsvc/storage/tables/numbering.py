"""Columns that number the rows, such as an index or an id, which do not describe a row.

Such a column has as many values as rows. So has a finely measured quantity, but ids follow the
rows, or are spread evenly over their range. The same few thousand rows are read whenever a table is
opened.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from distsvc.storage.rows.blocks import Span, Table
from distsvc.storage.tables.source import Source

ROW_NUMBER = "another value in every row, as a row number or an id has"
"""Why a column that numbers rows is no feature of a job that names none."""

FEWEST_ROWS = 50
"""Of a table that may lose a column: in a smaller one all values of a quantity may differ."""

SPOTS, SPOT_ROWS = 8, 512
"""Number of spots of a table that are read, and of rows at each."""

_DEEPEST = 131_072
"""Rows of a storage unit that are decoded to get to those that are read."""

_SURE_ROWS = 1000
"""From when on rising values, or even ones, are not thought to be a coincidence."""

_EVEN = 1.95
"""Kolmogorov's distance times the root of the number of values; 1 even column in 1,000 has it."""

_MOST_EXACT = 2.0**53
_NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")


def without_numbers(table: Table, source: Source, kept: Collection[str] = ()) -> Table:
    """Return a table without those of its features that number its rows, but for those `kept`.

    Small tables keep all, and every table keeps a feature. `source` is that of its format.
    """
    if table.n_rows < FEWEST_ROWS:
        return table
    numbering = [name for name in numbering_columns(table, source) if name not in kept]
    others = [k for k, one in enumerate(table.features) if one.column not in numbering]
    if not numbering or not others:
        return table
    return replace(
        _only(table, others),
        left_out=table.left_out | dict.fromkeys(numbering, ROW_NUMBER),
    )


def numbering_columns(table: Table, source: Source) -> list[str]:
    """Return the columns that number the rows, by some rows at several spots of the table.

    A column that has a value twice at one spot is not read at the next.
    """
    found: dict[str, list[np.ndarray]] = {
        one.column: []
        for one, kind in zip(table.features, table.types, strict=True)
        if kind.startswith(_NUMBERS) and one.names == (one.column,)
    }
    for name in source.varied(table) & found.keys() if found else ():
        del found[name]
    for start, stop in _spots(table.layout.extents):
        chosen = [k for k, one in enumerate(table.features) if one.column in found]
        if not chosen:
            break
        part = replace(_only(table, chosen), where=None)
        X = np.concatenate(
            [block.X for block in source.blocks(part, Span(start, stop, stop - start))]
        )
        for name, values in zip(part.columns, X.T, strict=True):
            found[name].append(values[~np.isnan(values)])
            if not _differ(np.concatenate(found[name])):
                del found[name]
    return [name for name, parts in found.items() if _numbers(np.concatenate(parts), table.n_rows)]


def _only(table: Table, places: Sequence[int]) -> Table:
    """Return a table with some of its features."""
    features = tuple(table.features[k] for k in places)
    return replace(table, features=features, types=tuple(table.types[k] for k in places))


def _spots(extents: Sequence[int]) -> list[tuple[int, int]]:
    """Return ranges of rows spread over a table, at most so many; all rows of a small table.

    They begin where a storage unit does as far as there are as many units, since the rows before
    them in a unit are decoded, too.
    """
    n_rows = sum(extents)
    if n_rows <= SPOTS * SPOT_ROWS:
        return [(0, n_rows)]
    borders = np.concatenate([[0], np.cumsum(extents)])
    wanted = np.linspace(0, n_rows - SPOT_ROWS, SPOTS).astype(np.int64)
    units = np.searchsorted(borders, wanted, side="right") - 1
    depths = np.zeros_like(wanted)
    for unit in np.unique(units):
        inside = np.flatnonzero(units == unit)
        if len(inside) > 1:
            room = min(extents[unit], _DEEPEST) - SPOT_ROWS
            depths[inside] = np.linspace(0, max(room, 0), len(inside))
    starts = np.unique(borders[units] + depths)
    return [(int(start), int(min(start + SPOT_ROWS, n_rows))) for start in starts]


def _differ(values: np.ndarray) -> bool:
    """Return whether values are whole and differ, as far as float64 can tell of large ones."""
    if not np.array_equal(values, np.rint(values)) or np.isinf(values).any():
        return False
    distinct = len(np.unique(values))
    large = len(values) > 0 and np.abs(values).max() > _MOST_EXACT
    return distinct >= 0.9 * len(values) if large else distinct == len(values)


def _numbers(values: np.ndarray, n_rows: int) -> bool:
    """Return whether values that differ, in the order of the rows, number these."""
    n = len(values)
    if n < FEWEST_ROWS or values.min() == values.max():
        return False
    if n < _SURE_ROWS:
        return bool(n_rows <= 2 * n and np.ptp(values) < 2 * n_rows)
    steps = np.diff(values)
    exact = np.abs(values).max() <= _MOST_EXACT
    rises, falls = (steps > 0, steps < 0) if exact else (steps >= 0, steps <= 0)
    return bool(rises.all() or falls.all()) or _even(values)


def _even(values: np.ndarray) -> bool:
    shares = (np.sort(values) - values.min()) / np.ptp(values)
    distance = np.abs(shares - np.linspace(0.0, 1.0, len(values))).max()
    return bool(distance * np.sqrt(len(values)) < _EVEN)
