"""How far a run is: a bar per phase on a terminal, else one JSON line per event; and its record."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars


class Phase:
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


class Progress:
    """Shows events on standard error and keeps what the report says about phases."""

    def __init__(self, quiet: bool = False):
        self._quiet = quiet
        self._bars: Bars | None = None
        self._last_line = 0.0
        self.phases: list[dict[str, Any]] = []
        if not quiet and sys.stderr.isatty():
            columns = TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn()
            self._bars = Bars(*columns, TimeElapsedColumn(), console=Console(stderr=True))
            self._bars.start()

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bars is not None:
            self._bars.stop()

    def event(self, name: str, **fields: Any) -> None:
        """Show something that happened once."""
        if self._bars is not None:
            shown = " ".join(f"{key} {value}" for key, value in fields.items())
            self._bars.console.print(f"{name}: {shown}", highlight=False, markup=False)
        elif not self._quiet:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
            line = json.dumps({"time": stamp, "event": name} | fields, default=str)
            print(line, file=sys.stderr, flush=True)

    @contextmanager
    def phase(self, name: str) -> Iterator[Phase]:
        """Time a phase; its record is kept when it succeeds."""
        phase = Phase(self, name)
        started = time.perf_counter()
        if self._bars is not None:
            self._bars.add_task(name, total=None)
        yield phase
        record = {
            "name": name,
            "seconds": round(time.perf_counter() - started, 4),
            "rows": phase.rows or None,
            "driver_peak_mb": round(peak_memory_mb(), 1),
            "worker_peak_mb": round(phase.worker_peak_mb, 1) or None,
        }
        self.phases.append(record)
        if self._bars is not None:
            task = self._bars.task_ids[-1]
            self._bars.update(task, total=max(phase.total, 1), completed=max(phase.total, 1))
        else:
            self.event(
                "phase finished", phase=name, **{k: record[k] for k in record if k != "name"}
            )

    def update(self, phase: Phase) -> None:
        """Show how many tasks of a phase are done, at most once a second where lines are kept."""
        if self._bars is not None:
            self._bars.update(self._bars.task_ids[-1], total=phase.total, completed=phase.done)
        elif time.perf_counter() - self._last_line > 1.0 and phase.done < phase.total:
            self._last_line = time.perf_counter()
            self.event("progress", phase=phase.name, done=phase.done, total=phase.total)


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
