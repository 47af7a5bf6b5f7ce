"""The version of a file that was seen, and whether it is still that one."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from distsvc.errors import DataError
from distsvc.storage.places.location import Location

# Where the different file systems say which version of a file they hold, the most telling first.
_TAG_KEYS = (
    "ETag", "etag", "md5", "mtime", "LastModified", "last_modified", "updated", "created",
)  # fmt: skip


class Version(NamedTuple):
    """The mark that tells one content of a file from another, as far as the file system knows it.

    `tag` is what the file system calls its mark of a version, and the mark: an ETag or a time
    of modification, of a local file in nanoseconds; empty where there is none. `changed` is
    when a local file was last changed in any way, in nanoseconds, 0 if not local; no user can
    set it. It is compared within a run, and is no part of a fingerprint: a copy has another.
    `size` is in bytes. A version of many files has the number of those that are `chunks`.
    """

    size: int | None
    tag: str
    changed: int = 0
    chunks: int = 0

    def differs(self, other: Version) -> bool:
        """Return whether two versions differ in something that is known of both."""
        sizes = None not in (self.size, other.size) and self.size != other.size
        same_mark = self.tag.partition(" ")[0] == other.tag.partition(" ")[0]
        return sizes or (same_mark and self.tag != other.tag) or self.changed != other.changed

    def __str__(self) -> str:
        """Return it as a message shows it: size, and time or tag."""
        if not self.changed:
            return f"{self.size} bytes" + (f" ({self.tag})" if self.tag else "")
        when = datetime.datetime.fromtimestamp(self.changed / 1e9)
        return f"{self.size} bytes of {when.isoformat(' ', 'milliseconds')}"


Versions = dict[str, Version]
"""By a file's name relative to the table's folder."""


def version_of(place: Location, info: Mapping[str, Any] | None = None) -> Version:
    """Return which version of a file is there.

    `info` is the file system's own description, if it is known; a local file is always asked.
    Raises `DataError` where the file has gone, may not be read, or is a pipe, a socket or a
    device, and `TemporaryError` where the store does not answer.
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
        tags = [f"{key} {_plain(info[key])}" for key in _TAG_KEYS if info.get(key) is not None]
        return Version(info.get("size"), tags[0] if tags else "")


def _plain(mark: Any) -> Any:
    # One file system says the same time in two ways.
    return mark.timestamp() if isinstance(mark, datetime.datetime) else mark


def joined(versions: Iterable[tuple[str, Version]], chunks: int = 0) -> Version:
    """Return one version for many files, `chunks` of an array among them; differs with any."""
    found = sorted(versions)
    digest = hashlib.sha256(json.dumps([(n, v.size, v.tag) for n, v in found]).encode())
    size = sum(version.size or 0 for _, version in found)
    return Version(size, f"files {digest.hexdigest()}", max(v.changed for _, v in found), chunks)


def check_version(place: Location, recorded: Version) -> None:
    """Raise the `DataError` of a file that has gone or is not what it was on opening the table."""
    with place.naming_errors():
        if place.is_local and os.path.isdir(place.path):
            raise DataError(f"{place.shown} has become a folder while the table was in use")
        found = version_of(place)
    if found.differs(recorded):
        raise changed(place, recorded, found)


def changed(place: Location, recorded: Version, found: Version) -> DataError:
    """Return the error for a file that is not what it was on opening the table."""
    return DataError(
        f"{place.shown} changed while the run was reading it: "
        f"{recorded} when the table was opened, {found} now"
    )


@contextmanager
def unchanged(place: Location, recorded: Version | None) -> Iterator[None]:
    """Compare a file with its recorded version before its rows are read, and after a failure.

    A local file, of which asking is cheap, is compared after every reading. Nothing is compared if
    nothing was recorded.
    """
    if recorded is None:
        yield
        return
    check_version(place, recorded)
    try:
        yield
    except Exception:
        check_version(place, recorded)  # what a change leads to is not what is wrong
        raise
    if place.is_local:
        check_version(place, recorded)


def compare(folder: Location, recorded: Versions, found: Versions) -> None:
    """Raise the `DataError` of the first file that has gone, changed or was added."""
    for name, version in recorded.items():
        if name not in found:
            raise DataError(f"{folder.join(name).shown} has gone while the table was in use")
        if found[name].differs(version):
            raise changed(folder.join(name), version, found[name])
    for name in found.keys() - recorded.keys():
        raise DataError(f"{folder.join(name).shown} was added while the table was in use")
