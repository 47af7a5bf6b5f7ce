"""Progress of a run: events, and phases with their finished tasks and costs.

An event is a record of the logger ``distsvc``: the message is the event's name, and the attribute
``fields`` a dictionary. A `Progress` displays its own events and those without an owner, such as a
store's. Callers from Python can attach other handlers.
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
from distsvc.run.work.display import LOG, attach, event_handler, phase_title, terminal_bar
from distsvc.run.work.start import Display
from distsvc.storage.places.lease import Doing

if TYPE_CHECKING:
    from distsvc.run.work.bars import WholeBar

HERE = "this process"
"""Name of the worker if there is none."""

UPDATE_SECONDS = {"json": 1.0, "text": 10.0}
"""Seconds between two lines of a phase's progress, by the format of the log."""


class Meter:
    """Counts finished tasks of a phase, with their rows and costs."""

    def __init__(self, progress: Progress, name: str):
        self._progress, self.name = progress, name
        self.total, self.before, self.done, self.rows, self.worker_peak_mb = 0, 0, 0, 0, 0.0
        self.began = self.last = time.perf_counter()
        self.since = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.latest: dict[str, object] = {}
        self._compile_s: dict[object, float] = {}

    def begin(self, total: int, before: int = 0) -> None:
        """Set the number of tasks, and the number already done by an earlier start."""
        self.total, self.before, self.done = total, before, before
        if before:
            self.event("resumed", done_before=before, total=total)
        self._progress.update(self)

    def finished(
        self, rows: int = 0, worker_peak_mb: float = 0.0, compile_s: float = 0.0, **task: Any
    ) -> None:
        """Count a task: its rows, peak memory of its worker, and seconds of compilation.

        `task` are fields for events: its partition, worker and attempt.
        """
        self.done += 1
        self.rows += rows
        self.worker_peak_mb = max(self.worker_peak_mb, worker_peak_mb)
        self.last, self.latest = time.perf_counter(), task
        worker = task.get("worker")
        self._compile_s[worker] = self._compile_s.get(worker, 0.0) + compile_s
        self._progress.update(self)

    def seconds_left(self) -> float | None:
        """Return the seconds left at the pace so far, without compilation; None before a task."""
        here = self.done - self.before
        if not here:
            return None
        ahead = (self.total - self.done) * self._working() / here
        return round(max(ahead - (time.perf_counter() - self.last), 0.0), 1)

    def pace(self) -> float:
        """Return rows per second, without the time of compilation."""
        seconds = self._working()
        return self.rows / seconds if seconds > 0.0 else 0.0

    def _working(self) -> float:
        """Return the seconds until the last task, less the longest compilation of a worker."""
        return max(self.last - self.began - max(self._compile_s.values(), default=0.0), 0.0)

    def event(self, name: str, error: BaseException | None = None, /, **fields: Any) -> None:
        """Log an event of the phase, with the traceback of an error."""
        self._progress.event(name, error, phase=self.name, **fields)


class Progress:
    """Logs and displays events, and stores the costs of phases.

    Parameters are those of `Display`. Every event has the name of the `run`, once it is known.
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
        self._patience = 1.0 if display.verbose else UPDATE_SECONDS[display.log_format]
        self._last_update = 0.0
        self._compiles = False
        self._meter: Meter | None = None
        self.run: str | None = None
        self.phases: list[PhaseCost] = []
        if not display.quiet:
            self._bar = terminal_bar(display)
            if self._bar is not None:
                self._shown.enter_context(closing(self._bar))
            handler = event_handler(display, self._bar)
            handler.addFilter(self._is_displayed)
            self._shown.enter_context(attach(handler))

    def _is_displayed(self, record: logging.LogRecord) -> bool:
        """Filter: no records of other displays; "compiling", of every process, once."""
        if record.getMessage() == "compiling":
            self._compiles, before = True, self._compiles
            return not before
        return getattr(record, "source", self) is self

    def close(self) -> None:
        """Restore the terminal and the logger."""
        self._shown.close()

    def event(self, name: str, error: BaseException | None = None, /, **fields: Any) -> None:
        """Log an event, with the traceback of an error."""
        if self.run is not None:
            fields = {"run": self.run, **fields}
        LOG.info(name, exc_info=error, extra={"fields": fields, "source": self})

    def state(self) -> Doing:
        """Return the state of the phase, as JSON can hold it; safe from any thread.

        Keys are ``phase``, ``done`` and ``total`` tasks, ``since`` (UTC, ISO 8601) and
        ``seconds_left``. Unknown values are None; between phases, all values are None.
        """
        meter = self._meter
        names = {"phase": "name", "done": "done", "total": "total", "since": "since"}
        known: Doing = {key: getattr(meter, name, None) for key, name in names.items()}
        return known | {"seconds_left": meter.seconds_left() if meter is not None else None}

    @contextmanager
    def phase(self, name: str) -> Iterator[Meter]:
        """Time a phase; its cost is stored if it succeeds."""
        self._meter = meter = Meter(self, name)
        if self._bar is not None:
            self._bar.begin(name, phase_title(name))
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
        self.event("phase finished", phase=name, **cost.model_dump(exclude={"name"}))

    def update(self, meter: Meter) -> None:
        """Display the finished tasks of a phase: on the bar, or as an event from time to time."""
        pace, now, last = meter.pace(), time.perf_counter(), self._last_update
        if self._patience > 1.0:  # no sentence at the beginning of a phase
            last = max(last, meter.began)
        if self._bar is not None:
            self._bar.update(meter.done / max(meter.total, 1), pace, meter.seconds_left())
        elif now - last > self._patience and meter.done < meter.total:
            self._last_update = now
            counts = {"done": meter.done, "total": meter.total, "rows": meter.rows}
            times = {"rows_per_s": round(pace), "seconds_left": meter.seconds_left()}
            meter.event("progress", **meter.latest, **counts, **times)


def peak_memory_mb() -> float:
    """Return the peak resident size of this process, in MB.

    On Linux, `ru_maxrss` is inherited from the parent process, so ``VmHWM`` is read.
    """
    found = _status_mb("VmHWM")
    if found is not None:
        return found
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def mapped_memory_mb() -> float | None:
    """Return the resident size of mapped files in this process, in MB, if known."""
    return _status_mb("RssFile")


def _status_mb(name: str) -> float | None:
    """Return a size from Linux's status of this process."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split(f"{name}:")[1].split()[0]) * 1024 / 1e6
    except (OSError, IndexError, ValueError):
        return None
