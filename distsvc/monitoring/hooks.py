"""The job's commands after a run is published, held back, or has failed."""

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

TIMEOUT_S = 60.0
"""Maximum duration of a command, in seconds."""

NO_FAILURE = (0, SkippedError.exit_code, 129, 130, 143)
"""Exit codes of runs that succeeded, were skipped, or were stopped by a signal."""

Event = Literal["published", "held", "failed"]


def event_of(outcome: RunOutcome) -> Event | None:
    """Return the event of an outcome, None for skipped and stopped runs."""
    if outcome.published:
        return "published"
    if outcome.exit_code == CheckFailedError.exit_code:
        return "held"
    return None if outcome.exit_code in NO_FAILURE else "failed"


def call(job: Job, outcome: RunOutcome) -> str:
    """Call the job's command for an outcome, if any; return its failure in words.

    The command runs without a shell. Its environment has the `facts`, its output goes to standard
    error, and after `TIMEOUT_S` its process group is killed.
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
        code = started.wait(TIMEOUT_S)
    except BaseException as error:
        with suppress(OSError):  # its children, too
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return f"stopped after {TIMEOUT_S:.0f} s, with the processes that it started"
    return f"{command[0]!r} ended with exit code {code}" if code else ""


def facts(job: Job, outcome: RunOutcome, event: Event) -> dict[str, str]:
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
