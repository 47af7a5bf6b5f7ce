"""Counting the values of a table's columns of categories."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import DataError
from distsvc.inputs.levels import MAX_LEVEL_LENGTH, texts_of
from distsvc.storage.rows.blocks import Batches, Span, Table, undictionaried
from distsvc.storage.rows.gaps import with_gaps
from distsvc.storage.rows.texts import is_unicode, not_unicode
from distsvc.storage.rows.where import parse_where
from distsvc.storage.tables.sources import source_of

MOST_VALUES = 1_000_000

_ROWS = 65_536


def matching_batches(table: Table, span: Span, columns: Sequence[str]) -> Batches:
    """Yield columns of a span's rows as they are stored, but for rows that ``where`` drops.

    What is dictionary-encoded comes as its values. `DataError` where the table can't be read.
    """
    condition = parse_where(table.where) if table.where is not None else None
    where = condition.columns if condition else ()
    wanted = list(dict.fromkeys([*columns, *where]))
    for batch in source_of(table).batches(table, span, wanted):
        arrays = {name: undictionaried(array) for name, array in batch.items()}
        if condition is not None:
            mask = condition.mask({name: arrays[name].cast(table.type_of(name)) for name in where})
            arrays = {name: arrays[name].filter(mask) for name in columns}
        yield arrays


class ValueCounts:
    """The rows of every value, as text, of some columns of a table; null is none.

    Values of the columns `cut` that are too long for a category count by their beginning, which is
    too long as well.
    """

    def __init__(self, table: Table, columns: Sequence[str], cut: Collection[str] = ()):
        self.table, self.cut = table, cut
        self.counts: dict[str, dict[str, int]] = {column: {} for column in columns}

    def add(self, start: int, stop: int) -> None:
        """Count storage rows [start, stop), but for those that ``where`` drops.

        Raises `DataError` where a column has more than `MOST_VALUES` values, or one that is
        longer than `MAX_LEVEL_LENGTH`; or the table can't be read.
        """
        span = Span(start, stop, _ROWS)
        for arrays in matching_batches(self.table, span, list(self.counts)):
            for column in self.counts:
                self._count(column, with_gaps(arrays[column], self.table.missing_values))

    def _count(self, column: str, array: pa.Array) -> None:
        if not is_unicode(array):
            raise not_unicode(self.table.shown, column)
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
        if len(known) > MOST_VALUES:
            raise self._refused(column, f"more than {MOST_VALUES:,} different values", "fewer")

    def _refused(self, column: str, found: str, expected: str) -> DataError:
        return DataError(
            f"{self.table.shown}: column {column!r} has {found}, expected {expected} of a column "
            f"of categories; leave it out by --exclude {column}, or give a column of coarser values"
        )
