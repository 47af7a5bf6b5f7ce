"""Announcements of a run: metrics for Prometheus, events for OpenLineage, and commands.

The job sets the commands: ``on_published``, ``on_held`` and ``on_failed``. They run at the end of a
run, and are stopped after `TIMEOUT_S`. Announcements can't fail a run: their errors become warnings
on standard error. Packages for metrics and events are imported only if they are used.
"""

from __future__ import annotations

import datetime
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, Self

from distsvc.errors import CheckFailedError, DistsvcError, JobFileError, SkippedError, one_line
from distsvc.errors.faults import exit_code_and_message, named
from distsvc.errors.urls import local_file
from distsvc.monitoring.outcome import RunOutcome

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

    from distsvc.job.config import Job
    from distsvc.monitoring.openlineage import Events
    from distsvc.report.content.report import Report


class Announcer:
    """Announces the start of a run, and its outcome even if it fails.

    If the job file can't be read, the job's name is unknown. Metrics then use the file's name.
    """

    def __init__(self, job_file: str, metrics_file: str | None = None):
        self._stem = Path(job_file).stem or "job"
        self._file = None if metrics_file is None else local_file("--metrics-file", metrics_file)
        self._job: Job | None = None
        self._report: Report | None = None
        self._events: Events | None = None
        self._began = time.monotonic()

    def start(self, job: Job) -> None:
        """Announce that a run of the job begins."""
        self._job = job
        disabled = os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true"
        prefixes = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")
        given = any(value and name.startswith(prefixes) for name, value in os.environ.items())
        if given and not disabled:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Announce the end of the run."""
        outcome = RunOutcome.of(error, self._report, time.monotonic() - self._began)
        if self._file is not None:
            try:
                write_metrics(self._file, self._job, self._stem, outcome)
            except Exception as failure:
                warn(f"--metrics-file: {exit_code_and_message(failure)[1]}")
        was_there = self._report is not None and self._report.was_there
        if self._job is not None and not (outcome.published and was_there):
            wrong = call_hook(self._job, outcome)
            if wrong:
                warn(f"[job] on_{event_of(outcome)}: {wrong}")
        if self._events is not None:
            events, self._events = self._events, None
            wrong = events.end(outcome)
            if wrong:
                warn(f"OpenLineage: {wrong}")


def warn(text: str) -> None:
    """Print a warning to standard error, in one line and without secrets."""
    with suppress(OSError, ValueError, AttributeError):
        print(one_line(f"warning: {text}"), file=sys.stderr, flush=True)


TIMEOUT_S = 60.0
"""Maximum duration of a job's command, in seconds."""

Event = Literal["published", "held", "failed"]


def event_of(outcome: RunOutcome) -> Event | None:
    """Return "published", "held" or "failed"; None if the run was skipped or stopped."""
    if outcome.published:
        return "published"
    if outcome.exit_code == CheckFailedError.exit_code:
        return "held"
    stopped = outcome.exit_code in (129, 130, 143)  # by a signal
    return None if stopped or outcome.exit_code in (0, SkippedError.exit_code) else "failed"


def call_hook(job: Job, outcome: RunOutcome) -> str:
    """Run the job's ``on_...`` command for an outcome, if it is set; return an error text or ''."""
    event = event_of(outcome)
    if event is None or not (command := getattr(job.job, f"on_{event}")):
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
        with suppress(OSError):  # the command's children are stopped, too
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return f"stopped after {TIMEOUT_S:.0f} s, with the processes that it started"
    return f"{command[0]!r} ended with exit code {code}" if code else ""


def environment_of(job: Job, outcome: RunOutcome, event: Event) -> dict[str, str]:
    """Return environment variables for the job's command, such as ``DISTSVC_EVENT=held``.

    The values describe the run; values that are unknown are empty.
    """
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


# --- metrics for Prometheus

PREFIX, JOB = "distsvc_", "job"
LAST_SUCCESS = "last_success_timestamp_seconds"
LAST_CHECK = "last_check_timestamp_seconds"

METRICS = {
    LAST_SUCCESS: "Unix time at which a run last ended with a published result.",
    LAST_CHECK: "Unix time at which a run last published a result, or found its input not ready.",
    "last_run_timestamp_seconds": "Unix time at which a run last ended, with any outcome.",
    "run_date_timestamp_seconds": "Midnight, UTC, of the last run's date.",
    "duration_seconds": "Seconds that the last run took.",
    "rows": "Rows of the last run's result.",
    "clusters": "Clusters of the last run's result.",
    "outlier_ratio": "Share of the rows outside every cluster.",
    "rows_moved_ratio": "Share of the rows that the previous model puts into another cluster.",
    "drift_max": "Largest population stability index of any column.",
    "clusters_appeared": "Clusters whose ids are new.",
    "clusters_disappeared": "Clusters of the previous run whose ids have ended.",
    "agreement": "Probability that another sample gives the same answer.",
    "warnings": "Warnings of the last run.",
    "failed_checks": "Checks that hold the last run's result back.",
    "warned_checks": "Checks that did not pass, and only warn.",
    "check_found": "Value that a check measured.",
    "check_least": "Lower limit of a check.",
    "check_most": "Upper limit of a check.",
    "candidates": "Results that checks hold back, waiting to be published or replaced.",
    "exit_code": "Exit code of the last run.",
    "build_info": "1, labelled with the version of distsvc.",
}
"""Description of every metric, by its name without the prefix ``distsvc_``."""

Values = dict[str, dict[tuple[str, ...], float]]
"""Values of metrics, such as ``{"rows": {(): 900.0}, "check_found": {("min_rows",): 900.0}}``.

An inner key is the value of the label ``check`` or ``version``. It is empty if the metric has
neither label.
"""


def families(job: str, values: Values) -> Iterator[GaugeMetricFamily]:
    """Yield a gauge for each metric in `values`, labelled with the name of the job."""
    from prometheus_client.core import GaugeMetricFamily

    for name, meaning in METRICS.items():
        if name in values:
            second = "version" if name == "build_info" else "check"
            labels = [JOB] if () in values[name] else [JOB, second]
            family = GaugeMetricFamily(PREFIX + name, meaning, labels=labels)
            for key, value in values[name].items():
                family.add_metric([job, *key], value)
            yield family


def write_metrics(path: Path, job: Job | None, stem: str, outcome: RunOutcome) -> None:
    """Write the metrics of a run to a file in Prometheus' text format; its folder must exist.

    `stem` is the name of the job file, for metrics of a job that could not be read.
    """
    # If `job` is None, as for an unreadable job file, the only job in the previous file is used.
    from prometheus_client import generate_latest

    from distsvc.storage.places.arrays import write_whole

    if path.exists() and not path.is_file():
        raise JobFileError(f"{path} is not a file")
    previous = _last_times(path)
    known = next(iter(previous)) if len(previous) == 1 else stem
    name = (job.job.name if job else known).encode(errors="replace").decode()
    values = previous.get(name, {}) | _values(outcome, job)
    # `Gauge`s of a registry might share their values with other processes.
    text = generate_latest(SimpleNamespace(collect=lambda: families(name, values)))
    write_whole(path, lambda stream: stream.write(text))


def _values(outcome: RunOutcome, job: Job | None) -> Values:
    from distsvc import __version__
    from distsvc.storage.publishing.publication import Output

    skipped = outcome.exit_code == SkippedError.exit_code
    found: dict[str, Any] = {
        LAST_SUCCESS: outcome.ended if outcome.published else None,
        LAST_CHECK: outcome.ended if outcome.published or skipped else None,
        "last_run_timestamp_seconds": outcome.ended,
        "duration_seconds": outcome.seconds,
        "exit_code": outcome.exit_code,
        "build_info": {(__version__,): 1.0},
    }
    if job is not None and job.job.run_date is not None:
        day = datetime.datetime.fromisoformat(job.job.run_date).replace(tzinfo=datetime.UTC)
        found["run_date_timestamp_seconds"] = day.timestamp()
    with suppress(DistsvcError, OSError):
        found["candidates"] = len(Output(job.output.path).candidates()) if job else None
    if (report := outcome.report) is not None:
        stories = report.lineage.clusters if report.lineage else None
        worst = report.drift.columns[:1] if report.drift else []
        agreement = report.model.fitted.get("agreement")
        checks = [check for check in report.checks if check.found is not None]
        lower, upper = ("at least", "between"), ("at most", "between")
        found |= {
            "rows": report.input.n_rows,
            "clusters": len(report.clusters),
            "outlier_ratio": report.outliers.share if report.outliers.defined else None,
            "rows_moved_ratio": report.lineage.moved if report.lineage else None,
            "drift_max": worst[0].index if worst else None,
            "clusters_appeared": None if stories is None else sum(s.is_new for s in stories),
            "clusters_disappeared": None if stories is None else sum(s.has_ended for s in stories),
            "agreement": agreement if isinstance(agreement, float) else None,
            "warnings": len(report.warnings),
            "failed_checks": len(report.failed),
            "warned_checks": sum(check.state == "warned" for check in report.checks),
            "check_found": {(check.name,): check.found for check in checks},
            "check_least": {(c.name,): c.limit[0] for c in checks if c.side in lower},
            "check_most": {(c.name,): c.limit[-1] for c in checks if c.side in upper},
        }
    values: Values = {}
    for name, value in found.items():
        if value not in (None, {}):
            values[name] = value if isinstance(value, dict) else {(): value}
    return values


def _last_times(path: Path) -> dict[str, Values]:
    """Return the metrics `LAST_SUCCESS` and `LAST_CHECK` in a file, by the name of the job.

    A damaged file counts as empty.
    """
    from prometheus_client.parser import text_string_to_metric_families

    try:
        text = path.read_text(encoding="utf-8")
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    except Exception:  # a damaged file is replaced anyway
        return {}
    found: dict[str, Values] = {}
    for sample in samples:
        name = sample.name.removeprefix(PREFIX)
        is_time = name in (LAST_SUCCESS, LAST_CHECK) and math.isfinite(sample.value)
        if is_time and JOB in sample.labels:
            found.setdefault(sample.labels[JOB], {})[name] = {(): sample.value}
    return found
