"""Arrays and JSON in files. A file is written whole or not at all, and contains no pickles.

Small arrays that belong together share an ``.npz`` file. A large array is an ``.npy`` file, which
is mapped and read in parts.
"""

import hashlib
import io
import json
import mmap
import os
import stat
import tokenize
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from pydantic_core import from_json

from distsvc.errors import DataError, TemporaryError
from distsvc.errors.faults import classify_error

_DAMAGE = (
    OSError, ValueError, OverflowError, EOFError, MemoryError, KeyError, RuntimeError, SyntaxError,
    TypeError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip

MOST_JSON = 256 * 2**20
"""Maximum number of bytes of a JSON file."""

SEAL = "crc32"
"""Key of the checksum that `sealed` adds to a JSON object."""


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Turn the errors of writing a file or a folder into errors that name it."""
    try:
        yield
    except OSError as error:
        raise (classify_error(error, writing=path) or error) from error


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Call `write` on a new file, then rename the file to `path`; errors as in `writing`.

    Every OSError counts as a failure to write, so `write` must not read other files.
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


def make_folder(path: Path, private: bool = False) -> None:
    """Make a folder, of mode 0700 if private, and its parents; errors as in `writing`."""
    with writing(path):
        path.mkdir(0o700 if private else 0o777, parents=True, exist_ok=True)


def write_content(path: Path, content: bytes | str) -> None:
    """Write bytes, or a text as UTF-8 (with ? for lone surrogates); errors as in `writing`."""
    written = content.encode(errors="replace") if isinstance(content, str) else content
    write_whole(path, lambda stream: stream.write(written))


def write_json(path: Path, content: object) -> None:
    """Write content as JSON, keys in the given order."""
    write_content(path, json_bytes(content))


def read_json(path: Path, most_bytes: int = MOST_JSON) -> Any:
    """Read a JSON file in UTF-8; `DataError` if it is missing, damaged or too large."""
    with _readable(path):
        content = read_regular(path, most_bytes)
    return parse_json(content, path, most_bytes)


def read_regular(path: Path, most_bytes: int = MOST_JSON) -> bytes:
    """Return the content of a file, but at most its first `most_bytes` + 1 bytes.

    The extra byte shows the caller that the file is too large. `OSError` for a pipe or a device.
    """
    with open(path, "rb", opener=_regular) as stream:
        return stream.read(most_bytes + 1)


def parse_json(content: bytes, name: Path | str, most_bytes: int = MOST_JSON) -> Any:
    """Return the content of JSON that was read from `name`; errors as in `read_json`."""
    with _readable(name):
        if len(content) > most_bytes:
            raise ValueError(f"it has more than {most_bytes:,} bytes")
        return from_json(content, allow_inf_nan=False)


def json_bytes(content: object) -> bytes:
    """Return content as JSON in UTF-8, keys in the given order."""
    return (json.dumps(content, indent=1, allow_nan=False, default=_plain) + "\n").encode()


def sealed(content: Mapping[str, object]) -> bytes:
    """Return an object as JSON; its last key is a checksum of the other keys."""
    return json_bytes({**content, SEAL: zlib.crc32(json_bytes(content))})


def unsealed(written: bytes, name: Path | str) -> dict[str, Any]:
    """Return the object that `sealed` wrote; `DataError` if damaged or its checksum is wrong."""
    content = parse_json(written, name)
    if not isinstance(content, dict):
        raise DataError(f"{name} can't be read: expected an object, found {type(content).__name__}")
    if content.pop(SEAL, None) != zlib.crc32(json_bytes(content)):
        raise DataError(f"{name} can't be read: its checksum is wrong")
    return content


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file."""
    found = 0
    with open(path, "rb", opener=_regular) as stream:
        while chunk := stream.read(2**20):
            found = zlib.crc32(chunk, found)
    return found


def file_facts(path: Path) -> dict[str, int | str]:
    """Return a file's size in bytes and its SHA-256."""
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write named arrays to one ``.npz`` file; the same arrays give the same bytes."""

    def write(stream: BinaryIO) -> None:
        # If a write fails, `np.savez` before NumPy 2.4 leaves the archive open.
        with zipfile.ZipFile(stream, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)

    write_whole(path, write)


def read_arrays(path: Path, only: str | None = None) -> dict[str, np.ndarray]:
    """Return the arrays by name from a file that `write_arrays` wrote.

    With `only`, the array of this name is returned alone. `DataError` if the file is damaged.
    """
    with _readable(path), open(path, "rb", opener=_regular) as stream:
        archive = zipfile.ZipFile(io.BytesIO(stream.read()))
        found = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"its member {member.filename!r} is compressed")
            if only in (None, name):
                with archive.open(member) as content:
                    found[name] = np.lib.format.read_array(content, allow_pickle=False)
                    if content.read(1):  # reading to the end compares the checksum
                        raise ValueError(f"its member {member.filename!r} is too long")
        return found


def write_array(path: Path, array: np.ndarray) -> int:
    """Write one array to an ``.npy`` file; return the file's `checksum`."""
    write_whole(path, lambda stream: np.save(stream, array, allow_pickle=False))
    return checksum(path)


def map_array(path: Path) -> np.ndarray:
    """Map an ``.npy`` file read-only; `DataError` if it is missing, too short or too long."""
    with _readable(path):
        with open(path, "rb", opener=_regular) as stream:
            size = os.fstat(stream.fileno()).st_size
        array = np.lib.format.open_memmap(path, mode="r")
        if array.offset + array.nbytes != size:
            raise ValueError("bytes follow its array")
        return array


def release_pages(array: np.ndarray) -> None:
    """Free the memory of a mapped array's pages; they are read again when used."""
    pages: object = array.base
    if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


@contextmanager
def _readable(path: Path | str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        known = classify_error(error, reading=path) if isinstance(error, OSError) else None
        if isinstance(known, TemporaryError):  # the file may be whole
            raise known from error
        said = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} can't be read: {said[:300]}") from error


def _regular(path: str, flags: int) -> int:
    """Open a regular file for reading; anything else is an `OSError`."""
    found = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OSError("it is not a file")
    return found


def _plain(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} can't be written as JSON")
