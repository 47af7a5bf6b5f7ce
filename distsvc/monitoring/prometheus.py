"""The file of a run's metrics in Prometheus' text format.

The textfile collector of node_exporter may read it at any moment, so it is replaced whole.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from distsvc import __version__
from distsvc.errors import JobFileError, SkippedError
from distsvc.monitoring.outcome import RunOutcome
from distsvc.storage.places.arrays import write_whole

if TYPE_CHECKING:
    from distsvc.report.content.report import Report

PREFIX, JOB = "distsvc_", "job"
LAST_SUCCESS = "last_success_timestamp_seconds"
LAST_CHECK = "last_check_timestamp_seconds"
KEPT = (LAST_SUCCESS, LAST_CHECK)
"""Metrics that are carried over from the file if the run does not set them."""

METRICS = {
    LAST_SUCCESS: "Unix time at which a run last ended with a published result.",
    LAST_CHECK: "Unix time at which a run last ended with one, or found no input to be there yet.",
    "last_run_timestamp_seconds": "Unix time at which a run last ended, whatever came of it.",
    "run_date_timestamp_seconds": "Midnight, UTC, of the date that the last run was for.",
    "duration_seconds": "Seconds that the last run took.",
    "rows": "Rows of the last run's result.",
    "clusters": "Clusters of the last run's result.",
    "outlier_ratio": "Share of the rows outside every cluster.",
    "rows_moved_ratio": "Share of the rows in another cluster than by the run before.",
    "drift_max": "Largest population stability index of any column.",
    "clusters_appeared": "Clusters whose ids are new.",
    "clusters_disappeared": "Clusters of the run before whose ids have ended.",
    "agreement": "Chance that another sample has the answer.",
    "warnings": "Warnings of the last run.",
    "failed_checks": "Checks that hold the last run's result back.",
    "warned_checks": "Checks that did not pass, and only warn.",
    "check_found": "What a check found.",
    "check_least": "What a check expects at least.",
    "check_most": "What a check expects at most.",
    "candidates": "Results that checks hold back, waiting to be published or replaced.",
    "exit_code": "Exit code of the last run.",
    "build_info": "1, of the version of distsvc that ran.",
}
"""Description of every metric, by its name without the prefix."""

LABELS = {"check_found": "check", "check_least": "check", "check_most": "check"}
LABELS |= {"build_info": "version"}
"""Names of the labels that metrics have in addition to the job's name, by metric."""

Values = dict[str, float | dict[str, float]]
"""Values of metrics, by label value for metrics with a label."""


class Families:
    """Collector of fixed metrics; a `Gauge` might be shared with other processes."""

    def __init__(self, job: str, values: Values):
        self._job, self._values = job, values

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Yield every metric that has a value."""
        for name, meaning in METRICS.items():
            value = self._values.get(name)
            if isinstance(value, dict):
                family = GaugeMetricFamily(PREFIX + name, meaning, labels=[JOB, LABELS[name]])
                for label, one in value.items():
                    family.add_metric([self._job, label], one)
                yield family
            elif value is not None:
                family = GaugeMetricFamily(PREFIX + name, meaning, labels=[JOB])
                family.add_metric([self._job], value)
                yield family


def write_metrics(path: Path, job: str | None, stem: str, outcome: RunOutcome) -> None:
    """Write the outcome of a run to a file in an existing folder.

    `job` is None if the job file could not be read. The metrics then belong to the only job in the
    file at `path`, or else to `stem`.

    Raises
    ------
    JobFileError
        The path is a folder or a device.
    OutputPermissionError, TemporaryError
        It can't be written.

    """
    if path.exists() and not path.is_file():
        raise JobFileError(f"{path} is not a file")
    previous = _last_times(path)
    if job is None:
        job = next(iter(previous)) if len(previous) == 1 else stem
    job = job.encode(errors="replace").decode()
    values = previous.get(job, {}) | _values(outcome)
    registry = CollectorRegistry()
    registry.register(Families(job, values))
    text = generate_latest(registry)
    write_whole(path, lambda stream: stream.write(text))


def _values(outcome: RunOutcome) -> Values:
    """Return the known metrics of a run."""
    known: Values = {
        "last_run_timestamp_seconds": outcome.ended,
        "duration_seconds": outcome.seconds,
        "exit_code": outcome.exit_code,
        "build_info": {__version__: 1.0},
    }
    if outcome.published:
        known[LAST_SUCCESS] = outcome.ended
    if outcome.published or outcome.exit_code == SkippedError.exit_code:
        known[LAST_CHECK] = outcome.ended
    if outcome.run_date is not None:
        day = datetime.datetime.fromisoformat(outcome.run_date).replace(tzinfo=datetime.UTC)
        known["run_date_timestamp_seconds"] = day.timestamp()
    if outcome.candidates is not None:
        known["candidates"] = outcome.candidates
    return known | (_found(outcome.report) if outcome.report else {})


def _found(report: Report) -> Values:
    """Return the metrics of a report that were measured."""
    worst = report.drift.columns[:1] if report.drift else []
    stories = report.lineage.clusters if report.lineage else None
    agreement = report.model.fitted.get("agreement")
    found: dict[str, float | None] = {
        "rows": report.input.n_rows,
        "clusters": len(report.clusters),
        "outlier_ratio": report.outliers.share if report.outliers.defined else None,
        "rows_moved_ratio": report.lineage.moved if report.lineage else None,
        "drift_max": worst[0].index if worst else None,
        "clusters_appeared": None if stories is None else sum(one.is_new for one in stories),
        "clusters_disappeared": None if stories is None else sum(one.has_ended for one in stories),
        "agreement": agreement if isinstance(agreement, float) else None,
        "warnings": len(report.warnings),
        "failed_checks": len(report.failed),
        "warned_checks": sum(check.state == "warned" for check in report.checks),
    }
    measured = {name: value for name, value in found.items() if value is not None}
    return measured | _of_checks(report)


def _of_checks(report: Report) -> Values:
    """Return the values and limits of checks."""
    found: dict[str, dict[str, float]] = {}
    for check in report.checks:
        if check.found is None:
            continue
        found.setdefault("check_found", {})[check.name] = check.found
        if check.side in ("at least", "between"):
            found.setdefault("check_least", {})[check.name] = check.limit[0]
        if check.side in ("at most", "between"):
            found.setdefault("check_most", {})[check.name] = check.limit[-1]
    return {**found}


def _last_times(path: Path) -> dict[str, Values]:
    """Return the metrics `KEPT` of each job in a file, none if it is damaged."""
    try:
        text = path.read_text(encoding="utf-8")
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    except Exception:  # a damaged file is replaced anyway
        return {}
    found: dict[str, Values] = {}
    for sample in samples:
        name = sample.name.removeprefix(PREFIX)
        if name in KEPT and JOB in sample.labels and math.isfinite(sample.value):
            found.setdefault(sample.labels[JOB], {})[name] = sample.value
    return found
