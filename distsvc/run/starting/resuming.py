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
from typing import Any

from distsvc.errors import (
    CheckFailedError,
    DataError,
    DistsvcError,
    InputNotFoundError,
    JobFileError,
    ParameterError,
)
from distsvc.errors.urls import hand_over
from distsvc.job.config import UNDECIDING, Job
from distsvc.run.work.checkpoints import CHECKPOINTS
from distsvc.run.work.cluster import versions
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.progress import Progress
from distsvc.storage.places.arrays import json_bytes, parse_json, read_json
from distsvc.storage.publishing.publication import Output
from distsvc.storage.tables.opening import check_unchanged

BEGUN, STOPPED = "begun.json", "stopped.json"
SHOWN = 5
"""Differences that an error names."""


@dataclass(frozen=True)
class Asked:
    """What a run is to be done from, and whether it may begin anew where another was interrupted.

    Attributes
    ----------
    job : Job
    digest : str
        SHA-256 of what decides the result but the table.
    model : str
        SHA-256 of a published model that is used; empty where the job learns its own.
    fresh : bool
    also : str
        Another digest, by which the same may have been published before.
    kept : tuple of str
        Columns of the run that this one goes on from, which stay features by default.

    """

    job: Job
    digest: str
    model: str = ""
    fresh: bool = False
    also: str = ""
    kept: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        """Return all but the input that the results of a run depend on, as what JSON can hold."""
        job = self.job.model_dump(mode="json", exclude=UNDECIDING)
        cut = {"partition_rows": self.job.cluster.partition_rows}
        return {
            "job": job | {"cluster": cut},
            "model": self.model,
            "versions": dict(versions()),
        }


class Attempt:
    """One start of a run, which tells how far it is.

    Attributes
    ----------
    name : str or None
        The run's, once it is known.
    seconds_before : float
        Seconds of work of earlier starts.

    """

    def __init__(self, progress: Progress):
        self.name: str | None = None
        self.seconds_before = 0.0
        self._progress, self._started = progress, time.monotonic()

    def doing(self) -> dict[str, Any]:
        """Return the run's name, its seconds of work and what `Progress.state` says."""
        seconds = round(self.seconds_before + time.monotonic() - self._started, 1)
        return {"run": self.name, "seconds": seconds} | self._progress.state()

    def goes_on(self, run: RunDirectory, progress: Progress) -> None:
        """Take up the work of a run that was interrupted, and say what is kept."""
        stopped = read_note(run, STOPPED)
        self.name, self.seconds_before = run.name, float(stopped.get("seconds") or 0.0)
        progress.run = run.name
        told = {name: stopped.get(name) for name in ("phase", "done", "total")}
        where = {f"stopped_in_{name}": value for name, value in told.items() if value is not None}
        kept = ", ".join(f"{phase} {n}" for phase, n in kept_results(run).items())
        progress.event(
            "resumed", kept=kept, seconds_of_work=self.seconds_before, **where,
            stopped=stopped.get("now", "unknown"),
        )  # fmt: skip

    def begins(self, run: RunDirectory, progress: Progress) -> None:
        """Begin a run in an empty directory."""
        self.name = progress.run = run.name


@contextmanager
def run_directory(
    output: Output, asked: Asked, attempt: Attempt, progress: Progress
) -> Iterator[RunDirectory]:
    """Yield the directory of a run in an output that is held: one that was interrupted, or a new.

    It stays where the run ends with an error that another start may not meet, and something is
    done. Where the data or the job is at fault, or a check holds the result back, it goes.

    Raises
    ------
    JobFileError
        A run was interrupted that was begun with another job, input or version of the code; says
        which, and what differs.

    """
    run = _interrupted(output, asked)
    if run is not None:
        for name in run.work.damaged("results"):
            run.work.remove(name)
        _with_block_rows(run, asked.job)
        attempt.goes_on(run, progress)
    else:
        run = RunDirectory(output.new_work(asked.digest, asked.job.cluster.workdir).address)
        begun = {"output": output.place.address, "begun": _now()} | asked.content()
        run.work.put(BEGUN, json_bytes(begun))
        attempt.begins(run, progress)
    try:
        yield run
    except (CheckFailedError, DataError, InputNotFoundError, ParameterError):
        discard(output, run)
        raise
    except BaseException as error:
        if not kept_results(run):
            discard(output, run)
        else:
            note_stop(run, attempt.doing() | {"now": _now(), "why": type(error).__name__})
        raise
    discard(output, run)


def discard(output: Output, run: RunDirectory) -> None:
    """Remove a run; what a killed process leaves of it does not pass for a run that can go on."""
    output.discard(run.name, first=BEGUN)


def interrupted_runs(output: Output) -> list[RunDirectory]:
    """Return the runs that were begun for an output, and neither ended nor were given up."""
    found = _runs(output)
    return [run for run in found if read_note(run, BEGUN).get("output") == output.place.address]


def kept_results(run: RunDirectory) -> dict[str, int]:
    """Return how many results of each phase, and how many checkpoints, are there."""
    counts: dict[str, int] = {}
    for name in run.work.sizes("results"):
        phase, inner, file = name.removeprefix("results/").rpartition("/")
        phase = CHECKPOINTS if phase.startswith(f"{CHECKPOINTS}/") else phase
        if inner and file.endswith(".npz"):
            counts[phase] = counts.get(phase, 0) + 1
    return counts


def note_stop(run: RunDirectory, doing: dict[str, Any]) -> None:
    """Write where a run stopped, if that can be written."""
    with suppress(DistsvcError, OSError):
        run.work.put(STOPPED, json_bytes(doing))


def note_death(output: Output, before: dict[str, Any]) -> None:
    """Write where a run stopped whose process was killed, from its last sign of life."""
    doing = before.get("doing")
    if not isinstance(doing, dict):
        return
    for run in interrupted_runs(output):
        if run.name == doing.get("run"):
            note_stop(run, doing | {"now": before.get("now"), "why": "killed"})


def read_note(run: RunDirectory, name: str) -> dict[str, Any]:
    """Return what a run's directory says of itself; empty where that is not there or damaged."""
    found = run.work.current(name)
    with suppress(DataError):
        content = parse_json(found[0], f"{run.address}/{name}") if found else {}
        return content if isinstance(content, dict) else {}
    return {}


def differences(then: Any, now: Any, name: str = "") -> list[str]:
    """Return what differs between two contents of JSON, each as ``model.seed: 0, now 1``."""
    if isinstance(then, dict) and isinstance(now, dict):
        keys = [*then, *(key for key in now if key not in then)]
        inner = (differences(then.get(k), now.get(k), f"{name}.{k}" if name else k) for k in keys)
        return [found for several in inner for found in several]
    return [] if then == now else [f"{name}: {_said(then)}, now {_said(now)}"]


def _runs(output: Output) -> list[RunDirectory]:
    return [RunDirectory(output.work(name).address) for name in output.kept_works()]


def _interrupted(output: Output, asked: Asked) -> RunDirectory | None:
    """Return the run that may go on, if there is one; errors as in `run_directory`."""
    for run in _runs(output):
        if not read_note(run, BEGUN):  # who was to remove it was killed
            output.discard(run.name)
    found = None
    for run in interrupted_runs(output):
        if asked.fresh or found or not (run.is_planned and kept_results(run)):
            discard(output, run)
            continue
        _check_same(run, asked, output.shown)
        found = run
    return found


def _check_same(run: RunDirectory, asked: Asked, shown: str) -> None:
    begun, now = read_note(run, BEGUN), asked.content()
    found = differences({key: begun.get(key) for key in now}, now)
    found = [one.removeprefix("job.") for one in found]
    if not found:
        plan = read_json(run.work.local("plan.json"))
        hand_over(list(_texts(plan)), asked.job.input.paths)
        try:
            check_unchanged(run.plan.table)
        except DataError as error:
            found = [str(error)]
    if found:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise JobFileError(
            f"output.path {shown} holds run {run.name}, which was interrupted and was begun with "
            f"something else: {'; '.join(found[:SHOWN])}{more}; give --fresh to start over"
        )


def _texts(content: Any) -> Iterator[str]:
    """Yield all texts of a content of JSON, in its order."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict | list):
        for one in content.values() if isinstance(content, dict) else content:
            yield from _texts(one)


def _with_block_rows(run: RunDirectory, job: Job) -> None:
    """Let a run go on with the blocks that the job asks for, on which no result depends."""
    rows = job.cluster.block_rows
    if rows is not None and rows != run.plan.block_rows:
        run.write_plan(replace(run.plan, block_rows=rows))


def _said(value: Any) -> str:
    return "not given" if value is None else repr(value)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
