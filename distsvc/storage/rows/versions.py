"""Versions of files, to detect that a file changed while a run reads it."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import stat
from collections.abc import Iterable
from typing import NamedTuple

from distsvc.errors import DataError
from distsvc.storage.places.location import Info, Location

_TAG_KEYS = (
    "ETag", "etag", "md5", "mtime", "LastModified", "last_modified", "updated", "created",
)  # fmt: skip
"""The keys of different file systems for the version of a file, the most reliable first."""


class Version(NamedTuple):
    """The version of a file, from the metadata that its file system has.

    Attributes
    ----------
    size
        Bytes.
    tag
        ETag or time of modification, with its name; "" if unknown.
    changed
        Change time of a local file in nanoseconds, which users can't set; 0 for other files.
        Fingerprints omit it, because it differs in a copy.
    chunks
        Number of chunks among many files.
    """

    size: int | None
    tag: str
    changed: int = 0
    chunks: int = 0

    def differs(self, other: Version) -> bool:
        """Return True if two versions differ in a property that both have."""
        sizes = None not in (self.size, other.size) and self.size != other.size
        same_mark = self.tag.partition(" ")[0] == other.tag.partition(" ")[0]
        return sizes or (same_mark and self.tag != other.tag) or self.changed != other.changed

    def __str__(self) -> str:
        """Return the size, and the time or tag, in words."""
        if not self.changed:
            return f"{self.size} bytes" + (f" ({self.tag})" if self.tag else "")
        when = datetime.datetime.fromtimestamp(self.changed / 1e9)
        return f"{self.size} bytes of {when.isoformat(' ', 'milliseconds')}"


Versions = dict[str, Version]
"""Versions by a file's name relative to the table's folder."""


def version_of(place: Location, info: Info | None = None) -> Version:
    """Return the version of a file; a remote file system's `info` is used if it is known.

    `DataError` if the file is gone, unreadable, or a pipe, a socket or a device; `TemporaryError`
    if the store does not answer.
    """
    with place.naming_errors():
        if place.is_local:
            found = os.stat(place.path)
            if not stat.S_ISREG(found.st_mode):
                raise DataError(f"{place.shown} is not a regular file")
            return Version(found.st_size, f"mtime {found.st_mtime_ns}", found.st_ctime_ns)
        if info is None:
            place.fs.invalidate_cache(place.path)
            info = place.info()
        if info is None:
            raise FileNotFoundError(place.path)
        key = next((key for key in _TAG_KEYS if info.get(key) is not None), "")
        mark = info.get(key)
        if isinstance(mark, datetime.datetime):  # some file systems also return it as a number
            mark = mark.timestamp()
        return Version(info.get("size"), f"{key} {mark}" if key else "")


def combined_version(versions: Iterable[tuple[str, Version]], chunks: int = 0) -> Version:
    """Return one version for many files; it changes if any file changes."""
    found = sorted(versions)
    digest = hashlib.sha256(json.dumps([(n, v.size, v.tag) for n, v in found]).encode())
    size = sum(version.size or 0 for _, version in found)
    return Version(size, f"files {digest.hexdigest()}", max(v.changed for _, v in found), chunks)


def check_versions(folder: Location, recorded: Versions, found: Versions) -> None:
    """Raise `DataError` for the first file that is gone, changed or new."""
    for name, version in recorded.items():
        if name not in found:
            raise DataError(f"{folder.join(name).shown} was removed while the table was in use")
        if found[name].differs(version):
            raise DataError(
                f"{folder.join(name).shown} changed while the run was reading it: "
                f"{version} when the table was opened, {found[name]} now"
            )
    for name in found.keys() - recorded.keys():
        raise DataError(f"{folder.join(name).shown} was added while the table was in use")
