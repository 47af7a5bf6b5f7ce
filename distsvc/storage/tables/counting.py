"""Passes over stored values: counts of categories, and a check of large integers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import DataError
from distsvc.inputs.exactness import is_narrow
from distsvc.inputs.mixed import MAX_LEVEL_LENGTH, texts_of
from distsvc.storage.rows.blocks import Batches, Span, Table, plain_values
from distsvc.storage.rows.features import Numeric, Vector
from distsvc.storage.rows.numeric_text import is_unicode, unicode_error
from distsvc.storage.rows.sentinels import without_sentinels
from distsvc.storage.rows.where import parse_where
from distsvc.storage.tables.sources import source_of

MAX_VALUES = 1_000_000
"""Maximum number of different values of a category."""


def matching_batches(table: Table, span: Span, columns: Sequence[str]) -> Batches:
    """Yield columns of a span's rows that match ``where``, without dictionaries."""
    condition = parse_where(table.where) if table.where is not None else None
    where = condition.columns if condition else ()
    wanted = list(dict.fromkeys([*columns, *where]))
    for batch in source_of(table).batches(table, span, wanted):
        arrays = {name: plain_values(array) for name, array in batch.items()}
        if condition is not None:
            mask = condition.mask({name: arrays[name].cast(table.type_of(name)) for name in where})
            arrays = {name: arrays[name].filter(mask) for name in columns}
        yield arrays


class ValueCounts:
    """Counts of the values, as text, of columns of a table, without null.

    Values of the columns in `cut` that are too long for a category are truncated; others are
    errors.
    """

    def __init__(self, table: Table, columns: Sequence[str], cut: Collection[str] = ()):
        self.table, self.cut = table, cut
        self.counts: dict[str, dict[str, int]] = {column: {} for column in columns}

    def add(self, start: int, stop: int) -> None:
        """Count storage rows [start, stop) that match ``where``.

        `DataError` if a column has more than `MAX_VALUES` values, or one that is too long.
        """
        span = Span(start, stop, 65_536)
        for arrays in matching_batches(self.table, span, list(self.counts)):
            for column in self.counts:
                self._count(column, without_sentinels(arrays[column], self.table.missing_values))

    def _count(self, column: str, array: pa.Array) -> None:
        if not is_unicode(array):
            raise unicode_error(self.table.shown, column)
        found = pc.value_counts(array.drop_null())
        texts, known = texts_of(found.field(0)), self.counts[column]
        longest = pc.max(pc.utf8_length(texts)).as_py() or 0
        if column in self.cut:
            texts = pc.utf8_slice_codeunits(texts, 0, MAX_LEVEL_LENGTH + 1)
        elif longest > MAX_LEVEL_LENGTH:
            raise self._refused(
                column, f"a text of {longest} characters", f"at most {MAX_LEVEL_LENGTH}"
            )
        for word, n in zip(texts.to_pylist(), found.field(1).to_pylist(), strict=True):
            known[word] = known.get(word, 0) + n
        if len(known) > MAX_VALUES:
            raise self._refused(column, f"more than {MAX_VALUES:,} different values", "fewer")

    def _refused(self, column: str, found: str, expected: str) -> DataError:
        return DataError(
            f"{self.table.shown}: column {column!r} has {found}, expected {expected} of a column "
            f"of categories; leave it out by --exclude {column}, or give a column of coarser values"
        )


def check_exact(table: Table, least: np.ndarray, most: np.ndarray) -> None:
    """Raise `DataError` for integers or decimals whose differences float64 rounds away.

    `least` and `most` (d,) float64 are the extremes of the numeric columns. A column that looks
    constant is read again as stored, up to its second value.
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
    """Return the stored column of a numeric column, and the position in its vectors, if any.

    The name is empty if float64 holds the stored values exactly.
    """
    for feature, kind in zip(table.features, table.types, strict=True):
        if place < len(feature.names):
            exact = isinstance(feature, Numeric | Vector) and ("int64" in kind or "decimal" in kind)
            return feature.column if exact else "", place if feature.whole else None
        place -= len(feature.names)
    raise IndexError(place)


def _varies(table: Table, column: str, place: int | None) -> bool:
    """Return whether a column has two different stored values."""
    first: Any = None
    for batch in matching_batches(table, Span(0, table.n_rows, 8192), [column]):
        values = batch[column].drop_null()
        if place is not None:
            values = pc.list_element(values, place).drop_null()
        if len(values):
            first = values[0] if first is None else first
            if pc.any(pc.not_equal(values, first)).as_py():
                return True
    return False
