"""Events of the workers of a cluster while tasks are under way."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from distsvc.errors import TemporaryError
from distsvc.run.work.progress import Meter

LOOK_SECONDS = 5.0
"""The time between two looks at the workers, and the time a scheduler has for an answer."""

IDLE_SECONDS = 120.0
"""The time that no worker may run, or the scheduler not answer, before a run is given up."""

SILENT_SECONDS, MOVED_SECONDS = 30.0, 120.0
"""Seconds without a heartbeat of a worker until a message, and until its work is moved."""


class WorkerSeen(NamedTuple):
    """A worker as its scheduler sees it; bytes of memory in use, and their limit or 0."""

    threads: int
    status: str
    used: int
    limit: int
    last_seen: float = 0.0

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> WorkerSeen:
        """Return the worker that a scheduler's answer tells of."""
        used, limit = told.get("metrics", {}).get("memory", 0), told.get("memory_limit") or 0
        seen = told.get("last_seen", 0.0)
        return cls(told.get("nthreads", 0), told["status"], used, limit, seen)


class WorkerWatch:
    """Asks the scheduler for its workers now and then, and gives up where none of them runs.

    A worker near its memory limit is paused: it is alive, and whoever waits for it waits for ever.
    """

    def __init__(self, client: Any, meter: Meter):
        self._client, self._meter = client, meter
        self._next_look = self._last_running = time.monotonic()
        self._status: dict[str, str] = {}
        self._heard: dict[str, tuple[float, float]] = {}
        self._named: set[str] = set()

    def threads(self) -> int:
        """Return the number of threads of all workers."""
        return sum(worker.threads for worker in self._workers(IDLE_SECONDS).values())

    def next_of(self, done: SimpleQueue[Any]) -> Any:
        """Wait for an item of a queue, and look at the workers now and then; raises as `look`."""
        while True:
            self.look()
            with suppress(Empty):
                return done.get(timeout=LOOK_SECONDS)

    def look(self) -> None:
        """Tell which workers were paused or lost since the last look, if that is due.

        `TemporaryError` where for `IDLE_SECONDS` no worker has run, or the scheduler has not
        answered.
        """
        if time.monotonic() < self._next_look:
            return
        try:
            workers = self._workers(LOOK_SECONDS)
        except TimeoutError:
            matter = "the scheduler does not answer"
        else:
            self._tell(workers)
            silent = self._silent(workers)
            if any(one.status == "running" for name, one in workers.items() if name not in silent):
                self._last_running = time.monotonic()
            matter = _matter(workers)
        idle = time.monotonic() - self._last_running
        if idle > IDLE_SECONDS:
            raise TemporaryError(f"{self._meter.name}: for {idle:.0f} s, {matter}")
        self._next_look = time.monotonic() + LOOK_SECONDS

    def _workers(self, seconds: float) -> dict[str, WorkerSeen]:
        ask = self._client.scheduler.identity
        found = self._client.sync(ask, n_workers=-1, callback_timeout=seconds)["workers"]
        return {address: WorkerSeen.of(worker) for address, worker in found.items()}

    def _silent(self, workers: dict[str, WorkerSeen]) -> set[str]:
        """Return the workers without a heartbeat for `MOVED_SECONDS`, whose work is moved.

        A worker that is frozen, or whose network is gone, keeps its tasks until the scheduler
        gives it up, after minutes. The time is this process's: no clocks are compared.
        """
        now, silent = time.monotonic(), set[str]()
        for address, worker in workers.items():
            seen, since = self._heard.get(address, (None, now))
            if seen != worker.last_seen:
                self._heard[address] = worker.last_seen, now
                self._named.discard(address)
                continue
            told = {"address": address, "seconds": now - since, "limit": MOVED_SECONDS}
            if now - since > MOVED_SECONDS:
                silent.add(address)
                self._heard[address] = worker.last_seen, now  # again, should this one fail
                self._meter.event("worker given up", **told)
                self._give_up(address)
            elif now - since > SILENT_SECONDS and address not in self._named:
                self._named.add(address)
                self._meter.event("worker silent", **told)
        return silent

    def _give_up(self, address: str) -> None:
        """Have the scheduler remove a worker, so that others do its tasks."""
        retire = self._client.scheduler.retire_workers
        with suppress(TimeoutError):
            self._client.sync(
                retire, workers=[address], close_workers=False, remove=True,
                callback_timeout=LOOK_SECONDS,
            )  # fmt: skip

    def _tell(self, workers: dict[str, WorkerSeen]) -> None:
        status = {address: worker.status for address, worker in workers.items()}
        for address in self._status | status:
            before, now = self._status.get(address), status.get(address, "lost")
            if now != (before or "running"):
                self._meter.event("worker", address=address, status=now)
        self._status = status


def _matter(workers: dict[str, WorkerSeen]) -> str:
    paused = [worker for worker in workers.values() if worker.status == "paused"]
    if not paused:
        return "no worker is left"
    worst = max(paused, key=lambda worker: worker.used / (worker.limit or 1))
    used, limit = worst.used, worst.limit
    share = f" at {used / limit:.0%} of their limit of {limit / 1e6:.0f} MB" if limit else ""
    return (
        f"all workers are paused for want of memory{share}: raise the limit,"
        " or lower cluster.partition_rows or cluster.block_rows"
    )
