"""The choice of a reader for an array or a table, by the attributes of its type.

pandas, dask and Zarr are not imported. Types are examined instead of objects, because a relation of
DuckDB has an attribute for every column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from distsvc.errors import UnusableRowsError
from distsvc.inputs.arrow import DaskFrame, Tables
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


class ArrayRows(Input):
    """An array whose rows are read by slices: of NumPy, SciPy (sparse), Zarr, h5py."""

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
                f"{self.asked.name} has {shape[1]} columns, expected at least 1, and a known "
                "number (dask: X.compute_chunk_sizes())"
            )
        self._check_numbers(self.X.dtype)
        return self.X, [self.X.dtype], None

    def _cut(self, part: UserData) -> Iterator[np.ndarray]:
        """Yield rows as arrays of numbers, in pieces; masked values are NaN."""
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
                f"{self.asked.name}: expected an array of numbers, found dtype {dtype}"
            )


class DaskArray(ArrayRows):
    """A dask array, whose chunks are computed one after another."""

    lazy = True

    def pieces(self) -> Iterator[np.ndarray]:
        X, most = self._whole(), self.asked.most(self.X.shape[1])  # small chunks go together
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
    """Return the values of the rows (n, d) of a chunk; dask calls it on a worker."""
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
    """Return the reader of X in blocks; None for NumPy arrays, lists and sparse matrices.

    scikit-learn reads and checks these. `UnusableRowsError` if X is no table of numbers.
    """
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
    """Return the reader of X in pieces; None if X is neither an array nor a table.

    X is an array (n, d) of NumPy, SciPy (sparse), dask or Zarr, or another object with a shape and
    slices; or an object with one of `TABLE_METHODS`, a dictionary of arrays, a polars LazyFrame, a
    pyarrow Dataset, a dask dataframe, or an iterable of tables; or one of these in narwhals or
    xarray. `UnusableRowsError` for another collection of dask.
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
    return _of_many(X, asked) if _has(kind, "__iter__") and not _has(kind, "__array__") else None


def _has(kind: type, *names: str) -> bool:
    return all(hasattr(kind, name) for name in names)


def _is_table(kind: type) -> bool:
    return any(hasattr(kind, name) for name in TABLE_METHODS)


def _is_stream(kind: type) -> bool:
    """Return True if a table can be read only once; a query of DuckDB can run again."""
    return _has(kind, "__arrow_c_stream__") and not _has(kind, "shape")


def _of_table(X: UserData, asked: Reading) -> Input | None:
    kind = type(X)
    if _has(kind, "collect_batches"):  # of polars
        return Tables(X, asked, X.collect_batches)
    if _has(kind, "collect", "collect_schema"):  # of polars before
        return Tables(X, asked, lambda: [X.collect()])
    if _has(kind, "scanner"):
        return Tables(X, asked, lambda: [X.scanner().to_reader()])
    in_memory = _has(kind, "shape", "__array__")
    if in_memory and len(X.shape) != 2:
        return None
    return Tables(X, asked, lambda: [X], in_memory=in_memory, once=_is_stream(kind))


def _of_many(X: UserData, asked: Reading) -> Input | None:
    """Return the reader of an iterable of tables; None for a sequence of other objects."""
    if not _has(type(X), "__getitem__"):
        return Tables(X, asked, lambda: X, once=True)
    if isinstance(X, (str, bytes)) or not all(_is_table(type(one)) for one in X):
        return None
    return Tables(X, asked, lambda: X, once=any(_is_stream(type(one)) for one in X))
