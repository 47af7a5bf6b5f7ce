"""A place where bytes are: its file system, its path there, and how messages name it."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from distsvc.errors import DataError, InputNotFoundError, JobFileError, TemporaryError

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


@dataclass(frozen=True)
class Location:
    """A file, a folder or a glob, wherever fsspec can reach it.

    Attributes
    ----------
    fs : fsspec file system
    path : str
        The path as the file system names it; absolute if local.
    url : str
        The path or URL that was given; of what was found in a folder, its path.

    """

    fs: Any
    path: str
    url: str

    @classmethod
    def of(cls, url: str) -> Location:
        """Return the location of a path or URL.

        Raises
        ------
        JobFileError
            The protocol is unknown, or the package that speaks it is not installed.

        """
        try:
            fs, path = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise JobFileError(f"input.path: can't open {shown_url(url)}: {error}") from None
        return cls(fs, path.rstrip("/") or path, url)

    @property
    def is_local(self) -> bool:
        """Whether the file system is the machine's own."""
        return isinstance(self.fs, LocalFileSystem)

    @property
    def address(self) -> str:
        """What finds the place again from any folder: the absolute path if local, else the URL."""
        return self.path if self.is_local else self.url

    @property
    def shown(self) -> str:
        """The URL as messages show it: no password and no signed query."""
        return shown_url(self.url)

    @property
    def bare(self) -> str:
        """The path without the query that an HTTP URL may end in."""
        return self.path.partition("?")[0] if self.path.startswith("http") else self.path

    def at(self, path: str) -> Location:
        """Return another place in the same file system."""
        return Location(self.fs, path, path)

    def join(self, name: str) -> Location:
        """Return the place of a file in this folder."""
        return self.at(f"{self.path}/{name}")

    def is_named(self, suffixes: Sequence[str]) -> bool:
        """Return whether the name ends in one of some suffixes, whatever their case."""
        return self.bare.lower().endswith(tuple(suffixes))

    def info(self) -> dict[str, Any] | None:
        """Return what the file system knows about the place, or None if there is nothing."""
        try:
            return self.fs.info(self.path)
        except FileNotFoundError as error:
            if isinstance(
                error.__cause__, OSError
            ):  # fsspec says so of an HTTP server that is down
                raise error.__cause__ from None
            return None

    def open(self, cache: str = "none") -> Any:
        """Open the file so that pyarrow reads it; `cache` is fsspec's, for remote files."""
        # pyarrow reads a local file itself without holding Python's lock.
        if self.is_local:
            return pa.OSFile(self.path)
        return self.fs.open(self.path, "rb", cache_type=cache)

    def not_found(self) -> InputNotFoundError:
        """Return the error that there is nothing here."""
        return InputNotFoundError(f"{self.shown} does not exist")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn the errors of reading here into errors that name the place and whom to blame.

        Raises
        ------
        DataError
            What is here is damaged, has gone or may not be read.
        TemporaryError
            The store does not answer.

        """
        try:
            yield
        except MemoryError:
            raise
        except PermissionError:
            raise DataError(f"no permission to read {self.shown}") from None
        except FileNotFoundError:
            raise DataError(f"{self.shown} has gone while the table was in use") from None
        except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: of HTTP servers
            away = isinstance(error, (ConnectionError, TimeoutError))
            if away or getattr(error, "errno", None) in _STORE_IS_AWAY:
                raise TemporaryError(f"can't reach {self.shown}: {error}") from error
            raise DataError(f"can't read {self.shown}: {error}") from error


def shown_url(url: str) -> str:
    """Return a path or URL as messages show it: no password and no signed query."""
    if "://" not in url:
        return url
    without_query = url.partition("?")[0] if url.startswith("http") else url
    return re.sub(r"://[^/@]*@", "://", without_query)
