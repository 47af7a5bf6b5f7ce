"""Phases: one task for every number of a range; each task writes one result.

To debug a task of an unfinished run: ``SURVEY.do("out/.runs/ab12-34cd", 3)``.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
"""Seconds between two checkpoints: a killed task loses less than a minute of work."""


class TaskCheckpoints(Checkpoint):
    """Checkpoints from which an interrupted task continues.

    `name` is the name of the task's result.
    """

    def __init__(self, run: RunDirectory, name: str):
        self._run, self._folder = run, f"{CHECKPOINTS}/{name}"
        self._since = time.monotonic()

    def last(self, restore: Restore[Restored]) -> Restored | None:
        """Restore the last usable checkpoint, and return the result of `restore`.

        Return None if there is none. Unusable checkpoints are removed.
        """
        for name in reversed(self._run.names(self._folder)):
            try:
                found = self._run.load(name)
                expected, saved = self._identity(name), found.facts.get("of")
                if saved != expected:
                    raise DataError(f"{name}: expected a checkpoint of {expected}, found {saved}")
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
        """Write ``state()`` if the last checkpoint is `CHECKPOINT_SECONDS` old.

        Earlier checkpoints are removed. The learner has done `steps` steps, which name the
        checkpoint.
        """
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
        """Remove all checkpoints; the result must be written before."""
        for name in self._run.names(self._folder):
            self._run.remove(name)

    def _identity(self, name: str) -> dict[str, str]:
        return {"run": self._run.name, "checkpoint": name}


@dataclass(frozen=True)
class Phase:
    """A named task; its results are ``<name>/00000``, ``<name>/00001`` and so on.

    ``task(run, number)`` is a module's function or a `functools.partial` of one, so that it can be
    pickled. A `sequential` task may take hours for one number. So it has a third argument: the
    `TaskCheckpoints` in which it saves its state.
    """

    name: str
    task: Callable[..., Result]
    sequential: bool = False

    def do(self, run_dir: str, number: int) -> int:
        """Run the task with a number and write its result; return the number of rows processed."""
        run, name = RunDirectory(run_dir), self.result(number)
        checkpoints = [TaskCheckpoints(run, name)] if self.sequential else []
        result = self.task(run, number, *checkpoints)
        run.write(name, result)
        for one in checkpoints:
            one.remove()
        return result.rows

    def result(self, number: int) -> str:
        return f"{self.name}/{number:05d}"


@dataclass(frozen=True)
class Steps:
    """Runs the phases of a run, and the steps of its driver."""

    run: RunDirectory
    client: Any  # Dask's client; None if tasks run in this process
    progress: Progress

    @property
    def n_partitions(self) -> int:
        return len(self.run.plan.partitions)

    @property
    def workers(self) -> Workers:
        """The workers that are connected now; `TemporaryError` if the scheduler is silent."""
        return workers_of(self.client)

    def map(self, phase: Phase, n: int | None = None) -> Iterator[Result]:
        """Run the unfinished tasks of a phase; yield the results of all tasks, in order.

        There are n tasks, by default one for each partition. All tasks are done only if all
        results are read; if you don't need the results, use `do`. An error of `fan_out` is raised,
        and `LostWorkError` if a result is lost.
        """
        for number in self._numbers(phase, n):
            yield self.run.load(phase.result(number))

    def do(self, phase: Phase, n: int | None = None) -> None:
        """Run a phase without reading its results.

        An error of `fan_out` is raised, and `TemporaryError` if a result is missing.
        """
        missing = self._missing(phase, list(self._numbers(phase, n)))
        if missing:
            named, where = truncated(list(map(str, missing)), 10), self.run.address
            raise TemporaryError(
                f"{phase.name}: results {named} are missing from {where}; run the same command "
                "again"
            )

    def work_out(self, name: str, function: Callable[[], Result]) -> Result:
        """Run a step of the driver, unless its result is stored; return the stored result."""
        if not self.run.has(name):
            with self.progress.phase(name) as meter:
                result = function()
                self.run.write(name, result)
                meter.rows = result.rows
        return self.run.read(name)

    def _numbers(self, phase: Phase, n: int | None) -> Iterator[int]:
        """Run the unfinished tasks of a phase; yield the numbers of finished tasks in order."""
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
    """Yield the numbers below n in ascending order, though tasks finish in any order.

    At first, the tasks `missing` are unfinished; `finished` yields their numbers as they finish. A
    number is yielded as soon as all tasks up to this number are finished.
    """
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
    """Connect to a cluster or start workers, and yield the `Steps` of a planned run.

    The arguments `config` and `at` are explained at `cluster.connect`.
    """
    with connect(config, run.plan.table.nbytes, progress, at) as client:
        yield Steps(run, client, progress)
