"""Locations of inputs, and versions of their files, which show a run that its input changed."""

import datetime
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import fsspec
import pyarrow as pa
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.errors.extras import check_extra
from distsvc.errors.faults import classify_error
from distsvc.errors.urls import NO_LAKE, LakeUrl, bare_text, checked_url, lake_url, shown_urls
from distsvc.storage.places.remote import connection, is_s3, leave_retries_to_botocore

if TYPE_CHECKING:
    from zarr.abc.store import Store as ZarrStore

Info: TypeAlias = Mapping[str, Any]
"""Metadata of a file in a file system of fsspec."""

ICEBERG_METADATA = ".metadata.json"
"""The suffix of the metadata files of an Iceberg table."""

_TAG_KEYS = (
    "ETag", "etag", "md5", "mtime", "LastModified", "last_modified", "updated", "created",
)  # fmt: skip
"""The keys of different file systems for the version of a file, the most reliable first."""


@dataclass(frozen=True)
class Location:
    """A file, a folder or a glob on a disk, in S3 or on an HTTP server."""

    fs: AbstractFileSystem
    path: str  # path in `fs`, absolute if local
    shown: str  # the path or URL in the job, or the path of a file below it
    lake: LakeUrl = NO_LAKE  # kind and version of a Delta or Iceberg table

    @classmethod
    def of(cls, url: str, s3: Mapping[str, object] = MappingProxyType({})) -> "Location":
        """Return the location of a path or URL; `s3` are further arguments of fsspec for S3.

        `JobFileError` if the URL has credentials, or is of an unsupported kind.
        """
        lake = lake_url(checked_url(url))
        if lake.kind == "iceberg" and not lake.path.endswith(ICEBERG_METADATA):
            return cls(None, lake.path, url, lake)  # a name in a catalog
        if "://" not in lake.path:
            path = LocalFileSystem._strip_protocol(lake.path)
            return cls(LocalFileSystem(), path, shown_urls([url]), lake)
        if is_s3(lake.path):
            check_extra("s3fs", "s3", f"input.path: {url}")
        try:
            fs, path = fsspec.core.url_to_fs(lake.path, **connection(lake.path, s3))
        except (ValueError, ImportError) as error:
            why = bare_text(str(error.args[0] if error.args else error))
            raise JobFileError(f"input.path: can't open {url}: {why}") from None
        return cls(leave_retries_to_botocore(fs), path.rstrip("/") or path, url, lake)

    @property
    def is_local(self) -> bool:
        return isinstance(self.fs, LocalFileSystem)

    @property
    def address(self) -> str:
        """The absolute path or URL, which opens the location from any folder."""
        if not self.is_local:
            return self.shown
        return self.lake.around(self.path) if self.lake.kind else self.path

    def at(self, path: str) -> "Location":
        return Location(self.fs, path, shown_urls([path]))

    def join(self, name: str) -> "Location":
        return self.at(f"{self.path}/{name}")

    def pinned(self, pin: str) -> "Location":
        lake = self.lake._replace(pin=pin)
        return Location(self.fs, self.path, lake.around(lake.path), lake)

    def is_named(self, suffixes: Sequence[str]) -> bool:
        return self.path.lower().endswith(tuple(suffixes))

    def info(self) -> Info | None:
        """Return the file system's metadata, or None if nothing exists here."""
        try:
            return self.fs.info(self.path)
        except FileNotFoundError as error:
            # fsspec also raises this error if an HTTP server is down or refuses.
            if error.__cause__ and not isinstance(classify_error(error), InputNotFoundError | None):
                raise
            return None

    def exists(self) -> bool:
        """Return True if something readable exists here."""
        if not self.path.startswith("http"):
            return self.fs.exists(self.path)
        try:
            return self.fs.exists(self.path, strict=True)
        except Exception as error:
            known = classify_error(error, reading=self.shown)
            if isinstance(known, InputNotFoundError | DataError):
                return False
            raise known or error from error

    def zarr_store(self) -> "ZarrStore":
        from zarr import storage  # a slow import

        if self.is_local:
            return storage.LocalStore(self.path, read_only=True)
        options = connection(self.shown)
        store = storage.FsspecStore.from_url(self.shown, storage_options=options, read_only=True)
        leave_retries_to_botocore(store.fs)
        return store

    def open(self, cache: str = "none") -> pa.NativeFile:
        """Open the file for pyarrow; `cache` is fsspec's cache type for a remote file."""
        # pyarrow reads a local file itself without holding Python's lock.
        if self.is_local:
            return pa.OSFile(self.path)
        return self.fs.open(self.path, "rb", cache_type=cache)

    def not_found(self) -> InputNotFoundError:
        return InputNotFoundError(f"{self.shown} does not exist")

    @contextmanager
    def naming_errors(self, any_kind: bool = False) -> Iterator[None]:
        """Turn errors in the body into a `DataError` or `TemporaryError` that names the location.

        Errors that `classify_error` does not know are raised unchanged. If `any_kind` is True,
        these errors become a `DataError`, too.
        """
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:
            known = classify_error(error, reading=self.shown)
            if known is None and any_kind:
                known = DataError(f"can't read {self.shown}: {error}")
            if known is None or known is error:
                raise
            if isinstance(known, InputNotFoundError):
                known = DataError(f"{self.shown} was removed while the table was in use")
            raise known from error


class Version(NamedTuple):
    """The version of a file, from the metadata that its file system has."""

    size: int | None
    tag: str  # ETag or time of modification, with its name; "" if unknown
    # Change time of a local file in nanoseconds, which users can't set; 0 for other files.
    changed: int = 0  # not in fingerprints, since a copied file has another time
    chunks: int = 0  # number of chunk files, if it is the version of many files

    def differs(self, other: "Version") -> bool:
        """Return True if two versions differ in a property that both have."""
        sizes = None not in (self.size, other.size) and self.size != other.size
        same_mark = self.tag.partition(" ")[0] == other.tag.partition(" ")[0]
        return sizes or (same_mark and self.tag != other.tag) or self.changed != other.changed

    def __str__(self) -> str:
        if not self.changed:
            return f"{self.size} bytes" + (f" ({self.tag})" if self.tag else "")
        when = datetime.datetime.fromtimestamp(self.changed / 1e9)
        return f"{self.size} bytes of {when.isoformat(' ', 'milliseconds')}"


Versions = dict[str, Version]
"""Versions by a file's name relative to the table's folder."""


def version_of(place: Location, info: Info | None = None) -> Version:
    """Return the version of a file; `info` is a remote file's metadata, requested if None."""
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
    """Return one version for many named files; it changes if any of the files changes."""
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
