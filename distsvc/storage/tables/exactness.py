"""Integers that differ by less than float64 can tell at their size, such as those near 2^64.

Features are float64, which has 53 bits: beyond 2^53 a column of integers is rounded. That is fine
where the values lie far apart, as hashes or times in nanoseconds do, and loses them where not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from distsvc.errors import DataError
from distsvc.inputs.exactness import is_narrow
from distsvc.storage.rows.blocks import Span, Table
from distsvc.storage.rows.features import Numeric, Vector
from distsvc.storage.tables.counting import matching_batches

_ROWS = 8192


def check_exact(table: Table, least: np.ndarray, most: np.ndarray) -> None:
    """Raise `DataError` for a column of integers or decimals whose differences float64 rounds away.

    `least` and `most` (d,) float64 are the extremes of the table's columns of numbers. A column
    that looks constant is read again as it is stored, up to its second value.
    """
    for k in np.flatnonzero(is_narrow(least, most)):
        column, place = _stored(table, int(k))
        if column and (least[k] < most[k] or _varies(table, column, place)):
            name, near = table.columns[k], int(np.nextafter(least[k], 0.0))
            raise DataError(
                f"{table.shown}: column {name!r} holds numbers near {near} that differ by too "
                f"little for float64, whose steps are {np.spacing(abs(float(near))):g} there; "
                f"write {name} - {near} in its place, or leave the column out of input.columns"
            )


def _stored(table: Table, place: int) -> tuple[str, int | None]:
    """Return the stored column of a column of numbers, and the place in its vectors if it has some.

    The name is empty where float64 holds the stored values as they are.
    """
    for feature, kind in zip(table.features, table.types, strict=True):
        if place < len(feature.names):
            exact = isinstance(feature, Numeric | Vector) and ("int64" in kind or "decimal" in kind)
            return feature.column if exact else "", place if feature.whole else None
        place -= len(feature.names)
    raise IndexError(place)


def _varies(table: Table, column: str, place: int | None) -> bool:
    """Return whether a column has two values, as they are stored."""
    first: Any = None
    for batch in matching_batches(table, Span(0, table.n_rows, _ROWS), [column]):
        values = batch[column].drop_null()
        if place is not None:
            values = pc.list_element(values, place).drop_null()
        if len(values):
            first = values[0] if first is None else first
            if pc.any(pc.not_equal(values, first)).as_py():
                return True
    return False
