"""The manifest of a published run, with sizes and checksums of its files."""

import itertools
import os
import posixpath
from pathlib import Path, PurePosixPath
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator

from distsvc.errors import DataError, InputNotFoundError, JobFileError, shown
from distsvc.errors.forms import Form, parsed
from distsvc.storage.places.arrays import file_facts, json_bytes, parse_json
from distsvc.storage.places.folder import RUNS
from distsvc.storage.places.store import REMOVED_RECORD, Store

MANIFEST = "manifest.json"
PAGE, REPORT = COPIES = "report.html", "report.json"
"""Names of the copies of report files beside the manifest; the manifest lists the originals."""
STORED = f"{RUNS}/files"
"""The folder of published files, with a subfolder for each run."""
UNNAMED = "job"
"""The default name of a job."""
FORMAT = 2
"""The version of the manifest."""


def _relative_path(text: str) -> str:
    plain = posixpath.normpath(text) == text and not text.startswith("/")
    if not plain or "\0" in text or "\\" in text:
        raise ValueError(f"expected a relative path, found {text[:60]!r}")
    return text


def _plain_path(text: str) -> str:
    if _relative_path(text) == "." or text.startswith(".."):
        raise ValueError(f"expected a plain path below the folder, found {text[:60]!r}")
    return text


Size = Annotated[int, Field(ge=0, le=2**63 - 1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Listed(Form):
    """A part of a manifest, which preserves unknown keys."""

    model_config = ConfigDict(extra="allow")


class ListedFile(Listed):
    """A published file, with two paths below the manifest's folder."""

    file: Annotated[str, AfterValidator(_plain_path)]  # exists while the run is published
    stored: Annotated[str, AfterValidator(_plain_path)]  # also if it is replaced or a candidate
    rows: Size | None = None  # number of labels; None for other files
    bytes: Size
    sha256: Sha256

    @property
    def name(self) -> str:
        """The file's own name, such as ``report.json``."""
        return PurePosixPath(self.file).name


class ContinuedRun(Listed):
    """The previous run: its path and id, and the SHA-256 of its model."""

    path: str = ""
    run_id: str = ""
    model_sha256: str = ""
    address: str = ""  # address of its output; only in the record of an unfinished run

    def __str__(self) -> str:
        return f"run {self.run_id} at {self.path}"


class LineageName(Listed):
    """A run's lineage: its id, and the folder of its record, relative to the run's output."""

    id: Annotated[str, AfterValidator(_plain_path)]
    home: Annotated[str, AfterValidator(_relative_path)]


class CheckRecord(Listed):
    """The outcome of a check, as in the report."""

    name: str = ""
    level: str = ""
    limit: JsonValue = None
    found: JsonValue = None
    state: str = ""
    words: str = ""


def _listed_once(files: list[ListedFile]) -> list[ListedFile]:
    names = [file.file for file in files]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"expected every file once, found {twice[:60]!r} twice")
    return files


class Manifest(Listed):
    """The content of ``manifest.json``; keys are written in the order of the fields."""

    format: int
    run_id: Annotated[str, AfterValidator(_plain_path)]
    created: str = ""
    job_sha256: Sha256
    input_sha256: Sha256
    job: dict[str, JsonValue] = Field(default={})
    rows: Size
    clusters: Size
    columns: dict[str, str] = Field(default={}, alias="schema")
    files: Annotated[list[ListedFile], AfterValidator(_listed_once)]
    versions: dict[str, str] = Field(default={})
    checks: list[CheckRecord] = Field(default=[])
    previous: ContinuedRun | None = None
    lineage: LineageName | None = None
    override: bool = False
    write_id: str = ""

    @model_validator(mode="after")
    def _every_row_listed(self) -> Self:
        """Raise ValueError if the rows of label files don't add up to `rows`; skip Zarr files."""
        rows = [file.rows for file in self.files if file.rows is not None]
        if rows and sum(rows) != self.rows:
            raise ValueError(
                f"expected files of labels with {self.rows:,} rows, found {sum(rows):,} rows in "
                f"{len(rows):,} files"
            )
        return self

    @property
    def run_date(self) -> str:
        """The date of the run in its job, else the day when the run was made."""
        return self.of_job("job", "run_date") or self.created[:10]

    @property
    def job_name(self) -> str:
        name = self.of_job("job", "name")
        return "" if name == UNNAMED else name

    def of_job(self, section: str, key: str) -> str:
        """Return the value of a key in the job file, as text; "" if the key is not set."""
        found = self.job.get(section)
        return str((isinstance(found, dict) and found.get(key)) or "")

    @property
    def passed(self) -> list[str]:
        """The paths that ``continuity.previous`` lists before the run that this run continues."""
        section, continued = self.job.get("continuity"), self.previous and self.previous.path
        paths = section.get("previous") if isinstance(section, dict) else None
        paths = paths if isinstance(paths, list) else []
        return list(itertools.takewhile(lambda path: path != continued, map(str, paths)))

    @property
    def failed(self) -> list[CheckRecord]:
        return [check for check in self.checks if check.state == "failed"]

    @property
    def stored(self) -> list[str]:
        """Paths of the files that remain valid when another run is published."""
        return [file.stored for file in self.files]

    @property
    def works(self) -> set[str]:
        """The id of this run, and the ids of other runs whose folders contain its files."""
        parts = [PurePosixPath(name).parts for name in self.stored if name.startswith(STORED)]
        return {self.run_id, *(part[2] for part in parts)}

    def dumped(self) -> dict[str, JsonValue]:
        return self.model_dump(by_alias=True, exclude_unset=True)

    def content(self) -> bytes:
        return json_bytes(self.dumped())


def checked_form(content: object, path: str) -> Manifest:
    """Return the manifest from the JSON of the file `path`; errors as in `read_manifest`."""
    version = content.get("format") if isinstance(content, dict) else None
    if type(version) is int and version != FORMAT:
        raise JobFileError(
            f"{path} has format {shown(version)}, expected {FORMAT}: another version of distsvc "
            "wrote it; give another output path, or remove this output"
        )
    return parsed(Manifest, content, path)


def read_manifest(store: Store) -> Manifest:
    """Return the manifest of the run that is published in a store.

    `InputNotFoundError` if no run is published, `JobFileError` if another version of distsvc wrote
    the manifest, and `DataError` if it is damaged.
    """
    found, path = store.current(MANIFEST), f"{store.address}/{MANIFEST}"
    if found is None or is_removed(found[0]):
        raise InputNotFoundError(f"no run is published in {store.address}: it has no {MANIFEST}")
    return checked_form(parse_json(found[0], path), path)


def is_removed(content: bytes) -> bool:
    """Return True if a manifest equals `REMOVED_RECORD`, apart from whitespace."""
    return content.split() == REMOVED_RECORD.split()


def listed_file(store: Store, manifest: Manifest, name: str) -> ListedFile:
    """Return the manifest's entry for a file, such as ``report.json``.

    `DataError` if the manifest lists no file of this name, or several.
    """
    found = [one for one in manifest.files if one.name == name]
    if len(found) != 1:
        where = f"{store.address}/{MANIFEST}"
        raise DataError(f"{where}: expected one file {name}, found {len(found)}")
    return found[0]


def checked(store: Store, file: ListedFile) -> Path:
    """Return the path of a listed file after comparing its size and SHA-256.

    `DataError` if it does not exist, lies outside of the folder, or has other content.
    """
    name = file.file if os.path.exists(store.local(file.file)) else file.stored
    where = f"{store.address}/{name}"
    try:
        path = store.local(name)
        root = path.parents[len(PurePosixPath(name).parts) - 1].resolve()
        if not path.resolve(strict=True).is_relative_to(root):
            raise DataError(f"{where} is a link out of {store.address}, which is not followed")
        if not path.is_file():
            raise DataError(f"{where} is not a file")
        n_bytes = os.stat(path).st_size
        if n_bytes != file.bytes:
            raise DataError(
                f"{where}: expected {file.bytes:,} bytes, as {MANIFEST} says, found {n_bytes:,}"
            )
        found = file_facts(path)["sha256"]
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{where}, which {MANIFEST} lists, can't be read: {error}") from None
    if found != file.sha256:
        raise DataError(
            f"{where}: expected the SHA-256 {file.sha256}, as {MANIFEST} says, found {found}"
        )
    return path
