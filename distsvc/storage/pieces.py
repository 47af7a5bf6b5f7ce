"""What has rows, whoever made it, in pieces: slices of an array, or record batches of a table.

Nothing but Arrow is imported for it: the type that is given is asked what it can do. (A relation of
DuckDB answers to the name of every column, so objects are not asked.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from distsvc.errors import DataError, shown
from distsvc.storage.columns import some

NAME = "the rows"
"""What messages call them."""


def pieces(X: Any, columns: Sequence[str], most: int) -> Iterator[np.ndarray | pa.RecordBatch]:
    """Yield all rows of X in order, in pieces of at most so many; memory is that of a few.

    Parameters
    ----------
    X
        An array (n, d): of NumPy, SciPy (sparse), dask, Zarr, or anything else with a shape and
        slices. Or a table: what has ``__arrow_c_stream__``, such as those of pyarrow, pandas and
        polars and the relations of DuckDB; ``__arrow_c_array__`` or ``__dataframe__``; a dictionary
        of arrays, a polars LazyFrame, a pyarrow Dataset, a dask DataFrame, what narwhals wraps; or
        an iterable of tables.
    columns
        What the columns of an array are.
    most
        At least 1.

    Raises
    ------
    DataError
        It is nothing of that, an array of another width or not of numbers, or can't be read.

    """
    for part in _computed(X, columns):
        yield from _of_array(part, columns, most) if _is_array(part) else _of_table(part, most)


def _computed(X: Any, columns: Sequence[str]) -> Iterator[Any]:
    """Yield X, or each part of it that dask computes."""
    X = X.to_native() if _can(X, "to_native") else X
    X = X.data if _can(X, "to_dataset", "dims") else X  # an array of xarray
    if not _can(X, "__dask_graph__"):
        yield X
    elif _can(X, "map_partitions"):
        for number in range(X.npartitions):
            yield X.partitions[number].compute()
    elif not _can(X, "rechunk"):
        raise _no_rows(X)
    else:
        _check_width(X, columns)
        whole = X.rechunk({1: -1})
        for number in range(whole.numblocks[0]):
            yield whole.blocks[number].compute()


def _can(X: Any, *names: str) -> bool:
    return all(hasattr(type(X), name) for name in names)


def _is_array(X: Any) -> bool:
    is_frame = _can(X, "__arrow_c_stream__") or _can(X, "__dataframe__")
    return not is_frame and hasattr(X, "shape") and _can(X, "__getitem__")


def _check_width(X: Any, columns: Sequence[str]) -> None:
    if len(X.shape) != 2 or X.shape[1] != len(columns):
        raise DataError(
            f"{NAME}: expected an array of {len(columns)} columns ({some(columns)}), found one of "
            f"shape {tuple(X.shape)}"
        )


def _of_array(X: Any, columns: Sequence[str], most: int) -> Iterator[np.ndarray]:
    _check_width(X, columns)
    for start in range(0, X.shape[0], most):
        piece = X[start : start + most]
        piece = piece.toarray() if _can(piece, "toarray") else piece
        if isinstance(piece, np.ma.MaskedArray):
            piece = np.ma.filled(piece.astype(np.float64), np.nan)
        piece = np.asarray(piece)
        if piece.dtype.kind not in "biuf":
            raise DataError(f"{NAME}: expected an array of numbers, found dtype {piece.dtype}")
        yield piece


def _of_table(X: Any, most: int) -> Iterator[pa.RecordBatch]:
    for batch in _batches(X):
        for start in range(0, batch.num_rows, most):
            yield batch.slice(start, most)


def _batches(X: Any) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a table or a stream, or of an iterable of them."""
    if _can(X, "__arrow_c_stream__"):
        yield from _read(X)
    elif _can(X, "__arrow_c_array__"):
        yield pa.record_batch(X)
    elif _can(X, "collect_batches"):  # polars' LazyFrame
        for frame in X.collect_batches():
            yield from _read(frame)
    elif _can(X, "collect", "collect_schema"):  # that of an earlier version
        yield from _read(X.collect())
    elif _can(X, "scanner"):  # pyarrow's Dataset
        yield from _read(X.scanner().to_reader())
    elif isinstance(X, dict) or _can(X, "__dataframe__"):
        yield from _read(_as_table(X))
    elif _can(X, "__iter__") and not isinstance(X, (str, bytes)):
        for part in X:
            if not (_can(part, "__arrow_c_array__") or _can(part, "__arrow_c_stream__")):
                raise _no_rows(part)
            yield from _batches(part)
    else:
        raise _no_rows(X)


def _read(table: Any) -> Iterator[pa.RecordBatch]:
    try:
        yield from pa.RecordBatchReader.from_stream(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"{NAME} can't be read: {error}") from error


def _as_table(X: Any) -> pa.Table:
    from pyarrow.interchange import from_dataframe

    try:
        return pa.table(X) if isinstance(X, dict) else from_dataframe(X)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"{NAME} can't be read: {error}") from error


def _no_rows(X: Any) -> DataError:
    value = "" if _can(X, "__dask_graph__") else f" {shown(X)}"
    return DataError(
        f"{NAME}: expected an array (n, d), or a table that pyarrow can read "
        f"(__arrow_c_stream__), found {type(X).__module__}.{type(X).__qualname__}{value}"
    )
