"""Going on with a run that was interrupted: its directory is kept, and says what it was begun with.

What a task or a step has finished is a result that is there, so going on is to do what is missing.
That is sound as long as the job, its input and the code are those of the results. All of them are
compared first.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from distsvc.errors import (
    CheckFailedError,
    DataError,
    DistsvcError,
    InputNotFoundError,
    JobFileError,
    ParameterError,
)
from distsvc.job.config import UNDECIDING, Job
from distsvc.run.model.files import with_previous
from distsvc.run.nights.previous import Previous
from distsvc.run.work.checkpoints import CHECKPOINTS
from distsvc.run.work.directory import LostWorkError, RunDirectory
from distsvc.run.work.display import LOG, duration
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import Start
from distsvc.run.work.workers.cluster import compare_processors, processor, versions
from distsvc.storage.places.arrays import sealed, unsealed
from distsvc.storage.places.folder import Folder
from distsvc.storage.places.lease import Doing, Holder
from distsvc.storage.places.scratch import remove_left, scratch
from distsvc.storage.publishing.manifest import ContinuedRun
from distsvc.storage.publishing.publication import BEGUN, Output
from distsvc.storage.publishing.retention import check_stays
from distsvc.storage.tables.opening import check_unchanged, fingerprint, open_table

LAYOUT = 5
"""The layout of a run's results; a run with another can't go on."""

STOPPED = "stopped.json"
"""Metadata of an interrupted run: where and why it stopped."""

Note = dict[str, Any]
"""What is known of a run, as JSON has it; of a note that is damaged, nothing."""

SHOWN = 5
"""Differences that an error names."""


@dataclass(frozen=True)
class Request:
    """A job with its output, and the published model it uses: all that decides a run but the table.

    `digest` is the SHA-256 of that, `model` that of the published model, empty where the job learns
    its own, and `also` another digest, by which the same may have been published before. The
    columns `kept` of the previous run stay features by default. `continued` is the run whose model
    is used.
    """

    job: Job
    output: Output
    digest: str
    model: str = ""
    also: str = ""
    kept: tuple[str, ...] = ()
    continued: ContinuedRun | None = None

    @classmethod
    def of(cls, job: Job, previous: Previous | None) -> Request:
        """Return the request of a job that continues a published run, if there is one."""
        output = Output(job.output.path)
        if previous is None:
            return cls(job, output, job.digest())
        digest, also = with_previous(job.digest(), previous.digest), ""
        if previous.address == output.store.address:  # it may have published what replaced that
            manifest = output.manifest()
            before = manifest.previous if manifest else None
            also = with_previous(job.digest(), before.model_sha256 if before else "")
        kept = tuple(feature.column for feature in previous.features)
        return cls(job, output, digest, previous.digest, also, kept, previous.continued())

    def is_published(self, overwrite: bool) -> bool:
        """Return whether the run is published already; the output need not be writable then.

        Otherwise the output has to be free: errors as in `Output.check_free`.
        """
        output, names = self.output, [self.also, self.digest]
        digest = next((one for one in names if one and output.holds(one)), self.digest)
        if output.holds(digest) and output.holds(digest, self.inputs):
            output.mend()
            return True
        output.check_free(digest, overwrite)
        return False

    @cached_property
    def inputs(self) -> str:
        """SHA-256 of the table, which is opened for it; nothing of that stays."""
        with scratch("staging") as staging:
            job = self.job
            kinds, mixed = job.columns, job.is_mixed
            table = open_table(job.input, staging, job.preprocess, (), self.kept, kinds, mixed)
            return fingerprint(table)

    def content(self) -> dict[str, object]:
        """Return all but the input that the results of a run depend on, as what JSON can hold."""
        job = self.job.model_dump(mode="json", exclude=UNDECIDING)
        cut = {"partition_rows": self.job.cluster.partition_rows}
        return {
            "job": job | {"cluster": cut},
            "model": self.model,
            "versions": dict(versions()),
            "layout": LAYOUT,
        }


class Attempt:
    """One start of a run, which tells how far it is.

    `name` is the run's, once it is known; `seconds_before` are those of the work of earlier starts.
    """

    def __init__(self, progress: Progress):
        self.name: str | None = None
        self.seconds_before = 0.0
        self._progress, self._started = progress, time.monotonic()

    def doing(self) -> Doing:
        """Return the run's name, its seconds of work and what `Progress.state` says."""
        return {"run": self.name, "seconds": self.seconds()} | self._progress.state()

    def seconds(self) -> float:
        """Return the seconds of work, with those of earlier starts."""
        return round(self.seconds_before + time.monotonic() - self._started, 1)

    def goes_on(self, run: RunDirectory) -> None:
        """Take up the work of a run that was interrupted, and say what is kept."""
        self.begins(run)
        stopped = read_note(run, STOPPED)
        self.seconds_before = float(stopped.get("seconds") or 0.0)
        told = {name: stopped.get(name) for name in ("phase", "done", "total")}
        where = {f"stopped_in_{name}": value for name, value in told.items() if value is not None}
        kept = ", ".join(f"{phase} {n}" for phase, n in kept_results(run).items())
        self._progress.event(
            "resumed", kept=kept, seconds_of_work=self.seconds_before, **where,
            stopped=stopped.get("now", "unknown"),
        )  # fmt: skip

    def begins(self, run: RunDirectory) -> None:
        """Take the name of a run."""
        self.name = self._progress.run = run.name


@contextmanager
def begun(request: Request, start: Start, progress: Progress) -> Iterator[RunDirectory | None]:
    """Hold an output and yield a run in it; None where the run is published already.

    Errors as in `Output.check_free`, `Output.locked` and `run_directory`.
    """
    remove_left()
    output, attempt = request.output, Attempt(progress)
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


@contextmanager
def run_directory(request: Request, fresh: bool, attempt: Attempt) -> Iterator[RunDirectory]:
    """Yield the directory of a run in an output that is held: one that was interrupted, or a new.

    A `fresh` one is new in any case.

    It stays where the run ends with an error that another start may not meet, and something is
    done; errors of its own files are of that kind, as `RunDirectory` says. Where the data or the
    job is at fault, or a check holds the result back, it goes.

    `JobFileError` where a run was interrupted that was begun with another job, input or version of
    the code; says which, and what differs.
    """
    output, cluster = request.output, request.job.cluster
    run, given_up = _interrupted(request, fresh)
    if run is not None:
        _mend(run)
        if cluster.block_rows not in (None, run.plan.block_rows):  # no result depends on it
            run.write_plan(replace(run.plan, block_rows=cluster.block_rows))
        attempt.goes_on(run)
    else:
        work = output.new_work(request.digest, cluster.workdir, request.continued)
        run = RunDirectory(work)
        attempt.begins(run)
    try:
        _note_begin(run, request)
        for name in given_up:  # only now, since they keep what they continue
            output.discard(name)
        yield run
    except (CheckFailedError, DataError, InputNotFoundError, ParameterError):
        output.discard(run.name)
        raise
    except BaseException as error:
        if _is_empty(run):
            output.discard(run.name)
        else:
            note_stop(run, attempt.doing() | {"now": _now(), "why": type(error).__name__})
            if not isinstance(error, Exception):
                error.add_note(f"{duration(attempt.seconds())} of work kept")
        raise
    output.discard(run.name)


def _note_begin(run: RunDirectory, request: Request) -> None:
    """Write what a run is begun with, unless that is there, once it is sure what it continues.

    Errors as in `check_stays`.
    """
    if request.continued is not None:
        check_stays(request.continued)
    if not run.work.has(BEGUN):
        begun = {"output": request.output.store.address, "begun": _now(), "processor": processor()}
        run.work.put(BEGUN, sealed(begun | request.content()))


def interrupted_runs(output: Output) -> list[RunDirectory]:
    """Return the runs that were begun for an output, and neither ended nor were given up."""
    ours = output.store.address
    return [run for run, begun in _runs(output) if begun.get("output") == ours]


def kept_results(run: RunDirectory) -> dict[str, int]:
    """Return how many results of each phase, and how many checkpoints, are there."""
    counts: dict[str, int] = {}
    for name in run.names():
        phase, inner, _ = name.rpartition("/")
        phase = CHECKPOINTS if phase.startswith(f"{CHECKPOINTS}/") else phase
        if inner:
            counts[phase] = counts.get(phase, 0) + 1
    return counts


def note_stop(run: RunDirectory, doing: Doing) -> None:
    """Write where a run stopped, if that can be written."""
    with suppress(DistsvcError, OSError):
        run.work.put(STOPPED, sealed(doing))


def note_death(output: Output, before: Holder | None) -> None:
    """Write where a run stopped whose process was killed, from its last sign of life."""
    doing = before and before.doing
    for run in interrupted_runs(output):
        if before and doing and run.name == doing.get("run"):
            note_stop(run, doing | {"now": before.now, "why": "killed"})


def read_note(run: RunDirectory, name: str) -> Note:
    """Return what a run's directory says of itself; empty where that is not there or damaged."""
    with run.reached(name):
        found = run.work.current(name)
    with suppress(DataError):  # those of older versions have no checksum
        return unsealed(found[0], f"{run.address}/{name}", required=False) if found else {}
    return {}


def differences(then: Any, now: Any, name: str = "") -> list[str]:
    """Return what differs between two contents of JSON, each as ``model.seed: 0, now 1``."""
    if isinstance(then, dict) and isinstance(now, dict):
        keys = [*then, *(key for key in now if key not in then)]
        inner = (differences(then.get(k), now.get(k), f"{name}.{k}" if name else k) for k in keys)
        return [found for several in inner for found in several]
    return [] if then == now else [f"{name}: {_said(then)}, now {_said(now)}"]


def _runs(output: Output) -> Iterator[tuple[RunDirectory, Note]]:
    """Yield the runs whose work is kept at an output, and what each was begun with."""
    for name in output.kept_works():
        work = output.work(name)
        run = RunDirectory(work)
        yield run, read_note(run, BEGUN)


def _interrupted(request: Request, fresh: bool) -> tuple[RunDirectory | None, list[str]]:
    """Return the run that may go on, if there is one, and the names of those that are given up.

    Errors as in `run_directory`.
    """
    output, found, given_up = request.output, None, list[str]()
    for run, begun in _runs(output):
        if not fresh and run.work.has(BEGUN):
            _check_lineage(run, request)
        if not begun:  # who was to remove it was killed
            if run.work.has(BEGUN):
                _tell_lost(run, f"{BEGUN} is damaged")
            given_up.append(run.name)
        elif begun.get("output") != output.store.address:
            continue
        elif fresh or found or not (kept_results(run) and _has_plan(run)):
            given_up.append(run.name)
        else:
            _check_same(run, begun, request)
            found = RunDirectory(run.work, output.new_name(run.name))
    return found, given_up


def _check_lineage(run: RunDirectory, request: Request) -> None:
    """Refuse to go on without the run that an interrupted one continues, if that has gone.

    Whatever is published elsewhere does not take its place without a word.
    """
    with suppress(DataError):  # it is not known any more
        then = request.output.continued_by(run.name)
        if then is None or then == request.continued or Output(then.address).manifest():
            return
        now = request.continued
        fresh = f"which goes on from {now.path}" if now else "where cluster ids start at 0"
        raise JobFileError(
            f"output.path {request.output.shown} holds run {run.name}, which was interrupted and "
            f"goes on from {then}: that is not published any more; give "
            f"--fresh for a new run, {fresh}"
        )


def _has_plan(run: RunDirectory) -> bool:
    """Return whether the plan is whole, and what was converted for it."""
    if not run.is_planned:
        return False
    try:
        run.planned()
    except LostWorkError as error:
        _tell_lost(run, str(error))
        return False
    return True


def _tell_lost(run: RunDirectory, why: str) -> None:
    LOG.warning("starts over", extra={"fields": {"run": run.name, "because": why}})


def _mend(run: RunDirectory) -> None:
    """Remove what a loss of power spoiled of a run's files, which are then made again.

    A store keeps its objects whole or not at all.
    """
    if isinstance(run.work, Folder):
        for why in run.lost():
            LOG.warning("done again", extra={"fields": {"because": why}})


def _is_empty(run: RunDirectory) -> bool:
    """Return whether nothing of a run is done, as far as that can be known."""
    with suppress(DistsvcError, OSError):
        return not kept_results(run)
    return False


def _check_same(run: RunDirectory, begun: Note, request: Request) -> None:
    now = request.content()
    found = differences({key: begun.get(key) for key in now}, now)
    found = [_in_words(one, run, request) for one in found]
    if not found:
        try:
            check_unchanged(run.plan.table)
        except DataError as error:
            found = [str(error)]
        compare_processors(f"run {run.name}", processor(), begun.get("processor") or processor())
    if found:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise JobFileError(
            f"output.path {request.output.shown} holds run {run.name}, which was interrupted and "
            f"was begun with something else: {'; '.join(found[:SHOWN])}{more}; give --fresh to "
            "start over"
        )


def _in_words(difference: str, run: RunDirectory, request: Request) -> str:
    """Return a difference as users know it: that of models is one of the runs that they are of."""
    if difference.startswith("layout: "):
        return "an older distsvc, whose results have other names"
    if not difference.startswith("model: "):
        return difference.removeprefix("job.")
    then: ContinuedRun | None = None
    with suppress(DataError):
        then = request.output.continued_by(run.name)
    said = [f"that of {one}" if one else "none" for one in (then, request.continued)]
    return f"model: {said[0]}, now {said[1]}"


def _said(value: Any) -> str:
    return "not given" if value is None else repr(value)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
