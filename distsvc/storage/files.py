"""Find and open the files of an input, wherever fsspec can reach them."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from distsvc.errors import DataError, InputNotFoundError, JobFileError, TemporaryError

_PARQUET = (".parquet", ".parq", ".pq")
_CSV = (".csv", ".csv.gz")
_SVMLIGHT = tuple(
    name + packed for name in (".svm", ".svmlight", ".libsvm") for packed in ("", ".gz", ".bz2")
)
_STORE_IS_AWAY = {
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.EIO,
    errno.ENETUNREACH,
    errno.ESTALE,
    errno.ETIMEDOUT,
}
# Where the different file systems say which version of a file they hold, the most telling first.
_VERSION_KEYS = ("ETag", "etag", "md5", "mtime", "LastModified", "last_modified", "updated")


@dataclass(frozen=True)
class Files:
    """The files behind a path: their folder, and their names in it, sorted."""

    fs: Any
    root: str
    infos: dict[str, dict[str, Any]]

    @property
    def names(self) -> tuple[str, ...]:
        """Names relative to ``root``."""
        return tuple(self.infos)

    @property
    def are_csv(self) -> bool:
        """Whether every file is named like CSV."""
        return all(_bare(self.root, name).lower().endswith(_CSV) for name in self.infos)

    @property
    def are_svmlight(self) -> bool:
        """Whether every file is named like svmlight text."""
        return all(_bare(self.root, name).lower().endswith(_SVMLIGHT) for name in self.infos)

    def versions(self) -> list[tuple[str, str, str]]:
        """Return (name, size, modification time or tag) of each file, to tell a change by."""
        found = []
        for name, info in self.infos.items():
            keys = [key for key in (*_VERSION_KEYS, "created") if info.get(key) is not None]
            version = str(info[keys[0]]) if keys else ""
            found.append((_bare(self.root, name), str(info.get("size")), version))
        return found


def locate(path: str) -> tuple[Any, str]:
    """Return the fsspec file system of a path or URL, and the path as that file system names it.

    Raises
    ------
    JobFileError
        The protocol is unknown, or the package that speaks it is not installed.

    """
    try:
        fs, inner = fsspec.core.url_to_fs(path)
    except (ValueError, ImportError) as error:
        raise JobFileError(f"input.path: can't open {shown(path)}: {error}") from None
    return fs, inner.rstrip("/") or inner


def is_local(fs: Any) -> bool:
    """Return whether a file system is the machine's own."""
    return isinstance(fs, LocalFileSystem)


def is_named_table(path: str) -> bool:
    """Return whether a path is named like Parquet or CSV."""
    return _bare(path, path).lower().endswith(_PARQUET + _CSV)


def find_files(path: str) -> Files:
    """Find the table files at a path: one file, a folder (recursively) or a glob.

    Files and folders whose name starts with ``.`` or ``_`` are skipped, unless the path itself
    names them. Where some files are named like Parquet (or all tables like CSV), the files that are
    not are skipped too, so that a README beside the data does no harm.

    Raises
    ------
    InputNotFoundError
        There is no such path, or no file in it.
    DataError
        The path may not be read, or mixes CSV and Parquet.

    """
    fs, inner = locate(path)
    root, infos = _list(fs, inner, path)
    csv = {n: i for n, i in infos.items() if _bare(root, n).lower().endswith(_CSV)}
    parquet = {n: i for n, i in infos.items() if _bare(root, n).lower().endswith(_PARQUET)}
    if csv and parquet:
        one, other = next(iter(csv)), next(iter(parquet))
        raise DataError(
            f"{shown(path)} mixes CSV ({one}) and Parquet ({other}); "
            "name one kind with a glob such as *.parquet"
        )
    return Files(fs, root, csv or parquet or infos)


def find_everything(path: str) -> Files:
    """Find every file under a folder, hidden ones too; errors as in `find_files`."""
    fs, inner = locate(path)
    root, infos = _list(fs, inner, path, hidden=True)
    return Files(fs, root, infos)


def join(root: str, name: str) -> str:
    """Return the path of a file in a folder."""
    return f"{root}/{name}"


def find_info(fs: Any, path: str) -> dict[str, Any] | None:
    """Return what a file system knows about a path, or None if there is nothing there."""
    try:
        return fs.info(path)
    except FileNotFoundError as error:
        if isinstance(error.__cause__, OSError):  # fsspec says so of an HTTP server that is down
            raise error.__cause__ from None
        return None


def open_input(fs: Any, path: str, cache: str = "none") -> Any:
    """Open a file so that pyarrow reads it; `cache` is fsspec's, for remote files."""
    # pyarrow reads a local file itself without holding Python's lock.
    return pa.OSFile(path) if is_local(fs) else fs.open(path, "rb", cache_type=cache)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn the errors of reading `path` into errors that name it and say whom to blame."""
    name = shown(path)
    try:
        yield
    except MemoryError:
        raise
    except PermissionError:
        raise DataError(f"no permission to read {name}") from None
    except FileNotFoundError:
        raise DataError(f"{name} has gone while the table was in use") from None
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: an HTTP server's limits
        away = isinstance(error, (ConnectionError, TimeoutError))
        if away or getattr(error, "errno", None) in _STORE_IS_AWAY:
            raise TemporaryError(f"can't reach {name}: {error}") from error
        raise DataError(f"can't read {name}: {error}") from error


def shown(path: str) -> str:
    """Return a path as messages show it: no password and no signed query."""
    if "://" not in path:
        return path
    without_query = path.partition("?")[0] if path.startswith("http") else path
    return re.sub(r"://[^/@]*@", "://", without_query)


def _list(
    fs: Any, inner: str, path: str, hidden: bool = False
) -> tuple[str, dict[str, dict[str, Any]]]:
    fs.invalidate_cache()
    with reading(path):
        info = find_info(fs, inner)
        if info and info["type"] != "directory":
            root, _, name = inner.rpartition("/")
            return root, {name: info}
        if info:
            root, found = inner, _walk(fs, inner)
        else:
            root, found = _glob(fs, inner, path)
    root = root.rstrip("/")
    named = {name[len(root) :].lstrip("/"): info for name, info in found.items()}
    if not hidden:
        named = {name: info for name, info in named.items() if not _hidden(name)}
    if not named:
        raise InputNotFoundError(f"no file in {shown(path)}")
    return root, dict(sorted(named.items()))


def _glob(fs: Any, inner: str, path: str) -> tuple[str, dict[str, dict[str, Any]]]:
    magic = "*" if inner.startswith("http") else "*?["
    parts = inner.split("/")
    first = next((i for i, part in enumerate(parts) if set(part) & set(magic)), None)
    if first is None:
        raise InputNotFoundError(f"{shown(path)} does not exist")
    found: dict[str, dict[str, Any]] = {}
    for name, info in fs.glob(inner, detail=True).items():
        if info["type"] == "directory":
            found |= _walk(fs, name)
        else:
            found[name] = info
    return "/".join(parts[:first]), found


def _walk(fs: Any, folder: str) -> dict[str, dict[str, Any]]:
    if not is_local(fs):
        return fs.find(folder, detail=True)
    # fsspec passes over a folder that can't be listed, and does not enter one that is a link.
    found: dict[str, dict[str, Any]] = {}
    for place, _, names in os.walk(folder, onerror=_raise, followlinks=True):
        found |= {path: fs.info(path) for path in (os.path.join(place, name) for name in names)}
    return found


def _raise(error: OSError) -> None:
    raise error


def _hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))


def _bare(root: str, name: str) -> str:
    return name.partition("?")[0] if root.startswith("http") else name
