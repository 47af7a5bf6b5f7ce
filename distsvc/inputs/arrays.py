"""Readers of arrays in memory, in chunks or of dask, without an import of SciPy, dask or Zarr."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from distsvc.errors import UnusableRowsError
from distsvc.inputs.rows import Input, Reading, RowValues, cut


class ArrayRows(Input):
    """An array whose rows are read by slices: of NumPy, SciPy (sparse), Zarr, h5py."""

    def __init__(self, X: Any, asked: Reading):
        super().__init__(X, asked)
        self.shape, self.in_memory = X.shape, not hasattr(type(X), "chunks")

    def pieces(self) -> Iterator[np.ndarray]:
        X = self.X.tocsr() if hasattr(type(self.X), "tocsr") else self.X
        # Slices end on the borders of chunks, so that each chunk is read once.
        rows = int((getattr(X, "shards", None) or getattr(X, "chunks", None) or (1,))[0])
        step = max(self.asked.most(X.shape[1]) // rows, 1) * rows
        for first in range(0, X.shape[0], step):
            yield from self._cut(X[first : first + step])

    def columns(self) -> tuple[Any, Sequence[np.dtype], Sequence[str] | None]:
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

    def _cut(self, part: Any) -> Iterator[np.ndarray]:
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

    def _check_numbers(self, dtype: Any) -> None:
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

    def _whole(self) -> Any:
        return self.X.rechunk({1: -1})


def _of_chunk(
    of_part: Callable[[Input], np.ndarray], asked: Reading, X: Any, block_info: Any = None
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
