"""Stores of files: a folder of a disk, or a prefix of a bucket.

Names are paths below the store, with ``/``. A file is written whole or not at all, and once; the
few that change (a manifest, the record of a holder) change by `Store.swap`, in one step.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from distsvc.errors import JobFileError
from distsvc.errors.urls import bare_url
from distsvc.storage.places.arrays import file_facts
from distsvc.storage.places.bucket import SCHEME, Bucket
from distsvc.storage.places.folder import Fence, Folder


class Store(Protocol):
    """A folder of files, on a disk or in a bucket."""

    @property
    def address(self) -> str:
        """The absolute path or URL, which `store_of` opens on any worker."""

    def below(self, name: str) -> Store:
        """Return a folder of this one, which need not exist."""

    def fenced(self, fence: Fence) -> Store:
        """Return this store for a lock holder; changes fail once another process has the lock."""

    def begin_holding(self, token: str) -> Path | None:
        """Create and return a lock holder's own folder, `Fence.spare`; None for a bucket."""

    def end_others(self, token: str) -> None:
        """Make changes by all previous lock holders fail."""

    def end_holding(self, token: str) -> None:
        """Remove the folder of `begin_holding`."""

    def has(self, name: str) -> bool:
        """Return whether a file exists."""

    def sizes(self, name: str = "") -> dict[str, int]:
        """Return the size in bytes of every complete file below a folder, by name, in order."""

    def folders(self, name: str = "") -> list[str]:
        """Return the names of the folders directly in a folder, without links."""

    def local(self, name: str) -> Path:
        """Return the path of a local copy of a file; only for files that never change."""

    def created(self, name: str, again: bool = True) -> AbstractContextManager[Path]:
        """Yield a path for a new file; the file is stored if the body raises no error.

        `again` is whether this process may read the file soon. Raises `OutputPermissionError` and
        `TemporaryError`.
        """

    def put(self, name: str, content: bytes) -> None:
        """Write a small file, or replace it, in one step; errors as in `created`."""

    def link(self, names: Mapping[str, str]) -> None:
        """Give files second names, ``{new: old}``: links on a disk, copies in a bucket."""

    def remove(self, name: str, mark: str | None = None) -> bool:
        """Remove a file if its version is `mark` (None: any), and then its empty parent folders.

        Buckets have no conditional removal, so an empty record replaces the file there. If `name`
        is a folder, its empty subfolders are removed. Return True if a file was removed.
        """

    def clear(self, name: str, known: Collection[str] = ()) -> None:
        """Remove all files below a folder except `known`, and then the empty folders."""

    def current(self, name: str) -> tuple[bytes, str] | None:
        """Return the content of a file that may change and the mark of its version, or None.

        `DataError` if it is unreadable, and `TemporaryError`.
        """

    def swap(self, name: str, content: bytes, mark: str | None) -> str:
        """Replace a file whose version is `mark` (None: no file), and return the new mark.

        Errors as in `created`, and `ChangedError` if the file has another version.
        """

    def lock(self) -> AbstractContextManager[bool]:
        """Make the folder and lock it against other processes of this machine, if locks exist.

        Yields whether it is locked. Errors as in `created`, and `HeldError` if another process
        holds it.
        """


def changed_since(place: Store, known: Mapping[str, Mapping[str, int | str]]) -> list[str]:
    """Return the files that are missing, or not as `arrays.file_facts` recorded them.

    After a loss of power a disk may have other bytes. A bucket keeps objects whole, so their sizes
    suffice there.
    """
    there = place.sizes() if known else {}
    changed = [name for name, file in known.items() if there.get(name) != file["bytes"]]
    if isinstance(place, Folder):
        same = (name for name in known if name not in changed)
        changed += [n for n in same if file_facts(place.local(n))["sha256"] != known[n]["sha256"]]
    return changed


def store_of(address: str | os.PathLike[str]) -> Store:
    """Return the store at a path or URL; `JobFileError` for a URL of another kind."""
    scheme, separator, _ = str(address).partition("://")
    if not separator:
        return Folder(address)
    if scheme != SCHEME:
        raise JobFileError(
            f"expected a folder of a local or shared disk, or a URL of {SCHEME}://, found "
            f"{bare_url(str(address))!r}"
        )
    return Bucket(str(address))
