"""Opening a run: the output is held, the input found and cut, and the job checked against it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from distsvc.job.config import Job, with_key
from distsvc.run.algorithms import begin as rooms
from distsvc.run.algorithms.algorithm import Room, Table
from distsvc.run.labelling.columns import check_output
from distsvc.run.nights.previous import (
    Previous,
    adopt,
    features_by,
    find_previous,
    labelled_by,
    with_previous,
)
from distsvc.run.starting.beginning import Asked, begun, naming_the_section
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.plan import Plan
from distsvc.run.work.progress import Progress
from distsvc.storage.publishing.publication import Output
from distsvc.storage.tables.opening import fingerprint, open_table, shown_columns
from distsvc.storage.tables.ready import check_ready


@dataclass(frozen=True)
class Opened:
    """A run that can begin.

    Attributes
    ----------
    job : Job
        With what a model before decides of it, but for the columns.
    run : RunDirectory
    output : Output
        Where it is published.
    digest, inputs : str
        SHA-256 of the job, and of what its table is.
    table : Table
    room : Room
        The algorithm.
    previous : Previous or None
        The published run that this one goes on from.

    """

    job: Job
    run: RunDirectory
    output: Output
    digest: str
    inputs: str
    table: Table
    room: Room
    previous: Previous | None


@contextmanager
def opened(
    job: Job,
    overwrite: bool,
    progress: Progress,
    fresh: bool = False,
    skip_missing: bool = False,
) -> Iterator[Opened | None]:
    """Hold the output of a job, and open its table; None where the run is already published.

    A run that was interrupted goes on, unless a `fresh` one is asked for. Nothing is touched where
    the input is not there yet.

    Raises
    ------
    DistsvcError
        What `check_ready`, `Output.locked`, `open_table`, `Output.check_free`, `run_directory` and
        the algorithm raise of a job that can't be done.

    """
    check_ready(job.input, skip_missing)
    previous = find_previous(job.continuity, required=job.model.mode == "assign")
    named, job = job.input.columns, labelled_by(job, previous)
    output, model = Output(job.output.path), previous.digest if previous else ""
    kept = tuple(one.column for one in previous.features) if previous else ()
    asked = Asked(job, with_previous(job.digest(), model), model=model, fresh=fresh, kept=kept)
    if previous is not None and previous.address == output.place.address:
        asked = replace(asked, also=_itself(output, job))
    with naming_the_section(), begun(output, asked, overwrite, progress) as found:
        if found is None:
            yield None
            return
        run = found.run
        with progress.phase("open") as meter:
            if not run.is_planned:
                known = features_by(job, previous)
                table = open_table(job.input, run.staging, job.preprocess, known, asked.kept)
                before = previous.features if previous is not None else ()
                run.write_plan(Plan.of(job, table, before, meter))
            table = run.plan.table
            progress.event("columns", **shown_columns(table))
            room = rooms.begin(job, table)
            check_output(job, table, room)
            _tell(job, previous, progress)
            if previous is not None:
                adopt(previous, run, list(table.columns))
        inputs = fingerprint(table)
        job = with_key(job, "input", "columns", named)
        yield Opened(job, run, output, asked.digest, inputs, table, room, previous)


def _itself(output: Output, job: Job) -> str:
    """Return the digest of a run that goes on from what it replaced, if that is published."""
    before = (output.manifest() or {}).get("previous")
    known = before.get("model_sha256", "") if isinstance(before, dict) else ""
    return with_previous(job.digest(), str(known))


def _tell(job: Job, previous: Previous | None, progress: Progress) -> None:
    """Say which run this one goes on from."""
    wanted = job.continuity.previous
    if previous is not None:
        skipped = {"not_published": wanted[0]} if previous.nights else {}
        progress.event("goes on from", path=previous.path, published=previous.run_id, **skipped)
    elif wanted:
        progress.event("begins a lineage", not_published=wanted[0])
