"""The files of a Zarr store: which version of each is there, and whether there are enough."""

from __future__ import annotations

import itertools
import math
import os
import posixpath
import re
import struct
from collections.abc import Iterator
from typing import Any

from distsvc.errors import DataError, InputNotFoundError
from distsvc.storage.places.location import Location
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.versions import Version, Versions, check_version, joined, version_of
from distsvc.storage.tables.files import find_files

Stored = dict[str, tuple[int, Any]]
"""Of arrays by name, how many chunks they have, and the value of one that has no file."""

METADATA = ("zarr.json", ".zarray", ".zgroup")
_ABOUT = (*METADATA, ".zattrs", ".zmetadata")

_CHUNK = re.compile(r"(?:.*/)?(?:c|(?:c[./])?\d+(?:[./]\d+)*)")
"""The name of a file of a chunk or a shard, whichever way an array names them."""

_BLOSC = struct.Struct("<4B3I")
"""The header of what Blosc packed; its last number is the size in bytes."""

_LARGE_CHUNKS, _LARGE_VALUES, _FEWEST_STORED = 10**5, 2**36, 1000
"""From when on a store must hold a file for one chunk of so many."""


def store_versions(place: Location) -> Versions:
    """Return a version of each file of metadata, and one for all chunk files of an array.

    The latter are named ``<array>/*``: there may be more of them than a plan should list. Of a
    store on a server that does not list files, there is the root's metadata only.
    """
    try:
        files = find_files(place, hidden=True).versions
    except InputNotFoundError:  # nothing there, or a server that does not list its files
        names = [name for name in _ABOUT if place.fs.exists(place.join(name).path)]
        return {name: version_of(place.join(name)) for name in names}
    folders = {name.rpartition("/")[0] for name in files if posixpath.basename(name) in _ABOUT}
    versions: Versions = {}
    chunks: dict[str, list[tuple[str, Version]]] = {}
    for name, version in files.items():
        if posixpath.basename(name) in _ABOUT:
            versions[name] = version
        else:
            folder = name
            while folder and folder not in folders:
                folder = folder.rpartition("/")[0]
            chunks.setdefault(_chunks_of(folder), []).append((name, version))
    return versions | {
        name: joined(members, sum(bool(_CHUNK.fullmatch(own)) for own, _ in members))
        for name, members in chunks.items()
    }


def check_metadata(place: Location, table: Table, columns: list[str]) -> None:
    """Compare the metadata of the columns that are read; in a store elsewhere the root's alone."""
    folders = {"", *columns} if place.is_local else {""}
    for name, version in table.versions.items():
        if posixpath.basename(name) in _ABOUT and name.rpartition("/")[0] in folders:
            check_version(place.join(name), version)


def check_chunks(
    place: Location, table: Table, name: str, array: Any, start: int, stop: int
) -> None:
    """Compare the chunk files of an array's rows, where the store is local.

    A file that was changed since the table was opened is later than the latest of then. One that
    has gone is found by `tables.check_unchanged`: a chunk of fill values has no file.
    """
    if not place.is_local:
        return
    recorded = table.versions.get(_chunks_of(name), Version(0, ""))
    for file in _files(place, name, array, start, stop):
        if os.stat(file.path).st_ctime_ns > recorded.changed:
            raise DataError(
                f"{file.shown} changed while the run was reading it: {version_of(file)} now, "
                "later than every file of the array when the table was opened"
            )


def check_whole(place: Location, name: str, array: Any, start: int, stop: int) -> None:
    """Refuse chunks of an array's rows that were cut, where the store is local.

    Only Blosc does not notice: it reads what lies behind the chunk in memory.
    """
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


def _files(place: Location, name: str, array: Any, start: int, stop: int) -> Iterator[Location]:
    """Yield the chunk files of an array's rows that are there, in a local store."""
    sizes = array.shards or array.chunks
    first, last = start // sizes[0], (stop - 1) // sizes[0]
    across = [range(-(-n // size)) for n, size in zip(array.shape[1:], sizes[1:], strict=True)]
    for cell in itertools.product(range(first, last + 1), *across):
        file = place.join(posixpath.join(name, array.metadata.encode_chunk_key(cell)))
        if os.path.exists(file.path):
            yield file


def _chunks_of(name: str) -> str:
    return f"{name}/*" if name else "*"


def n_chunks(array: Any) -> int:
    """Return how many files an array has where each of its chunks, or shards, is written."""
    sizes = array.shards or array.chunks
    return math.prod(-(-n // size) for n, size in zip(array.shape, sizes, strict=True))


def unwritten(place: Location, versions: Versions, stored: Stored) -> dict[str, str]:
    """Return of each array some of whose chunks have no file how many, and what is read instead.

    Nothing is known where a server does not list its files. NaN is a missing value anyway.
    """
    if not (place.is_local or any(name.endswith("*") for name in versions)):
        return {}
    found = {}
    for name, (expected, fill) in stored.items():
        known = versions.get(_chunks_of(name))
        lacking = expected - (known.chunks if known else 0)
        if lacking > 0 and fill == fill:
            found[name] = f"{lacking:,} of {expected:,} chunks, read as {fill}"
    return found


def check_stored(place: Location, arrays: list[Any]) -> None:
    """Refuse a large store nearly all of whose chunks have no file: its shape is not to be trusted.

    Reading them would take as long as if they were there, and give nothing but fill values.
    """
    expected = sum(map(n_chunks, arrays))
    if expected <= _LARGE_CHUNKS and sum(math.prod(a.shape) for a in arrays) <= _LARGE_VALUES:
        return
    stored = len(find_files(place, hidden=True).infos)
    if stored * _FEWEST_STORED < expected:
        raise DataError(
            f"{place.shown} says it has {expected} chunks, and holds {stored} files; "
            f"expected a file for at least one chunk of {_FEWEST_STORED}"
        )
