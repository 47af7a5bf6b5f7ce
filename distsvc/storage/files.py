"""The files of an input: one file, the files of a folder, or those that a glob matches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from distsvc.errors import DataError, InputNotFoundError
from distsvc.storage.location import Location
from distsvc.storage.versions import Version, Versions, version_of

_Infos = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Files:
    """The files at a location.

    Attributes
    ----------
    location : Location
        What was asked for: a file, a folder or a glob.
    folder : Location
        The folder that the files' names are relative to.
    infos : dict
        What a remote file system knows about each file, by its name; sorted.

    """

    location: Location
    folder: Location
    infos: _Infos

    @property
    def names(self) -> tuple[str, ...]:
        """Names relative to `folder`."""
        return tuple(self.infos)

    @property
    def places(self) -> list[Location]:
        """The location of each file."""
        return [self.folder.join(name) for name in self.infos]

    def named(self, suffixes: Sequence[str]) -> Files:
        """Return those files whose names end in one of some suffixes, whatever their case."""
        chosen = [p.is_named(suffixes) for p in self.places]
        infos = [pair for pair, own in zip(self.infos.items(), chosen, strict=True) if own]
        return replace(self, infos=dict(infos))

    @cached_property
    def versions(self) -> Versions:
        """Which version of each file is there; looked up once, so that later looks can differ.

        Raises
        ------
        DataError
            A file has gone since it was found, or is a pipe, a socket or a device.
        TemporaryError
            The store does not answer.

        """
        return dict(zip(self.keys, self._versions(), strict=True))

    @property
    def keys(self) -> list[str]:
        """Names in `versions`: those relative to `folder`, without the query of an HTTP URL."""
        return [key_of(self.folder, place) for place in self.places]

    def _versions(self) -> Iterator[Version]:
        for place, info in zip(self.places, self.infos.values(), strict=True):
            # Some lists of files leave out what is known of each.
            yield version_of(place, info if info.get("size") is not None else None)


def key_of(folder: Location, place: Location) -> str:
    """Return the name of a file in `Files.versions`."""
    return place.bare[len(folder.path) + 1 :]


def find_files(location: Location, *, hidden: bool = False) -> Files:
    """Find the files at a location: one file, those of a folder (recursively) or of a glob.

    Files and folders whose name starts with ``.`` or ``_`` are skipped, unless the location itself
    names them or `hidden` is true.

    Raises
    ------
    InputNotFoundError
        There is no such path, or no file in it.
    DataError
        A folder may not be read.

    """
    location.fs.invalidate_cache()
    with location.reading():
        info = location.info()
        if info and info["type"] != "directory":
            folder, _, name = location.path.rpartition("/")
            return Files(location, location.at(folder), {name: info})
        folder, found = (location.path, _walk(location)) if info else _glob(location)
    folder = folder.rstrip("/")
    infos = {path[len(folder) :].lstrip("/"): info for path, info in found.items()}
    infos = {name: infos[name] for name in sorted(infos) if hidden or not _is_hidden(name)}
    if not infos:
        raise InputNotFoundError(f"no file in {location.shown}")
    return Files(location, location.at(folder), infos)


def _glob(location: Location) -> tuple[str, _Infos]:
    """Return the last folder before the glob's first star, and what is known of the files."""
    magic = "*" if location.path.startswith("http") else "*?["
    parts = location.path.split("/")
    first = next((i for i, part in enumerate(parts) if set(part) & set(magic)), None)
    if first is None:
        raise location.not_found()
    found: _Infos = {}
    for path, info in location.fs.glob(location.path, detail=True).items():
        found |= _walk(location.at(path)) if info["type"] == "directory" else {path: info}
    return "/".join(parts[:first]), found


def _walk(folder: Location) -> _Infos:
    if not folder.is_local:
        return folder.fs.find(folder.path, detail=True)
    # fsspec passes over a folder that can't be listed, and does not enter one that is a link.
    return {path: {} for path in _local_files(folder.path, ())}


def _local_files(folder: str, above: tuple[tuple[int, int], ...]) -> Iterator[str]:
    """Yield the files below a folder; `above` has device and inode of the folders that hold it."""
    found = os.stat(folder)
    here = found.st_dev, found.st_ino
    if here in above:
        raise DataError(f"{folder} is a link to a folder that holds it")
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _local_files(entry.path, (*above, here))
        else:
            yield entry.path


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))
