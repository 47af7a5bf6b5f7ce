"""Opening a run: the output is held, the input found and cut, and the job checked against it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from distsvc.config import Job
from distsvc.errors import JobFileError, ParameterError
from distsvc.run import algorithms
from distsvc.run.directory import RunDirectory
from distsvc.run.labelling import check_output
from distsvc.run.plan import Plan
from distsvc.run.progress import Progress
from distsvc.run.room import Room
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
    room : Room or None
        The algorithm; None where the identical run is already published.

    """

    run: RunDirectory
    output: Output
    digest: str
    inputs: str
    table: Table
    room: Room | None


@contextmanager
def opened(job: Job, overwrite: bool, progress: Progress) -> Iterator[Opened]:
    """Hold the output of a job, and open its table.

    Raises
    ------
    DistsvcError
        What `Output.locked`, `open_table`, `Output.check_free` and the algorithm raise of a job
        that can't be done.

    """
    output, digest = Output(job.output.path), job.digest()
    with _naming_the_section(), output.locked(), output.run_folder(digest) as folder:
        run = RunDirectory(folder)
        with progress.phase("open"):
            table = open_table(job.input, folder / "staging")
            progress.event("columns", **shown_columns(table))
            inputs = fingerprint(table)
            room = None
            if not output.check_free(digest, inputs, overwrite):
                run.write_plan(Plan.of(job, table))
                room = algorithms.begin(job, table)
                check_output(job, table, room)
        yield Opened(run, output, digest, inputs, table, room)


@contextmanager
def _naming_the_section() -> Iterator[None]:
    """Say that a parameter that is not allowed is one of the job file's ``[model]``."""
    try:
        yield
    except ParameterError as error:
        raise JobFileError(f"model: {error}") from error
