"""Telling others of a run: a file of metrics for Prometheus, events for OpenLineage.

Neither can fail a run, nor hold it up for more than some seconds: what goes wrong here is a warning
on standard error. What is told by neither is not imported.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distsvc.errors import DistsvcError, one_line
from distsvc.errors.faults import exit_code_and_message, named
from distsvc.errors.urls import local_file
from distsvc.monitoring.outcome import RunOutcome

if TYPE_CHECKING:
    from distsvc.job.config import Job
    from distsvc.monitoring.openlineage import Events
    from distsvc.report.content.report import Report

SWITCHES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")
"""Beginnings of the environment variables that ask for OpenLineage's events."""


@contextmanager
def watched(job_file: str, metrics_file: str | None = None) -> Iterator[Announcer]:
    """Tell others of a run, however it ends: of its beginning, its end, and what came out.

    `job_file` names the job until it is read; metrics are written to `metrics_file`, if any.
    """
    watch = Announcer(job_file, metrics_file)
    try:
        yield watch
        watch.tell(None)
    except BaseException as error:
        watch.tell(error)
        raise


class Announcer:
    """The announcements of one run."""

    def __init__(self, job_file: str, metrics_file: str | None):
        self._stem = Path(job_file).stem or "job"
        self._file = None if metrics_file is None else local_file("--metrics-file", metrics_file)
        self._job: Job | None = None
        self._report: Report | None = None
        self._events: Events | None = None
        self._began = time.monotonic()

    def begins(self, job: Job) -> Job:
        """Tell that a run of the job begins; return the job."""
        self._job = job
        if lineage_is_wanted():
            try:
                from distsvc.monitoring.openlineage import Events

                self._events = Events(job)
            except ImportError as error:
                warn(
                    f"OpenLineage: no events are sent, since {error.name} is not installed; "
                    "pip install 'distsvc[lineage]'"
                )
            except Exception as error:
                warn(f"OpenLineage: no events are sent: {named(error)}")
        return job

    def ends(self, report: Report) -> Report:
        """Keep what came out of the run; return it."""
        self._report = report
        return report

    def tell(self, error: BaseException | None) -> None:
        """Tell how the run ended."""
        outcome = RunOutcome.of(error, self._report, time.monotonic() - self._began)
        if self._file is not None:
            outcome = replace(outcome, **self._state())
            self._write_metrics(self._file, outcome)
        if self._job is not None:
            self._call_hook(self._job, outcome)
        if self._events is not None:
            events, self._events = self._events, None
            wrong = events.end(outcome)
            if wrong:
                warn(f"OpenLineage: {wrong}")

    def _call_hook(self, job: Job, outcome: RunOutcome) -> None:
        """Call the command that the job has for how the run ended."""
        if not _hooked(job):
            return
        from distsvc.monitoring import hooks

        if outcome.published and self._report is not None and self._report.was_there:
            return
        wrong = hooks.call(job, outcome)
        if wrong:
            warn(f"[job] on_{hooks.event_of(outcome)}: {wrong}")

    def _state(self) -> dict[str, Any]:
        """Return the run date, and how many candidates wait at the output, if that is known."""
        if self._job is None:
            return {}
        from distsvc.storage.publishing.publication import Output

        found: dict[str, Any] = {"run_date": self._job.job.run_date}
        with suppress(DistsvcError, OSError):
            found["candidates"] = len(Output(self._job.output.path).held())
        return found

    def _write_metrics(self, file: Path, outcome: RunOutcome) -> None:
        try:
            from distsvc.monitoring.prometheus import write_metrics

            write_metrics(file, self._job.job.name if self._job else None, self._stem, outcome)
        except Exception as error:
            warn(f"--metrics-file: {exit_code_and_message(error)[1]}")


def _hooked(job: Job) -> bool:
    return bool(job.job.on_published or job.job.on_held or job.job.on_failed)


def lineage_is_wanted() -> bool:
    """Return whether OpenLineage's environment variables ask for its events."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    return any(value and name.startswith(SWITCHES) for name, value in os.environ.items())


def warn(text: str) -> None:
    """Print a warning to standard error, in one line and without secrets."""
    with suppress(OSError, ValueError, AttributeError):
        print(one_line(f"warning: {text}"), file=sys.stderr, flush=True)
