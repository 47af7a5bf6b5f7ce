"""The choice of a reader for an array or a table, by the attributes of its type.

Nothing of pandas, dask or Zarr is imported. Types are examined and not objects, because a relation
of DuckDB has an attribute for every column.
"""

from __future__ import annotations

from typing import Any

from distsvc.inputs.arrays import ArrayRows, DaskArray
from distsvc.inputs.rows import Input, Reading, check_array, no_rows

TABLE_METHODS = ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__")
"""Methods by which Arrow can read an object as a table."""


def opened(X: Any, missing: bool = False) -> Input | None:
    """Return the reader of X in blocks; None for NumPy arrays, lists and sparse matrices.

    scikit-learn validates the latter. With `missing`, values may be NaN or null.
    `UnusableRowsError` if X is no table of numbers.
    """
    found = rows_of(X, Reading(missing=missing))
    if found is None or not (isinstance(found, ArrayRows) and found.in_memory):
        return found and found.opened()
    check_array(found.X)
    return None


def is_elsewhere(X: Any) -> bool:
    """Return whether X is read in blocks, since NumPy can't use it directly."""
    found = rows_of(X, Reading())
    return found is not None and not found.in_memory


def rows_of(X: Any, asked: Reading) -> Input | None:
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
        return _of_dask(X, asked)
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
    """Return whether a table can be read only once; DuckDB can run a query again."""
    return _has(kind, "__arrow_c_stream__") and not _has(kind, "shape")


def _of_dask(X: Any, asked: Reading) -> Input:
    if _has(type(X), "rechunk"):
        return DaskArray(X, asked)
    if not _has(type(X), "map_partitions") or X.ndim != 2:
        raise no_rows(X, asked.name)
    from distsvc.inputs.arrow import DaskFrame

    return DaskFrame(X, asked)


def _of_table(X: Any, asked: Reading) -> Input | None:
    from distsvc.inputs.arrow import Tables

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


def _of_many(X: Any, asked: Reading) -> Input | None:
    """Return the reader of an iterable of tables; None for a sequence of other objects."""
    from distsvc.inputs.arrow import Tables

    if not _has(type(X), "__getitem__"):
        return Tables(X, asked, lambda: X, once=True)
    if isinstance(X, (str, bytes)) or not all(_is_table(type(one)) for one in X):
        return None
    return Tables(X, asked, lambda: X, once=any(_is_stream(type(one)) for one in X))
