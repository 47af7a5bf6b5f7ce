"""A folder of a local or shared disk as a store; links in it are not followed."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from distsvc.errors import DataError, OutputPermissionError, TemporaryError
from distsvc.errors.faults import fault
from distsvc.storage.places.arrays import (
    make_folder,
    read_regular,
    remove_unfinished,
    write_whole,
    writing,
)

LOCK = "lock"
FLUSHES = 16
"""Files that are written to the disk at a time: each waits for it, and a disk takes several."""

SPARE = ".runs"
"""Folder in which a file is written before it is swapped into a folder that has this one."""


class ChangedError(TemporaryError):
    """A file is not of the version that was to be replaced."""


class HeldError(TemporaryError):
    """Another process holds a store."""


class Folder:
    """A folder, with the methods of `distsvc.storage.places.store.Store`.

    `settle` and `refuse_links` are those of a disk alone, which has links, and files that a loss of
    power cuts short. Where the disk does not answer, methods raise `TemporaryError`; nothing counts
    as missing then.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.root = Path(os.path.abspath(path))

    @property
    def address(self) -> str:
        """The absolute path."""
        return str(self.root)

    def below(self, name: str) -> Folder:
        """Return a folder of this one, which need not exist."""
        return Folder(self.root / name)

    def has(self, name: str) -> bool:
        """Return whether a file exists."""
        with _reached(self.root / name):
            try:
                os.stat(self.root / name)
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def sizes(self, name: str = "") -> dict[str, int]:
        """Return the bytes of every whole file below a folder, by its name here, in order."""
        found = {}
        for file in self._files(name):
            if not file.rpartition("/")[2].startswith("."):
                path = os.path.join(self.root, file)
                with suppress(FileNotFoundError), _reached(path):
                    found[file] = os.stat(path).st_size
        return found

    def folders(self, name: str = "") -> list[str]:
        """Return the names of the folders that are directly in a folder; links are none."""
        try:
            with _reached(self.root / name), os.scandir(self.root / name) as found:
                return sorted(one.name for one in found if one.is_dir(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def local(self, name: str) -> Path:
        """Return where a file is."""
        return self.root / name

    @contextmanager
    def created(self, name: str, again: bool = True) -> Iterator[Path]:
        """Yield where to write a new file, whole or not at all, with `arrays.write_whole`."""
        path = self.root / name
        make_folder(path.parent)
        yield path

    def put(self, name: str, content: bytes) -> None:
        """Write a small file, or another content of it, in one step; errors as in `writing`."""
        make_folder((self.root / name).parent)
        self._replace(name, lambda stream: stream.write(content))

    def remove(self, name: str, mark: str | None = None) -> bool:
        """Remove a file, or the empty folders in a folder, and the folders that are empty then."""
        path = self.root / name
        with _reached(path):
            if any(folder.is_symlink() for folder in self._around(path)):
                return False
            is_file = path.is_file()
            if not is_file and (path.is_symlink() or not path.is_dir()):
                return False
            if mark is not None and (self.current(name) or (b"", ""))[1] != mark:
                return False
            if is_file:
                with suppress(OSError):  # another user's, perhaps
                    path.unlink()
                if path.exists():
                    return False
            self._prune(path)
            return is_file

    def clear(self, name: str, known: Collection[str] = ()) -> list[str]:
        """Remove all files below a folder but known ones, and folders that are empty then."""
        names = self._files(name)
        if not set(names).isdisjoint(known):
            removed = [n for n in names if n not in known and self.remove(n)]
            self._prune(self.root / name)
            return removed
        if not (self.root / name).is_symlink():
            shutil.rmtree(self.root / name, ignore_errors=True)
        self._prune(self.root / name)
        return [n for n in names if not self.has(n)]

    def current(self, name: str) -> tuple[bytes, str] | None:
        """Return the content of a file and its SHA-256, if it exists."""
        try:
            content = read_regular(self.root / name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            known = fault(error, reading=self.root / name)
            raise known or DataError(f"{self.root / name} can't be read: {error}") from None
        return content, hashlib.sha256(content).hexdigest()

    def swap(self, name: str, content: bytes, mark: str | None) -> str:
        """Replace a file of a certain version in a folder that is held; errors as in `Store.swap`.

        It can have another version where locks mean nothing to the file system.
        """
        there = self.current(name)
        if (there and there[1]) != mark:
            raise ChangedError(f"{self.root / name} was changed by another process")
        self._replace(name, lambda stream: stream.write(content), settled=True)
        return hashlib.sha256(content).hexdigest()

    def settle(self, names: Collection[str]) -> None:
        """Write files and the folders that hold them to the disk; errors as in `writing`."""
        folders, root = {"."}, os.fspath(self.root)
        for name in {name.rpartition("/")[0] for name in names}:
            folders |= {str(folder) for folder in (Path(name), *Path(name).parents)}
        with ThreadPoolExecutor(FLUSHES) as pool:
            for some in names, sorted(folders):
                list(pool.map(_to_disk, [os.path.join(root, name) for name in some]))

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Make the folder, lock it, and remove files that killed processes left half-written.

        Yields True. The lock file stays, since removing it is a race; errors as in `Store.held`.
        """
        with writing(f"output.path {self.root.parent}"):
            try:
                self.root.mkdir(parents=True, exist_ok=True)
            except FileNotFoundError as error:  # as below /proc
                raise PermissionError(error.errno, error.strerror) from None
        lock = FileLock(self.root / LOCK, timeout=0, mode=0o660)
        try:
            lock.acquire()
        except Timeout:
            raise HeldError(f"another process holds {self.root}") from None
        except OSError as error:
            raise (fault(error, writing=f"output.path {self.root.parent}") or error) from None
        try:
            for folder in (self.root, *self.root.glob("*")):
                remove_unfinished(folder)
            yield True
        finally:
            lock.release()

    def refuse_links(self, names: Collection[str]) -> None:
        """Raise `OutputPermissionError` where one of our folders is a link."""
        for name in names:
            if (self.root / name).is_symlink():
                raise OutputPermissionError(
                    f"output.path {self.root} can't be written: {self.root / name} is a link, "
                    "and links are not followed"
                )

    def _around(self, path: Path) -> list[Path]:
        """Return the folders that a path is in, the innermost first, below this one."""
        return [one for one in path.parents if one.is_relative_to(self.root) and one != self.root]

    def _prune(self, path: Path) -> None:
        """Remove a folder, those in it and those it is in, as far as they are empty."""
        for inner, _, _ in os.walk(path, topdown=False):
            with suppress(OSError):
                os.rmdir(inner)
        with suppress(OSError):  # the first one that is not empty
            for folder in self._around(path):
                folder.rmdir()

    def _files(self, name: str) -> list[str]:
        """Return the names of all files below a folder, in order."""
        names: list[str] = []
        with _reached(self.root / name):
            for folder, _, files in os.walk(self.root / name, onerror=_unless_gone):
                inside = Path(folder).relative_to(self.root).as_posix()
                names += files if inside == "." else [f"{inside}/{file}" for file in files]
        return sorted(names)

    def _replace(self, name: str, write: Callable[[BinaryIO], Any], settled: bool = False) -> None:
        """Write a file anew, in one step; `settled` is whether it outlasts a loss of power."""
        path = self.root / name
        spared = "/" not in name and (self.root / SPARE).is_dir()
        spare = self.root / SPARE / name if spared else path
        write_whole(spare, write)
        if settled:
            _to_disk(spare)
        if spare != path:
            with writing(path):
                os.replace(spare, path)
        if settled:
            _to_disk(path.parent)


@contextmanager
def _reached(path: str | Path) -> Iterator[None]:
    """Turn the error of a disk that does not answer into one that says so; others stay."""
    try:
        yield
    except OSError as error:
        known = fault(error, reading=path)
        if isinstance(known, TemporaryError):
            raise known from error
        raise


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _to_disk(path: str | Path) -> None:
    with writing(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
