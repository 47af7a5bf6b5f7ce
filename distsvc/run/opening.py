"""Opening a run: the output is held, the input found and cut, and the job checked against it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from distsvc.config import Job
from distsvc.errors import JobFileError, ParameterError
from distsvc.run import algorithms
from distsvc.run.directory import RunDirectory
from distsvc.run.labelling import check_output
from distsvc.run.plan import Plan
from distsvc.run.progress import Progress
from distsvc.run.room import Room
from distsvc.storage.location import Location
from distsvc.storage.publication import Output
from distsvc.storage.tables import Table, fingerprint, open_table, shown_columns


@dataclass(frozen=True)
class Opened:
    """A run that can begin.

    Attributes
    ----------
    run : RunDirectory
    output : Output
        Where it is published.
    digest, inputs : str
        SHA-256 of the job, and of what its table is.
    table : Table
    room : Room
        The algorithm.

    """

    run: RunDirectory
    output: Output
    digest: str
    inputs: str
    table: Table
    room: Room


@contextmanager
def opened(job: Job, overwrite: bool, progress: Progress) -> Iterator[Opened | None]:
    """Hold the output of a job, and open its table; None where the run is already published.

    Raises
    ------
    DistsvcError
        What `Output.locked`, `open_table`, `Output.check_free` and the algorithm raise of a job
        that can't be done.

    """
    output, digest = Output(job.output.path), job.digest()
    with _naming_the_section(), begun(job, output, digest, overwrite) as folder:
        if folder is None:
            yield None
            return
        run = RunDirectory(folder)
        with progress.phase("open"):
            table = open_table(job.input, folder / "staging")
            progress.event("columns", **shown_columns(table))
            run.write_plan(Plan.of(job, table))
            room = algorithms.begin(job, table)
            check_output(job, table, room)
        yield Opened(run, output, digest, fingerprint(table), table, room)


@contextmanager
def begun(job: Job, output: Output, digest: str, overwrite: bool) -> Iterator[Path | None]:
    """Hold an output and yield a run's folder in it, or None where the run is published already.

    Errors as in `Output.locked` and `Output.check_free`.
    """
    _check_apart(job.input.path, output)
    if _is_published(job, output, digest):
        yield None
        return
    output.check_free(digest, overwrite)  # before anything is made
    with output.locked(digest, overwrite):
        if _is_published(job, output, digest):  # in the meantime
            yield None
            return
        output.check_free(digest, overwrite)
        with output.run_folder(digest) as folder:
            yield folder


def _is_published(job: Job, output: Output, digest: str) -> bool:
    """Return whether the run is published already; the output need not be writable then."""
    if not output.holds(digest):
        return False
    with tempfile.TemporaryDirectory() as staging:
        inputs = fingerprint(open_table(job.input, Path(staging)))
    if not output.holds(digest, inputs):
        return False
    output.mend()
    return True


def _check_apart(path: str, output: Output) -> None:
    """Check that neither a table nor what is published from it lies in the other's folder."""
    place = Location.of(path)
    if not place.is_local:
        return
    table, folder = Path(place.path).resolve(), output.path.resolve()
    if folder.is_dir() and table.is_relative_to(folder):
        raise JobFileError(f"input.path {path} lies in the folder of the output, {output.path}")
    if table.is_dir() and folder.is_relative_to(table):
        raise JobFileError(f"output.path {output.path} lies in the folder of the input, {path}")


@contextmanager
def _naming_the_section() -> Iterator[None]:
    """Say that a parameter that is not allowed is one of the job file's ``[model]``."""
    try:
        yield
    except ParameterError as error:
        raise JobFileError(f"model: {error}") from error
