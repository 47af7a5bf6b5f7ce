"""A phase: the same task for every number of a range, and results that are written once.

So what is done is not done again, and what is missing can be named. While a run lasts, one number
can be done by hand, in a debugger: ``SURVEY.do("out/.runs/ab12-34cd", 3)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from distsvc.errors import TemporaryError
from distsvc.job.config import ClusterConfig
from distsvc.run.work.checkpoints import TaskCheckpoints
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import ANYWHERE, ClusterAddress
from distsvc.run.work.workers.cluster import Workers, connected, workers_of
from distsvc.run.work.workers.fanout import fan_out

NAMED = 10
"""Missing results that an error names."""

Task = Callable[..., Result]
"""A function of run directory and number; if sequential, of its `TaskCheckpoints` besides."""

Work = Callable[[TaskCheckpoints], Result]
"""Work of the driver, or of a sequential task, from its last checkpoint on."""


@dataclass(frozen=True)
class Phase:
    """A task by name; its results are ``<name>/00000``, ``<name>/00001`` and so on.

    A task reads the run's directory and, where numbers are partitions, its own rows. It is a
    function of a module, or a `functools.partial` of one, so that it can be sent to a worker.
    A `sequential` one may take long for a single number, and gets what it can go on from.
    """

    name: str
    task: Task
    sequential: bool = False

    def do(self, run_dir: str, number: int) -> int:
        """Do one number and write its result; return the rows that it handled."""
        run, name = RunDirectory(run_dir), self.result(number)
        if self.sequential:
            return _checkpointed(run, name, partial(self.task, run, number)).rows
        result = self.task(run, number)
        run.write(name, result)
        return result.rows

    def result(self, number: int) -> str:
        """Return the name of a number's result."""
        return f"{self.name}/{number:05d}"


@dataclass(frozen=True)
class Steps:
    """The needs of every step of a run: its directory, its partitions, the workers, the display."""

    run: RunDirectory
    client: Any
    progress: Progress

    @property
    def n_partitions(self) -> int:
        """Partitions of the table."""
        return len(self.run.plan.partitions)

    @property
    def workers(self) -> Workers:
        """The workers that there are now; `TemporaryError` where the scheduler does not answer."""
        return workers_of(self.client)

    def map(self, phase: Phase, n: int | None = None) -> Iterator[Result]:
        """Do a phase for every partition, or for the numbers below n, as far as it is not done.

        Yields all its results in the order of their numbers, each as soon as it and all before it
        are there, while later ones are still worked on. Nothing is begun before the first is asked
        for, and nothing goes on where the rest are not: `do` is for those who want no results. The
        phase lasts until the last result is read.

        `LostWorkError` where a result is not there although its task ended well, or damaged: the
        disk or the store lost it. Besides what `fan_out` raises.
        """
        for number in self._numbers(phase, n):
            yield self.run.load(phase.result(number))

    def do(self, phase: Phase, n: int | None = None) -> None:
        """Do a phase like `map`, whose errors it raises, without reading its results."""
        self._check_there(phase, list(self._numbers(phase, n)))

    def work_out(self, name: str, function: Work) -> Result:
        """Do once what the driver works out between phases; return the result, as read back."""
        if not self.run.has(name):
            with self.progress.phase(name) as meter:
                meter.rows = _checkpointed(self.run, name, function).rows
        return self.run.read(name)

    def _numbers(self, phase: Phase, n: int | None) -> Iterator[int]:
        """Do what is missing of a phase; yield its numbers, each when all before it are done."""
        n = self.n_partitions if n is None else n
        missing = self._missing(phase, range(n))
        with self.progress.phase(phase.name) as meter:
            meter.begin(n, n - len(missing))
            done = fan_out(self.client, phase.do, self.run.task_address, missing, meter)
            yield from in_order(n, missing, done)

    def _missing(self, phase: Phase, numbers: Iterable[int]) -> list[int]:
        there = set(self.run.names(phase.name))
        return [number for number in numbers if phase.result(number) not in there]

    def _check_there(self, phase: Phase, numbers: list[int]) -> None:
        missing = self._missing(phase, numbers)
        if missing:
            named = ", ".join(map(str, missing[:NAMED]))
            more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
            where = self.run.address
            raise TemporaryError(f"{phase.name}: results {named}{more} are not in {where}")


def in_order(n: int, missing: Iterable[int], finished: Iterable[int]) -> Iterator[int]:
    """Yield the numbers below n in order, each once neither it nor one before it is missing.

    `finished` has the missing numbers in the order in which they are done.
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
    run: RunDirectory, progress: Progress, config: ClusterConfig, at: ClusterAddress = ANYWHERE
) -> Iterator[Steps]:
    """Yield the steps of a run that is planned, on the cluster that `cluster.connected` finds."""
    with connected(config, run.plan.table.nbytes, progress, at) as client:
        yield Steps(run, client, progress)


def _checkpointed(run: RunDirectory, name: str, function: Work) -> Result:
    """Write the result of what goes on from its checkpoints; they are not needed afterwards."""
    checkpoints = TaskCheckpoints(run, name)
    result = function(checkpoints)
    run.write(name, result)
    checkpoints.remove()
    return result
