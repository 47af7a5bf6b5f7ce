"""Tables stored as Zarr.

A table is an array, whose columns are called f0, f1, ..., or a group with an array for each column.
"""

import base64
import itertools
import math
import os
import posixpath
import re
import struct
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from distsvc.errors import DataError, InputNotFoundError
from distsvc.job.config import InputConfig
from distsvc.storage.places.location import (
    Location,
    Version,
    Versions,
    combined_version,
    version_of,
)
from distsvc.storage.places.store import Store
from distsvc.storage.rows import blocks
from distsvc.storage.rows.columns import (
    MAX_WIDTH,
    UNKNOWN_TYPE,
    Scan,
    other_columns,
    too_many_columns,
    truncated,
)
from distsvc.storage.tables.files import Files, find_files
from distsvc.storage.tables.source import Source

if TYPE_CHECKING:
    from zarr import Array, Group

_METADATA = ("zarr.json", ".zarray", ".zgroup")
_METADATA_FILES = (*_METADATA, ".zattrs", ".zmetadata")

_CHUNK = re.compile(r"(?:.*/)?(?:c|(?:c[./])?\d+(?:[./]\d+)*)")
"""The name of a file of a chunk or a shard, in any key encoding."""

_BLOSC = struct.Struct("<4B3I")
"""The header of Blosc; its last number is the packed size in bytes."""

_Arrays = dict[str, Any]
"""Arrays by name; an array that can't be read is replaced by its error."""


def _check_whole(place: Location, name: str, array: "Array", start: int, stop: int) -> None:
    """Raise `DataError` if a file with a chunk of rows [start, stop) is truncated.

    Blosc does not notice this, and would read beyond the end of the chunk in memory. Only local
    stores are checked.
    """
    codecs = [type(codec).__name__ for codec in array.compressors]
    if not place.is_local or array.shards or not any("Blosc" in codec for codec in codecs):
        return
    first, last = start // array.chunks[0], (stop - 1) // array.chunks[0]
    pairs = zip(array.shape[1:], array.chunks[1:], strict=True)
    across = [range(-(-n // size)) for n, size in pairs]
    for cell in itertools.product(range(first, last + 1), *across):
        file = place.join(posixpath.join(name, array.metadata.encode_chunk_key(cell)))
        if not os.path.exists(file.path):
            continue
        with file.naming_errors(), open(file.path, "rb") as stream:
            header, size = stream.read(_BLOSC.size), os.fstat(stream.fileno()).st_size
        whole = len(header) == _BLOSC.size
        expected = _BLOSC.unpack(header)[-1] if whole else _BLOSC.size
        if size < expected:
            raise DataError(
                f"{file.shown} is truncated: it has {size} bytes, expected at least {expected}; "
                "write the chunk again"
            )


def _stored(array: "Array") -> tuple[int, object]:
    """Return the number of files that store a complete array, and its fill value.

    A file has one shard, or one chunk of an array without shards. Missing files are read as the
    fill value.
    """
    sizes = array.shards or array.chunks
    pairs = zip(array.shape, sizes, strict=True)
    return math.prod(-(-n // size) for n, size in pairs), array.fill_value


class Zarr(Source):
    """An array or a group of Zarr, recognised by suffix or metadata files.

    The attribute ``columns`` of a group lists its columns; without it, all arrays are columns,
    sorted by name. Arrays that ``columns`` omits are features only if the job names them. An array
    (n, m) in a group is a column of vectors. The storage unit is the largest shard, or chunk.
    """

    name = "zarr"
    title = "Zarr"
    suffixes = (".zarr",)
    joins = False

    def is_store(self, location: Location) -> bool:
        return location.path.endswith(self.suffixes) or _has_metadata(location)

    def claim(self, found: Files) -> Files:
        return found.named(())

    def versions(self, found: Files) -> Versions:
        """Return the version of each metadata file, and of all chunks of each array together.

        The key for the chunks of an array is its path and "/*", such as "age/*". If a server does
        not list its files, only the metadata files of the root have versions.
        """
        place = found.location
        try:
            files = find_files(place, hidden=True).versions
        except InputNotFoundError:  # nothing there, or a server that does not list its files
            names = [name for name in _METADATA_FILES if place.fs.exists(place.join(name).path)]
            return {name: version_of(place.join(name)) for name in names}
        folders = {
            name.rpartition("/")[0] for name in files if posixpath.basename(name) in _METADATA_FILES
        }
        versions: Versions = {}
        chunks: dict[str, list[tuple[str, Version]]] = {}
        for name, version in files.items():
            if posixpath.basename(name) in _METADATA_FILES:
                versions[name] = version
            else:
                folder = name
                while folder and folder not in folders:
                    folder = folder.rpartition("/")[0]
                chunks.setdefault(posixpath.join(folder, "*"), []).append((name, version))
        return versions | {
            name: combined_version(members, sum(bool(_CHUNK.fullmatch(own)) for own, _ in members))
            for name, members in chunks.items()
        }

    def scan(self, found: Files, config: InputConfig, staging: Store, categories: Set[str]) -> Scan:
        place, others = found.location, other_columns(config)
        with place.naming_errors(any_kind=True):  # each codec raises its own kinds
            if not _has_metadata(place):
                if place.info():
                    raise DataError(f"{place.shown} is not Zarr: it holds no zarr.json")
                raise place.not_found()
            node = _open(place)
            arrays = _columns_of_group(place, node) if _is_group(node) else None
        if arrays is not None:
            wanted = [*(config.columns or ()), *others]
            return _scan_group(place, arrays, node.attrs.get("columns"), wanted)
        if others:
            raise DataError(
                f"{place.shown} is a lone array; input.id, {config.classes_key} and input.where "
                f"need a Zarr group with an array for each column (here {', '.join(others)})"
            )
        if node.ndim not in (1, 2):
            raise DataError(f"{place.shown} has {node.ndim} dimensions, expected 1 or 2")
        if node.ndim == 2 and node.shape[1] > MAX_WIDTH:
            raise too_many_columns(place.shown, node.shape[1])
        names = [f"f{i}" for i in range(node.shape[1] if node.ndim == 2 else 1)]
        return Scan(
            layout=blocks.Layout(place.address, Zarr.name, _extents(place, [node])),
            types=dict.fromkeys(names, _arrow_type(node.dtype)),
            words=dict.fromkeys(names, f"an array of dtype {node.dtype}"),
            problems={},
            default=tuple(names),
            stored={"": _stored(node)},
            comparable={},
        )

    def notes(self, found: Files, scan: Scan, versions: Versions, columns: Set[str]) -> list[str]:
        if not (found.location.is_local or any(name.endswith("*") for name in versions)):
            return []  # chunks are unknown
        arrays = []
        for name, (expected, fill) in scan.stored.items():
            known = versions.get(posixpath.join(name, "*"))
            lacking = expected - (known.chunks if known else 0)
            if (name in columns or not name) and lacking > 0 and fill == fill:  # not NaN
                array = f"array {name!r}" if name else "the array"
                arrays.append(f"{array} ({lacking:,} of {expected:,} chunks, read as {fill})")
        return arrays and [
            f"chunks without a file are read as the fill value: {truncated(arrays)}; this is right "
            "if the writer omits such chunks (Zarr: write_empty_chunks=False); otherwise their "
            "values were never written"
        ]

    def decoding_bytes(self, table: blocks.Table, block_rows: int) -> int:
        step = _step(max(table.layout.extents), block_rows)
        return 2 * step * sum(blocks.stored_bytes(table))  # packed and decoded

    def batches(self, table: blocks.Table, span: blocks.Span, columns: list[str]) -> blocks.Batches:
        place = Location.of(table.layout.path)
        with place.naming_errors(any_kind=True):
            node = _open(place)
            arrays = {n: node[n] for n in columns} if _is_group(node) else {"": node}
        for array in arrays.values():
            if array.shape[0] != table.n_rows:
                raise DataError(
                    f"{place.shown} has {array.shape[0]} rows, "
                    f"{table.n_rows} when the table was opened"
                )
        chunk = max((array.chunks[0] for array in arrays.values()), default=table.n_rows)
        step = _step(chunk, span.block_rows)
        start = span.start
        while start < span.stop:
            end = min(span.stop, start - start % chunk + step)
            for name, array in arrays.items():
                _check_whole(place, name, array, start, end)
            with place.naming_errors(any_kind=True):
                if _is_group(node):
                    values = [array[start:end] for array in arrays.values()]
                else:
                    values = _array_columns(node, columns, start, end)
            yield {name: _to_arrow(v) for name, v in zip(columns, values, strict=True)}
            start = end


def _step(chunk: int, block_rows: int) -> int:
    """Return the number of rows to decode at a time, which is a multiple of the chunk size."""
    return max(chunk, min(block_rows, 262_144) // chunk * chunk)


def _open(place: Location) -> "Array | Group":
    """Open an array or a group without consolidated metadata, which may be stale."""
    import zarr  # a slow import

    return zarr.open(place.zarr_store(), mode="r", use_consolidated=False)


def _has_metadata(place: Location) -> bool:
    return any(place.join(name).exists() for name in _METADATA)


def _is_group(node: "Array | Group") -> bool:
    return not hasattr(node, "shape")


def _columns_of_group(place: Location, group: "Group") -> _Arrays:
    import zarr

    # Members are opened one by one, so that an unreadable one does not hide the others.
    found = [i["name"] for i in place.fs.ls(place.path, detail=True) if i["type"] == "directory"]
    folders = {posixpath.basename(name.rstrip("/")) for name in found}
    listed = group.attrs.get("columns", [])
    if not (isinstance(listed, list) and all(isinstance(name, str) for name in listed)):
        raise DataError(
            f"attribute 'columns' of {place.shown} must be a list of names, found {listed!r}"
        )
    arrays: _Arrays = {}
    known = zarr.open_group(place.zarr_store(), mode="r").metadata.consolidated_metadata
    consolidated = {name.partition("/")[0] for name in known.metadata} if known is not None else ()
    sources = dict.fromkeys(sorted(consolidated), "the consolidated metadata")
    sources |= dict.fromkeys(listed, "attribute 'columns'")
    for name in dict.fromkeys([*listed, *sorted({*folders, *sources})]):
        if name not in folders:
            raise DataError(
                f"{sources[name]} of {place.shown} names {name!r}, which does not exist"
            )
        node = _member(place.join(name), group, name)
        if isinstance(node, Exception) or not _is_group(node):
            arrays[name] = node
    return arrays


def _member(folder: Location, group: "Group", name: str) -> "Array | Group | Exception":
    """Return a member of a group, or an error if the member can't be read.

    A folder without metadata is no member. For such a folder, `group` itself is returned.
    """
    try:
        node = group[name]
        dict.keys(node.metadata.attributes)  # damaged attributes may be of another type
    except OSError:
        raise
    except KeyError:
        node = group
    except Exception as error:  # damaged metadata can raise any kind
        return error
    if _is_group(node) and _has_chunks(folder):
        return ValueError("it holds chunks, but no metadata of an array")
    return node


def _has_chunks(folder: Location) -> bool:
    """Return True if a folder has entries that are named like chunks and are no arrays."""
    paths = folder.fs.ls(folder.path, detail=False)
    names = (posixpath.basename(path.rstrip("/")) for path in paths)
    return any(_CHUNK.fullmatch(n) and not _has_metadata(folder.join(n)) for n in names)


def _scan_group(
    place: Location, arrays: _Arrays, listed: list[str] | None, wanted: Sequence[str]
) -> Scan:
    usable = {name: a for name, a in arrays.items() if not isinstance(a, Exception)}
    coordinates = {n: why for n, a in usable.items() if (why := _no_data(n, a))}
    features = usable.keys() - coordinates.keys() if listed is None else set(listed)
    order = [*wanted, *(name for name in usable if name in features), *usable]
    # All arrays must be as long as this one.
    reference = next((n for n in order if n in usable and usable[n].ndim in (1, 2)), "")
    types, shown, problems = {}, {}, {}
    for name, array in arrays.items():
        what = f"array {name!r} of {place.shown}"
        if isinstance(array, Exception):
            types[name] = UNKNOWN_TYPE
            shown[name] = problems[name] = f"{what} can't be read: {array}"
            continue
        types[name] = _arrow_type(array.dtype)
        if array.ndim == 2:
            types[name] = pa.list_(types[name], array.shape[1])
        shown[name] = f"an array of dtype {array.dtype}"
        if packed := _packed_by(array):
            problems[name] = (
                f"{what} holds packed values ({packed}), expected plain numbers: write the array "
                "without this encoding (xarray: drop_encoding)"
            )
        elif array.ndim not in (1, 2):
            problems[name] = (
                f"{what} has {array.ndim} dimensions, expected 1, or 2 for vectors: a group holds "
                "one array for each column"
            )
        elif array.shape[0] != (n_rows := arrays[reference].shape[0]):
            problems[name] = f"{what} has {array.shape[0]} rows, {reference!r} has {n_rows}"
    fitting = [array for name, array in usable.items() if name not in problems]
    if not fitting:
        raise DataError(next(iter(problems.values()), f"{place.shown} is a group without arrays"))
    own = listed if listed is not None else [name for name in types if name not in coordinates]
    return Scan(
        layout=blocks.Layout(place.address, Zarr.name, _extents(place, fitting)),
        types=types,
        words=shown,
        problems=problems,
        default=tuple(own),
        apart={} if listed is not None else coordinates,
        stored={name: _stored(array) for name, array in usable.items()},
        comparable={},
    )


def _extents(place: Location, arrays: list["Array"]) -> tuple[int, ...]:
    n_rows, most_bytes = arrays[0].shape[0], 2**32
    for array in arrays:
        if min(array.chunks) < 1 or array.dtype.itemsize * math.prod(array.chunks) > most_bytes:
            raise DataError(
                f"{place.shown} has chunks of {' x '.join(map(str, array.chunks))} values of "
                f"{array.dtype}, expected at least 1 value and at most {most_bytes} bytes"
            )
    unit = max((array.shards or array.chunks)[0] for array in arrays)
    if n_rows > blocks.MAX_TABLE_ROWS or n_rows > unit * blocks.MAX_TABLE_UNITS:
        raise DataError(
            f"{place.shown} has {n_rows} rows in chunks of {unit} by its metadata, expected at "
            f"most {blocks.MAX_TABLE_ROWS} rows and {blocks.MAX_TABLE_UNITS} chunks"
        )
    return tuple(min(unit, n_rows - first) for first in range(0, n_rows, unit))


def _no_data(name: str, array: "Array") -> str:
    """Return the reason why an array is no feature by default, or ""."""
    if array.ndim == 0:
        return "a single value"
    known = getattr(array.metadata, "dimension_names", None)
    known = known or array.attrs.get("_ARRAY_DIMENSIONS")
    own = known is not None and list(known) == [name]
    return "a coordinate, named like its dimension" if own else ""


def _packed_by(array: "Array") -> str:
    """Return the attribute that marks the stored numbers as packed, or "".

    Packed numbers have to be converted before use: "scale_factor = 0.01", "_FillValue = -999".
    """
    if array.dtype.kind not in "iuf":
        return ""
    attributes = dict(array.attrs)
    if "_ARRAY_DIMENSIONS" in attributes and array.metadata.zarr_format == 2:
        attributes.setdefault("_FillValue", array.fill_value)
    for name in ("scale_factor", "add_offset"):
        if name in attributes:
            return f"{name} = {attributes[name]}"
    for name in ("_FillValue", "missing_value"):
        if attributes.get(name) is not None and not _is_nan(attributes[name], array.dtype):
            return f"{name} = {attributes[name]}"
    return ""


def _is_nan(value: Any, dtype: np.dtype) -> bool:
    try:
        if isinstance(value, str):  # base64 of its bytes
            value = np.frombuffer(base64.b64decode(value), np.dtype(dtype).newbyteorder("<"))[0]
        return math.isnan(value)
    except (ValueError, TypeError, IndexError):
        return str(value).lower() == "nan"


def _array_columns(array: "Array", columns: list[str], start: int, stop: int) -> list[np.ndarray]:
    if array.ndim == 1:
        return [array[start:stop]]
    chosen = [int(name[1:]) for name in columns]
    # Whole chunks when all columns are wanted, else only the chunks that hold them.
    if chosen == list(range(array.shape[1])):
        block = array[start:stop]
    else:
        block = array.oindex[slice(start, stop), chosen]
    return list(np.ascontiguousarray(block.T))


def _arrow_type(dtype: np.dtype) -> pa.DataType:
    if dtype.kind in "TUO":
        return pa.string()
    try:
        return pa.from_numpy_dtype(dtype.newbyteorder("="))
    except pa.ArrowNotImplementedError:
        return pa.binary()  # complex and the like: a column, never a feature


def _to_arrow(values: np.ndarray) -> pa.Array:
    if values.dtype.kind in "TUO":
        return pa.array(values.astype(object), pa.string())
    plain = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(plain.reshape(-1)), values.shape[1])
    return pa.array(plain)
