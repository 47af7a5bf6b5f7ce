"""A folder of a local or shared disk as a store; links in it are not followed."""

import errno
import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from distsvc.errors import DataError, OutputPermissionError, TemporaryError
from distsvc.errors.faults import classify_error
from distsvc.storage.places import arrays

LOCK = "lock"
HOLDERS = "holders"
"""Name of the folder that contains one folder for each lock holder."""
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV, errno.ENOSYS)
"""Errors of a file system without hard links."""
NOWHERE = FileNotFoundError, NotADirectoryError
"""Errors of a path that does not exist."""

RUNS = ".runs"
"""Name of an output's internal folder, with the lock, records, and files of all runs."""


class Fence(NamedTuple):
    """A lock holder's right to change a store.

    `spare` is the holder's own folder on a disk, which the next holder removes. `check` raises
    `TemporaryError` once another process has the lock.
    """

    spare: Path | None = None
    check: Callable[[], object] = lambda: None


NO_FENCE = Fence()


class ChangedError(TemporaryError):
    """A file has another version than the one to be replaced."""


class HeldError(TemporaryError):
    """Another process has locked a store."""


class FencedError(TemporaryError):
    """A process without the lock tried to change a store."""


class Folder:
    """A folder of a disk; `Bucket` has the same methods.

    Methods raise `TemporaryError` if the disk does not answer. A lock holder's store has a fence:
    it changes a file by renaming it from or to the holder's own folder, `Fence.spare`. The next
    holder removes that folder, so that later changes by the old holder fail.
    """

    def __init__(self, path: str | os.PathLike[str], fence: Fence = NO_FENCE):
        self.root = Path(os.path.abspath(path))
        self._fence = fence

    @property
    def address(self) -> str:
        """The absolute path or URL, which `store_of` opens on any worker."""
        return str(self.root)

    def below(self, name: str) -> "Folder":
        """Return a folder of this one, which need not exist."""
        return Folder(self.root / name, self._fence)

    def fenced(self, fence: Fence) -> "Folder":
        """Return this store with a fence: changes fail once another process has the lock."""
        return Folder(self.root, fence)

    def begin_holding(self, token: str) -> Path:
        """Create and return a lock holder's own folder, `Fence.spare`; `token` is its name.

        A bucket has no such folders, so its method returns None.
        """
        own = self.root / HOLDERS / token
        arrays.make_folder(own)
        return own

    def end_others(self, token: str) -> None:
        """Remove the folders of all previous lock holders, so that their changes fail."""
        for name in self.folders(HOLDERS):
            if name != token:
                with arrays.writing(self.root), suppress(FileNotFoundError):
                    os.rename(self.root / HOLDERS / name, self.root / HOLDERS / token / name)
        for name in self.folders(f"{HOLDERS}/{token}"):
            shutil.rmtree(self.root / HOLDERS / token / name, ignore_errors=True)

    def end_holding(self, token: str) -> None:
        shutil.rmtree(self.root / HOLDERS / token, ignore_errors=True)
        with suppress(OSError):  # another holder's folder is there
            os.rmdir(self.root / HOLDERS)

    def has(self, name: str) -> bool:
        with suppress(*NOWHERE), _reached(self.root / name):
            return bool(os.stat(self.root / name))
        return False

    def sizes(self, name: str = "") -> dict[str, int]:
        """Return the sizes in bytes of all complete files below a folder, sorted by name."""
        found = {}
        for file in self._files(name):
            if not file.rpartition("/")[2].startswith("."):
                path = os.path.join(self.root, file)
                with suppress(FileNotFoundError), _reached(path):
                    found[file] = os.stat(path).st_size
        return found

    def folders(self, name: str = "") -> list[str]:
        """Return the names of the folders directly inside a folder; symbolic links are skipped."""
        with suppress(*NOWHERE), _reached(self.root / name), os.scandir(self.root / name) as found:
            return sorted(one.name for one in found if one.is_dir(follow_symlinks=False))
        return []

    def local(self, name: str) -> Path:
        """Return a local path at which to read a file that never changes.

        It is the file's own path on a disk. A bucket downloads the file to a cache.
        """
        return self.root / name

    @contextmanager
    def created(self, name: str, again: bool = True) -> Iterator[Path]:
        """Yield a path for a new file; the file is stored if the body raises no error.

        If the file will be read `again`, a bucket keeps a local copy. Errors as in
        `arrays.writing`.
        """
        path = self.root / name
        arrays.make_folder(path.parent)
        yield path

    def put(self, name: str, content: bytes) -> None:
        """Write a small file, or replace it, in one step; errors as in `created`."""
        arrays.make_folder((self.root / name).parent)
        with self._spare(self.root / name) as spare:
            arrays.write_content(spare, content)

    def remove(self, name: str, mark: str | None = None) -> bool:
        """Remove a file if its version is `mark` (None: any); return True if it was removed.

        Parent folders that become empty are removed, too. If `name` is a folder, only the empty
        folders in it are removed. A bucket can't remove a file on a condition. If `mark` is given,
        it overwrites the file with `REMOVED_RECORD` instead.
        """
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
                with suppress(OSError), self._taken(path) as taken:  # perhaps another user's file
                    taken.unlink()
                if path.exists():
                    return False
            self._prune(path)
            return is_file

    def clear(self, name: str, known: Collection[str] = ()) -> None:
        """Remove all files below a folder except `known`, and then the empty folders."""
        path, names = self.root / name, set(self._files(name))
        if not names.isdisjoint(known):
            for file in names.difference(known):
                self.remove(file)
        elif path.is_dir() and not path.is_symlink():
            with suppress(OSError), self._taken(path) as taken:
                shutil.rmtree(taken, ignore_errors=True)
        self._prune(path)

    def current(self, name: str) -> tuple[bytes, str] | None:
        """Return content and version mark of a file, or None; `DataError` if unreadable."""
        try:
            content = arrays.read_regular(self.root / name)
        except NOWHERE:
            return None
        except OSError as error:
            known = classify_error(error, reading=self.root / name)
            raise known or DataError(f"{self.root / name} can't be read: {error}") from None
        return content, hashlib.sha256(content).hexdigest()

    def swap(self, name: str, content: bytes, mark: str | None) -> str:
        """Replace a file of version `mark` (None: no file), and return the new mark.

        Errors as in `created`, and `ChangedError` if the file has another version.
        """
        there = self.current(name)
        if (there and there[1]) != mark:
            raise ChangedError(f"{self.root / name} was changed by another process")
        with self._spare(self.root / name) as spare:
            arrays.write_content(spare, content)
            _to_disk(spare)
        _to_disk((self.root / name).parent)
        return hashlib.sha256(content).hexdigest()

    def link(self, names: Mapping[str, str]) -> None:
        """Give files second names, ``{new: old}``: links on a disk, copies in a bucket."""
        for name, old in names.items():
            arrays.make_folder((self.root / name).parent)
            with self._spare(self.root / name) as spare, arrays.writing(self.root / name):
                try:
                    os.link(self.root / old, spare)
                except FileExistsError:  # the link exists; only without a fence
                    continue
                except OSError as error:
                    if error.errno not in NO_LINKS:
                        raise
                    shutil.copyfile(self.root / old, spare)

    def settle(self, names: Collection[str]) -> None:
        """Flush files and their parent folders to the disk; errors as in `arrays.writing`."""
        folders, root = {"."}, os.fspath(self.root)
        for name in {name.rpartition("/")[0] for name in names}:
            folders |= {str(folder) for folder in (Path(name), *Path(name).parents)}
        with ThreadPoolExecutor(16) as pool:
            for some in names, sorted(folders):
                list(pool.map(_to_disk, [os.path.join(root, name) for name in some]))

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Make the folder, and lock it against other processes of this machine.

        Yields True, or False for a bucket, which has no lock. Errors as in `created`, and
        `HeldError` if another process holds the lock.
        """
        with arrays.writing(f"output.path {self.root.parent}"):
            try:
                # Work has pieces of the input, which may be private.
                self.root.mkdir(0o700 if self.root.name == RUNS else 0o777, True, True)
            except FileNotFoundError as error:  # `mkdir` raises it below /proc
                raise PermissionError(error.errno, error.strerror) from None
        # The lock's file stays, since removing it is a race.
        lock = FileLock(self.root / LOCK, timeout=0, mode=0o660)
        try:
            lock.acquire()
        except Timeout:
            raise HeldError(f"another process holds {self.root}") from None
        except OSError as error:
            known = classify_error(error, writing=f"output.path {self.root.parent}")
            raise known or error from None
        try:
            for folder in (self.root, *self.root.glob("*")):  # remove files of killed processes
                for unfinished in folder.glob(f".*.{'[0-9a-f]' * 32}"):
                    with suppress(OSError):  # perhaps another user's file
                        if not folder.is_symlink():
                            unfinished.unlink()
            yield True
        finally:
            lock.release()

    def refuse_links(self, names: Collection[str]) -> None:
        """Raise `OutputPermissionError` if a folder with one of the names is a link."""
        for name in names:
            if (self.root / name).is_symlink():
                raise OutputPermissionError(
                    f"output.path {self.root} can't be written: {self.root / name} is a link, "
                    "and links are not followed"
                )

    def _around(self, path: Path) -> list[Path]:
        return [one for one in path.parents if one.is_relative_to(self.root) and one != self.root]

    def _prune(self, path: Path) -> None:
        """Remove the empty folders in and above a path, except a holder's own folder."""
        for inner, _, _ in os.walk(path, topdown=False):
            with suppress(OSError):
                if os.path.basename(os.path.dirname(inner)) != HOLDERS:
                    os.rmdir(inner)
        with suppress(OSError):  # stops at a folder that is not empty
            for folder in self._around(path):
                folder.rmdir()

    def _files(self, name: str) -> list[str]:
        names: list[str] = []
        with _reached(self.root / name):
            for folder, _, files in os.walk(self.root / name, onerror=_unless_gone):
                inside = Path(folder).relative_to(self.root).as_posix()
                names += files if inside == "." else [f"{inside}/{file}" for file in files]
        return sorted(names)

    @contextmanager
    def _spare(self, path: Path) -> Iterator[Path]:
        """Yield a temporary path; rename it to `path` if the lock is still held at the end.

        Without a fence, yield `path` itself.
        """
        if self._fence.spare is None:
            yield path
            return
        spare = self._fence.spare / uuid.uuid4().hex
        with self._still_held():
            os.stat(spare.parent)
        try:
            yield spare
            self._fence.check()
            with arrays.writing(path), self._still_held():
                os.replace(spare, path)
        finally:
            with suppress(OSError):  # `os.replace` keeps `spare` if both link to one file
                spare.unlink()

    @contextmanager
    def _taken(self, path: Path) -> Iterator[Path]:
        """Yield the path at which the caller deletes a file or a folder.

        With a fence, the file or folder is first moved into `Fence.spare`.
        """
        if self._fence.spare is None:
            yield path
            return
        spare = self._fence.spare / uuid.uuid4().hex
        self._fence.check()
        with self._still_held():
            os.replace(path, spare)
        yield spare

    @contextmanager
    def _still_held(self) -> Iterator[None]:
        """Raise `FencedError` if the block fails because `Fence.spare` was removed."""
        try:
            yield
        except FileNotFoundError:
            if self._fence.spare and not self._fence.spare.is_dir():
                raise FencedError(f"another run took over {self.root} meanwhile") from None
            raise


@contextmanager
def _reached(path: str | Path) -> Iterator[None]:
    """Turn the error of a disk that does not answer into `TemporaryError`."""
    try:
        yield
    except OSError as error:
        known = classify_error(error, reading=path)
        if isinstance(known, TemporaryError):
            raise known from error
        raise


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, NOWHERE):
        raise error


def _to_disk(path: str | Path) -> None:
    with arrays.writing(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
