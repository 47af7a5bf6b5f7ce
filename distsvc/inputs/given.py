"""What an estimator is given: an array in memory, or what is read block by block."""

from __future__ import annotations

from typing import Any

import numpy as np

from distsvc.errors import UnusableRowsError
from distsvc.inputs.chunked import DaskArray, StoredArray
from distsvc.inputs.rows import Input, check_array

ARROW = ("__arrow_c_stream__", "collect_batches", "scanner")
STORED = ("shape", "dtype", "chunks", "__getitem__")


def opened(X: Any) -> Input | None:
    """Return what reads X block by block, or None where scikit-learn's checks take it.

    These take NumPy arrays, lists and sparse matrices. Read are dask arrays and dataframes, arrays
    of Zarr and h5py, polars' LazyFrame, datasets of pyarrow, whatever narwhals wraps, and whatever
    has ``__arrow_c_stream__``. A query begins to run, and a stream belongs to what is returned.

    Raises
    ------
    UnusableRowsError
        It is one of these and no table of numbers.

    """
    X = _unwrapped(X)
    check_array(X)
    kind = type(X)
    if _is_dask(kind):
        return _of_dask(X)
    if _has_any(kind, ARROW):
        return _of_arrow(X)
    return StoredArray(X) if _is_stored(kind) else None


def is_elsewhere(X: Any) -> bool:
    """Return whether X is read block by block and is no frame in this process's memory."""
    kind = type(_unwrapped(X))
    if _is_dask(kind):
        return True
    return not _is_frame(kind) if _has_any(kind, ARROW) else _is_stored(kind)


# Types are told by what they have: a relation of DuckDB has every name, as that of a column.


def _unwrapped(X: Any) -> Any:
    """Return what narwhals or an array of xarray wraps."""
    kind = type(X)
    if hasattr(kind, "to_native"):
        return X.to_native()
    return X.data if hasattr(kind, "to_dataset") and hasattr(kind, "dims") else X


def _is_dask(kind: type) -> bool:
    return hasattr(kind, "__dask_graph__")


def _is_stored(kind: type) -> bool:
    return not issubclass(kind, np.ndarray) and all(hasattr(kind, name) for name in STORED)


def _is_frame(kind: type) -> bool:
    """Return whether it is a frame in memory: it has a shape, and NumPy takes it."""
    return hasattr(kind, "shape") and hasattr(kind, "__array__")


def _has_any(kind: type, names: tuple[str, ...]) -> bool:
    return any(hasattr(kind, name) for name in names)


def _of_dask(X: Any) -> Input | None:
    if hasattr(type(X), "rechunk"):
        return DaskArray(X)
    if not hasattr(type(X), "map_partitions"):
        raise UnusableRowsError(
            f"X is a {type(X).__module__.partition('.')[0]} {type(X).__name__}, expected a table "
            "or an array of rows by columns (n, d)"
        )
    from distsvc.inputs.arrow import DaskFrame

    return DaskFrame(X) if X.ndim == 2 else None


def _of_arrow(X: Any) -> Input | None:
    from distsvc.inputs.arrow import Frames, slices

    kind = type(X)
    if hasattr(kind, "collect_batches"):  # polars, a query
        return Frames(X.collect_batches)
    if hasattr(kind, "scanner"):  # pyarrow, a dataset
        return Frames(lambda: iter([X.scanner().to_reader()]))
    if _is_frame(kind):
        pandas, table = hasattr(kind, "iloc"), len(X.shape) == 2
        frames = (lambda: slices(X)) if pandas else (lambda: iter([X]))
        return Frames(frames, in_memory=True, header=X) if table else None
    # A query of DuckDB has a shape and runs again at each reading; a stream has none.
    return Frames(lambda: iter([X]), once=not hasattr(kind, "shape"))
