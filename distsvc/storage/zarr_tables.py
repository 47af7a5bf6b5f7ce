"""Zarr: an array whose columns are called f0, f1, ..., or a group of one array for each column."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from distsvc.errors import DataError, DistsvcError, InputNotFoundError
from distsvc.storage import files
from distsvc.storage.columns import Scan

_METADATA = ("zarr.json", ".zarray", ".zgroup")


def is_zarr(fs: Any, path: str) -> bool:
    """Return whether a path is named like Zarr or holds Zarr's metadata."""
    if path.endswith(".zarr"):
        return True
    return not files.is_named_table(path) and _has_metadata(fs, path)


def scan(path: str, others: Sequence[str]) -> Scan:
    """Read the metadata of an array or a group.

    The columns of a group are those that its attribute ``columns`` lists, in that order, else all
    its arrays sorted by name; an array that ``columns`` does not list is a column, but no feature
    unless the job names it. The storage unit is the shard, or the chunk if there are no shards,
    with the most rows.

    Parameters
    ----------
    path
        The array or group.
    others
        Columns that the job names besides the features; only a group has such.

    Raises
    ------
    InputNotFoundError
        There is nothing at the path.
    DataError
        It is not Zarr or holds no array, an array of a group is not one-dimensional or not as long
        as the others, or a lone array has not one or two dimensions or is asked for `others`.

    """
    fs, inner = files.locate(path)
    with _reading(path):
        if not _has_metadata(fs, inner):
            if files.find_info(fs, inner):
                raise DataError(f"{files.shown(path)} is not Zarr: it holds no zarr.json")
            raise InputNotFoundError(f"{files.shown(path)} does not exist")
        node = _open(path)
        if not _is_group(node):
            if others:
                raise DataError(
                    f"{files.shown(path)} is a lone array; input.id, input.label and input.where "
                    f"need a Zarr group with an array for each column (here {', '.join(others)})"
                )
            return _scan_array(path, node)
        arrays = _columns_of_group(path, node)
    types, shown, problems = {}, {}, {}
    for name, array in arrays.items():
        if isinstance(array, Exception):
            types[name] = pa.null()
            shown[name] = problems[name] = (
                f"array {name!r} of {files.shown(path)} can't be read: {array}"
            )
            continue
        types[name] = _arrow_type(array.dtype)
        shown[name] = f"an array of dtype {array.dtype}"
    usable = {name: a for name, a in arrays.items() if name not in problems}
    if not usable:
        reason = next(iter(problems.values()), f"{files.shown(path)} is a group without arrays")
        raise DataError(reason)
    _check_shapes(path, usable)
    listed = node.attrs.get("columns")
    return Scan(
        types=types,
        shown=shown,
        problems=problems,
        default=tuple(listed if listed is not None else types),
        extents=_extents(list(usable.values())),
    )


def batches(
    path: str, columns: list[str], start: int, stop: int, n_rows: int, at_once: int
) -> Iterator[dict[str, pa.Array]]:
    """Yield rows [start, stop) in order, as equally long Arrow arrays.

    Parameters
    ----------
    path
        The array or group.
    columns
        The columns to read.
    start, stop
        The rows.
    n_rows
        The rows that the table had when it was opened.
    at_once
        Rows to read in one go; at least a chunk is, and no chunk is decoded twice.

    Raises
    ------
    DataError
        A chunk is damaged or may not be read, or the length changed since the table was opened.

    """
    with _reading(path):
        node = _open(path)
        arrays = [node[name] for name in columns] if _is_group(node) else [node]
    for array in arrays:
        if array.shape[0] != n_rows:
            raise DataError(
                f"{files.shown(path)} has {array.shape[0]} rows, {n_rows} when the table was opened"
            )
    chunk = max((array.chunks[0] for array in arrays), default=n_rows)
    step = max(chunk, at_once // chunk * chunk)
    while start < stop:
        end = min(stop, start - start % chunk + step)
        with _reading(path):
            if _is_group(node):
                values = [array[start:end] for array in arrays]
            else:
                values = _array_columns(node, columns, start, end)
        yield {name: _to_arrow(v) for name, v in zip(columns, values, strict=True)}
        start = end


def _open(path: str) -> Any:
    import zarr  # 0.4 s that a Parquet job need not spend

    fs, inner = files.locate(path)
    if files.is_local(fs):
        return zarr.open(zarr.storage.LocalStore(inner, read_only=True), mode="r")
    return zarr.open(zarr.storage.FsspecStore.from_url(path, read_only=True), mode="r")


def _has_metadata(fs: Any, path: str) -> bool:
    return any(fs.exists(f"{path}/{name}") for name in _METADATA)


def _is_group(node: Any) -> bool:
    return not hasattr(node, "shape")


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        with files.reading(path):
            yield
    except (DistsvcError, MemoryError):
        raise
    except Exception as error:  # each codec raises its own kinds
        raise DataError(f"can't read {files.shown(path)}: {error}") from error


def _columns_of_group(path: str, group: Any) -> dict[str, Any]:
    # Members are opened one by one: one that Zarr can't represent must not hide the others.
    fs, inner = files.locate(path)
    found = [i["name"] for i in fs.ls(inner, detail=True) if i["type"] == "directory"]
    folders = {posixpath.basename(name.rstrip("/")) for name in found}
    listed = group.attrs.get("columns", [])
    if not (isinstance(listed, list) and all(isinstance(name, str) for name in listed)):
        raise DataError(
            f"attribute 'columns' of {files.shown(path)} must be a list of names, found {listed!r}"
        )
    arrays: dict[str, Any] = {}
    for name in dict.fromkeys([*listed, *sorted(folders)]):
        try:
            node = group[name]
        except KeyError:
            if name in listed:
                raise DataError(
                    f"attribute 'columns' of {files.shown(path)} names {name!r}, which is not there"
                ) from None
            continue
        except ValueError as error:
            node = error
        if isinstance(node, Exception) or not _is_group(node):
            arrays[name] = node
    return arrays


def _scan_array(path: str, array: Any) -> Scan:
    if array.ndim not in (1, 2):
        raise DataError(f"{files.shown(path)} has {array.ndim} dimensions, expected 1 or 2")
    names = [f"f{i}" for i in range(array.shape[1] if array.ndim == 2 else 1)]
    return Scan(
        types=dict.fromkeys(names, _arrow_type(array.dtype)),
        shown=dict.fromkeys(names, f"an array of dtype {array.dtype}"),
        problems={},
        default=tuple(names),
        extents=_extents([array]),
    )


def _check_shapes(path: str, arrays: dict[str, Any]) -> None:
    first = next(iter(arrays), "")
    for name, array in arrays.items():
        if array.ndim != 1:
            raise DataError(
                f"array {name!r} of {files.shown(path)} has {array.ndim} dimensions, expected 1: "
                "a group holds one array for each column"
            )
        if array.shape != arrays[first].shape:
            raise DataError(
                f"array {name!r} of {files.shown(path)} has {array.shape[0]} rows, "
                f"{first!r} has {arrays[first].shape[0]}"
            )


def _extents(arrays: list[Any]) -> tuple[int, ...]:
    n_rows = arrays[0].shape[0]
    unit = max((array.shards or array.chunks)[0] for array in arrays)
    return tuple(min(unit, n_rows - first) for first in range(0, n_rows, unit))


def _array_columns(array: Any, columns: list[str], start: int, stop: int) -> list[np.ndarray]:
    if array.ndim == 1:
        return [array[start:stop]]
    chosen = [int(name[1:]) for name in columns]
    # Whole chunks when all columns are wanted, else only the chunks that hold them.
    if chosen == list(range(array.shape[1])):
        block = array[start:stop]
    else:
        block = array.oindex[slice(start, stop), chosen]
    return list(np.ascontiguousarray(block.T))


def _arrow_type(dtype: Any) -> pa.DataType:
    if dtype.kind in "TUO":
        return pa.string()
    try:
        return pa.from_numpy_dtype(dtype.newbyteorder("="))
    except pa.ArrowNotImplementedError:
        return pa.binary()  # complex and the like: a column, never a feature


def _to_arrow(values: np.ndarray) -> pa.Array:
    if values.dtype.kind in "TUO":
        return pa.array(values.astype(object), pa.string())
    return pa.array(values.astype(values.dtype.newbyteorder("="), copy=False))
