"""How far a run is: a bar per phase on a terminal, else one JSON line per event; and its record.

Events are records of the logger ``distsvc``, whose message is the event's name and whose attribute
``fields`` is a dictionary. A `Progress` shows its own and those of no other, such as a store's,
unless it is quiet; whoever runs a job from Python can attach other handlers.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from distsvc.errors import one_line
from distsvc.report.content import PhaseCost
from distsvc.urls import masked

LOG = logging.getLogger("distsvc")
FINISHED = "phase finished"


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
        """Return the lines."""
        return masked(super().format(record))


class AboveBars(logging.Handler):
    """Prints what happens above the bars, which show themselves how far the phases are."""

    def __init__(self, console: Console):
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print the event and its fields."""
        name = record.getMessage()
        if name != FINISHED:
            fields = getattr(record, "fields", {})
            shown = " ".join(f"{key} {_shown(value)}" for key, value in fields.items())
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


def log_defect(error: Exception) -> str:
    """Write an exception that no user should meet to standard error, with its traceback.

    Returns what it says, in a form that may be shown.
    """
    what = one_line(masked(f"{type(error).__name__}: {error}"))
    handler = logging.StreamHandler()
    handler.setFormatter(Plain() if sys.stderr.isatty() else JsonLines())
    with attached(handler):
        LOG.error("defect", exc_info=error, extra={"fields": {"error": what}})
    return what


def _shown(value: Any) -> Any:
    return masked(value) if isinstance(value, str) else value


class Meter:
    """One phase while it runs: counts finished tasks and what they report."""

    def __init__(self, progress: Progress, name: str):
        self._progress, self.name = progress, name
        self.total, self.done, self.rows, self.worker_peak_mb = 0, 0, 0, 0.0

    def begin(self, total: int) -> None:
        """Say how many tasks there are."""
        self.total = total
        self._progress.update(self)

    def finished(self, rows: int = 0, worker_peak_mb: float = 0.0) -> None:
        """Count a task, its rows and the peak memory of the worker that did it."""
        self.done += 1
        self.rows += rows
        self.worker_peak_mb = max(self.worker_peak_mb, worker_peak_mb)
        self._progress.update(self)

    def event(self, name: str, error: BaseException | None = None, /, **fields: Any) -> None:
        """Tell of something that happened in the phase; the traceback of an error is logged."""
        self._progress.event(name, error, phase=self.name, **fields)


class Progress:
    """Emits events, shows them unless `quiet`, and keeps what the report says about phases."""

    def __init__(self, quiet: bool = False):
        self._shown = ExitStack()
        self._bars: Bars | None = None
        self._last_update = 0.0
        self.phases: list[PhaseCost] = []
        if not quiet:
            handler = self._handler()
            handler.addFilter(lambda record: getattr(record, "source", self) is self)
            self._shown.enter_context(attached(handler))

    def _handler(self) -> logging.Handler:
        if sys.stderr.isatty():
            columns = TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn()
            console = Console(stderr=True)
            self._bars = Bars(*columns, TimeElapsedColumn(), console=console)
            self._shown.enter_context(self._bars)
            return AboveBars(console)
        lines = logging.StreamHandler()
        lines.setFormatter(JsonLines())
        return lines

    def close(self) -> None:
        """Leave the terminal and the logger as they were."""
        self._shown.close()

    def event(self, name: str, error: BaseException | None = None, /, **fields: Any) -> None:
        """Tell of something that happened once; the traceback of an error is logged."""
        LOG.info(name, exc_info=error, extra={"fields": fields, "source": self})

    @contextmanager
    def phase(self, name: str) -> Iterator[Meter]:
        """Time a phase; its record is kept when it succeeds."""
        meter = Meter(self, name)
        started = time.perf_counter()
        if self._bars is not None:
            self._bars.add_task(name, total=None)
        yield meter
        cost = PhaseCost(
            name=name,
            seconds=round(time.perf_counter() - started, 4),
            rows=meter.rows or None,
            driver_peak_mb=round(peak_memory_mb(), 1),
            worker_peak_mb=round(meter.worker_peak_mb, 1) or None,
        )
        self.phases.append(cost)
        if self._bars is not None:
            n = max(meter.total, 1)
            self._bars.update(self._bars.task_ids[-1], total=n, completed=n)
        self.event(FINISHED, phase=name, **cost.model_dump(exclude={"name"}))

    def update(self, meter: Meter) -> None:
        """Show how many tasks of a phase are done; as an event at most once a second."""
        if self._bars is not None:
            self._bars.update(self._bars.task_ids[-1], total=meter.total, completed=meter.done)
        elif time.perf_counter() - self._last_update > 1.0 and meter.done < meter.total:
            self._last_update = time.perf_counter()
            self.event("progress", phase=meter.name, done=meter.done, total=meter.total)


def peak_memory_mb() -> float:
    """Return the largest resident size that this process has had, in MB.

    Linux hands `ru_maxrss` down from the process that started this one, so ``VmHWM`` is read there.
    """
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
