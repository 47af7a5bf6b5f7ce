"""Readers of arrays and tables; the attributes of an object's type select the reader.

Tables are frames, queries and streams with Arrow's interfaces, and dask dataframes. pandas, dask
and Zarr are not imported. The type is examined, not the object, because a DuckDB relation has an
attribute for every column.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import UnusableRowsError
from distsvc.inputs.rows import (
    Columns,
    Input,
    Reading,
    RowValues,
    UserData,
    check_array,
    cut,
    not_rows_error,
)

UNREADABLE = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""Errors of pyarrow for an unreadable table or value."""


class Tables(Input):
    """A reader of all tables that the function `tables` returns, one after the other."""

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
        batches, self._waiting = self._waiting, None  # a pass that `columns` began
        for batch in self._batches(self._readers()) if batches is None else batches:
            most = self.asked.most(batch.num_columns)
            for first in range(0, batch.num_rows or self.asked.by_name, most):
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
            X = np.empty((batch.num_rows, batch.num_columns), self.dtype)
            for k, column in enumerate(batch.columns):
                X[:, k] = numbers(column)
            yield X

    def _readers(self) -> Iterator[pa.RecordBatchReader]:
        if self.once and self._begun:
            raise UnusableRowsError(
                f"{self.asked.name} was already read, and can be read only once: create it again"
            )
        self._begun = True
        parts = (part for table in self.tables() for part in _parts(table, self.asked))
        return (_reader(part, self.asked.name, first) for first, part in parts)

    def _batches(self, readers: Iterable[pa.RecordBatchReader]) -> Iterator[pa.RecordBatch]:
        for reader in readers:
            try:
                yield from reader
                if self.asked.by_name:
                    yield pa.RecordBatch.from_pylist([], reader.schema)
            except UNREADABLE as error:
                raise unreadable(self.asked.name, error) from error


class DaskFrame(Tables):
    """A dask dataframe, whose partitions are computed one after another."""

    lazy = True

    def __init__(self, X: UserData, asked: Reading):
        parts = X.partitions
        super().__init__(X, asked, lambda: (parts[k].compute() for k in range(X.npartitions)))

    def columns(self) -> Columns:
        empty = self.X._meta  # no partition is computed
        return Tables(empty, self.asked, lambda: [empty]).columns()

    def map_parts(self, of_part: Callable[[Input], np.ndarray], answer: RowValues) -> Any:
        task = partial(_of_partition, of_part, answer, self.asked)
        return self.X.map_partitions(task, meta=task(self.X._meta))


def _of_partition(
    of_part: Callable[[Input], np.ndarray], answer: RowValues, asked: Reading, frame: UserData
) -> Any:
    """Return the values that `of_part` computes for the rows of a partition of a dataframe.

    The result is a series, or a frame if each row has several values, with the index of `frame`.
    This function runs on a worker.
    """
    part = Tables(frame, asked, lambda: [frame])
    part.words = " of a partition"
    found = of_part(part)
    pa.default_memory_pool().release_unused()  # Arrow's threads would keep the memory
    if answer.columns is not None:
        return type(frame)(found, index=frame.index, columns=answer.columns)
    return type(frame.iloc[:, 0])(found, index=frame.index, name=answer.name)


def _parts(table: UserData, asked: Reading) -> Iterator[tuple[int, UserData]]:
    """Yield parts of a table, each with the number of its first row.

    A pandas table is cut into slices: Arrow copies pandas data, and slices need less memory. Any
    other table is one part.
    """
    if not hasattr(type(table), "iloc"):
        yield 0, table
        return
    named = not {None, *table.columns} & set(table.index.names)
    step = asked.most(table.shape[1])
    for first in range(0, max(len(table), 1), step):
        part = table.iloc[first : first + step]
        yield first, part.reset_index(drop=not (asked.by_name and named))


def _reader(table: UserData, name: str, first: int) -> pa.RecordBatchReader:
    try:
        if hasattr(table, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(table)
        if hasattr(table, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(table)]).to_reader()
    except UNREADABLE as error:
        raise unreadable(name, error, table, first) from error
    if isinstance(table, dict):
        return _table_of(table, name).to_reader()
    raise not_rows_error(table, name)


def _table_of(columns: dict[str, UserData], name: str) -> pa.Table:
    """Return an Arrow table with the columns of a dictionary; NaN becomes null.

    If a value is a number or text instead of a column, the dictionary is a single row.
    """
    is_row = any(isinstance(v, str) or not hasattr(v, "__iter__") for v in columns.values())
    arrays = {}
    try:
        for column, values in columns.items():
            of_arrow = isinstance(values, pa.Array | pa.ChunkedArray)
            row = [values] if is_row else values
            arrays[column] = values if of_arrow else pa.array(row, from_pandas=True)
        return pa.table(arrays)
    except UNREADABLE as error:
        if len(arrays) < len(columns) and (words := _fault(row)):
            raise UnusableRowsError(f"{name}: column {column!r}, {words}") from error
        name += f": column {column!r}" if len(arrays) < len(columns) else ""
        raise unreadable(name, error) from error


def unreadable(
    name: str, error: Exception, table: UserData = None, first: int = 0
) -> UnusableRowsError:
    """Return the error of a table that Arrow can't read; `first` is the number of its first row.

    For a pandas table, the message names the column and the row.
    """
    if hasattr(type(table), "iloc"):
        names = list(table.columns)
        if twice := [column for column in names if names.count(column) > 1]:
            return UnusableRowsError(_of_one_name(name, twice[0]))
        for column in names:
            values = table[column]
            if values.dtype == object and (words := _fault(values.to_list(), first)):
                return UnusableRowsError(f"{name}: column {column!r}, {words}")
    text = str(error.args[0] if error.args else error).split("\n", 1)[0]
    return UnusableRowsError(f"{name} can't be read as an Arrow table: {text}")


def _of_one_name(name: str, column: object) -> str:
    return f"{name} has two columns named {column!r}: rename one of the columns"


def _fault(column: Iterable[Any], first: int = 0) -> str:
    """Return a message about the first value of a column that Arrow can't convert.

    `first` is the number of the column's first row. "" if Arrow can convert all values.
    """
    values = list(column)
    readable, unreadable = 0, len(values) + 1  # lengths: no error, and an error
    kind = pa.null()
    while unreadable - readable > 1:
        length = (readable + unreadable) // 2
        try:
            kind, readable = pa.array(values[:length], from_pandas=True).type, length
        except UNREADABLE:
            unreadable = length
    if unreadable > len(values):
        return ""
    value, expected = values[readable], "a type that Arrow can convert"
    if not pa.types.is_null(kind):
        expected = f"{type_words(kind)}, as in the earlier rows"
    advice = "give all values of the column the same type"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        expected = "a whole number from -2**63 to 2**63 - 1"
        advice = "convert the column to float, or to text if it holds ids"
    return f"row {first + readable}: expected {expected}, found {value!r}: {advice}"


def number_types(
    schema: pa.Schema, name: str, names: Sequence[str] | None = None
) -> list[np.dtype]:
    """Return the NumPy dtype of each column of a table.

    `UnusableRowsError` if there are no columns, or if a column is not numeric. It is also raised if
    a name occurs twice, or if the names differ from `names`.
    """
    if not schema.names:
        raise UnusableRowsError(f"{name} has no columns, expected at least 1")
    twice = {name for name in schema.names if schema.names.count(name) > 1}
    if twice:
        raise UnusableRowsError(_of_one_name(name, min(twice)))
    if names is not None and schema.names != names:
        raise UnusableRowsError(
            f"{name}: expected equal columns in all tables, found {names} in the first table and "
            f"{schema.names} in a later table"
        )
    kinds = []
    for field in schema:
        kind = field.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            kinds.append(np.dtype(kind.to_pandas_dtype()))
        elif is_numeric(kind):
            kinds.append(np.dtype(np.float64))
        else:
            raise UnusableRowsError(
                f"{name}: column {field.name!r} is {type_words(kind)}, expected numbers: leave the "
                "column out, or convert it to numbers"
            )
    return kinds


def is_numeric(kind: pa.DataType) -> bool:
    """Return True for Arrow types that become float64: numbers, decimals, booleans, null."""
    types = pa.types
    tests = types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null
    return any(test(kind) for test in tests)


def is_text(kind: pa.DataType) -> bool:
    """Return True if an Arrow type is text."""
    tests = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
    return any(test(kind) for test in tests)


TYPE_WORDS = {
    r"u?int\d+": "a whole number",
    r"(half)?float|double|decimal.*": "a number",
    r"(large_)?string(_view)?": "text",
    r"bool": "true or false",
    r"date\d+.*": "a date",
    r"timestamp.*": "a date and time",
    r"time\d+.*": "a time of day",
    r"duration.*": "a duration",
    r"null": "empty",
}
"""Descriptions of Arrow types in messages; a key is a pattern of the type's name."""


def type_words(kind: pa.DataType, other: pa.DataType | None = None) -> str:
    """Return a description of a type for messages, such as "a whole number" for int64.

    The type's name is returned if there is no description. The message may mention a second type,
    `other`; if its description is equal, the type's name is returned, too.
    """
    found = next((v for k, v in TYPE_WORDS.items() if re.fullmatch(k, str(kind))), str(kind))
    return str(kind) if other is not None and type_words(other) == found else found


def has_values(array: pa.Array) -> bool:
    """Return True if an array has a value other than null and NaN."""
    return bool(pc.is_null(array, nan_is_null=True).false_count)


def numbers(array: pa.Array) -> np.ndarray:
    """Return a column of numbers, booleans or decimals as an array (n,); null is NaN."""
    kind = array.type
    if array.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        array = array.cast(pa.float64(), safe=False)
    return array.to_numpy(zero_copy_only=False)


class ArrayRows(Input):
    """A reader of an array that has slices: of NumPy, SciPy (sparse), Zarr or h5py."""

    def __init__(self, X: UserData, asked: Reading):
        super().__init__(X, asked)
        self.shape, self.in_memory = X.shape, not hasattr(type(X), "chunks")

    def pieces(self) -> Iterator[np.ndarray]:
        X = self.X.tocsr() if hasattr(type(self.X), "tocsr") else self.X
        # Slices end on the borders of chunks, so that each chunk is read once.
        rows = int((getattr(X, "shards", None) or getattr(X, "chunks", None) or (1,))[0])
        step = max(self.asked.most(X.shape[1]) // rows, 1) * rows
        for first in range(0, X.shape[0], step):
            yield from self._cut(X[first : first + step])

    def columns(self) -> Columns:
        shape = self.X.shape
        if len(shape) != 2:
            raise UnusableRowsError(
                f"Expected 2D array, got {len(shape)}D array instead: give rows by columns (n, d)"
            )
        if not shape[1] > 0:
            raise UnusableRowsError(
                f"{self.asked.name} has {shape[1]} columns, expected a known number of at least 1 "
                "(dask: call X.compute_chunk_sizes() first)"
            )
        self._check_numbers(self.X.dtype)
        return self.X, [self.X.dtype], None

    def _cut(self, part: UserData) -> Iterator[np.ndarray]:
        """Yield the rows of a part in pieces (n, d) of numbers; masked values are NaN."""
        found = part.toarray() if hasattr(type(part), "toarray") else part
        if isinstance(found, np.ma.MaskedArray):
            found = np.ma.filled(found.astype(np.float64), np.nan)
        found = np.asarray(found)
        if found.ndim != 2:
            raise UnusableRowsError(
                f"{self.asked.name}: expected chunks that are NumPy arrays (n, d), found one of "
                f"the type {type(part).__name__}"
            )
        self._check_numbers(found.dtype)
        if self.ends is not None:
            self.ends.add_array(found)
        return cut(found, self.asked.most(found.shape[1]))

    def _check_numbers(self, dtype: np.dtype) -> None:
        if np.dtype(dtype).kind not in "biuf":
            raise UnusableRowsError(
                f"{self.asked.name}: expected an array of numbers, found dtype {dtype}; "
                "text needs a table with named columns, such as a pandas.DataFrame"
            )


class DaskArray(ArrayRows):
    """A dask array, whose chunks are computed one after another."""

    lazy = True

    def pieces(self) -> Iterator[np.ndarray]:
        X, most = self._whole(), self.asked.most(self.X.shape[1])  # small chunks are joined
        known = all(size == size for size in X.chunks[0])
        start = n = 0
        for number, size in enumerate(X.chunks[0]):
            if number > start and (not known or n + size > most):
                yield from self._cut(X.blocks[start:number].compute())
                start, n = number, 0
            n += size if known else 0
        yield from self._cut(X.blocks[start:].compute())

    def map_parts(self, of_part: Callable[[Input], np.ndarray], answer: RowValues) -> Any:
        task, whole = partial(_of_chunk, of_part, self.asked), self._whole()
        values = partial(whole.map_blocks, task, dtype=answer.dtype, meta=answer.none)
        if answer.columns is None:
            return values(drop_axis=1)
        return values(chunks=(whole.chunks[0], (len(answer.columns),)))

    def _whole(self) -> UserData:
        return self.X.rechunk({1: -1})


def _of_chunk(
    of_part: Callable[[Input], np.ndarray], asked: Reading, X: UserData, block_info: Any = None
) -> np.ndarray:
    """Apply `of_part` to the rows X (n, d) of a chunk; this function runs on a worker."""
    part = ArrayRows(X, asked)
    if block_info:
        first, number = block_info[0]["array-location"][0][0], block_info[0]["chunk-location"][0]
        if first == first:
            part.first = int(first)
        else:
            part.words = f" of chunk {number}"
    return of_part(part)


TABLE_METHODS = ("__arrow_c_stream__", "__arrow_c_array__")
"""Methods by which Arrow can read an object as a table."""


def opened(X: UserData) -> Input | None:
    """Return a reader of X in blocks; None if scikit-learn checks X (list, array in memory)."""
    found = rows_of(X, Reading())
    if found is None or not (isinstance(found, ArrayRows) and found.in_memory):
        return found and found.opened()
    check_array(found.X)
    return None


def is_elsewhere(X: UserData) -> bool:
    """Return True if X is read in blocks, because NumPy can't use it directly."""
    found = rows_of(X, Reading())
    return found is not None and not found.in_memory


def rows_of(X: UserData, asked: Reading) -> Input | None:
    """Return a reader of the rows of X; None if X is neither an array nor a table.

    An array (n, d) is from NumPy, SciPy (sparse), dask or Zarr, or has a shape and slices. A table
    has one of the `TABLE_METHODS`, or is a dictionary of arrays, a polars LazyFrame, a pyarrow
    Dataset, a dask dataframe, or an iterable of tables. X may be wrapped by narwhals or xarray.
    `UnusableRowsError` if X is a collection of dask that is neither an array nor a dataframe.
    """
    if _has(type(X), "to_native"):  # narwhals
        X = X.to_native()
    elif _has(type(X), "to_dataset", "dims"):  # xarray
        X = X.data
    kind = type(X)
    if _has(kind, "__dask_graph__"):
        if _has(kind, "rechunk"):
            return DaskArray(X, asked)
        if not _has(kind, "map_partitions") or X.ndim != 2:
            raise not_rows_error(X, asked.name)
        return DaskFrame(X, asked)
    is_query = _has(kind, "collect", "collect_schema") or _has(kind, "scanner")  # polars, pyarrow
    if _is_table(kind) or is_query:
        return _of_table(X, asked)
    if hasattr(X, "shape"):
        return ArrayRows(X, asked) if _has(kind, "__getitem__") or _has(kind, "tocsr") else None
    if issubclass(kind, dict):
        return _of_table(X, asked)
    if not _has(kind, "__iter__") or _has(kind, "__array__"):
        return None
    if not _has(kind, "__getitem__"):  # an iterator
        return Tables(X, asked, lambda: X, once=True)
    if issubclass(kind, (str, bytes)) or not all(_is_table(type(one)) for one in X):
        return None
    return Tables(X, asked, lambda: X, once=any(_is_stream(type(one)) for one in X))


def _has(kind: type, *names: str) -> bool:
    return all(hasattr(kind, name) for name in names)


def _is_table(kind: type) -> bool:
    return any(hasattr(kind, name) for name in TABLE_METHODS)


def _is_stream(kind: type) -> bool:
    """Return True if a table can be read only once; a query of DuckDB can run again."""
    return _has(kind, "__arrow_c_stream__") and not _has(kind, "shape")


def _of_table(X: UserData, asked: Reading) -> Input | None:
    kind = type(X)
    if _has(kind, "collect_batches"):  # polars
        return Tables(X, asked, X.collect_batches)
    if _has(kind, "collect", "collect_schema"):  # older polars
        return Tables(X, asked, lambda: [X.collect()])
    if _has(kind, "scanner"):
        return Tables(X, asked, lambda: [X.scanner().to_reader()])
    in_memory = _has(kind, "shape", "__array__")
    if in_memory and len(X.shape) != 2:
        return None
    return Tables(X, asked, lambda: [X], in_memory=in_memory, once=_is_stream(kind))
