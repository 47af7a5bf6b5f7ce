"""The same function on every number of a list: a loop without a cluster, else Dask futures."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any

from distsvc.errors import DistsvcError, PartitionFailedError
from distsvc.run.cluster import Versions, compare_versions, loss_is_temporary, losses, versions
from distsvc.run.progress import Meter, peak_memory_mb
from distsvc.run.watch import Watch

IN_FLIGHT = 4
"""Tasks under way for each thread of the cluster, so that none waits for the driver."""

Task = Callable[[str, int], int]


def fan_out(client: Any, task: Task, run_dir: str, numbers: Iterable[int], meter: Meter) -> None:
    """Call ``task(run_dir, number)`` for every number; results are the files that tasks write.

    A task returns the number of rows it handled. Numbers ascend and are begun in order, and none
    after a task that found its data or the job at fault. One that fails for a reason that is not
    the data's is tried once more, alone, after the others, since beside a task that kills its
    worker an innocent one can be blamed.

    Raises
    ------
    DistsvcError
        What a task raised, the lowest number's first.
    PartitionFailedError
        A task failed twice; it is named.
    TemporaryError
        The scheduler is gone or silent, or no worker has run for two minutes.

    """
    numbers = list(numbers)
    meter.begin(len(numbers))
    attempts = _locally if client is None else _on_cluster
    failed: dict[int, BaseException] = {}
    for number, outcome in attempts(client, task, run_dir, numbers, meter):
        if isinstance(outcome, BaseException):
            failed[number] = outcome
        else:
            meter.finished(*outcome)
    for number in sorted(failed):
        _raise_or_tell(failed[number], number, meter)
        [(_, outcome)] = attempts(client, task, run_dir, [number], meter)
        if isinstance(outcome, BaseException):
            _raise_or_tell(outcome, number, meter)
            what = f"{meter.name}: partition {number} failed twice: {_why(outcome)}"
            raise PartitionFailedError(what) from outcome
        meter.finished(*outcome)


def _raise_or_tell(error: BaseException, number: int, meter: Meter) -> None:
    """Raise an error that is told in a line; the traceback of another is logged."""
    if isinstance(error, DistsvcError):
        raise error
    what = f"{type(error).__name__}: {error}"
    meter.event("task failed", error, partition=number, error=what)


def _why(error: BaseException) -> str:
    what = f"{type(error).__name__}: {error}"
    if type(error).__name__ == "KilledWorker":
        what += (
            " This is what happens when memory does not suffice: raise the workers' memory limit,"
            " or lower cluster.partition_rows or cluster.block_rows"
        )
    return what


def _measured(
    task: Task, run_dir: str, number: int, expected: Versions | None = None
) -> tuple[int, float]:
    if expected is not None and expected != versions():
        from distributed import get_worker

        compare_versions(get_worker().address, expected, versions())
    return task(run_dir, number), peak_memory_mb()


def _locally(
    client: Any, task: Task, run_dir: str, numbers: list[int], meter: Meter
) -> Iterator[tuple[int, Any]]:
    for number in numbers:
        try:
            rows, _ = _measured(task, run_dir, number)
            yield number, (rows, 0.0)
        except DistsvcError as error:
            yield number, error
            return
        except Exception as error:
            yield number, error


def _on_cluster(
    client: Any, task: Task, run_dir: str, numbers: list[int], meter: Meter
) -> Iterator[tuple[int, Any]]:
    waiting = iter(numbers)
    token = f"{meter.name}-{time.time_ns()}"
    number_of: dict[Any, int] = {}
    done: SimpleQueue[Any] = SimpleQueue()
    expected = None if client.cluster else versions()  # a cluster of ours is of our versions

    def submit(number: int) -> None:
        key = f"{token}-{number}"
        future = client.submit(_measured, task, run_dir, number, expected, key=key, pure=False)
        number_of[future] = number
        future.add_done_callback(done.put)

    with loss_is_temporary("the cluster was lost"):
        watch = Watch(client, meter)
        for number in itertools.islice(waiting, IN_FLIGHT * max(watch.threads(), 1)):
            submit(number)
        while number_of:
            future = watch.next_of(done)
            number, outcome = number_of.pop(future), _outcome(future)
            if isinstance(outcome, DistsvcError):
                waiting = iter(())
            yield number, outcome
            future.release()
            for following in itertools.islice(waiting, 1):
                submit(following)


def _outcome(future: Any) -> Any:
    """Return the result of a task or what it raised, with its traceback.

    Raises what happened to the cluster instead.
    """
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, losses()):
        raise error
    return error.with_traceback(future.traceback())
