"""Opening a run: the output is held, the input found and cut, and the job checked against it."""

from __future__ import annotations

import tempfile
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
from distsvc.run.resuming import Asked, Attempt, note_death, run_directory
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
def opened(
    job: Job, overwrite: bool, progress: Progress, fresh: bool = False
) -> Iterator[Opened | None]:
    """Hold the output of a job, and open its table; None where the run is already published.

    A run that was interrupted goes on, unless a `fresh` one is asked for.

    Raises
    ------
    DistsvcError
        What `Output.locked`, `open_table`, `Output.check_free`, `run_directory` and the algorithm
        raise of a job that can't be done.

    """
    output, asked = Output(job.output.path), Asked(job, job.digest(), fresh=fresh)
    with _naming_the_section(), begun(output, asked, overwrite, progress) as run:
        if run is None:
            yield None
            return
        with progress.phase("open"):
            table = run.plan.table if run.is_planned else open_table(job.input, run.staging)
            progress.event("columns", **shown_columns(table))
            if not run.is_planned:
                run.write_plan(Plan.of(job, table))
            room = algorithms.begin(job, table)
            check_output(job, table, room)
        yield Opened(run, output, asked.digest, fingerprint(table), table, room)


@contextmanager
def begun(
    output: Output, asked: Asked, overwrite: bool, progress: Progress
) -> Iterator[RunDirectory | None]:
    """Hold an output and yield a run's directory in it, or None where the run is published already.

    Errors as in `Output.locked`, `Output.check_free` and `run_directory`.
    """
    job, digest, attempt = asked.job, asked.digest, Attempt(progress)
    output.check_apart(job.input.path)
    if _is_published(job, output, digest):
        yield None
        return
    output.check_free(digest, overwrite)  # before anything is made
    with output.locked(digest, overwrite, attempt.doing) as before:
        if _is_published(job, output, digest):  # in the meantime
            yield None
            return
        output.check_free(digest, overwrite)
        note_death(output, before)
        with run_directory(output, asked, attempt, progress) as run:
            yield run


def _is_published(job: Job, output: Output, digest: str) -> bool:
    """Return whether the run is published already; the output need not be writable then."""
    if not output.holds(digest):
        return False
    with tempfile.TemporaryDirectory() as staging:
        inputs = fingerprint(open_table(job.input, staging))
    if not output.holds(digest, inputs):
        return False
    output.mend()
    return True


@contextmanager
def _naming_the_section() -> Iterator[None]:
    """Say that a parameter that is not allowed is one of the job file's ``[model]``."""
    try:
        yield
    except ParameterError as error:
        raise JobFileError(f"model: {error}") from error
