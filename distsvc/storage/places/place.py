"""Where the files of runs are: a folder of a disk, or something that can stand for one.

Names are paths below the place, with ``/``. A file is written whole or not at all, and once; the
few that change (a manifest, who holds the output) change by `Place.swap`, in one step.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from distsvc.errors import JobFileError
from distsvc.errors.urls import shown_url
from distsvc.storage.places.bucket import SCHEMES, Bucket
from distsvc.storage.places.folder import Folder


class Place(Protocol):
    """A folder of files."""

    @property
    def address(self) -> str:
        """What finds it again, from any folder and on any worker."""

    def below(self, name: str) -> Place:
        """Return a folder of this one, which need not be there."""

    def has(self, name: str) -> bool:
        """Return whether a file is there."""

    def sizes(self, name: str = "") -> dict[str, int]:
        """Return the bytes of every whole file below a folder, by its name here, in order."""

    def folders(self, name: str = "") -> list[str]:
        """Return the names of the folders that are directly in a folder; links are none."""

    def damaged(self, name: str) -> list[str]:
        """Return the names of the archives below a folder that a loss of power has cut short."""

    def local(self, name: str) -> Path:
        """Return where a file that never changes can be read; where none is, there is none."""

    def created(self, name: str, again: bool = True) -> AbstractContextManager[Path]:
        """Yield where to write a new file, which is in its place once the body ends well.

        `again` says that this process may read it soon. Raises `OutputPermissionError` and
        `TemporaryError`.
        """

    def put(self, name: str, content: bytes) -> None:
        """Write a small file, or another content of it, in one step; errors as in `created`."""

    def copy(self, name: str, to: str) -> None:
        """Copy a file over another, in one step; errors as in `created`."""

    def remove(self, name: str) -> bool:
        """Remove a file and the folders that are empty then; return whether it was removed."""

    def clear(self, name: str, known: Collection[str] = ()) -> list[str]:
        """Remove all files below a folder but those of known names; return the others' names."""

    def prune(self, name: str) -> None:
        """Remove a folder and those in it, as far as they are empty."""

    def current(self, name: str) -> tuple[bytes, str] | None:
        """Return the content of a file that may change, and a mark of its version, if it is there.

        Raises `DataError` where it may not be read, and `TemporaryError`.
        """

    def swap(self, name: str, content: bytes, mark: str | None) -> str:
        """Replace a file whose version is `mark`, or make the first one; return the new mark.

        Raises
        ------
        ChangedError
            The version that is there is another.
        OutputPermissionError, TemporaryError
            It can't be written.

        """

    def withdraw(self, name: str, mark: str | None) -> None:
        """Remove a file, or its content, if its version is `mark`."""

    def settle(self, names: Collection[str]) -> None:
        """Return once files, and the folders that hold them, would outlast a loss of power."""

    def refuse_links(self, names: Collection[str]) -> None:
        """Raise `OutputPermissionError` where a folder is a link: it is somebody else's."""

    def held(self) -> AbstractContextManager[bool]:
        """Make the folder, and keep out others on this machine; yield whether that can be done.

        Raises
        ------
        HeldError
            Another process holds it.
        OutputPermissionError, TemporaryError
            It can't be made or written.

        """


def place_of(address: str | os.PathLike[str]) -> Place:
    """Return the place at a path or URL; `JobFileError` where there can't be one."""
    scheme, separator, _ = str(address).partition("://")
    if not separator:
        return Folder(address)
    if scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise JobFileError(
            f"expected a folder of a local or shared disk, or a URL of {known}, found "
            f"{shown_url(str(address))!r}"
        )
    return Bucket(str(address))
