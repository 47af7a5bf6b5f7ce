"""Arrays and JSON as files that are whole or absent, and that hold nothing executable."""

from __future__ import annotations

import json
import os
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from distsvc.errors import DataError


def write_whole(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Call `write` on a new file beside `path`, then rename it to `path`."""
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(unfinished, "wb") as stream:
            write(stream)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write what JSON can hold, keys in the order given."""
    text = json.dumps(content, indent=1, allow_nan=False, default=_plain)
    write_whole(path, lambda stream: stream.write(text.encode() + b"\n"))


def read_json(path: Path) -> Any:
    """Read a JSON file; `DataError` when it is missing or damaged."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{path} can't be read: {error}") from None


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write named arrays to one ``.npz`` file; the same arrays give the same bytes."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ValueError(f"array {name!r} holds Python objects")
    content: dict[str, Any] = arrays  # the names of arrays could be those of other arguments
    write_whole(path, lambda stream: np.savez(stream, **content))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read a file of `write_arrays`.

    A member's size is checked against its header before memory is taken for it.

    Raises
    ------
    DataError
        The file is missing or damaged, or holds Python objects.

    """
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                member.filename.removesuffix(".npy"): _member(archive, member)
                for member in archive.infolist()
            }
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} can't be read: {error}") from None


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = header(stream)
        size = int(np.prod([int(n) for n in shape], dtype=object)) * dtype.itemsize
        if dtype.hasobject or stream.tell() + size != member.file_size:
            raise ValueError(f"{member.filename} is not the array that its header says")
    with archive.open(member) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} can't be written as JSON")


def map_array(path: Path, name: str) -> np.ndarray:
    """Return one array of a `write_arrays` file; its pages are read when they are used."""
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(f"{name}.npy")
    with open(path, "rb") as stream:
        stream.seek(member.header_offset + 26)
        name_length, extra_length = np.fromfile(stream, "<u2", 2)
        stream.seek(member.header_offset + 30 + int(name_length) + int(extra_length))
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(_after_magic(stream))
        start = stream.tell()
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", start, shape, "F" if fortran else "C")


def _after_magic(stream: BinaryIO) -> BinaryIO:
    np.lib.format.read_magic(stream)
    return stream
