"""Opens a run: finds and checks its inputs, locks its output, resumes an interrupted run.

Results of an interrupted run are used only if the new run has its job, input and code.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from distsvc.errors import (
    CheckFailedError,
    DataError,
    DistsvcError,
    EmptyInputError,
    InputNotFoundError,
    InterruptedRunError,
    JobFileError,
    ParameterError,
    PartitionFailedError,
    SkippedError,
)
from distsvc.errors.urls import shown_address
from distsvc.job.config import UNDECIDING, Job, with_key
from distsvc.run.algorithms import begin
from distsvc.run.algorithms.algorithm import AlgorithmJob
from distsvc.run.labelling.columns import check_output
from distsvc.run.model.files import with_previous
from distsvc.run.nights.comparison import keep_reference
from distsvc.run.nights.continuity import (
    Previous,
    adopt,
    find_previous,
    ignored_settings,
    with_model_settings,
)
from distsvc.run.work.directory import LostWorkError, RunDirectory
from distsvc.run.work.phases import CHECKPOINTS
from distsvc.run.work.plan import Plan
from distsvc.run.work.progress import LOG, Progress, duration, now_text
from distsvc.run.work.start import Start
from distsvc.run.work.workers.cluster import compare_processors, processor, versions
from distsvc.storage.places.arrays import sealed, unsealed
from distsvc.storage.places.folder import Folder
from distsvc.storage.places.lease import Doing
from distsvc.storage.places.process import remove_left, scratch
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.lineages import Lineage, LineageRun, later_runs, passing_runs
from distsvc.storage.publishing.manifest import ContinuedRun
from distsvc.storage.publishing.publication import BEGUN, Output
from distsvc.storage.publishing.retention import check_stays
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.columns import truncated
from distsvc.storage.rows.features import Feature
from distsvc.storage.tables.opening import check_unchanged, fingerprint, open_table, shown_columns
from distsvc.storage.tables.sources import check_ready


@dataclass(frozen=True)
class RunContext:
    """The job, files and previous results that all steps of a run use."""

    job: Job  # with the previous model's preprocessing, unless the run refits
    run: RunDirectory
    output: Output
    digest: str  # SHA-256 of the job
    inputs: str  # SHA-256 of the table
    algorithm: AlgorithmJob
    previous: Previous | None  # the published run whose cluster ids this run continues
    lineage: Lineage | None  # None if the job names no previous run
    notes: list[str]  # warnings about ignored settings, a replaced run, and later nights


@contextmanager
def open_run(job: Job, start: Start, progress: Progress) -> Iterator[RunContext | Output]:
    """Lock a job's output, open its table, and yield the run's context.

    Yield the output instead if the run is published already.
    """
    for path in job.input.path:
        Output(job.output.path).check_apart(path)
    check_ready(job.input, start.skip_missing)
    previous = find_previous(job.continuity, required=job.model.mode == "assign")
    ignored = ignored_settings(job, previous)
    columns, job = job.input.columns, with_model_settings(job, previous)
    request, job = Request.of(job, previous), with_key(job, "input", "columns", columns)
    output = request.output
    with skipping(start), naming_the_section(), begin_run(request, start, progress) as run:
        if run is None:
            yield output
            return
        with progress.phase("open") as meter:
            if not run.is_planned:
                before = previous.features if previous is not None else ()
                known = before if job.model.mode != "refit" else ()
                table = request.open_table(run.staging, known)
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
                adopt(previous, run)
            elif wanted:
                progress.event("begins a lineage", not_published=wanted[0])
            keep_reference(job.continuity.reference, run, output.store, list(table.columns))
        inputs, digest = fingerprint(table), request.digest
        lineage = _lineage(request, run, inputs, previous)
        notes = ignored + _notes_on_later(job, output, lineage, start.repeated_until)
        yield RunContext(job, run, output, digest, inputs, algorithm, previous, lineage, notes)


def _lineage(
    request: "Request", run: RunDirectory, inputs: str, previous: Previous | None
) -> Lineage | None:
    job, output = request.job, request.output.store.address
    if not job.continuity.previous:
        return None
    answer = hashlib.sha256(f"{request.digest} {inputs}".encode()).hexdigest()
    known = run.attempt, answer, output, str(job.job.run_date or "")
    in_place = output in [store_of(path).address for path in job.continuity.previous]
    before = (previous.address, previous.manifest) if previous is not None else None
    lineage = Lineage.of(known, before, in_place)
    return lineage if previous is not None else replace(lineage, id=run.name)


def _notes_on_later(
    job: Job, output: Output, lineage: Lineage | None, repeated_until: str
) -> list[str]:
    """Return warnings about later nights that do not continue this run.

    These nights continue the run that this run replaces, or an earlier run. Nights up to
    `repeated_until` are left out.
    """
    published, date, notes = output.manifest(), job.job.run_date, list[str]()
    if published is not None:
        replaces = f"replaces run {published.run_id}"
        if date is not None and published.run_date > date:
            notes.append(
                f"this run of {date} {replaces} of the later date {published.run_date}: nights "
                "that continued the replaced run keep their ids"
            )
        if later := _dates(later_runs(output.store.address, published), repeated_until):
            notes.append(
                f"this run {replaces}, which these later nights continued: {later}; to let later "
                "nights continue this run, run these nights again with --overwrite"
            )
    if lineage is None or date is None or job.model.mode == "assign":
        return notes
    found = passing_runs(output.store.address, lineage.named(), date)
    if passing := _dates(found, repeated_until):
        notes.append(
            f"these nights continue an earlier run, not this run: {passing}; to change that, run "
            "these nights again with --overwrite"
        )
    return notes


def _dates(runs: Sequence[tuple[str, LineageRun]], after: str) -> str:
    """Return dates and addresses of at most five runs as text.

    If `after` is not empty, only runs of later dates are named.
    """
    found = [(at, one.run_date) for at, one in runs if not after or one.run_date > after]
    return truncated([f"{date} ({shown_address(at)})" for at, date in found], 5)


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
    """Turn `ParameterError` into a `JobFileError` that names the section ``[model]``."""
    try:
        yield
    except ParameterError as error:
        raise JobFileError(f"model: {error}") from error


STOPPED = "stopped.json"
"""File with the time and reason of an interruption."""

Note = dict[str, Any]
"""Content of a file in a run's directory; empty if it is missing or damaged."""


@dataclass(frozen=True)
class Request:
    """A request for a run: a job, its output and its previous run."""

    job: Job
    output: Output
    digest: str  # SHA-256 of the job and the previous model
    alternative: str = ""  # digest of the job and the model that the run in `output` continued
    columns: tuple[str, ...] = ()  # features of the previous run
    continued: ContinuedRun | None = None  # the previous run

    @classmethod
    def of(cls, job: Job, previous: Previous | None) -> Self:
        """Return the request of a job; `previous` is the published run that it continues."""
        output = Output(job.output.path)
        if previous is None:
            return cls(job, output, job.digest())
        digest, alternative = with_previous(job.digest(), previous.digest), ""
        if previous.address == output.store.address:  # the previous run may be this one
            manifest = output.manifest()
            before = manifest.previous if manifest else None
            alternative = with_previous(job.digest(), before.model_sha256 if before else "")
        columns = tuple(feature.column for feature in previous.features)
        return cls(job, output, digest, alternative, columns, previous.continued())

    def is_published(self, overwrite: bool, fresh: bool) -> bool:
        """Return True if the output already has the result of this request.

        Raise `JobFileError` if it has another result, which must not be replaced.
        """
        output, names = self.output, [self.alternative, self.digest]
        digest = next((one for one in names if one and output.holds(one)), self.digest)
        # A previous run that was replaced may have the same model, but other labels.
        again = overwrite and (fresh or self._previous_was_replaced())
        if not again and output.holds(digest) and output.holds(digest, self.inputs):
            output.mend()
            return True
        output.check_free(digest, overwrite, is_night=bool(self.job.continuity.previous))
        return False

    def _previous_was_replaced(self) -> bool:
        """Return True if the result in the output continues another run than this request does.

        Return False if this request continues the result in the output.
        """
        manifest = self.output.manifest()
        before = manifest.previous if manifest else None
        if before is None or self.continued is None or self.alternative:
            return False
        return before.run_id != self.continued.run_id

    def open_table(self, staging: str | Path, features: tuple[Feature, ...] = ()) -> Table:
        """Open the job's table.

        `features` are the features of the previous model, or empty if the run refits.
        """
        job = self.job
        kinds, mixed = job.columns, job.is_mixed
        return open_table(job.input, staging, job.preprocess, features, self.columns, kinds, mixed)

    @cached_property
    def inputs(self) -> str:
        """SHA-256 of the table; the first use opens the table."""
        with scratch("staging") as staging:
            return fingerprint(self.open_table(staging))

    def content(self) -> dict[str, object]:
        """Return everything that results depend on, except the input, as JSON values."""
        job = self.job.model_dump(mode="json", exclude=UNDECIDING)
        cut = {"partition_rows": self.job.cluster.partition_rows}
        return {
            "job": job | {"cluster": cut},
            "previous run": self.continued.run_id if self.continued else "",
            "versions": dict(versions()),
        }


@contextmanager
def begin_run(request: Request, start: Start, progress: Progress) -> Iterator[RunDirectory | None]:
    """Lock an output, and yield the directory in which the run stores its unfinished work.

    Yield None if the output already has the result of this request.
    """
    remove_left()
    output = request.output
    if request.is_published(start.overwrite, start.fresh):  # before anything is written
        yield None
        return
    with output.locked(request.digest, start.overwrite, progress.state) as before:
        if request.is_published(start.overwrite, start.fresh):  # by another process, meanwhile
            yield None
            return
        if before and before.doing:  # the last process with the lock was killed
            for run in interrupted_runs(output):
                if run.name == before.doing.get("run"):
                    note_stop(run, before.doing | {"now": before.now, "why": "killed"})
        with run_directory(request, start.fresh, progress) as run:
            yield run


@contextmanager
def run_directory(request: Request, fresh: bool, progress: Progress) -> Iterator[RunDirectory]:
    """Yield the directory of a run in a locked output: an interrupted one, or a new one."""
    # After an error, the directory is kept if it has results and the error may not repeat. It is
    # removed if the job or its data is wrong, or a check holds the result back.
    output, cluster = request.output, request.job.cluster
    run, given_up = _interrupted(request, fresh)
    if run is not None:
        if isinstance(run.work, Folder):  # a power loss can damage files, but no objects
            for why in run.lost():
                LOG.warning("done again", extra={"fields": {"because": why}})
        if cluster.block_rows not in (None, run.plan.block_rows):  # results don't depend on it
            run.write_plan(replace(run.plan, block_rows=cluster.block_rows))
        progress.run = run.name
        _log_resumed(run, progress)
    else:
        run = RunDirectory(output.new_work(request.digest, cluster.workdir, request.continued))
        progress.run = run.name
    try:
        if request.continued is not None:
            check_stays(request.continued)
        if not run.work.has(BEGUN):
            begun = {"output": output.store.address, "begun": now_text(), "processor": processor()}
            run.work.put(BEGUN, sealed(begun | request.content()))
        for name in given_up:  # last, since an unfinished run protects the run that it continues
            output.discard(name)
        try:
            yield run
        except (DataError, PartitionFailedError):
            if run.is_planned:
                check_unchanged(run.plan.table)  # its error is the cause
            raise
    except (CheckFailedError, DataError, InputNotFoundError, ParameterError):
        output.discard(run.name)
        raise
    except BaseException as error:
        has_results = True
        with suppress(DistsvcError, OSError):
            has_results = bool(kept_results(run))
        if has_results:
            note_stop(run, progress.state() | {"now": now_text(), "why": type(error).__name__})
            if not isinstance(error, Exception):
                error.add_note(f"{duration(progress.seconds())} of work kept")
        else:
            output.discard(run.name)
        raise
    output.discard(run.name)


def _log_resumed(run: RunDirectory, progress: Progress) -> None:
    stopped = read_note(run, STOPPED)
    progress.seconds_before = float(stopped.get("seconds") or 0.0)
    names = [name for name in ("phase", "done", "total") if stopped.get(name) is not None]
    where = {f"stopped_in_{name}": stopped[name] for name in names}
    kept = ", ".join(f"{phase} {n}" for phase, n in kept_results(run).items())
    progress.event(
        "resumed", kept=kept, seconds_of_work=progress.seconds_before, **where,
        stopped=stopped.get("now", "unknown"),
    )  # fmt: skip


def interrupted_runs(output: Output) -> list[RunDirectory]:
    """Return the unfinished runs of an output, except runs whose removal has begun."""
    ours = output.store.address
    return [run for run, begun in _runs(output) if begun.get("output") == ours]


def kept_results(run: RunDirectory) -> dict[str, int]:
    """Return the number of stored results of each phase; checkpoints count as a phase."""
    counts: dict[str, int] = {}
    for name in run.names():
        phase, inner, _ = name.rpartition("/")
        phase = CHECKPOINTS if phase.startswith(f"{CHECKPOINTS}/") else phase
        if inner:
            counts[phase] = counts.get(phase, 0) + 1
    return counts


def note_stop(run: RunDirectory, doing: Doing) -> None:
    """Write the state of a stopped run, if possible."""
    with suppress(DistsvcError, OSError):
        run.work.put(STOPPED, sealed(doing))


def read_note(run: RunDirectory, name: str) -> Note:
    """Return the content of a file in a run's directory; empty if missing or damaged."""
    with run.reached(name):
        found = run.work.current(name)
    with suppress(DataError):
        return unsealed(found[0], f"{run.address}/{name}") if found else {}
    return {}


def differences(then: object, now: object, name: str = "") -> list[str]:
    """Return the differences of two JSON values, such as ``model.seed: 0, now 1``."""
    if isinstance(then, dict) and isinstance(now, dict):
        keys = [*then, *(key for key in now if key not in then)]
        inner = (differences(then.get(k), now.get(k), f"{name}.{k}" if name else k) for k in keys)
        return [found for several in inner for found in several]
    if then == now:
        return []
    words = ["not given" if value is None else repr(value) for value in (then, now)]
    return [f"{name}: {words[0]}, now {words[1]}"]


def _runs(output: Output) -> Iterator[tuple[RunDirectory, Note]]:
    """Yield the unfinished runs of an output, each with the content of its file `BEGUN`."""
    for name in output.kept_works():
        run = RunDirectory(output.work(name))
        yield run, read_note(run, BEGUN)


def _interrupted(request: Request, fresh: bool) -> tuple[RunDirectory | None, list[str]]:
    """Return the run to resume or None, and the names of unfinished runs to discard."""
    output, found, given_up = request.output, None, list[str]()
    for run, begun in _runs(output):
        outdated = "" if fresh or not run.work.has(BEGUN) else _why_outdated(run, request)
        if not begun:  # its removal was interrupted
            if run.work.has(BEGUN):
                _log_start_over(run, f"{BEGUN} is damaged")
            given_up.append(run.name)
        elif begun.get("output") != output.store.address:
            continue
        elif outdated:
            _log_start_over(run, outdated)
            given_up.append(run.name)
        elif fresh or found or not (kept_results(run) and _has_plan(run)):
            given_up.append(run.name)
        else:
            _check_same(run, begun, request)
            found = RunDirectory(run.work, output.new_name(run.name))
    return found, given_up


def _why_outdated(run: RunDirectory, request: Request) -> str:
    """Return the reason if an interrupted run can't be resumed; "" if it can.

    The reason is that the previous run was withdrawn or replaced. Raise `InterruptedRunError` if
    the previous run was removed, and no other run is published at its address.
    """
    with suppress(DataError):  # the continued run is unknown
        then = request.output.continued_by(run.name)
        if then is None or then == request.continued:
            return ""
        before = Output(then.address)
        if before.run_id == then.run_id:
            return ""
        if before.is_published or then.run_id in before.candidates():
            return f"the interrupted run continues {then}, which was withdrawn or replaced"
        now = request.continued
        fresh = f"which continues {now.path}" if now else "where cluster ids start at 0"
        raise InterruptedRunError(
            f"output.path {request.output.shown} holds the interrupted run {run.name}, but its "
            f"previous run, {then}, is no longer published; give --fresh for a new run, {fresh}"
        )
    return ""


def _has_plan(run: RunDirectory) -> bool:
    """Return True if the plan and the converted files are intact."""
    if not run.is_planned:
        return False
    try:
        run.planned()
    except LostWorkError as error:
        _log_start_over(run, str(error))
        return False
    return True


def _log_start_over(run: RunDirectory, why: str) -> None:
    LOG.warning("starts over", extra={"fields": {"run": run.name, "because": why}})


def _check_same(run: RunDirectory, begun: Note, request: Request) -> None:
    """Raise `InterruptedRunError` if job, input or version have changed since a run began."""
    now = request.content()
    found = differences({key: begun.get(key) for key in now}, now)
    found = [one.removeprefix("job.") for one in found]
    if not found:
        try:
            check_unchanged(run.plan.table)
        except DataError as error:
            found = [str(error)]
        compare_processors(f"run {run.name}", processor(), begun.get("processor") or processor())
    if found:
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise InterruptedRunError(
            f"output.path {request.output.shown} holds the interrupted run {run.name}, begun with "
            f"another job, input or version: {'; '.join(found[:5])}{more}; give --fresh to start "
            "over"
        )
