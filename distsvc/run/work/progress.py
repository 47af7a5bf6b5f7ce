"""Progress of a run: its events and phases, how far they are, and what the report says of them.

Events are records of the logger ``distsvc``, whose message is the event's name and whose attribute
``fields`` is a dictionary. A `Progress` shows its own and those of no other, such as a store's, as
its `Display` says; whoever runs a job from Python can attach other handlers.

The time left of a phase follows from the tasks that are done.
"""

from __future__ import annotations

import datetime
import logging
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from distsvc.report.content.report import PhaseCost
from distsvc.run.work.shown.display import LOG, attached, shown, terminal_bar
from distsvc.run.work.start import Display
from distsvc.storage.places.lease import Doing

if TYPE_CHECKING:
    from distsvc.run.work.shown.bars import WholeBar

FINISHED = "phase finished"
WARNING = "warning"
"""The event of each warning of the report. A terminal has the report's own, at the end."""
COMPILING = "compiling"
"""The event of code that is compiled, which no earlier run on this machine has left."""
HERE = "this process"
"""The name for a worker where there is none."""

PATIENCE = {"json": 1.0, "text": 10.0}
"""Seconds between two lines of a phase's progress, by the format of the log."""


class Meter:
    """One phase while it runs: counts finished tasks and what they report."""

    def __init__(self, progress: Progress, name: str):
        self._progress, self.name = progress, name
        self.total, self.before, self.done, self.rows, self.worker_peak_mb = 0, 0, 0, 0, 0.0
        self.began = self.last = time.perf_counter()
        self.since = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.latest: dict[str, object] = {}
        self._compile_s: dict[object, float] = {}

    def begin(self, total: int, before: int = 0) -> None:
        """Say how many tasks there are, and how many of them an earlier run has done."""
        self.total, self.before, self.done = total, before, before
        if before:
            self.event("resumed", done_before=before, total=total)
        self._progress.update(self)

    def finished(
        self, rows: int = 0, worker_peak_mb: float = 0.0, compile_s: float = 0.0, **task: Any
    ) -> None:
        """Count a task, its rows, its seconds of compiling, and the peak memory of its worker.

        `task` is what an event tells of it: its partition, worker and attempt.
        """
        self.done += 1
        self.rows += rows
        self.worker_peak_mb = max(self.worker_peak_mb, worker_peak_mb)
        self.last, self.latest = time.perf_counter(), task
        worker = task.get("worker")
        self._compile_s[worker] = self._compile_s.get(worker, 0.0) + compile_s
        self._progress.update(self)

    def seconds_left(self) -> float | None:
        """Return the seconds for the tasks not done at the pace so far, or None before the first.

        Time in which workers compiled kernels does not count, since it does not come again.
        """
        here = self.done - self.before
        if not here:
            return None
        ahead = (self.total - self.done) * self._working() / here
        return round(max(ahead - (time.perf_counter() - self.last), 0.0), 1)

    def pace(self) -> float:
        """Return the rows per second so far, without the time of compiling."""
        seconds = self._working()
        return self.rows / seconds if seconds > 0.0 else 0.0

    def _working(self) -> float:
        """Return the seconds until the last task, less those of the worker that compiled longest.

        Workers compile at the same time.
        """
        return max(self.last - self.began - max(self._compile_s.values(), default=0.0), 0.0)

    def event(self, name: str, error: BaseException | None = None, /, **fields: Any) -> None:
        """Tell of something that happened in the phase; the traceback of an error is logged."""
        self._progress.event(name, error, phase=self.name, **fields)


class Progress:
    """Emits events, shows them, and keeps what the report says about phases.

    The parameters are those of `Display`. `run` is the name of the run, which every event tells
    once it is known.
    """

    def __init__(
        self,
        quiet: bool = False,
        verbose: bool = False,
        log_format: Literal["text", "json"] = "text",
    ):
        display = Display(quiet, verbose, log_format)
        self._shown = ExitStack()
        self._bar: WholeBar | None = None
        self._patience = 1.0 if display.verbose else PATIENCE[display.log_format]
        self._last_update = 0.0
        self._compiles = False
        self._meter: Meter | None = None
        self.run: str | None = None
        self.phases: list[PhaseCost] = []
        if not display.quiet:
            self._bar = terminal_bar(display)
            if self._bar is not None:
                self._shown.enter_context(closing(self._bar))
            handler = shown(display, self._bar)
            handler.addFilter(self._tells)
            self._shown.enter_context(attached(handler))

    def _tells(self, record: logging.LogRecord) -> bool:
        """Return whether a record is shown: of no other display, and not told by a worker before.

        That code is compiled is told by every process, and shown once.
        """
        if record.getMessage() == COMPILING:
            self._compiles, before = True, self._compiles
            return not before
        return getattr(record, "source", self) is self

    def close(self) -> None:
        """Leave the terminal and the logger as they were."""
        self._shown.close()

    def event(self, name: str, error: BaseException | None = None, /, **fields: Any) -> None:
        """Tell of something that happened once; the traceback of an error is logged."""
        if self.run is not None:
            fields = {"run": self.run, **fields}
        LOG.info(name, exc_info=error, extra={"fields": fields, "source": self})

    def state(self) -> Doing:
        """Return how far the run is, as what JSON can hold; any thread may ask.

        Keys are ``phase``, ``done`` and ``total`` tasks, ``since`` (when it began, UTC, ISO 8601)
        and ``seconds_left`` of the phase. Between phases, or where it is not known, each is None.
        """
        meter = self._meter
        names = {"phase": "name", "done": "done", "total": "total", "since": "since"}
        known: Doing = {key: getattr(meter, name, None) for key, name in names.items()}
        return known | {"seconds_left": meter.seconds_left() if meter is not None else None}

    @contextmanager
    def phase(self, name: str) -> Iterator[Meter]:
        """Time a phase; its record is kept when it succeeds."""
        self._meter = meter = Meter(self, name)
        if self._bar is not None:
            self._bar.begin(name)
        try:
            yield meter
        finally:
            self._meter = None
        cost = PhaseCost(
            name=name,
            seconds=round(time.perf_counter() - meter.began, 4),
            rows=meter.rows or None,
            driver_peak_mb=round(peak_memory_mb(), 1),
            worker_peak_mb=round(meter.worker_peak_mb, 1) or None,
        )
        self.phases.append(cost)
        if self._bar is not None:
            self._bar.update(1.0, None, None)
        self.event(FINISHED, phase=name, **cost.model_dump(exclude={"name"}))

    def update(self, meter: Meter) -> None:
        """Show how many tasks of a phase are done; as an event at most once in a while."""
        pace, now, last = meter.pace(), time.perf_counter(), self._last_update
        if self._patience > 1.0:  # who reads sentences need not hear of a phase at once
            last = max(last, meter.began)
        if self._bar is not None:
            self._bar.update(meter.done / max(meter.total, 1), pace, meter.seconds_left())
        elif now - last > self._patience and meter.done < meter.total:
            self._last_update = now
            counts = {"done": meter.done, "total": meter.total, "rows": meter.rows}
            times = {"rows_per_s": round(pace), "seconds_left": meter.seconds_left()}
            meter.event("progress", **meter.latest, **counts, **times)


def peak_memory_mb() -> float:
    """Return the largest resident size that this process has had, in MB.

    Linux hands `ru_maxrss` down from the process that started this one, so ``VmHWM`` is read there.
    """
    found = _status_mb("VmHWM")
    if found is not None:
        return found
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def mapped_memory_mb() -> float | None:
    """Return what of this process's resident size are files that are mapped, in MB, if known."""
    return _status_mb("RssFile")


def _status_mb(name: str) -> float | None:
    """Return a size that Linux tells of this process."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split(f"{name}:")[1].split()[0]) * 1024 / 1e6
    except (OSError, IndexError, ValueError):
        return None
