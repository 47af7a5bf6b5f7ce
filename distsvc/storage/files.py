"""The files of an input: one file, the files of a folder, or those that a glob matches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from distsvc.errors import InputNotFoundError
from distsvc.storage.location import Location

# Where the different file systems say which version of a file they hold, the most telling first.
_VERSION_KEYS = (
    "ETag", "etag", "md5", "mtime", "LastModified", "last_modified", "updated", "created",
)  # fmt: skip
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
        What the file system knows about each file, by its name; sorted.

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

    def versions(self) -> list[tuple[str, str, str]]:
        """Return (name, size, modification time or tag) of each file, to tell a change by."""
        found = []
        for place, info in zip(self.places, self.infos.values(), strict=True):
            name = place.bare[len(self.folder.path) + 1 :]
            tags = [str(info[key]) for key in _VERSION_KEYS if info.get(key) is not None]
            found.append((name, str(info.get("size")), tags[0] if tags else ""))
        return found


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
    found: _Infos = {}
    for place, _, names in os.walk(folder.path, onerror=_raise, followlinks=True):
        paths = [os.path.join(place, name) for name in names]
        found |= {path: folder.fs.info(path) for path in paths}
    return found


def _raise(error: OSError) -> None:
    raise error


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))
