"""Stores of files: a folder of a disk (`Folder`), or a prefix of a bucket.

Names are paths below the store, with ``/``. The few files that change (a manifest, the record of a
holder) are replaced in one step by `Folder.swap`. Other files never change, so a bucket's files are
cached in a folder of this process. A bucket has no locks and no renaming, but conditional writes.
"""

import atexit
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from distsvc.errors import DataError, DistsvcError, InputNotFoundError, JobFileError
from distsvc.errors.extras import required
from distsvc.errors.faults import classify_error
from distsvc.errors.urls import bare_url, checked_url
from distsvc.storage.places.arrays import MOST_JSON, file_facts, make_folder, write_whole
from distsvc.storage.places.folder import NO_FENCE, ChangedError, Fence, Folder
from distsvc.storage.places.process import new_scratch
from distsvc.storage.places.remote import REQUESTS_AT_ONCE, obstore_options

SCHEME = "s3"
"""Scheme of the URLs of supported buckets.

A commit replaces an object only if its ETag is as expected, which Google's buckets can't check.
"""

REMOVED_RECORD = b"{}\n"
"""The content that marks an object as removed, since stores can't remove on a condition."""


class Bucket:
    """A prefix of a bucket, with the methods of `distsvc.storage.places.folder.Folder`.

    The lease is checked before a change, and `swap` is a conditional request. `JobFileError` if the
    URL has credentials or names no bucket, or obstore is not installed.
    """

    def __init__(self, url: str, fence: Fence = NO_FENCE):
        self._fence = fence
        scheme, _, rest = checked_url(url).partition("://")
        bucket, _, prefix = rest.partition("/")
        if not bucket or "?" in rest:
            raise JobFileError(f"expected {scheme}://bucket/prefix, found {url!r}")
        self._root = f"{scheme}://{bucket}"
        self._store, self._cache = _opened(self._root)
        self._prefix = "/".join(part for part in prefix.split("/") if part)

    @property
    def address(self) -> str:
        return f"{self._root}/{self._prefix}" if self._prefix else self._root

    def below(self, name: str) -> "Bucket":
        return Bucket(f"{self.address}/{name}", self._fence)

    def fenced(self, fence: Fence) -> "Bucket":
        return Bucket(self.address, fence)

    def begin_holding(self, token: str) -> None:
        return

    end_others = end_holding = begin_holding

    def has(self, name: str) -> bool:
        with suppress(InputNotFoundError), self._asking(name):
            return self._cached(name).is_file() or bool(self._store.head(self._key(name)))
        return False

    def sizes(self, name: str = "") -> dict[str, int]:
        with self._asking(name):
            found = [meta for chunk in self._store.list(self._key(name)) for meta in chunk]
        start = len(self._prefix) + 1 if self._prefix else 0
        return dict(sorted((meta["path"][start:], meta["size"]) for meta in found))

    def folders(self, name: str = "") -> list[str]:
        with self._asking(name):
            found = self._store.list_with_delimiter(self._key(name))["common_prefixes"]
        return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in found)

    def local(self, name: str) -> Path:
        path = self._cached(name)
        if not path.exists():
            with suppress(InputNotFoundError), self._asking(name):
                chunks = self._store.get(self._key(name)).stream(8 * 2**20)
                make_folder(path.parent)
                write_whole(path, lambda stream: [stream.write(chunk) for chunk in chunks])
        return path

    @contextmanager
    def created(self, name: str, again: bool = True) -> Iterator[Path]:
        path = self._cached(name)
        make_folder(path.parent)
        yield path
        with self._asking(name, write=True):
            self._store.put(self._key(name), path)
        if not again:
            path.unlink()

    def put(self, name: str, content: bytes) -> None:
        with self._asking(name, write=True):
            self._store.put(self._key(name), content)

    def link(self, names: Mapping[str, str]) -> None:
        unfenced, pairs = Bucket(self.address), list(names.items())

        def copy(pair: tuple[str, str]) -> None:
            with unfenced._asking(pair[0], write=True):
                self._store.copy(self._key(pair[1]), self._key(pair[0]))

        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            for first in range(0, len(pairs), 4 * REQUESTS_AT_ONCE):
                self._fence.check()
                list(pool.map(copy, pairs[first : first + 4 * REQUESTS_AT_ONCE]))

    def remove(self, name: str, mark: str | None = None) -> bool:
        if mark is not None:
            with suppress(ChangedError):
                return bool(self.swap(name, REMOVED_RECORD, mark))
        elif self.has(name):
            return self._delete(name, [name])
        return False

    def clear(self, name: str, known: Collection[str] = ()) -> None:
        names = [found for found in self.sizes(name) if found not in known]
        if names:
            self._delete(name, names)

    def _delete(self, name: str, names: list[str]) -> bool:
        """Remove the objects `names` and their cached copies; messages of errors show `name`."""
        with self._asking(name, write=True):
            self._store.delete([self._key(found) for found in names])
        for found in names:
            self._cached(found).unlink(missing_ok=True)
        return True

    def current(self, name: str) -> tuple[bytes, str] | None:
        try:
            with self._asking(name):
                found = self._store.get(self._key(name))
                if found.meta["size"] > MOST_JSON:
                    raise DataError(f"{self.address}/{name} has more than {MOST_JSON:,} bytes")
                return bytes(found.bytes()), str(found.meta["e_tag"])
        except InputNotFoundError:
            return None

    def swap(self, name: str, content: bytes, mark: str | None) -> str:
        mode: Any = "create" if mark is None else {"e_tag": mark}
        try:
            with self._asking(name, write=True):
                put = self._store.put(self._key(name), content, mode=mode)
                return str(put["e_tag"])
        except DistsvcError:
            # The store may have written it and lost the answer: no other writer has this content.
            there = self.current(name)
            if there is None or there[0] != content:
                raise
            return there[1]

    def settle(self, names: Collection[str]) -> None:
        """Do nothing: a bucket's objects survive a loss of power, and it has no links."""

    refuse_links = settle

    @contextmanager
    def lock(self) -> Iterator[bool]:
        yield False

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self._prefix, name) if part)

    def _cached(self, name: str) -> Path:
        return self._cache / self._key(name)

    @contextmanager
    def _asking(self, name: str, write: bool = False) -> Iterator[None]:
        where = f"{self.address}/{name}"
        if write:
            self._fence.check()
        try:
            yield
        except DistsvcError:
            raise
        except Exception as error:
            if write and type(error).__name__ in ("AlreadyExistsError", "PreconditionError"):
                raise ChangedError(f"{where} was changed by another process") from None
            reading, writing = (None, where) if write else (where, None)
            raise classify_error(error, reading=reading, writing=writing) or error from None


@cache
def _opened(root: str) -> tuple[Any, Path]:
    """Open a bucket once per process, with a folder for cached objects; errors as in `Bucket`."""
    stores = required("obstore.store", "s3", root)
    try:
        store = stores.from_url(root, **obstore_options(root))
    except Exception as error:  # wrong settings, such as missing credentials
        raise classify_error(error, writing=root) or JobFileError(
            f"can't open {root}: {error}"
        ) from None
    folder = new_scratch("bucket")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return store, folder


Store: TypeAlias = Folder | Bucket
"""A folder of files, on a disk or in a bucket; `Folder` documents the methods of both."""


def changed_since(place: Store, known: Mapping[str, Mapping[str, int | str]]) -> list[str]:
    """Return the files that are missing, or differ from their `known` facts (`arrays.file_facts`).

    After a loss of power, a file on a disk may have other bytes. Objects in a bucket are whole, so
    only their sizes are compared.
    """
    there = place.sizes() if known else {}
    changed = [name for name, file in known.items() if there.get(name) != file["bytes"]]
    if isinstance(place, Folder):
        same = (name for name in known if name not in changed)
        changed += [n for n in same if file_facts(place.local(n))["sha256"] != known[n]["sha256"]]
    return changed


def store_of(address: str | os.PathLike[str]) -> Store:
    """Return the store at a path or URL; `JobFileError` if the URL's scheme is not `SCHEME`."""
    scheme, separator, _ = str(address).partition("://")
    if not separator:
        return Folder(address)
    if scheme != SCHEME:
        raise JobFileError(
            f"expected a folder of a local or shared disk, or a URL of {SCHEME}://, found "
            f"{bare_url(str(address))!r}"
        )
    return Bucket(str(address))
