"""A phase: the same task for every number of a range, and results that are written once.

So what is done is not done again, and what is missing can be named. While a run lasts, one number
can be done by hand, in a debugger: ``SURVEY.do("out/.runs/ab12-34cd", 3)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from distsvc.config import ClusterConfig
from distsvc.errors import JobFileError, TemporaryError
from distsvc.run.cluster import connected
from distsvc.run.directory import Result, RunDirectory
from distsvc.run.fanout import fan_out
from distsvc.run.progress import Progress
from distsvc.urls import is_private, shown_url

NAMED = 10
"""Missing results that an error names."""

Task = Callable[[RunDirectory, int], Result]


@dataclass(frozen=True)
class Phase:
    """A task by name; its results are ``<name>/00000``, ``<name>/00001`` and so on.

    A task reads the run's directory and, where numbers are partitions, its own rows. It is a
    function of a module, or a `functools.partial` of one, so that it can be sent to a worker.
    """

    name: str
    task: Task

    def do(self, run_dir: str, number: int) -> int:
        """Do one number and write its result; return the rows that it handled."""
        run = RunDirectory(run_dir)
        result = self.task(run, number)
        run.write(self.result(number), result)
        return result.rows

    def result(self, number: int) -> str:
        """Return the name of a number's result."""
        return f"{self.name}/{number:05d}"


@dataclass(frozen=True)
class Steps:
    """What every step of a run needs: its directory, its partitions, the workers, the display."""

    run: RunDirectory
    client: Any
    progress: Progress

    @property
    def n_partitions(self) -> int:
        """Partitions of the table."""
        return len(self.run.plan.partitions)

    def map(self, phase: Phase, n: int | None = None) -> Iterator[Result]:
        """Do a phase for every partition, or for the numbers below n, as far as it is not done.

        Returns an iterator over all its results, in the order of their numbers.

        Raises
        ------
        TemporaryError
            A result is not there although its task ended well: the store lost it. Besides what
            `fan_out` raises.

        """
        numbers = range(self.n_partitions if n is None else n)
        missing = self._missing(phase, numbers)
        with self.progress.phase(phase.name) as meter:
            fan_out(self.client, phase.do, str(self.run.path.absolute()), missing, meter)
        missing = self._missing(phase, missing)
        if missing:
            named = ", ".join(map(str, missing[:NAMED]))
            more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
            raise TemporaryError(f"{phase.name}: results {named}{more} are not in {self.run.path}")
        return (self.run.load(phase.result(number)) for number in numbers)

    def work_out(self, name: str, function: Callable[[], Result]) -> Result:
        """Do once what the driver works out between phases; return the result, as read back."""
        if not self.run.has(name):
            with self.progress.phase(name) as meter:
                result = function()
                meter.rows = result.rows
                self.run.write(name, result)
        return self.run.read(name)

    def _missing(self, phase: Phase, numbers: range | list[int]) -> list[int]:
        return [number for number in numbers if not self.run.has(phase.result(number))]


@contextmanager
def steps_on(
    run: RunDirectory,
    progress: Progress,
    config: ClusterConfig,
    n_bytes: int,
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    require_tls: bool = False,
) -> Iterator[Steps]:
    """Yield the steps of a run on the cluster that `cluster.connected` finds.

    `JobFileError` where its workers were not started here and the input's URL holds secrets.
    """
    where = scheduler, scheduler_file, require_tls
    with connected(config, n_bytes, progress, *where) as client:
        if client is not None and client.cluster is None:
            _check_sendable(run.plan.table.source)
        yield Steps(run, client, progress)


def _check_sendable(source: str) -> None:
    if is_private(source):
        raise JobFileError(
            f"input.path: the secrets of {shown_url(source)} are not sent to the workers of a "
            "scheduler; give them to workers and driver alike, by their environment or their "
            "configuration of fsspec, and leave them out of the URL"
        )
