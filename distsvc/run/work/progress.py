"""Progress of a run: a bar per phase on a terminal, else a JSON line per event; and its record.

Events are records of the logger ``distsvc``, whose message is the event's name and whose attribute
``fields`` is a dictionary. A `Progress` shows its own and those of no other, such as a store's,
unless it is quiet; whoever runs a job from Python can attach other handlers.

The time left of a phase follows from the tasks that are done.
"""

from __future__ import annotations

import datetime
import json
import logging
import math
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distsvc.errors import one_line
from distsvc.errors.urls import masked
from distsvc.report.content.report import PhaseCost
from distsvc.storage.places.lease import Doing

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars

LOG = logging.getLogger("distsvc")
FINISHED = "phase finished"
WARNING = "warning"
"""The event of each warning of the report. A terminal has the report's own, at the end."""
HERE = "this process"
"""The name for a worker where there is none."""


class JsonLines(logging.Formatter):
    """Makes one JSON object of a record: time, event, its fields, and an error's traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        stamp = self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z")
        fields = {name: _shown(value) for name, value in getattr(record, "fields", {}).items()}
        event = {"time": stamp, "event": record.getMessage(), **fields}
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Return a traceback, without the secrets of URLs in it."""
        return masked(super().formatException(ei))


class Plain(logging.Formatter):
    """Shows an event as it is, and a traceback without the secrets of URLs in it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines, each safe to print."""
        return "\n".join(map(one_line, masked(super().format(record)).splitlines()))


class AboveBars(logging.Handler):
    """Prints what happens above the bars, which show themselves how far the phases are."""

    def __init__(self, console: Console):
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print the event and its fields."""
        name = record.getMessage()
        if name not in (FINISHED, WARNING):
            fields = getattr(record, "fields", {})
            known = {key: value for key, value in fields.items() if key != "run"}
            shown = " ".join(f"{key} {_shown(value)}" for key, value in known.items())
            self._console.print(one_line(f"{name}: {shown}"), highlight=False, markup=False)


@contextmanager
def attached(handler: logging.Handler) -> Iterator[None]:
    """Send the package's events to a handler for a while."""
    level = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)


def log_defect(error: Exception, words: str) -> None:
    """Write an exception that no user should meet to standard error, with its traceback."""
    handler = logging.StreamHandler()
    handler.setFormatter(Plain() if sys.stderr.isatty() else JsonLines())
    with attached(handler):
        LOG.error("defect", exc_info=error, extra={"fields": {"error": words}})


def _shown(value: Any) -> Any:
    """Return a field of an event without secrets, also those of texts inside it."""
    if isinstance(value, dict):
        return {name: _shown(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(one) for one in value]
    return masked(value) if isinstance(value, str) else value


class Meter:
    """One phase while it runs: counts finished tasks and what they report."""

    def __init__(self, progress: Progress, name: str):
        self._progress, self.name = progress, name
        self.total, self.before, self.done, self.rows, self.worker_peak_mb = 0, 0, 0, 0, 0.0
        self.began = self.last = time.perf_counter()
        self.since = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.latest: dict[str, object] = {}

    def begin(self, total: int, before: int = 0) -> None:
        """Say how many tasks there are, and how many of them an earlier run has done."""
        self.total, self.before, self.done = total, before, before
        if before:
            self.event("resumed", done_before=before, total=total)
        self._progress.update(self)

    def finished(self, rows: int = 0, worker_peak_mb: float = 0.0, **task: Any) -> None:
        """Count a task, its rows and the peak memory of the worker that did it.

        `task` is what an event tells of it: its partition, worker and attempt.
        """
        self.done += 1
        self.rows += rows
        self.worker_peak_mb = max(self.worker_peak_mb, worker_peak_mb)
        self.last, self.latest = time.perf_counter(), task
        self._progress.update(self)

    def seconds_left(self) -> float | None:
        """Return how long the tasks not done will take at the pace so far; None before one is."""
        here = self.done - self.before
        if not here:
            return None
        ahead = (self.total - self.done) * (self.last - self.began) / here
        return round(max(ahead - (time.perf_counter() - self.last), 0.0), 1)

    def event(self, name: str, error: BaseException | None = None, /, **fields: Any) -> None:
        """Tell of something that happened in the phase; the traceback of an error is logged."""
        self._progress.event(name, error, phase=self.name, **fields)


class Progress:
    """Emits events, shows them unless `quiet`, and keeps what the report says about phases.

    `run` is the name of the run, which every event tells once it is known.
    """

    def __init__(self, quiet: bool = False):
        self._shown = ExitStack()
        self._bars: Bars | None = None
        self._last_update = 0.0
        self._meter: Meter | None = None
        self.run: str | None = None
        self.phases: list[PhaseCost] = []
        if not quiet:
            handler = self._handler()
            handler.addFilter(lambda record: getattr(record, "source", self) is self)
            self._shown.enter_context(attached(handler))

    def _handler(self) -> logging.Handler:
        if sys.stderr.isatty():
            from distsvc.run.work.bars import bars_of  # rich is for people

            self._bars = self._shown.enter_context(bars_of(self.state))
            return AboveBars(self._bars.console)
        lines = logging.StreamHandler()
        lines.setFormatter(JsonLines())
        return lines

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
        bar = None if self._bars is None else self._bars.add_task(name, total=None)
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
        if self._bars is not None and bar is not None:
            n = max(meter.total, 1)
            self._bars.update(bar, total=n, completed=n)
        self.event(FINISHED, phase=name, **cost.model_dump(exclude={"name"}))

    def update(self, meter: Meter) -> None:
        """Show how many tasks of a phase are done; as an event at most once a second."""
        if self._bars is not None:
            last = self._bars.task_ids[-1]
            self._bars.update(last, total=meter.total, completed=meter.done)
        elif time.perf_counter() - self._last_update > 1.0 and meter.done < meter.total:
            self._last_update = time.perf_counter()
            pace = meter.rows / ((meter.last - meter.began) or math.inf)
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
