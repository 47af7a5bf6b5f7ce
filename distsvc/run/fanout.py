"""The same function on every number of a list: a loop without a cluster, else Dask futures."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from distsvc.errors import DistsvcError, PartitionFailedError, TemporaryError
from distsvc.run.progress import Meter, peak_memory_mb

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
        The scheduler is gone or has no workers.

    """
    numbers = list(numbers)
    meter.begin(len(numbers))
    attempts = _locally if client is None else _on_cluster
    failed: dict[int, BaseException] = {}
    for number, outcome in attempts(client, task, run_dir, numbers, meter.name):
        if isinstance(outcome, BaseException):
            failed[number] = outcome
        else:
            meter.finished(*outcome)
    for number in sorted(failed):
        error = failed[number]
        if isinstance(error, DistsvcError):
            raise error
        [(_, outcome)] = attempts(client, task, run_dir, [number], meter.name)
        if isinstance(outcome, DistsvcError):
            raise outcome
        if isinstance(outcome, BaseException):
            raise PartitionFailedError(
                f"{meter.name}: partition {number} failed twice: "
                f"{type(outcome).__name__}: {outcome}"
            ) from outcome
        meter.finished(*outcome)


def _measured(task: Task, run_dir: str, number: int) -> tuple[int, float]:
    return task(run_dir, number), peak_memory_mb()


def _locally(
    client: Any, task: Task, run_dir: str, numbers: list[int], name: str
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
    client: Any, task: Task, run_dir: str, numbers: list[int], name: str
) -> Iterator[tuple[int, Any]]:
    from distributed import CancelledError, as_completed
    from distributed.comm import CommClosedError
    from distributed.scheduler import NoValidWorkerError, NoWorkerError

    lost = (CancelledError, CommClosedError, NoValidWorkerError, NoWorkerError)
    waiting = iter(numbers)
    token = f"{name}-{time.time_ns()}"

    def submit(number: int) -> Any:
        key = f"{token}-{number}"
        return client.submit(_measured, task, run_dir, number, key=key, pure=False)

    try:
        under_way = IN_FLIGHT * max(sum(client.nthreads().values()), 1)
        number_of = {submit(n): n for n in itertools.islice(waiting, under_way)}
        done = as_completed(list(number_of), loop=client.loop)
        for future in done:
            number = number_of.pop(future)
            error = future.exception()
            if isinstance(error, lost):
                raise error
            if isinstance(error, DistsvcError):
                waiting = iter(())
            yield number, future.result() if error is None else error
            future.release()
            for following in waiting:
                fresh = submit(following)
                number_of[fresh] = following
                done.add(fresh)
                break
    except (*lost, TimeoutError, OSError) as error:
        raise TemporaryError(f"the cluster was lost: {type(error).__name__}: {error}") from error
