"""Arrays and JSON as files that are whole or absent, and that hold nothing executable.

Whatever a run writes, it writes with a function of this module, or within `writing`. Small arrays
that belong together are one ``.npz`` file; a large one, of which readers want parts, is an ``.npy``
file that is mapped.
"""

from __future__ import annotations

import json
import os
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from distsvc.errors import DataError
from distsvc.faults import fault

_DAMAGE = (
    OSError, ValueError, OverflowError, EOFError, MemoryError, KeyError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Turn the errors of writing a file or a folder into errors that name it.

    Raises
    ------
    OutputPermissionError
        It may not or can't be written.
    TemporaryError
        No space is left, or the disk does not answer.

    """
    try:
        yield
    except OSError as error:
        raise (fault(error, writing=path) or error) from error


def write_whole(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Call `write` on a new file beside `path`, then rename it to `path`; errors as in `writing`.

    Errors of what `write` reads are to be none of `OSError`.
    """
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with writing(path):
        try:
            with open(unfinished, "wb") as stream:
                write(stream)
            os.replace(unfinished, path)
        finally:
            with suppress(OSError):
                unfinished.unlink()


def make_folder(path: Path) -> None:
    """Make a folder and those that hold it, unless it is there; errors as in `writing`."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


def remove_unfinished(path: Path) -> None:
    """Remove what killed processes left beside `path` when they were to write it."""
    for unfinished in path.parent.glob(f".{path.name}.{'[0-9a-f]' * 32}"):
        unfinished.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8; what UTF-8 can't hold becomes a question mark."""
    write_whole(path, lambda stream: stream.write(text.encode("utf-8", errors="replace")))


def write_json(path: Path, content: Any) -> None:
    """Write what JSON can hold, keys in the order given."""
    text = json.dumps(content, indent=1, allow_nan=False, default=_plain)
    write_text(path, text + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; `DataError` when it is missing or damaged."""
    with _readable(path):
        return json.loads(path.read_bytes())


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write named arrays to one ``.npz`` file; the same arrays give the same bytes."""
    for name, array in arrays.items():
        _check_plain(name, array)
    content: dict[str, Any] = arrays  # the names of arrays could be those of other arguments
    write_whole(path, lambda stream: np.savez(stream, **content))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read a file of `write_arrays`; `DataError` when it is missing or damaged."""
    with _readable(path), open(path, "rb") as stream:
        archive = np.load(stream, allow_pickle=False)
        arrays = {name: archive[name] for name in archive.files}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise ValueError(f"{name} is not an array")
    return arrays


def write_array(path: Path, array: np.ndarray) -> None:
    """Write one array to an ``.npy`` file."""
    _check_plain(path.stem, array)
    write_whole(path, lambda stream: np.save(stream, array, allow_pickle=False))


def map_array(path: Path) -> np.ndarray:
    """Return the array of an ``.npy`` file, read-only; its pages are read when they are used.

    `DataError` when the file is missing or shorter than its header says.
    """
    with _readable(path):
        return np.load(path, mmap_mode="r", allow_pickle=False)


def _check_plain(name: str, array: np.ndarray) -> None:
    if array.dtype.hasobject:
        raise ValueError(f"array {name!r} holds Python objects")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise DataError(f"{path} can't be read: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} can't be written as JSON")
