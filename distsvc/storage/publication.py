"""The folder where a run is published: its manifest is the commit, swapped in one step.

What a run publishes lies in folders of its own, ``labels/<run>``, ``model/<run>`` and
``report/<run>``, where it is written once and never moved. So what the manifest lists is whole at
every moment, and stays so until another manifest takes its place and for a while after: what was
replaced is removed when the next run is published, or by `Output.collect`.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from distsvc.errors import (
    DataError,
    DistsvcError,
    InputNotFoundError,
    JobFileError,
    OutputPermissionError,
    TemporaryError,
)
from distsvc.storage.arrays import (
    make_folder,
    read_json,
    remove_unfinished,
    write_json,
    write_text,
    write_whole,
    writing,
)
from distsvc.storage.listing import FORMAT, MANIFEST, check_manifest, checked, listed, read_manifest
from distsvc.storage.location import shown_url
from distsvc.storage.lock import HOLDER, held
from distsvc.storage.published import described

SUCCESS, RUNS, REPLACED = "_SUCCESS", ".runs", "replaced"
PLACES = ("labels", "model", "report")
"""The folders in which each run has a folder of what it publishes."""
COPIES = ("report.html", "report.json")
"""What is copied beside the manifest, for people; the manifest lists the originals."""
_RUN = re.compile(r"[0-9a-f]{12}-[0-9a-f]{8}")


class Output:
    """The folder where a run is published.

    Raises
    ------
    JobFileError
        The path is a URL, which a folder would otherwise be named after.

    """

    def __init__(self, path: str | Path):
        if "://" in str(path):
            raise JobFileError(
                "output.path must be a folder of a local or shared disk, "
                f"found {shown_url(str(path))!r}"
            )
        self.path = Path(path)
        self._found: dict[str, Any] | None = None

    @contextmanager
    def locked(self, job_sha256: str = "", overwrite: bool = False) -> Iterator[None]:
        """Make the folder, hold it against other runs, and clear up after runs that were killed.

        Raises
        ------
        OutputPermissionError
            The folder can't be made or written.
        TemporaryError
            Another run holds it.
        JobFileError
            Another run of another job does, and what it publishes is not to be overwritten.

        """
        runs = self.path / RUNS
        self._refuse_links()
        with writing(f"output.path {self.path}"):
            try:
                runs.mkdir(parents=True, exist_ok=True)
            except FileNotFoundError as error:  # as below /proc
                raise PermissionError(error.errno, error.strerror) from None
        with held(runs, self.path, job_sha256, overwrite):
            self._clear_up()
            yield

    @contextmanager
    def run_folder(self, digest: str) -> Iterator[Path]:
        """Make the folder of a run's work and those of what it publishes.

        The work is removed at the end, however the run ends, and with it what was not published.
        The folder's name begins with the digest of the job; no other run has or had it.
        """
        folder = self.path / RUNS / f"{digest[:12]}-{secrets.token_hex(4)}"
        try:
            with writing(folder):
                folder.mkdir()
                for place in PLACES:
                    (self.path / place / folder.name).mkdir(parents=True)
            yield folder
        finally:
            self._discard(folder.name)

    def manifest(self) -> dict[str, Any] | None:
        """Return what is published here, or None."""
        path = self.path / MANIFEST
        if not path.exists():
            return None
        content = read_json(path)
        if not isinstance(content, dict) or "job_sha256" not in content:
            raise DataError(f"{path} is not a manifest of distsvc")
        if content.get("format") == FORMAT:
            check_manifest(content, path)
        return content

    def holds(self, job_sha256: str, input_sha256: str | None = None) -> bool:
        """Return whether a run of this job is published here, from this input if one is given."""
        found = self.manifest()
        return (
            found is not None
            and found.get("format") == FORMAT
            and found["job_sha256"] == job_sha256
            and input_sha256 in (None, found["input_sha256"])
        )

    def check_free(self, job_sha256: str, overwrite: bool) -> None:
        """Check that a run may be published here, which is not the one that is.

        Raises
        ------
        JobFileError
            Something else is, and `overwrite` is false.

        """
        self._found = found = self.manifest()
        if overwrite:
            return
        if found is None:
            present = [name for name in (SUCCESS, *COPIES) if (self.path / name).exists()]
            if present:
                raise JobFileError(
                    f"output.path {self.path} holds {', '.join(present)} without a manifest; "
                    "give --overwrite to replace it"
                )
            return
        what = "by a different configuration"
        if found.get("format") != FORMAT:
            what = f"by another version of distsvc (format {found.get('format')!r})"
        elif found["job_sha256"] == job_sha256:
            what = "from an input that has changed since"
        raise JobFileError(
            f"output.path {self.path} was already published {what}; "
            "give --overwrite to replace it, or another path"
        )

    def publish(self, manifest: dict[str, Any]) -> None:
        """Commit what a manifest lists; until then, what was published before is untouched.

        Raises
        ------
        TemporaryError
            Something else was published here in the meantime, past the lock.

        """
        if self.manifest() != self._found:
            raise TemporaryError(f"another run was published in {self.path} in the meantime")
        self._swap(manifest)
        try:
            self.finish()
        except DistsvcError as error:
            raise type(error)(f"the run is published in {self.path}, but {error}") from error

    def revise(self, name: str, content: str) -> None:
        """Publish another content of a file: a new file, in whose favour the manifest is swapped.

        Errors as in `file`.
        """
        old = self.file(name).relative_to(self.path).as_posix()
        self._found = manifest = self.manifest() or {}
        folder = self.path / "report" / manifest["run_id"] / secrets.token_hex(4)
        try:
            make_folder(folder)
            write_text(folder / name, content)
            new = {"file": (folder / name).relative_to(self.path).as_posix()}
            new |= described(folder / name)
            files = [new if file["file"] == old else file for file in manifest["files"]]
            self._swap(manifest | {"files": files})
        finally:
            self._keep_only(set(self._listed(self.manifest() or {})), folder)
        self.finish()

    def finish(self) -> None:
        """Bring what lies beside the manifest up to date: copies for people, ``_SUCCESS``."""
        originals = {name.rpartition("/")[2]: name for name in self._listed(self.manifest() or {})}
        for name in COPIES:
            copy, original = self.path / name, self.path / originals.get(name, "")
            if name not in originals:
                with writing(copy):
                    copy.unlink(missing_ok=True)
            elif not (copy.exists() and filecmp.cmp(original, copy, shallow=False)):
                write_whole(self.path / RUNS / name, partial(_copy, original))
                self._put(name)
        if not (self.path / SUCCESS).exists():
            with writing(self.path / SUCCESS):
                (self.path / SUCCESS).touch()

    def mend(self) -> None:
        """Finish what a killed run left undone after its commit, if that can be done now."""
        with suppress(TemporaryError, OutputPermissionError, OSError), self.locked():
            self.finish()

    def collect(self) -> list[str]:
        """Remove what runs left and the manifest does not name; return the names of the files."""
        removed = self._remove_replaced(keep=None)
        known = set(self._listed(self.manifest() or {}))
        for folder in self._folders():
            removed += self._keep_only(known, folder)
        return removed

    def file(self, name: str) -> Path:
        """Return the path of a published file by its own name.

        Raises
        ------
        InputNotFoundError
            No run is published here.
        DataError
            The manifest is damaged or lists no such file, or the file is not the one listed.
        JobFileError
            The run was published by another version of distsvc.

        """
        found = read_manifest(self.path)
        return checked(self.path, found, listed(self.path, found, name))

    def _swap(self, manifest: dict[str, Any]) -> None:
        """Put a manifest in the place of the one that is there, once what it lists is on disk."""
        replaced = None
        if self._found is not None:
            # Named after its content: a run that was killed before its swap wrote the same record.
            content = json.dumps(self._found, sort_keys=True).encode()
            name = f"{hashlib.sha256(content).hexdigest()[:32]}.json"
            replaced = self.path / RUNS / REPLACED / name
            make_folder(replaced.parent)
            write_json(replaced, self._found)
        new = self.path / RUNS / MANIFEST
        write_json(new, manifest)
        names = self._listed(manifest)
        folders = {folder for name in names for folder in (self.path / name).parents}
        for path in (*(self.path / name for name in names), new, *folders):
            if path.is_relative_to(self.path):
                _to_disk(path)
        self._put(MANIFEST)
        _to_disk(self.path)
        self._found = manifest
        self._remove_replaced(keep=replaced)

    def _put(self, name: str) -> None:
        """Move a file from the folder of runs, where it was written, to its place."""
        with writing(self.path / name):
            os.replace(self.path / RUNS / name, self.path / name)

    def _clear_up(self) -> None:
        """Remove what killed runs left; we hold the output, so none lives."""
        runs = self.path / RUNS
        for dead in sorted(runs.iterdir()):
            if _RUN.fullmatch(dead.name):
                self._discard(dead.name)
        for folder in (*self._folders(), *(self.path / place for place in PLACES)):
            with suppress(OSError):  # what is not empty stays
                folder.rmdir()
        for name in (HOLDER, MANIFEST, *COPIES):
            remove_unfinished(runs / name)
        for path in (*(runs / name for name in (MANIFEST, *COPIES)), *(runs / REPLACED).glob(".*")):
            path.unlink(missing_ok=True)

    def _folders(self) -> list[Path]:
        """Return the folders of what runs published, or began to."""
        found = [path for place in PLACES for path in (self.path / place).glob("*")]
        return [path for path in found if _RUN.fullmatch(path.name) and not path.is_symlink()]

    def _discard(self, run_id: str) -> None:
        """Remove the work of a run that is over, and what it wrote unless that is published."""
        with suppress(DataError):
            known = set(self._listed(self.manifest() or {}))
            for place in PLACES:
                self._keep_only(known, self.path / place / run_id)
                with suppress(OSError):  # it may hold what other runs published
                    (self.path / place).rmdir()
            shutil.rmtree(self.path / RUNS / run_id, ignore_errors=True)

    def _keep_only(self, known: set[str], folder: Path) -> list[str]:
        """Remove the files of a folder that are not known, and folders that are empty then."""
        removed = []
        for place, _, files in os.walk(folder, topdown=False):
            names = [(Path(place) / name).relative_to(self.path).as_posix() for name in files]
            removed += [name for name in names if name not in known and self._remove(name)]
            with suppress(OSError):
                os.rmdir(place)
        return removed

    def _remove_replaced(self, keep: Path | None) -> list[str]:
        """Remove the files that replaced manifests list and the present one does not."""
        known, removed = set(self._listed(self.manifest() or {})), []
        for record in sorted((self.path / RUNS / REPLACED).glob("*.json")):
            if record == keep:
                continue
            with suppress(OSError, DataError):  # it stays for the next time
                for name in self._listed(read_json(record)):
                    if name not in known and self._remove(name):
                        removed.append(name)
                record.unlink()
        with suppress(OSError):
            (self.path / RUNS / REPLACED).rmdir()
        return removed

    def _remove(self, name: str) -> bool:
        """Remove a file by its name in a manifest, and the folders that are empty then."""
        path = self.path / name
        folders = [folder for folder in path.parents if folder.is_relative_to(self.path)][:-1]
        if any(folder.is_symlink() for folder in folders) or not path.is_file():
            return False
        with suppress(OSError):  # another user's, perhaps
            path.unlink()
        if path.exists():
            return False
        with suppress(OSError):  # the first one that is not empty
            for folder in folders:
                folder.rmdir()
        return True

    def _listed(self, manifest: dict[str, Any]) -> list[str]:
        """Return the names of a manifest's files, less those that can't be of a run."""
        files = manifest.get("files", [])
        files = files if isinstance(files, list) else []  # of another version, perhaps
        names = [str(file["file"]) for file in files if isinstance(file, dict) and "file" in file]
        outside = (MANIFEST, SUCCESS, *COPIES)
        return [
            name
            for name in names
            if not PurePosixPath(name).is_absolute()
            and not {"..", RUNS}.intersection(PurePosixPath(name).parts)
            and name not in outside
        ]

    def _refuse_links(self) -> None:
        for name in (RUNS, *PLACES):
            if (self.path / name).is_symlink():
                raise OutputPermissionError(
                    f"output.path {self.path} can't be written: {self.path / name} is a link, "
                    "and links are not followed"
                )


def collect(path: str) -> list[str]:
    """Remove what no manifest names from an output, and return the names of the files.

    Errors as in `Output.locked`; `InputNotFoundError` where no run ever wrote there.
    """
    output = Output(path)
    if not (output.path / RUNS).is_dir():
        raise InputNotFoundError(f"no run was published in {path}: it has no folder {RUNS}")
    with output.locked():
        return output.collect()


def _copy(original: Path, stream: BinaryIO) -> None:
    with open(original, "rb") as source:
        shutil.copyfileobj(source, stream)


def _to_disk(path: Path) -> None:
    with writing(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
