"""The location of an input: its file system, its path there, and its name in messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import fsspec
import pyarrow as pa
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.errors.extras import check_extra
from distsvc.errors.faults import classify_error
from distsvc.errors.urls import NO_LAKE, LakeUrl, bare_text, checked_url, lake_url
from distsvc.storage.places.remote import connection, is_s3, leave_retries_to_botocore

if TYPE_CHECKING:
    from zarr.abc.store import Store as ZarrStore

Info: TypeAlias = Mapping[str, Any]
"""Metadata of a file in a file system of fsspec."""

ICEBERG_METADATA = ".metadata.json"
"""The suffix of the metadata files of an Iceberg table."""


@dataclass(frozen=True)
class Location:
    """A file, a folder or a glob on a disk, in S3 or on an HTTP server.

    `path` is the path in the file system, absolute if local. `shown` is the given path or URL, or
    the path of a file found in a folder. `lake` has the kind and version of a Delta or Iceberg
    table.
    """

    fs: AbstractFileSystem
    path: str
    shown: str
    lake: LakeUrl = NO_LAKE

    @classmethod
    def of(cls, url: str, s3: Mapping[str, object] = MappingProxyType({})) -> Location:
        """Return the location of a path or URL; `s3` are options of fsspec.

        `JobFileError` if the protocol is not supported, its package is not installed, or the URL
        carries a user, a password or a query.
        """
        lake = lake_url(checked_url(url))
        if lake.kind == "iceberg" and not lake.path.endswith(ICEBERG_METADATA):
            return cls(None, lake.path, url, lake)  # a name in a catalog
        if "://" not in lake.path:
            return cls(LocalFileSystem(), LocalFileSystem._strip_protocol(lake.path), url, lake)
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
        """Whether the file system is the machine's own."""
        return isinstance(self.fs, LocalFileSystem)

    @property
    def address(self) -> str:
        """The absolute path or URL, which opens the location from any folder."""
        if not self.is_local:
            return self.shown
        return self.lake.around(self.path) if self.lake.kind else self.path

    def at(self, path: str) -> Location:
        """Return the location of another path in the same file system."""
        return Location(self.fs, path, path)

    def join(self, name: str) -> Location:
        """Return the location of a file in this folder."""
        return self.at(f"{self.path}/{name}")

    def pinned(self, pin: str) -> Location:
        """Return the location of a Delta or Iceberg table in one version."""
        lake = self.lake._replace(pin=pin)
        return Location(self.fs, self.path, lake.around(lake.path), lake)

    def is_named(self, suffixes: Sequence[str]) -> bool:
        """Return True if the name ends in one of some suffixes, in any case."""
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

    def zarr_store(self) -> ZarrStore:
        """Return the location as a store of Zarr."""
        from zarr import storage  # a slow import

        if self.is_local:
            return storage.LocalStore(self.path, read_only=True)
        options = connection(self.shown)
        store = storage.FsspecStore.from_url(self.shown, storage_options=options, read_only=True)
        leave_retries_to_botocore(store.fs)
        return store

    def open(self, cache: str = "none") -> pa.NativeFile:
        """Open the file for pyarrow; `cache` is fsspec's, for remote files."""
        # pyarrow reads a local file itself without holding Python's lock.
        if self.is_local:
            return pa.OSFile(self.path)
        return self.fs.open(self.path, "rb", cache_type=cache)

    def not_found(self) -> InputNotFoundError:
        """Return the error for a location where nothing exists."""
        return InputNotFoundError(f"{self.shown} does not exist")

    @contextmanager
    def naming_errors(self) -> Iterator[None]:
        """Turn the errors of reading into errors that name the location.

        `DataError` if the file is damaged, gone or unreadable, `TemporaryError` if the store does
        not answer.
        """
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:
            known = classify_error(error, reading=self.shown)
            if known is None or known is error:
                raise
            if isinstance(known, InputNotFoundError):
                known = DataError(f"{self.shown} was removed while the table was in use")
            raise known from error
