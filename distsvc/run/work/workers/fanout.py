"""The same function on every number of a list: a loop without a cluster, else Dask futures."""

from __future__ import annotations

import glob
import os
import pickle
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any, NamedTuple

from distsvc.errors import DistsvcError, PartitionFailedError, TemporaryError
from distsvc.errors.faults import classify_error
from distsvc.models.rows.threads import compile_seconds
from distsvc.run.work.directory import PLAN, RunDirectory
from distsvc.run.work.progress import HERE, Meter, peak_memory_mb
from distsvc.run.work.workers.cluster import (
    Versions,
    compare_versions,
    loss_is_temporary,
    losses,
    versions,
)
from distsvc.run.work.workers.losses import WorkerWatch

IN_FLIGHT = 4
"""Dask tasks under way for each thread of the cluster, so that none waits for the driver."""

GROUP_SECONDS = 0.25
"""The least duration of a Dask task where numbers are many: each costs the scheduler 5 ms."""

Task = Callable[[str, int], int]


class TaskOutcome(NamedTuple):
    """Result of a task: rows or error, worker, its peak memory, and seconds of compiling."""

    number: int
    rows: int = 0
    error: BaseException | None = None
    worker: str = HERE
    peak_mb: float = 0.0
    compile_s: float = 0.0


def fan_out(
    client: Any, task: Task, run_dir: str, numbers: Iterable[int], meter: Meter
) -> Iterator[int]:
    """Call ``task(run_dir, number)`` for every number; yield each number when it is done.

    Results are the files that tasks write; a task returns the number of rows it handled. Numbers
    ascend and are begun in order, and none after a task that found its data or the job at fault.
    One that fails for a reason that is not the data's is tried once more, alone, after the others,
    since beside a task that kills its worker an innocent one can be blamed.

    `DistsvcError` is what a task raised, the lowest number's first; `PartitionFailedError` names a
    task that failed twice; `TemporaryError` says that the scheduler is gone or silent, that no
    worker has run for two minutes, or that a disk or a store did not answer twice.
    """
    attempts = _locally if client is None else _on_cluster
    failed: dict[int, TaskOutcome] = {}
    for outcome in attempts(client, task, run_dir, list(numbers), meter):
        if outcome.error is not None:
            failed[outcome.number] = outcome
        else:
            yield _finished(outcome, 1, meter)
    for number in sorted(failed):
        _raise_or_tell(failed[number], 1, meter)
        [outcome] = attempts(client, task, run_dir, [number], meter)
        if outcome.error is not None:
            _raise_or_tell(outcome, 2, meter)
            what = f"{meter.name}: partition {number} failed twice: {_why(outcome.error)}"
            away = isinstance(classify_error(outcome.error), TemporaryError)
            raise (TemporaryError if away else PartitionFailedError)(what) from outcome.error
        meter.event("task repeated", partition=number, worker=outcome.worker, attempt=2)
        yield _finished(outcome, 2, meter)


def _finished(outcome: TaskOutcome, attempt: int, meter: Meter) -> int:
    number, rows, _, worker, peak_mb, compile_s = outcome
    meter.finished(rows, peak_mb, compile_s, partition=number, worker=worker, attempt=attempt)
    return number


def _raise_or_tell(outcome: TaskOutcome, attempt: int, meter: Meter) -> None:
    """Raise an error that is told in a line; the traceback of another is logged."""
    number, error = outcome.number, outcome.error
    if isinstance(error, DistsvcError):
        raise error
    what, worker = f"{type(error).__name__}: {error}", outcome.worker
    where = {"partition": number, "worker": worker, "attempt": attempt}
    meter.event("task failed", error, **where, error=what)


def _why(error: BaseException) -> str:
    what = f"{type(error).__name__}: {error}"
    if type(error).__name__ == "KilledWorker":
        what += (
            " This is what happens when memory does not suffice: raise the workers' memory limit,"
            " or lower cluster.partition_rows or cluster.block_rows"
        )
    return what


def _one_by_one(task: Task, run_dir: str, numbers: list[int]) -> Iterator[TaskOutcome]:
    for number in numbers:
        before = compile_seconds()
        try:
            rows = task(run_dir, number)
            outcome = TaskOutcome(number, rows, compile_s=compile_seconds() - before)
        except Exception as error:
            outcome = TaskOutcome(number, error=error)
        yield outcome
        if isinstance(outcome.error, DistsvcError):
            return


def _locally(
    client: Any, task: Task, run_dir: str, numbers: list[int], meter: Meter
) -> Iterator[TaskOutcome]:
    return _one_by_one(task, run_dir, numbers)


def _on_cluster(
    client: Any, task: Task, run_dir: str, numbers: list[int], meter: Meter
) -> Iterator[TaskOutcome]:
    waiting = deque(numbers)
    token = f"{meter.name}-{time.time_ns()}"
    group_of: dict[Any, list[int]] = {}
    done: SimpleQueue[Any] = SimpleQueue()
    expected = None if client.cluster else versions()  # a cluster of ours is of our versions
    compares_paths = expected is not None and not unseen_path(run_dir)

    def submit(size: int) -> None:
        group = [waiting.popleft() for _ in range(min(size, len(waiting)))]
        if group:
            call = _on_worker, task, run_dir, group, expected, compares_paths
            key = f"{token}-{group[0]}"
            future = client.submit(*call, key=key, pure=False)
            group_of[future] = group
            future.add_done_callback(done.put)

    with loss_is_temporary("the cluster was lost"):
        watch = WorkerWatch(client, meter)
        window, size = IN_FLIGHT * max(watch.threads(), 1), 1
        for _ in range(window):
            submit(size)
        while group_of:
            future = watch.next_of(done)
            group = group_of.pop(future)
            outcomes, seconds = _outcomes(future, group)
            future.release()
            if any(isinstance(outcome.error, DistsvcError) for outcome in outcomes):
                waiting.clear()
            wanted = int(GROUP_SECONDS * len(group) / max(seconds, 1e-6))
            size = max(1, min(2 * size, wanted, len(waiting) // (2 * window)))
            submit(size)
            yield from outcomes


def _on_worker(
    task: Task,
    run_dir: str,
    numbers: list[int],
    expected: Versions | None,
    compares_paths: bool = False,
) -> tuple[list[TaskOutcome], float]:
    """Return what became of a group of numbers, and the seconds that it took."""
    from distributed import get_worker

    address, began = get_worker().address, time.perf_counter()
    if expected is not None and expected != versions():
        compare_versions(address, expected, versions())
    unseen = unseen_path(run_dir) if compares_paths else ""
    if unseen:
        error = TemporaryError(
            f"worker {address} does not see {unseen}, which is there for the driver: make it "
            "visible to all workers at the same path, and start again; what was done is kept"
        )
        return [TaskOutcome(numbers[0], error=error, worker=address)], 0.0
    found = [
        one._replace(error=_sendable(one.error), worker=address)
        for one in _one_by_one(task, run_dir, numbers)
    ]
    peak_mb = peak_memory_mb()
    outcomes = [one._replace(peak_mb=peak_mb) for one in found]
    return outcomes, time.perf_counter() - began


def unseen_path(run_dir: str) -> str:
    """Return a local path of a run that this process does not see; empty if it sees all.

    The driver has written the plan, and has found all tables in it.
    """
    run = RunDirectory(run_dir)
    if "://" in run.address:
        return ""
    if not run.is_planned:
        return f"{run.address}/{PLAN}"
    paths = run.plan.table.sources
    return next((one for one in paths if os.path.isabs(one) and not seen_path(one)), "")


def seen_path(path: str) -> bool:
    """Return True if something is at a path, or a glob leads anywhere."""
    return os.path.exists(path) or next(glob.iglob(path), None) is not None


def _sendable(error: BaseException | None) -> BaseException | None:
    """Return an error as it can be sent: where it is one to be logged, its traceback is a note."""
    if error is None:
        return None
    if not isinstance(error, DistsvcError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        shown = RuntimeError(f"{type(error).__name__}: {error}")
        for note in error.__notes__:
            shown.add_note(note)
        return shown
    return error


def _outcomes(future: Any, group: list[int]) -> tuple[list[TaskOutcome], float]:
    """Return what became of a group of numbers, all of which may be to blame for a lost worker.

    Raises what happened to the cluster instead.
    """
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, losses()):
        raise error
    error = error.with_traceback(future.traceback())
    worker = getattr(getattr(error, "last_worker", None), "address", "unknown")
    return [TaskOutcome(number, error=error, worker=worker) for number in group], GROUP_SECONDS
