"""Arrays that are stored in chunks, and those that dask will compute.

Nothing of dask or Zarr is imported: the object that the user gives is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from distsvc.errors import UnusableRowsError
from distsvc.inputs.rows import (
    Input,
    OfRows,
    block_rows,
    check_finite,
    check_numbers,
    check_table,
    cut,
)


class StoredArray(Input):
    """An array whose rows are read by slices: of Zarr, or of h5py."""

    def __init__(self, X: Any):
        check_table(X.shape)
        check_numbers(X.dtype)
        super().__init__(X, [X.dtype])
        self.X = X

    def chunks(self) -> Iterator[np.ndarray]:
        """Yield rows in slices on the borders of the array's chunks, so that each is read once."""
        stored = getattr(self.X, "shards", None) or self.X.chunks or (1,)
        rows = int(stored[0])
        step = max(block_rows(self.n_features) // rows, 1) * rows
        for first in range(0, self.X.shape[0], step):
            yield np.asarray(self.X[first : first + step])


class DaskArray(Input):
    """A dask array, whose chunks are computed one after another."""

    lazy = True

    def __init__(self, X: Any):
        check_table(X.shape)
        check_numbers(X.dtype)
        super().__init__(X, [X.dtype])
        self.X = X.rechunk({1: -1})

    def chunks(self) -> Iterator[np.ndarray]:
        """Yield the rows of the chunks; where these are small, several are computed at once."""
        sizes = [1 if size != size else int(size) for size in self.X.chunks[0]]
        known = all(size == size for size in self.X.chunks[0])
        most, start, n = block_rows(self.n_features), 0, 0
        for number, size in enumerate(sizes):
            if number > start and (not known or n + size > most):
                yield self._computed(start, number)
                start, n = number, 0
            n += size
        if sizes:
            yield self._computed(start, len(sizes))

    def _computed(self, start: int, stop: int) -> np.ndarray:
        return _dense(self.X.blocks[start:stop].compute())

    def map(self, function: OfRows, dtype: Any, name: str) -> Any:
        """Return a dask array of the values, with the chunks of the input's rows."""
        task = partial(_of_chunk, function, self.dtype, np.dtype(dtype))
        nothing = np.empty(0, dtype)
        return self.X.map_blocks(task, dtype=dtype, drop_axis=1, meta=nothing)


def _of_chunk(
    function: OfRows, dtype: np.dtype, out: np.dtype, X: Any, block_info: Any = None
) -> np.ndarray:
    """Return the values (n,) of the rows (n, d) of one chunk, wherever dask computes it."""
    where, first = "row {}", 0
    if block_info:
        first, number = block_info[0]["array-location"][0][0], block_info[0]["chunk-location"][0]
        if first != first:
            where, first = f"row {{}} of chunk {number}", 0
    return values_of(function, _dense(X), dtype, out, None, where, int(first))


def values_of(
    function: OfRows,
    X: np.ndarray,
    dtype: np.dtype,
    out: np.dtype,
    names: Any,
    row_words: str,
    first: int = 0,
) -> np.ndarray:
    """Return the values (n,) of dtype `out` of rows X (n, d), block by block; errors as there."""
    values, done = np.empty(len(X), out), 0
    for part in cut(X, block_rows(X.shape[1])):
        block = np.ascontiguousarray(part, dtype)
        check_finite(block, names, row_words, first + done)
        values[done : done + len(block)] = function(block)
        done += len(block)
    return values


def _dense(chunk: Any) -> np.ndarray:
    found = np.asarray(chunk)
    if found.ndim != 2:
        raise UnusableRowsError(
            f"X has chunks of the type {type(chunk).__name__}, expected NumPy arrays (n, d)"
        )
    return found
