"""The files of a Zarr store: their versions, and checks for missing and damaged chunks."""

from __future__ import annotations

import itertools
import math
import os
import posixpath
import re
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from distsvc.errors import DataError, InputNotFoundError
from distsvc.storage.places.location import Location
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.versions import (
    Version,
    Versions,
    check_version,
    combined_version,
    version_of,
)
from distsvc.storage.tables.files import find_files

if TYPE_CHECKING:
    from zarr import Array

Stored = dict[str, tuple[int, Any]]
"""Number of chunks and fill value, by array."""

ZARR_METADATA = ("zarr.json", ".zarray", ".zgroup")
_METADATA_FILES = (*ZARR_METADATA, ".zattrs", ".zmetadata")

CHUNK_NAME = re.compile(r"(?:.*/)?(?:c|(?:c[./])?\d+(?:[./]\d+)*)")
"""The name of a file of a chunk or a shard, in any key encoding."""

_BLOSC = struct.Struct("<4B3I")
"""The header of Blosc; its last number is the packed size in bytes."""


def store_versions(place: Location) -> Versions:
    """Return a version of each metadata file, and one for all chunk files of an array.

    The latter are named ``<array>/*``: there may be more of them than a plan should list. A server
    that does not list files yields the root's metadata only.
    """
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
        name: combined_version(members, sum(bool(CHUNK_NAME.fullmatch(own)) for own, _ in members))
        for name, members in chunks.items()
    }


def check_metadata(place: Location, table: Table, columns: list[str]) -> None:
    """Compare the metadata of the columns that are read; of a remote store the root's only."""
    folders = {"", *columns} if place.is_local else {""}
    for name, version in table.versions.items():
        if posixpath.basename(name) in _METADATA_FILES and name.rpartition("/")[0] in folders:
            check_version(place.join(name), version)


def check_chunks(
    place: Location, table: Table, name: str, array: Array, start: int, stop: int
) -> None:
    """Compare the chunk files of an array's rows in a local store.

    A changed file is later than all files when the table was opened. `opening.check_unchanged`
    finds removed ones: a chunk of fill values has no file.
    """
    if not place.is_local:
        return
    recorded = table.versions.get(posixpath.join(name, "*"), Version(0, ""))
    for file in _files(place, name, array, start, stop):
        if os.stat(file.path).st_ctime_ns > recorded.changed:
            raise DataError(
                f"{file.shown} changed while the run was reading it: {version_of(file)} now, "
                "later than every file of the array when the table was opened"
            )


def check_whole(place: Location, name: str, array: Array, start: int, stop: int) -> None:
    """Refuse truncated chunks in a local store; Blosc would read the memory behind them."""
    codecs = [type(codec).__name__ for codec in array.compressors]
    if not place.is_local or array.shards or not any("Blosc" in codec for codec in codecs):
        return
    for file in _files(place, name, array, start, stop):
        with file.naming_errors(), open(file.path, "rb") as stream:
            header, size = stream.read(_BLOSC.size), os.fstat(stream.fileno()).st_size
        whole = len(header) == _BLOSC.size
        expected = _BLOSC.unpack(header)[-1] if whole else _BLOSC.size
        if size < expected:
            raise DataError(
                f"{file.shown} was cut: it has {size} bytes, expected at least {expected}; "
                "write the chunk again"
            )


def _files(place: Location, name: str, array: Array, start: int, stop: int) -> Iterator[Location]:
    """Yield the existing chunk files of an array's rows in a local store."""
    sizes = array.shards or array.chunks
    first, last = start // sizes[0], (stop - 1) // sizes[0]
    across = [range(-(-n // size)) for n, size in zip(array.shape[1:], sizes[1:], strict=True)]
    for cell in itertools.product(range(first, last + 1), *across):
        file = place.join(posixpath.join(name, array.metadata.encode_chunk_key(cell)))
        if os.path.exists(file.path):
            yield file


def n_chunks(array: Array) -> int:
    """Return the number of chunks, or shards, of an array."""
    sizes = array.shards or array.chunks
    return math.prod(-(-n // size) for n, size in zip(array.shape, sizes, strict=True))


def unwritten(place: Location, versions: Versions, stored: Stored) -> dict[str, str]:
    """Return the number of missing chunks and the fill value, by array; NaN is missing anyway."""
    if not (place.is_local or any(name.endswith("*") for name in versions)):
        return {}
    found = {}
    for name, (expected, fill) in stored.items():
        known = versions.get(posixpath.join(name, "*"))
        lacking = expected - (known.chunks if known else 0)
        if lacking > 0 and fill == fill:
            found[name] = f"{lacking:,} of {expected:,} chunks, read as {fill}"
    return found
