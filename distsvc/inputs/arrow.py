"""Readers of tables with Arrow's interfaces: frames, queries, streams and dask dataframes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from distsvc.errors import UnusableRowsError
from distsvc.inputs.rows import (
    Columns,
    Input,
    Reading,
    RowValues,
    UserData,
    not_rows_error,
)

_UNREADABLE = (pa.ArrowException, TypeError, ValueError)
"""Errors of pyarrow for an unreadable table or value."""


class Tables(Input):
    """The rows of all tables that `tables` returns, one table after the other."""

    def __init__(
        self,
        X: UserData,
        asked: Reading,
        tables: Callable[[], Iterable[UserData]],
        *,
        in_memory: bool = False,
        once: bool = False,
    ):
        super().__init__(X, asked)
        self.tables, self.in_memory, self.once = tables, in_memory, once
        self._begun = False
        self._waiting: Iterator[pa.RecordBatch] | None = None

    def pieces(self) -> Iterator[pa.RecordBatch]:
        batches, self._waiting = self._waiting, None  # of the pass that `columns` began
        for batch in self._batches(self._readers()) if batches is None else batches:
            most = self.asked.most(batch.num_columns)
            for first in range(0, batch.num_rows, most):
                yield batch.slice(first, most)

    def columns(self) -> Columns:
        readers = self._readers()
        first = next(readers, None)
        if first is None:
            raise UnusableRowsError(f"{self.asked.name} has no rows")
        self._waiting = self._batches(chain([first], readers))
        named = self.in_memory and hasattr(self.X, "iloc")  # pandas may have names that Arrow lacks
        header = self.X if named else first.schema.empty_table()
        return header, number_types(first.schema, self.asked.name), first.schema.names

    def chunks(self) -> Iterator[np.ndarray]:
        known = None
        for batch in self.pieces():
            if known is None or not batch.schema.equals(known):
                known = batch.schema
                number_types(known, self.asked.name, self.names)
            if self.ends is not None:
                self.ends.add_batch(batch)
            yield matrix(batch, self.dtype)

    def _readers(self) -> Iterator[pa.RecordBatchReader]:
        if self.once and self._begun:
            raise UnusableRowsError(
                f"{self.asked.name} was already read, and can be read only once: give a new one"
            )
        self._begun = True
        parts = (part for table in self.tables() for part in _parts(table, self.asked))
        return (_reader(part, self.asked.name) for part in parts)

    def _batches(self, readers: Iterable[pa.RecordBatchReader]) -> Iterator[pa.RecordBatch]:
        for reader in readers:
            try:
                yield from reader
            except _UNREADABLE as error:
                raise _unreadable(self.asked.name, error) from error


class DaskFrame(Tables):
    """A dask dataframe, whose partitions are computed one after another."""

    lazy = True

    def __init__(self, X: UserData, asked: Reading):
        parts = X.partitions
        super().__init__(X, asked, lambda: (parts[k].compute() for k in range(X.npartitions)))

    def columns(self) -> Columns:
        empty = self.X._meta  # so nothing is computed
        return Tables(empty, self.asked, lambda: [empty]).columns()

    def map_parts(self, of_part: Callable[[Input], np.ndarray], answer: RowValues) -> Any:
        task = partial(_of_partition, of_part, answer, self.asked)
        return self.X.map_partitions(task, meta=task(self.X._meta))


def _of_partition(
    of_part: Callable[[Input], np.ndarray], answer: RowValues, asked: Reading, frame: UserData
) -> Any:
    """Return the values of a partition, with its index; dask calls it on a worker."""
    part = Tables(frame, asked, lambda: [frame])
    part.words = " of a partition"
    found = of_part(part)
    pa.default_memory_pool().release_unused()  # else Arrow's threads keep it
    if answer.columns is not None:
        return type(frame)(found, index=frame.index, columns=answer.columns)
    return type(frame.iloc[:, 0])(found, index=frame.index, name=answer.name)


def _parts(table: UserData, asked: Reading) -> Iterator[UserData]:
    """Yield a table; a pandas table in slices, because Arrow copies it."""
    if not hasattr(type(table), "iloc"):
        yield table
        return
    named = not {None, *table.columns} & set(table.index.names)
    step = asked.most(table.shape[1])
    for first in range(0, max(len(table), 1), step):
        part = table.iloc[first : first + step]
        yield part.reset_index(drop=not (asked.index and named))


def _reader(table: UserData, name: str) -> pa.RecordBatchReader:
    """Return the reader of a table's record batches; `UnusableRowsError` if Arrow can't read it."""
    try:
        if hasattr(table, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(table)
        if hasattr(table, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(table)]).to_reader()
        if isinstance(table, dict):
            return pa.table(table).to_reader()
    except _UNREADABLE as error:
        raise _unreadable(name, error) from error
    raise not_rows_error(table, name)


def _unreadable(name: str, error: Exception) -> UnusableRowsError:
    text = str(error).split("\n", 1)[0]
    return UnusableRowsError(f"{name} can't be read as an Arrow table: {text}")


def number_types(
    schema: pa.Schema, name: str, names: Sequence[str] | None = None
) -> list[np.dtype]:
    """Return a dtype that holds the numbers of each column.

    `UnusableRowsError` if a column holds no numbers, a name occurs twice, or the names are not
    `names`.
    """
    if not schema.names:
        raise UnusableRowsError(f"{name} has no columns, expected at least 1")
    twice = {name for name in schema.names if schema.names.count(name) > 1}
    if twice:
        raise UnusableRowsError(f"{name} has two columns of the name {min(twice)!r}: rename one")
    if names is not None and schema.names != names:
        raise UnusableRowsError(
            f"{name}: expected tables with equal columns, found one that has {schema.names} after "
            f"one that has {names}"
        )
    return [_number_type(field, name) for field in schema]


def _number_type(field: pa.Field, name: str) -> np.dtype:
    kind = field.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype())
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return np.dtype(np.float64)
    raise UnusableRowsError(
        f"{name}: column {field.name!r} has the type {kind}, expected numbers: leave the column "
        "out, or convert it to numbers"
    )


def numbers(array: pa.Array) -> np.ndarray:
    """Return a column of numbers, booleans or decimals as an array (n,); null is NaN."""
    kind = array.type
    if array.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        array = array.cast(pa.float64(), safe=False)
    return array.to_numpy(zero_copy_only=False)


def matrix(batch: pa.RecordBatch, dtype: np.dtype) -> np.ndarray:
    """Return the rows of a record batch of numbers as an array (n, d)."""
    X = np.empty((batch.num_rows, batch.num_columns), dtype)
    for k, column in enumerate(batch.columns):
        X[:, k] = numbers(column)
    return X
