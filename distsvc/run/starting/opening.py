"""Opening a run: everything that is found, checked and locked once, before the first phase."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from distsvc.errors import EmptyInputError, JobFileError, ParameterError, SkippedError
from distsvc.job.config import Job, with_key
from distsvc.run.algorithms import begin
from distsvc.run.algorithms.algorithm import AlgorithmJob
from distsvc.run.labelling.columns import check_output
from distsvc.run.nights.comparison import keep_reference
from distsvc.run.nights.previous import (
    Previous,
    adopt,
    find_previous,
    model_features,
    with_model_settings,
)
from distsvc.run.starting.resuming import Request, begin_run
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.plan import Plan
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import Start
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.lineages import Lineage, later_runs
from distsvc.storage.publishing.publication import Output
from distsvc.storage.rows.columns import truncated
from distsvc.storage.tables.opening import fingerprint, shown_columns
from distsvc.storage.tables.sources import check_ready


@dataclass(frozen=True)
class RunContext:
    """Everything about a run that is opened once and handed down.

    Attributes
    ----------
    job : Job
        With the settings of the previous model, except its columns.
    digest, inputs : str
        SHA-256 of the job and of the table.
    previous : Previous or None
        The published run that is continued.
    lineage : Lineage or None
        The lineage of a job that names a previous run.
    notes : list of str
        Warnings about the run that is replaced.

    """

    job: Job
    run: RunDirectory
    output: Output
    digest: str
    inputs: str
    algorithm: AlgorithmJob
    previous: Previous | None
    lineage: Lineage | None
    notes: list[str]


@contextmanager
def open_run(job: Job, start: Start, progress: Progress) -> Iterator[RunContext | Output]:
    """Lock the output of a job and open its table; yield the output if it has this run already.

    Nothing is written while the input is not ready. Errors are those of the functions called here.
    """
    for path in job.input.paths:
        Output(job.output.path).check_apart(path)
    check_ready(job.input, start.skip_missing)
    previous = find_previous(job.continuity, required=job.model.mode == "assign")
    columns, job = job.input.columns, with_model_settings(job, previous)
    request, job = Request.of(job, previous), with_key(job, "input", "columns", columns)
    output = request.output
    with skipping(start), naming_the_section(), begin_run(request, start, progress) as run:
        if run is None:
            yield output
            return
        with progress.phase("open") as meter:
            if not run.is_planned:
                table = request.open_table(run.staging, model_features(request.job, previous))
                before = previous.features if previous is not None else ()
                run.write_plan(Plan.of(request.job, table, before, meter))
            table = run.plan.table
            progress.event("columns", **shown_columns(table))
            algorithm = begin(job, table)
            check_output(job, table, algorithm)
            wanted = job.continuity.previous
            if previous is not None:
                fields = {"path": previous.path, "published": previous.run_id}
                if previous.nights:
                    fields["not_published"] = wanted[0]
                progress.event("goes on from", **fields)
                adopt(previous, run, list(table.columns))
            elif wanted:
                progress.event("begins a lineage", not_published=wanted[0])
            keep_reference(job.continuity.reference, run, output.store, list(table.columns))
        inputs, digest = fingerprint(table), request.digest
        lineage = _lineage(request, run, inputs, previous)
        notes = _notes_on_replaced(job, output)
        yield RunContext(job, run, output, digest, inputs, algorithm, previous, lineage, notes)


def _lineage(
    request: Request, run: RunDirectory, inputs: str, previous: Previous | None
) -> Lineage | None:
    """Return the lineage of a run, if its job names a previous run."""
    job, output = request.job, request.output.store.address
    if not job.continuity.previous:
        return None
    answer = hashlib.sha256(f"{request.digest} {inputs}".encode()).hexdigest()
    known = run.attempt, answer, output, str(job.job.run_date or "")
    in_place = output in [store_of(path).address for path in job.continuity.previous]
    before = (previous.address, previous.manifest) if previous is not None else None
    lineage = Lineage.of(known, before, in_place)
    return lineage if previous is not None else replace(lineage, id=run.name)


def _notes_on_replaced(job: Job, output: Output) -> list[str]:
    """Return warnings if a run replaces a later night, or a run that others continue."""
    published, date = output.manifest(), job.job.run_date
    if published is None:
        return []
    notes = []
    if date is not None and published.run_date > date:
        notes.append(
            f"this run of {date} replaces run {published.run_id} of {published.run_date}, which is "
            "later: nights that went on from that one keep its ids"
        )
    later = later_runs(output.store.address, published)
    if later:
        dates = truncated([f"{one.run_date} ({address})" for address, one in later], 5)
        notes.append(
            f"this run replaces run {published.run_id}, from which later ones went on: {dates}; "
            "they are as they were, and go on from this one when they are run again with "
            "--overwrite"
        )
    return notes


@contextmanager
def skipping(start: Start) -> Iterator[None]:
    """Turn `EmptyInputError` into `SkippedError` if inputs without rows are to be skipped."""
    try:
        yield
    except EmptyInputError as error:
        if not start.skip_empty:
            raise
        raise SkippedError(f"{error}; skipped") from None


@contextmanager
def naming_the_section() -> Iterator[None]:
    """Turn `ParameterError` into `JobFileError` that names the section ``[model]``."""
    try:
        yield
    except ParameterError as error:
        raise JobFileError(f"model: {error}") from error
