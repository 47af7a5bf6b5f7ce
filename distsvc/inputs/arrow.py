"""Tables that speak Arrow: frames, queries and streams.

A frame is whatever has ``__arrow_c_stream__``. Some inputs are one, others a row of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from distsvc.errors import UnusableRowsError
from distsvc.inputs.chunked import values_of
from distsvc.inputs.rows import Input, OfRows, block_rows

FEW_COLUMNS = 8
"""Columns that a slice of a pandas frame is made for, at least: its length is not known before."""


class Frames(Input):
    """Frames with equal columns, whose rows follow each other.

    Parameters
    ----------
    frames : callable
        Returns an iterator of the frames; a new one at each call, unless `once`.
    in_memory, once : bool
        As in `Input`.
    header : object, optional
        As in `Input`; the Arrow schema's names otherwise.

    """

    def __init__(
        self,
        frames: Callable[[], Iterator[Any]],
        *,
        in_memory: bool = False,
        once: bool = False,
        header: Any = None,
    ):
        self.in_memory, self.once, self.frames = in_memory, once, frames
        self._waiting: Iterator[pa.RecordBatch] | None
        schema, self._waiting = self._opened()
        check_names(schema)
        kinds = [number_type(field) for field in schema]
        header = schema.empty_table() if header is None else header
        super().__init__(header, kinds, schema.names)

    def chunks(self) -> Iterator[np.ndarray]:
        """Yield the rows of the record batches. The first pass goes on with the opened stream."""
        batches, self._waiting = self._waiting, None
        if batches is None:
            if self.once:
                raise UnusableRowsError("X can be read only once, and it has been: give a new one")
            _, batches = self._opened()
        rows = block_rows(self.n_features)
        for batch in batches:
            for first in range(0, batch.num_rows, rows):
                yield matrix(batch.slice(first, rows), self.dtype)

    def _opened(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        frames = iter(self.frames())
        first = next(frames, None)
        if first is None:
            raise UnusableRowsError("X has no rows")
        reader = stream(first)
        return reader.schema, chain(reader, chain.from_iterable(map(stream, frames)))


class DaskFrame(Frames):
    """A dask dataframe, whose partitions are computed one after another."""

    lazy = True

    def __init__(self, X: Any):
        self.X = X
        super().__init__(self._computed)

    def _computed(self) -> Iterator[Any]:
        for number in range(self.X.npartitions):
            yield from slices(self.X.partitions[number].compute())

    def map(self, function: OfRows, dtype: Any, name: str) -> Any:
        """Return a dask series of the values, with the index and the partitions of the input."""
        task = partial(_of_partition, function, self.dtype, np.dtype(dtype), name)
        return self.X.map_partitions(task, meta=(name, dtype))


def _of_partition(
    function: OfRows, dtype: np.dtype, out: np.dtype, name: str, frame: Any
) -> np.ndarray:
    """Return the values of the rows of one partition as a series, wherever dask computes it."""
    values, done = np.empty(len(frame), out), 0
    for part in slices(frame) if len(frame) else ():
        for batch in stream(part):
            X = matrix(batch, dtype)
            where = "row {} of a partition"
            found = values_of(function, X, dtype, out, batch.schema.names, where, done)
            values[done : done + len(X)] = found
            done += len(X)
    return type(frame.iloc[:, 0])(values, index=frame.index, name=name)


def slices(frame: Any) -> Iterator[Any]:
    """Yield a pandas frame in slices, whose index Arrow does not take for a column."""
    step = block_rows(max(frame.shape[1], FEW_COLUMNS))
    for first in range(0, max(len(frame), 1), step):
        yield frame.iloc[first : first + step].reset_index(drop=True)


def stream(frame: Any) -> pa.RecordBatchReader:
    """Return the reader of a frame's record batches.

    Raises
    ------
    UnusableRowsError
        It can't be had as a table of Arrow's.

    """
    try:
        return pa.RecordBatchReader.from_stream(frame)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        text = str(error).split("\n", 1)[0]
        raise UnusableRowsError(f"X can't be read as an Arrow table of numbers: {text}") from error


def check_names(schema: pa.Schema) -> None:
    """Raise UnusableRowsError for a table without columns, or with two of one name."""
    if not schema.names:
        raise UnusableRowsError("X has no columns, expected at least 1")
    twice = {name for name in schema.names if schema.names.count(name) > 1}
    if twice:
        raise UnusableRowsError(f"X has two columns of the name {min(twice)!r}: rename one")


def number_type(field: pa.Field) -> np.dtype:
    """Return the dtype that holds a column's numbers.

    Raises
    ------
    UnusableRowsError
        It holds none; says what to do.

    """
    kind = field.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype())
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return np.dtype(np.float64)
    raise UnusableRowsError(
        f"column {field.name!r} has the type {kind}, expected numbers: leave the column out, or "
        "make numbers of it"
    )


def matrix(batch: pa.RecordBatch, dtype: np.dtype) -> np.ndarray:
    """Return the rows (n, d) of a record batch; null is NaN."""
    X = np.empty((batch.num_rows, batch.num_columns), dtype)
    for k, column in enumerate(batch.columns):
        kind = column.type
        if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            column = column.cast(pa.float64(), safe=False)
        X[:, k] = column.to_numpy(zero_copy_only=False)
    return X
