"""The folder where a run is published; at no moment does its manifest list what is not there."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from distsvc.errors import DataError, JobFileError, OutputPermissionError, TemporaryError
from distsvc.faults import fault
from distsvc.storage.arrays import read_json, write_json
from distsvc.storage.location import shown_url
from distsvc.storage.outputs import FORMATS

PUBLISHED = (
    *(name for form in FORMATS for name in form.published),
    "model",
    "report.html",
    "report.json",
)
"""What can lie beside a manifest."""


class Output:
    """The folder where a run is published; `manifest.json` in it is the commit.

    Raises
    ------
    JobFileError
        The path is a URL, which a folder would otherwise be named after.

    """

    def __init__(self, path: str):
        if "://" in path:
            raise JobFileError(
                f"output.path must be a folder of a local or shared disk, found {shown_url(path)!r}"
            )
        self.path = Path(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and hold it against other runs; if left empty, it is removed again.

        Raises
        ------
        OutputPermissionError
            The folder can't be made or written.
        TemporaryError
            Another run holds it.

        """
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        runs = self.path / ".runs"
        try:
            if runs.is_symlink():
                raise OutputPermissionError(
                    f"output.path {self.path} can't be written: {runs} is a link, and links are "
                    "not followed"
                )
            runs.mkdir(parents=True, exist_ok=True)
            lock = FileLock(runs / "lock", timeout=0)
            lock.acquire()
        except Timeout:
            raise TemporaryError(f"another run is writing to {self.path}") from None
        except OSError as error:
            raise (fault(error, writing=f"output.path {self.path}") or error) from None
        try:
            for stale in runs.iterdir():
                if stale.is_dir() and not stale.is_symlink():
                    shutil.rmtree(stale)
            yield
        finally:
            (runs / "lock").unlink(missing_ok=True)
            lock.release()
            with suppress(OSError):  # the first one that is not empty
                for folder in (runs, *made):
                    folder.rmdir()

    @contextmanager
    def run_folder(self, digest: str) -> Iterator[Path]:
        """Make a folder for a run's files and remove it at the end, however the run ends.

        Its name begins with the digest of the job, and no other run has or had it.
        """
        folder = self.path / ".runs" / f"{digest[:12]}-{secrets.token_hex(4)}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def manifest(self) -> dict[str, Any] | None:
        """Return what is published here, or None."""
        path = self.path / "manifest.json"
        if not path.exists():
            return None
        content = read_json(path)
        if not isinstance(content, dict) or "job_sha256" not in content:
            raise DataError(f"{path} is not a manifest of distsvc")
        return content

    def check_free(self, job_sha256: str, input_sha256: str, overwrite: bool) -> bool:
        """Return whether the identical run is already published here.

        Raises
        ------
        JobFileError
            Something else is, and `overwrite` is false.

        """
        found = self.manifest()
        if found is None:
            present = [name for name in PUBLISHED if (self.path / name).exists()]
            if present and not overwrite:
                raise JobFileError(
                    f"output.path {self.path} holds {', '.join(present)} without a manifest; "
                    "give --overwrite to replace it"
                )
            return False
        same_job = found["job_sha256"] == job_sha256
        if same_job and found["input_sha256"] == input_sha256:
            return True
        if not overwrite:
            what = "by a different configuration"
            what = "from an input that has changed since" if same_job else what
            raise JobFileError(
                f"output.path {self.path} was already published {what}; "
                "give --overwrite to replace it, or another path"
            )
        return False

    def publish(self, folder: Path, manifest: dict[str, Any]) -> None:
        """Move a run's results here and commit them by writing the manifest last.

        What was published before is withdrawn first: at no moment does a manifest list files of
        another run. Nothing is left when this fails.
        """
        self._withdraw()
        try:
            for name in PUBLISHED:
                if (folder / name).exists():
                    os.replace(folder / name, self.path / name)
            write_json(self.path / "manifest.json", manifest)
            (self.path / "_SUCCESS").touch()
        except BaseException:
            self._withdraw()
            raise

    def _withdraw(self) -> None:
        for name in ("_SUCCESS", "manifest.json", *PUBLISHED):
            old = self.path / name
            if old.is_dir():
                shutil.rmtree(old)
            else:
                old.unlink(missing_ok=True)
