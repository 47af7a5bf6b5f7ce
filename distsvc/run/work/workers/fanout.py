"""Calls a function for every number of a list: in a loop, or by Dask futures."""

import glob
import os
import pickle
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from distsvc.errors import DistsvcError, PartitionFailedError, TemporaryError
from distsvc.errors.faults import classify_error
from distsvc.models.rows.threads import compile_seconds
from distsvc.run.work.directory import PLAN, RunDirectory
from distsvc.run.work.progress import HERE, Meter, peak_memory_mb
from distsvc.run.work.workers.cluster import (
    CLUSTER_PATIENCE,
    Versions,
    compare_versions,
    loss_is_temporary,
    losses,
    versions,
)

if TYPE_CHECKING:
    from distributed import Client, Future

IN_FLIGHT = 4
"""Dask tasks in flight for each thread of the cluster, so that no thread waits for the driver."""

GROUP_SECONDS = 0.25
"""Target duration of a Dask task in seconds; short calls are grouped into a task to reach it."""

Task = Callable[[str, int], int]


class TaskOutcome(NamedTuple):
    """The result of calling a task with a number: rows or an error, and costs."""

    number: int
    rows: int = 0  # processed rows
    error: BaseException | None = None
    worker: str = HERE
    peak_mb: float = 0.0  # peak memory of the worker
    compile_s: float = 0.0  # seconds of compilation


def fan_out(
    client: "Client | None", task: Task, run_dir: str, numbers: Iterable[int], meter: Meter
) -> Iterator[int]:
    """Call ``task(run_dir, number)`` for every number; yield each number when it is done.

    Tasks start in order, write their results to files, and return the number of rows processed.
    After a `DistsvcError`, no further task starts, and the error of the lowest number is raised.
    After any other error, the task runs again, alone, when all others have ended: another task may
    have killed its worker. If it fails again, `PartitionFailedError` is raised.
    `TemporaryError` is raised if the cluster is lost or silent, or a disk or store failed twice.
    """

    def attempts(numbers: list[int]) -> Iterator[TaskOutcome]:
        if client is None:
            return _one_by_one(task, run_dir, numbers)
        return _on_cluster(client, task, run_dir, numbers, meter)

    failed: dict[int, TaskOutcome] = {}
    for outcome in attempts(list(numbers)):
        if outcome.error is not None:
            failed[outcome.number] = outcome
        else:
            yield _finished(outcome, 1, meter)
    for number in sorted(failed):
        _raise_or_log(failed[number], 1, meter)
        [outcome] = attempts([number])
        if outcome.error is not None:
            _raise_or_log(outcome, 2, meter)
            name, error = type(outcome.error).__name__, outcome.error
            what = f"{meter.name}: partition {number} failed twice: {name}: {error}"
            if name == "KilledWorker":
                what += (
                    " The usual cause is too little memory: raise the workers' memory limit, or "
                    "lower cluster.partition_rows or cluster.block_rows"
                )
            away = isinstance(classify_error(error), TemporaryError)
            raise (TemporaryError if away else PartitionFailedError)(what) from error
        meter.event("task repeated", partition=number, worker=outcome.worker, attempt=2)
        yield _finished(outcome, 2, meter)


def _finished(outcome: TaskOutcome, attempt: int, meter: Meter) -> int:
    number, rows, _, worker, peak_mb, compile_s = outcome
    meter.finished(rows, peak_mb, compile_s, partition=number, worker=worker, attempt=attempt)
    return number


def _raise_or_log(outcome: TaskOutcome, attempt: int, meter: Meter) -> None:
    """Raise a `DistsvcError`; log any other error with its traceback."""
    number, error = outcome.number, outcome.error
    if isinstance(error, DistsvcError):
        raise error
    what, worker = f"{type(error).__name__}: {error}", outcome.worker
    where = {"partition": number, "worker": worker, "attempt": attempt}
    meter.event("task failed", error, **where, error=what)


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


def _on_cluster(
    client: "Client", task: Task, run_dir: str, numbers: list[int], meter: Meter
) -> Iterator[TaskOutcome]:
    waiting = deque(numbers)
    token = f"{meter.name}-{time.time_ns()}"
    group_of: dict[Future, list[int]] = {}
    done: SimpleQueue[Future] = SimpleQueue()
    expected = None if client.cluster else versions()  # local workers have the same code
    compares_paths = expected is not None and not unseen_path(run_dir)

    def submit(size: int) -> None:
        group = [waiting.popleft() for _ in range(min(size, len(waiting)))]
        if group:
            call = _on_worker, task, run_dir, group, expected, compares_paths
            key = f"{token}-{group[0]}"
            future = client.submit(*call, key=key, pure=False)
            group_of[future] = group
            future.add_done_callback(done.put)

    with loss_is_temporary("lost the connection to the Dask scheduler or workers"):
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
    """Check versions and paths, run a group of tasks; return outcomes and duration in seconds."""
    from distributed import get_worker

    address, began = get_worker().address, time.perf_counter()
    if expected is not None and expected != versions():
        compare_versions(address, expected, versions())
    unseen = unseen_path(run_dir) if compares_paths else ""
    if unseen:
        error = TemporaryError(
            f"worker {address} can't see {unseen}, which the driver can: make it visible to all "
            "workers at the same path, and start again; finished work is kept"
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
    """Return a local path of a run that this process can't see, or an empty text."""
    run = RunDirectory(run_dir)
    if "://" in run.address:
        return ""
    if not run.is_planned:
        return f"{run.address}/{PLAN}"
    for path in filter(os.path.isabs, run.plan.table.sources):
        if not os.path.exists(path) and next(glob.iglob(path), None) is None:
            return path
    return ""


def _sendable(error: BaseException | None) -> BaseException | None:
    """Return an error that can be pickled: the same error, or a `RuntimeError` with its text.

    If the error is no `DistsvcError`, its traceback is added as a note.
    """
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


def _outcomes(future: "Future", group: list[int]) -> tuple[list[TaskOutcome], float]:
    """Return the outcomes of a group of numbers and its duration in seconds."""
    # If its worker was lost, all numbers of the group failed.
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, losses()):
        raise error
    error = error.with_traceback(future.traceback())
    worker = getattr(getattr(error, "last_worker", None), "address", "unknown")
    return [TaskOutcome(number, error=error, worker=worker) for number in group], GROUP_SECONDS


States = dict[str, dict[str, Any]]
"""The scheduler's answer about each worker, by address."""


class WorkerWatch:
    """Checks the workers, and ends the run if none of them works.

    A worker near its memory limit is paused: it is alive, but never finishes.
    """

    def __init__(self, client: "Client", meter: Meter):
        self._client, self._meter = client, meter
        self._next_look = self._last_running = time.monotonic()
        self._status: dict[str, str] = {}
        self._heard: dict[str, tuple[float, float]] = {}
        self._named: set[str] = set()

    def threads(self) -> int:
        return sum(of["nthreads"] for of in self._workers(CLUSTER_PATIENCE.work).values())

    def next_of(self, done: "SimpleQueue[Future]") -> "Future":
        """Return the next finished task of a queue; call `look` while waiting."""
        while True:
            self.look()
            with suppress(Empty):
                return done.get(timeout=CLUSTER_PATIENCE.answer)

    def look(self) -> None:
        """Check the workers if a check is due: log changes, raise if none has worked for long."""
        if time.monotonic() < self._next_look:
            return
        try:
            workers = self._workers(CLUSTER_PATIENCE.answer)
        except TimeoutError:
            matter = "the scheduler does not answer"
        else:
            status = {address: of["status"] for address, of in workers.items()}
            for address in self._status | status:
                before, now = self._status.get(address), status.get(address, "lost")
                if now != (before or "running"):
                    self._meter.event("worker", address=address, status=now)
            self._status = status
            silent = self._silent(workers)
            if any(state == "running" for name, state in status.items() if name not in silent):
                self._last_running = time.monotonic()
            matter = _idle_reason(workers)
        idle = time.monotonic() - self._last_running
        if idle > CLUSTER_PATIENCE.work:
            raise TemporaryError(f"{self._meter.name}: no work for {idle:.0f} s: {matter}")
        self._next_look = time.monotonic() + CLUSTER_PATIENCE.answer

    def _workers(self, seconds: float) -> States:
        ask = self._client.scheduler.identity
        found: States = self._client.sync(ask, n_workers=-1, callback_timeout=seconds)["workers"]
        return found

    def _silent(self, workers: States) -> set[str]:
        """Return the workers without a heartbeat for `Patience.heartbeat`; their work is moved."""
        # The scheduler itself would wait for minutes. Only the clock of this process is used.
        now, silent = time.monotonic(), set[str]()
        for address, worker in workers.items():
            seen = worker.get("last_seen", 0.0)
            before, since = self._heard.get(address, (None, now))
            if seen != before:
                self._heard[address] = seen, now
                self._named.discard(address)
                continue
            limit = CLUSTER_PATIENCE.heartbeat
            fields = {"address": address, "seconds": now - since, "limit": limit}
            if now - since > limit:
                silent.add(address)
                self._heard[address] = seen, now  # repeat later, if this fails
                self._meter.event("worker given up", **fields)
                retire = self._client.scheduler.retire_workers
                with suppress(TimeoutError):
                    self._client.sync(
                        retire, workers=[address], close_workers=False, remove=True,
                        callback_timeout=CLUSTER_PATIENCE.answer,
                    )  # fmt: skip
            elif now - since > CLUSTER_PATIENCE.contact and address not in self._named:
                self._named.add(address)
                self._meter.event("worker silent", **fields)
        return silent


def _idle_reason(workers: States) -> str:
    paused = [of for of in workers.values() if of["status"] == "paused"]
    if not paused:
        return "all workers are gone: start workers, then the same command; work is kept"
    sizes = [(of.get("metrics", {}).get("memory", 0), of["memory_limit"] or 0) for of in paused]
    used, limit = max(sizes, key=lambda one: one[0] / (one[1] or 1))
    share = f" at {used / limit:.0%} of their limit of {limit / 1e6:.0f} MB" if limit else ""
    return (
        f"all workers are paused for want of memory{share}: raise the workers' memory limit,"
        " or lower cluster.partition_rows or cluster.block_rows"
    )
