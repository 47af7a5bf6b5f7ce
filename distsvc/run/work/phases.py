"""Phases: one task for every number of a range, whose results are written once.

To debug a task of a run that is not finished: ``SURVEY.do("out/.runs/ab12-34cd", 3)``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from distsvc.errors import DataError, TemporaryError
from distsvc.job.config import ClusterConfig
from distsvc.models.rows.checkpoints import Checkpoint, Restore, Restored, State
from distsvc.run.work.directory import LostWorkError, Result, RunDirectory
from distsvc.run.work.progress import LOG, Progress
from distsvc.run.work.start import DEFAULT_ADDRESS, ClusterAddress
from distsvc.run.work.workers.cluster import Workers, connect, workers_of
from distsvc.run.work.workers.fanout import fan_out
from distsvc.storage.rows.columns import truncated

CHECKPOINTS = "checkpoints"

CHECKPOINT_SECONDS = 45.0
"""Seconds between two checkpoints; with writing, less than a minute of work can be lost."""


class TaskCheckpoints(Checkpoint):
    """The checkpoints of the task or step with the result `name`."""

    def __init__(self, run: RunDirectory, name: str):
        self._run, self._folder = run, f"{CHECKPOINTS}/{name}"
        self._since = time.monotonic()

    def last(self, restore: Restore[Restored]) -> Restored | None:
        """Return the state of the last checkpoint that `restore` accepts, if any; remove others."""
        for name in reversed(self._run.names(self._folder)):
            try:
                found = self._run.load(name)
                if found.facts.get("of") != self._identity(name):
                    raise DataError(f"{name}: expected a checkpoint {self._identity(name)}")
                restored = restore(found.facts["state"], found.arrays)
            except (LostWorkError, DataError) as error:
                fields = {"checkpoint": name, "error": str(error)}
                LOG.warning("checkpoint passed over", extra={"fields": fields})
                self._run.remove(name)
            else:
                LOG.info("went on", extra={"fields": {"checkpoint": name}})
                return restored
        return None

    def keep(self, steps: int, state: Callable[[], State]) -> None:
        """Write ``state()``, `CHECKPOINT_SECONDS` after the last one, and remove earlier ones."""
        if time.monotonic() - self._since < CHECKPOINT_SECONDS:
            return
        name = f"{self._folder}/{steps:012d}"
        facts, arrays = state()
        self._run.write(name, Result({"of": self._identity(name), "state": facts}, arrays))
        for other in self._run.names(self._folder):
            if other < name:
                self._run.remove(other)
        self._since = time.monotonic()

    def remove(self) -> None:
        """Remove all checkpoints, once the result is written."""
        for name in self._run.names(self._folder):
            self._run.remove(name)

    def _identity(self, name: str) -> dict[str, str]:
        return {"run": self._run.name, "checkpoint": name}


Task = Callable[..., Result]
"""A function of run directory and number; a sequential task also takes `TaskCheckpoints`."""

Work = Callable[[TaskCheckpoints], Result]
"""Work of the driver, or of a sequential task, that starts at its last checkpoint."""


@dataclass(frozen=True)
class Phase:
    """A named task; its results are ``<name>/00000``, ``<name>/00001`` and so on.

    The task is a module's function or a `functools.partial` of one, so that it can be pickled. A
    `sequential` task may take hours for one number, and gets checkpoints.
    """

    name: str
    task: Task
    sequential: bool = False

    def do(self, run_dir: str, number: int) -> int:
        """Run the task with a number and write its result; return the number of rows processed."""
        run, name = RunDirectory(run_dir), self.result(number)
        if self.sequential:
            return _checkpointed(run, name, partial(self.task, run, number)).rows
        result = self.task(run, number)
        run.write(name, result)
        return result.rows

    def result(self, number: int) -> str:
        """Return the name of the result with a number."""
        return f"{self.name}/{number:05d}"


@dataclass(frozen=True)
class Steps:
    """Directory, Dask client (or None) and display for the steps of a run."""

    run: RunDirectory
    client: Any
    progress: Progress

    @property
    def n_partitions(self) -> int:
        """Number of partitions of the table."""
        return len(self.run.plan.partitions)

    @property
    def workers(self) -> Workers:
        """The present workers; `TemporaryError` if the scheduler does not answer."""
        return workers_of(self.client)

    def map(self, phase: Phase, n: int | None = None) -> Iterator[Result]:
        """Run the unfinished tasks of a phase (all partitions, or below n); yield results in order.

        The work starts with the first `next`, and ends only if all results are read: use `do` if no
        results are needed. Errors as in `fan_out`; `LostWorkError` if a result is lost.
        """
        for number in self._numbers(phase, n):
            yield self.run.load(phase.result(number))

    def do(self, phase: Phase, n: int | None = None) -> None:
        """Run a phase without reading its results; errors as in `map`."""
        missing = self._missing(phase, list(self._numbers(phase, n)))
        if missing:
            named, where = truncated(list(map(str, missing)), 10), self.run.address
            raise TemporaryError(f"{phase.name}: {where} has lost results {named}; run again")

    def work_out(self, name: str, function: Work) -> Result:
        """Run a step of the driver once; return its result as read from the directory."""
        if not self.run.has(name):
            with self.progress.phase(name) as meter:
                meter.rows = _checkpointed(self.run, name, function).rows
        return self.run.read(name)

    def _numbers(self, phase: Phase, n: int | None) -> Iterator[int]:
        """Run the unfinished tasks of a phase; yield each number once all up to it are done."""
        n = self.n_partitions if n is None else n
        missing = self._missing(phase, range(n))
        with self.progress.phase(phase.name) as meter:
            meter.begin(n, n - len(missing))
            done = fan_out(self.client, phase.do, self.run.task_address, missing, meter)
            yield from in_order(n, missing, done)

    def _missing(self, phase: Phase, numbers: Iterable[int]) -> list[int]:
        there = set(self.run.names(phase.name))
        return [number for number in numbers if phase.result(number) not in there]


def in_order(n: int, missing: Iterable[int], finished: Iterable[int]) -> Iterator[int]:
    """Yield the numbers below n in order, each once it and all before it are finished."""
    missing, reached = set(missing), 0
    for number in finished:
        missing.discard(number)
        while reached < n and reached not in missing:
            yield reached
            reached += 1
    yield from range(reached, n)


@contextmanager
def steps_on(
    run: RunDirectory,
    progress: Progress,
    config: ClusterConfig,
    at: ClusterAddress = DEFAULT_ADDRESS,
) -> Iterator[Steps]:
    """Yield the steps of a planned run, on the cluster of `cluster.connect`."""
    with connect(config, run.plan.table.nbytes, progress, at) as client:
        yield Steps(run, client, progress)


def _checkpointed(run: RunDirectory, name: str, function: Work) -> Result:
    """Write the result of work that has checkpoints, and remove the checkpoints."""
    checkpoints = TaskCheckpoints(run, name)
    result = function(checkpoints)
    run.write(name, result)
    checkpoints.remove()
    return result
