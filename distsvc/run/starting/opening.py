"""Opening a run: its output is held, its table found and cut, and the job checked against both."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from distsvc.errors import EmptyInputError, JobFileError, ParameterError, SkippedError
from distsvc.job.config import Job, with_key
from distsvc.run.algorithms.algorithm import AlgorithmJob
from distsvc.run.algorithms.begin import begin
from distsvc.run.labelling.columns import check_output
from distsvc.run.nights.comparison import keep_reference
from distsvc.run.nights.previous import (
    Previous,
    adopt,
    features_by,
    find_previous,
    labelled_by,
)
from distsvc.run.starting.resuming import Request, begun
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.plan import Plan
from distsvc.run.work.progress import Meter, Progress
from distsvc.run.work.start import Start
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.lineages import Lineage, later_runs
from distsvc.storage.publishing.publication import Output
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.columns import truncated
from distsvc.storage.tables.opening import fingerprint, open_table, shown_columns
from distsvc.storage.tables.sources import check_ready


@dataclass(frozen=True)
class Opened:
    """A run that can begin: everything is opened once, and carried from here.

    The `job` has what the previous model decides of it, but for the columns. `digest` and `inputs`
    are the SHA-256 of the job and of the table. `previous` is the published run that is continued,
    `lineage` that of jobs which name one, and `notes` are warnings about what is published at the
    output.
    """

    job: Job
    run: RunDirectory
    output: Output
    digest: str
    inputs: str
    table: Table
    algorithm: AlgorithmJob
    previous: Previous | None
    lineage: Lineage | None
    notes: list[str]


@contextmanager
def opened(job: Job, start: Start, progress: Progress) -> Iterator[Opened | Output]:
    """Hold the output of a job, and open its table; the output where the run is published already.

    Nothing is touched where the input is not there yet.

    Errors are those of `Output.check_apart`, `check_ready`, `find_previous`, `begun`, `open_table`
    and the algorithm about a job that can't be done.
    """
    for path in job.input.paths:
        Output(job.output.path).check_apart(path)
    check_ready(job.input, start.skip_missing)
    previous = find_previous(job.continuity, required=job.model.mode == "assign")
    named, job = job.input.columns, labelled_by(job, previous)
    request, job = Request.of(job, previous), with_key(job, "input", "columns", named)
    with skipping(start), naming_the_section(), begun(request, start, progress) as run:
        if run is None:
            yield request.output
            return
        with progress.phase("open") as meter:
            if not run.is_planned:
                run.write_plan(_planned(request, run.staging, previous, meter))
            table = run.plan.table
            progress.event("columns", **shown_columns(table))
            algorithm = begin(job, table)
            check_output(job, table, algorithm)
            wanted = job.continuity.previous
            if previous is not None:
                skipped = {"not_published": wanted[0]} if previous.nights else {}
                told = {"path": previous.path, "published": previous.run_id} | skipped
                progress.event("goes on from", **told)
                adopt(previous, run, list(table.columns))
            elif wanted:
                progress.event("begins a lineage", not_published=wanted[0])
            reference = job.continuity.reference
            keep_reference(reference, run, request.output.store, list(table.columns))
        inputs = fingerprint(table)
        held = request.output, request.digest, inputs
        lineage = _lineage(request, run, inputs, previous)
        notes = _notes(job, request.output)
        yield Opened(job, run, *held, table, algorithm, previous, lineage, notes)


def _lineage(
    request: Request, run: RunDirectory, inputs: str, previous: Previous | None
) -> Lineage | None:
    """Return the lineage of a run; None where its job names no run to go on from."""
    job, output = request.job, request.output.store.address
    if not job.continuity.previous:
        return None
    answer = hashlib.sha256(f"{request.digest} {inputs}".encode()).hexdigest()
    known = run.attempt, answer, output, str(job.job.run_date or "")
    in_place = output in [store_of(path).address for path in job.continuity.previous]
    before = (previous.address, previous.manifest) if previous is not None else None
    lineage = Lineage.of(known, before, in_place)
    return lineage if previous is not None else replace(lineage, id=run.name)


def _notes(job: Job, output: Output) -> list[str]:
    """Return warnings about what a run replaces: a later night, or one that others go on from."""
    there, date = output.manifest(), job.job.run_date
    if there is None:
        return []
    notes = []
    if date is not None and there.run_date > date:
        notes.append(
            f"this run of {date} replaces run {there.run_id} of {there.run_date}, which is later: "
            "nights that went on from that one keep its ids"
        )
    later = later_runs(output.store.address, there)
    if later:
        dates = truncated([f"{one.run_date} ({address})" for address, one in later], 5)
        notes.append(
            f"this run replaces run {there.run_id}, from which later ones went on: {dates}; they "
            "are as they were, and go on from this one when they are run again with --overwrite"
        )
    return notes


def _planned(request: Request, staging: str, previous: Previous | None, meter: Meter) -> Plan:
    job, before = request.job, previous.features if previous is not None else ()
    table = open_table(
        job.input,
        staging,
        job.preprocess,
        features_by(job, previous),
        request.kept,
        job.columns,
        job.is_mixed,
    )
    return Plan.of(job, table, before, meter)


@contextmanager
def skipping(start: Start) -> Iterator[None]:
    """Say of an input without rows that it is skipped, where such a run is to be."""
    try:
        yield
    except EmptyInputError as error:
        if not start.skip_empty:
            raise
        raise SkippedError(f"{error}; skipped") from None


@contextmanager
def naming_the_section() -> Iterator[None]:
    """Say that a parameter that is not allowed is one of the job file's ``[model]``."""
    try:
        yield
    except ParameterError as error:
        raise JobFileError(f"model: {error}") from error
