"""Announcements of a run: metrics for Prometheus, events for OpenLineage, the job's commands.

None of them can fail a run or delay it for more than some seconds: their errors are warnings on
standard error. Their packages are imported only if they are used.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from distsvc.errors import CheckFailedError, DistsvcError, SkippedError, one_line
from distsvc.errors.faults import exit_code_and_message, named
from distsvc.errors.urls import local_file
from distsvc.monitoring.outcome import RunOutcome

if TYPE_CHECKING:
    from distsvc.job.config import Job
    from distsvc.monitoring.openlineage import Events
    from distsvc.report.content.report import Report

SWITCHES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")
"""Prefixes of the environment variables that configure OpenLineage."""


@contextmanager
def announced(job_file: str, metrics_file: str | None = None) -> Iterator[Announcer]:
    """Announce the start, the end and the result of a run, however it ends.

    `job_file` names the job until it is read; metrics are written to `metrics_file`, if any.
    """
    announcer = Announcer(job_file, metrics_file)
    try:
        yield announcer
        announcer.finish(None)
    except BaseException as error:
        announcer.finish(error)
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

    def start(self, job: Job) -> None:
        """Announce that a run of the job begins."""
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

    def add_report(self, report: Report) -> None:
        """Store the run's report, to be announced at the end."""
        self._report = report

    def finish(self, error: BaseException | None) -> None:
        """Announce the end of the run."""
        outcome = RunOutcome.of(error, self._report, time.monotonic() - self._began)
        if self._file is not None:
            outcome = replace(outcome, **self._state())
            self._write_metrics(self._file, outcome)
        if self._job is not None and _has_hooks(self._job):
            self._call_hook(self._job, outcome)
        if self._events is not None:
            events, self._events = self._events, None
            wrong = events.end(outcome)
            if wrong:
                warn(f"OpenLineage: {wrong}")

    def _call_hook(self, job: Job, outcome: RunOutcome) -> None:
        """Call the job's command for this outcome."""
        if outcome.published and self._report is not None and self._report.was_there:
            return
        wrong = call_hook(job, outcome)
        if wrong:
            warn(f"[job] on_{event_of(outcome)}: {wrong}")

    def _state(self) -> dict[str, Any]:
        """Return the run date, and the number of candidates at the output if it is known."""
        if self._job is None:
            return {}
        from distsvc.storage.publishing.publication import Output

        found: dict[str, Any] = {"run_date": self._job.job.run_date}
        with suppress(DistsvcError, OSError):
            found["candidates"] = len(Output(self._job.output.path).candidates())
        return found

    def _write_metrics(self, file: Path, outcome: RunOutcome) -> None:
        try:
            from distsvc.monitoring.prometheus import write_metrics

            write_metrics(file, self._job.job.name if self._job else None, self._stem, outcome)
        except Exception as error:
            warn(f"--metrics-file: {exit_code_and_message(error)[1]}")


def _has_hooks(job: Job) -> bool:
    return bool(job.job.on_published or job.job.on_held or job.job.on_failed)


def lineage_is_wanted() -> bool:
    """Return True if OpenLineage is configured by environment variables."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    return any(value and name.startswith(SWITCHES) for name, value in os.environ.items())


def warn(text: str) -> None:
    """Print a warning to standard error, in one line and without secrets."""
    with suppress(OSError, ValueError, AttributeError):
        print(one_line(f"warning: {text}"), file=sys.stderr, flush=True)


TIMEOUT_S = 60.0
"""Maximum duration of a command, in seconds."""

Event = Literal["published", "held", "failed"]


def event_of(outcome: RunOutcome) -> Event | None:
    """Return the event of an outcome, None for skipped and stopped runs."""
    if outcome.published:
        return "published"
    if outcome.exit_code == CheckFailedError.exit_code:
        return "held"
    stopped = outcome.exit_code in (129, 130, 143)  # by a signal
    return None if stopped or outcome.exit_code in (0, SkippedError.exit_code) else "failed"


def call_hook(job: Job, outcome: RunOutcome) -> str:
    """Call the job's command for an outcome, if any; return its failure in words.

    The command runs without a shell, with the environment of `environment_of`. Its output goes to
    standard error, and after `TIMEOUT_S` its process group is killed.
    """
    event = event_of(outcome)
    command = getattr(job.job, f"on_{event}") if event else ()
    if event is None or not command:
        return ""
    try:
        started = subprocess.Popen(
            command,
            env=os.environ | environment_of(job, outcome, event),
            stdin=subprocess.DEVNULL,
            stdout=2,
            start_new_session=True,
        )
    except OSError as error:
        return f"{command[0]!r} can't be run: {error.strerror or error}"
    try:
        code = started.wait(TIMEOUT_S)
    except BaseException as error:
        with suppress(OSError):  # its children, too
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return f"stopped after {TIMEOUT_S:.0f} s, with the processes that it started"
    return f"{command[0]!r} ended with exit code {code}" if code else ""


def environment_of(job: Job, outcome: RunOutcome, event: Event) -> dict[str, str]:
    """Return the environment variables ``DISTSVC_*`` of a run; unknown values are empty."""
    report, output = outcome.report, job.output.path
    values = {
        "EVENT": event,
        "JOB": job.job.name,
        "RUN_DATE": job.job.run_date,
        "OUTPUT": output,
        "PAGE": f"{output.rstrip('/')}/report.html" if event == "published" else outcome.page,
        "PUBLISH_COMMAND": report.publish_command if report and event == "held" else None,
        "ROWS": report.input.n_rows if report else None,
        "CLUSTERS": len(report.clusters) if report else None,
        "FAILED_CHECKS": ",".join(check.name for check in report.failed) if report else None,
        "REASON": outcome.reason if event == "failed" else None,
        "EXIT_CODE": outcome.exit_code,
        "ERROR": outcome.error,
    }
    text = {name: "" if value is None else str(value) for name, value in values.items()}
    return {f"DISTSVC_{name}": value.replace("\0", "") for name, value in text.items()}
