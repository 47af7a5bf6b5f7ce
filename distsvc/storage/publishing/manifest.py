"""A manifest as it is read: its form, and the files that it lists with sizes and checksums."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from distsvc.errors import DataError, InputNotFoundError, JobFileError, shown
from distsvc.errors.forms import Form, parsed
from distsvc.storage.places.arrays import parse_json
from distsvc.storage.places.folder import SPARE
from distsvc.storage.places.place import Place
from distsvc.storage.publishing.columns import described

MANIFEST = "manifest.json"
FORMAT = 2
"""The version of the manifest that is written, and read."""


def _plain_path(text: str) -> str:
    path = PurePosixPath(text)
    odd = path.is_absolute() or ".." in path.parts or str(path) != text or text == "."
    if odd or "\0" in text or "\\" in text:
        raise ValueError(f"expected a plain path below the folder, found {text[:60]!r}")
    return text


Size = Annotated[int, Field(ge=0, le=2**63 - 1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ListedFile(Form):
    """A file below the manifest's folder: its path, bytes and SHA-256, and rows of labels."""

    file: Annotated[str, AfterValidator(_plain_path)]
    bytes: Size
    sha256: Sha256
    rows: Size | None = None


def _listed_once(files: list[ListedFile]) -> list[ListedFile]:
    names = [file.file for file in files]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"expected every file once, found {twice[:60]!r} twice")
    return files


class Manifest(Form):
    """What is read of a manifest; it holds more, for people."""

    model_config = ConfigDict(extra="allow")

    format: int
    run_id: Annotated[str, AfterValidator(_plain_path)]
    job_sha256: Sha256
    input_sha256: Sha256
    rows: Size
    clusters: Size
    files: Annotated[list[ListedFile], AfterValidator(_listed_once)]


def read_manifest(place: Place) -> dict[str, Any]:
    """Return the manifest of the run that is published at a place.

    Raises
    ------
    InputNotFoundError
        There is none.
    JobFileError
        It was written by another version.
    DataError
        It is damaged.

    """
    found, path = place.current(MANIFEST), f"{place.address}/{MANIFEST}"
    if found is None:
        raise InputNotFoundError(f"no run is published in {place.address}: it has no {MANIFEST}")
    content = parse_json(found[0], path)
    check_manifest(content, path)
    return content


def check_manifest(content: Any, path: str) -> None:
    """Check the form of what `path` held; errors as in `read_manifest`."""
    version = content.get("format") if isinstance(content, dict) else None
    if type(version) is int and version != FORMAT:
        raise JobFileError(f"{path} has format {shown(version)}, expected {FORMAT}")
    parsed(Manifest, content, path)


def listed(place: Place, manifest: dict[str, Any], name: str) -> str:
    """Return the path, below the place, of the only listed file of a name.

    Raises
    ------
    DataError
        No file of the name is listed, or several are.

    """
    found = [file["file"] for file in manifest["files"] if PurePosixPath(file["file"]).name == name]
    if len(found) != 1:
        where = f"{place.address}/{MANIFEST}"
        raise DataError(f"{where}: expected one file {name}, found {len(found)}")
    return found[0]


def names_of(manifest: dict[str, Any], without: Collection[str]) -> list[str]:
    """Return the names of a manifest's files, less those that can't be of a run, and others."""
    files = manifest.get("files", [])
    files = files if isinstance(files, list) else []  # of another version, perhaps
    names = [str(file["file"]) for file in files if isinstance(file, dict) and "file" in file]
    return [
        name
        for name in names
        if not PurePosixPath(name).is_absolute()
        and not {"..", SPARE}.intersection(PurePosixPath(name).parts)
        and name not in without
    ]


def checked(place: Place, manifest: dict[str, Any], file: str) -> Path:
    """Return where a listed file can be read, after comparing its bytes and SHA-256.

    Raises
    ------
    DataError
        It is not there, lies outside of the folder, or is another one.

    """
    name, expected = (
        f"{place.address}/{file}",
        next(one for one in manifest["files"] if one["file"] == file),
    )
    try:
        path = place.local(file)
        root = path.parents[len(PurePosixPath(file).parts) - 1].resolve()
        if not path.resolve(strict=True).is_relative_to(root):
            raise DataError(f"{name} is a link out of {place.address}, which is not followed")
        if not path.is_file():
            raise DataError(f"{name} is not a file")
        n_bytes = os.stat(path).st_size
        if n_bytes != expected["bytes"]:
            raise DataError(
                f"{name}: expected {expected['bytes']:,} bytes, as {MANIFEST} says, found "
                f"{n_bytes:,}"
            )
        found = described(path)["sha256"]
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{name}, which {MANIFEST} lists, can't be read: {error}") from None
    if found != expected["sha256"]:
        raise DataError(
            f"{name}: expected the SHA-256 {expected['sha256']}, as {MANIFEST} says, found {found}"
        )
    return path
