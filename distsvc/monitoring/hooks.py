"""The commands that a job asks for once a run is published, held back, or has failed."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from distsvc.errors import CheckFailedError, SkippedError

if TYPE_CHECKING:
    from distsvc.job.config import Job
    from distsvc.monitoring.outcome import RunOutcome

LONGEST_S = 60.0
"""Seconds that a command may take."""

NO_FAILURE = (SkippedError.exit_code, 129, 130, 143)
"""Exit codes of runs that were skipped, or stopped by somebody."""

Event = Literal["published", "held", "failed"]


def event_of(outcome: RunOutcome) -> Event | None:
    """Return what came of a run; None where nothing did."""
    if outcome.published:
        return "published"
    if outcome.exit_code == CheckFailedError.exit_code:
        return "held"
    return None if outcome.exit_code in (0, *NO_FAILURE) else "failed"


def call(job: Job, outcome: RunOutcome) -> str:
    """Call the command for what came of a run, if the job has one; return what went wrong.

    The run's facts are in its environment, by names that begin with ``DISTSVC_``. There is no
    shell, its output goes to standard error, and after `LONGEST_S` its process group is killed.
    """
    event = event_of(outcome)
    command = getattr(job.job, f"on_{event}") if event else ()
    if event is None or not command:
        return ""
    try:
        started = subprocess.Popen(
            command,
            env=os.environ | facts(job, outcome, event),
            stdin=subprocess.DEVNULL,
            stdout=2,
            start_new_session=True,
        )
    except OSError as error:
        return f"{command[0]!r} can't be run: {error.strerror or error}"
    try:
        code = started.wait(LONGEST_S)
    except BaseException as error:
        with suppress(OSError):  # its children, too
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return f"stopped after {LONGEST_S:.0f} s, with the processes that it started"
    return f"{command[0]!r} ended with exit code {code}" if code else ""


def facts(job: Job, outcome: RunOutcome, event: Event) -> dict[str, str]:
    """Return the variables that tell of a run; what is not known is empty."""
    report, output = outcome.report, job.output.path
    told = {
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
    text = {name: "" if value is None else str(value) for name, value in told.items()}
    return {f"DISTSVC_{name}": value.replace("\0", "") for name, value in text.items()}
