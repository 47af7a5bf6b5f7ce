"""Opening a run: its output is held, its table found and cut, and the job checked against both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from distsvc.errors import JobFileError, ParameterError
from distsvc.job.config import Job, with_key
from distsvc.run.algorithms.algorithm import AlgorithmJob
from distsvc.run.algorithms.begin import begin
from distsvc.run.labelling.columns import check_output
from distsvc.run.nights.previous import (
    Previous,
    adopt,
    features_by,
    find_previous,
    labelled_by,
    with_previous,
)
from distsvc.run.starting.resuming import Attempt, Request, note_death, run_directory
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.plan import Plan
from distsvc.run.work.progress import Meter, Progress
from distsvc.run.work.start import Start
from distsvc.storage.publishing.publication import Output
from distsvc.storage.tables.opening import Table, fingerprint, open_table, shown_columns
from distsvc.storage.tables.ready import check_ready


@dataclass(frozen=True)
class Opened:
    """A run that can begin: everything is opened once, and carried from here.

    Attributes
    ----------
    job : Job
        With what the previous model decides of it, but for the columns.
    run : RunDirectory
    output : Output
        Where it is published.
    digest, inputs : str
        SHA-256 of the job, and of the table.
    table : Table
    algorithm : AlgorithmJob
    previous : Previous or None
        The published run that this one continues.

    """

    job: Job
    run: RunDirectory
    output: Output
    digest: str
    inputs: str
    table: Table
    algorithm: AlgorithmJob
    previous: Previous | None


@contextmanager
def opened(job: Job, start: Start, progress: Progress) -> Iterator[Opened | None]:
    """Hold the output of a job, and open its table; None where the run is already published.

    Nothing is touched where the input is not there yet.

    Raises
    ------
    DistsvcError
        What `check_ready`, `find_previous`, `begun`, `open_table` and the algorithm raise of a job
        that can't be done.

    """
    check_ready(job.input, start.skip_missing)
    previous = find_previous(job.continuity, required=job.model.mode == "assign")
    named, job = job.input.columns, labelled_by(job, previous)
    request = _requested(job, previous)
    with naming_the_section(), begun(request, start, progress) as run:
        if run is None:
            yield None
            return
        with progress.phase("open") as meter:
            if not run.is_planned:
                run.write_plan(_planned(request, run, previous, meter))
            table = run.plan.table
            progress.event("columns", **shown_columns(table))
            algorithm = begin(job, table)
            check_output(job, table, algorithm)
            _tell(job, previous, progress)
            if previous is not None:
                adopt(previous, run, list(table.columns))
        job = with_key(job, "input", "columns", named)
        inputs = fingerprint(table)
        yield Opened(job, run, request.output, request.digest, inputs, table, algorithm, previous)


@contextmanager
def begun(request: Request, start: Start, progress: Progress) -> Iterator[RunDirectory | None]:
    """Hold an output and yield a run in it; None where the run is published already.

    Errors as in `Output.check_apart`, `Output.check_free`, `Output.locked` and `run_directory`.
    """
    output, attempt = request.output, Attempt(progress)
    for path in request.job.input.paths:
        output.check_apart(path)
    if request.is_published(start.overwrite):  # before anything is made
        yield None
        return
    with output.locked(request.digest, start.overwrite, attempt.doing) as before:
        if request.is_published(start.overwrite):  # in the meantime
            yield None
            return
        note_death(output, before)
        with run_directory(request, start.fresh, attempt) as run:
            yield run


def _requested(job: Job, previous: Previous | None) -> Request:
    output = Output(job.output.path)
    if previous is None:
        return Request(job, output, job.digest())
    digest, also = with_previous(job.digest(), previous.digest), ""
    if previous.address == output.store.address:  # it may have published what replaced that
        manifest = output.manifest()
        before = manifest.previous if manifest else None
        also = with_previous(job.digest(), before.model_sha256 if before else "")
    kept = tuple(feature.column for feature in previous.features)
    return Request(job, output, digest, previous.digest, also, kept)


def _planned(request: Request, run: RunDirectory, previous: Previous | None, meter: Meter) -> Plan:
    job, known = request.job, features_by(request.job, previous)
    table = open_table(job.input, run.staging, job.preprocess, known, request.kept)
    return Plan.of(job, table, previous.features if previous is not None else (), meter)


@contextmanager
def naming_the_section() -> Iterator[None]:
    """Say that a parameter that is not allowed is one of the job file's ``[model]``."""
    try:
        yield
    except ParameterError as error:
        raise JobFileError(f"model: {error}") from error


def _tell(job: Job, previous: Previous | None, progress: Progress) -> None:
    """Say which run this one continues."""
    wanted = job.continuity.previous
    if previous is not None:
        skipped = {"not_published": wanted[0]} if previous.nights else {}
        progress.event("goes on from", path=previous.path, published=previous.run_id, **skipped)
    elif wanted:
        progress.event("begins a lineage", not_published=wanted[0])
