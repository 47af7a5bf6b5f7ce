"""The file of metrics that a run leaves for Prometheus, in its text format.

The textfile collector of node_exporter reads it, at any moment, so it is whole at any moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from distsvc.errors import JobFileError
from distsvc.monitoring.outcome import RunOutcome
from distsvc.storage.places.arrays import write_whole

if TYPE_CHECKING:
    from distsvc.report.content.report import Report

PREFIX, JOB = "distsvc_", "job"
LAST_SUCCESS = "last_success_timestamp_seconds"

METRICS = {
    LAST_SUCCESS: "Unix time at which a run last ended with a published result.",
    "last_run_timestamp_seconds": "Unix time at which a run last ended, whatever came of it.",
    "duration_seconds": "Seconds that the last run took.",
    "rows": "Rows of the last run's result.",
    "clusters": "Clusters of the last run's result.",
    "outlier_ratio": "Share of the rows outside every cluster.",
    "rows_moved_ratio": "Share of the rows in another cluster than by the run before.",
    "drift_max": "Largest population stability index of any column.",
    "failed_checks": "Checks that hold the last run's result back.",
    "exit_code": "Exit code of the last run.",
}
"""Every metric, without the prefix, and what it is."""

MOST_BYTES = 2**20
"""Of a file that is read; ours has about two thousand."""


class Families:
    """Hands metrics to a registry as they are; `Gauge` would share them with other processes."""

    def __init__(self, job: str, values: dict[str, float]):
        self._job, self._values = job, values

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Yield every metric that has a value."""
        for name, meaning in METRICS.items():
            if name in self._values:
                family = GaugeMetricFamily(PREFIX + name, meaning, labels=[JOB])
                family.add_metric([self._job], self._values[name])
                yield family


def write_metrics(path: Path, job: str | None, stem: str, outcome: RunOutcome) -> None:
    """Write how a run ended to a file whose folder is there, in place of the run before.

    `job` is the job's name, None where the job file could not be read: it is then that in the file,
    or `stem` where that tells none.

    `JobFileError` where the path is that of a folder or a device, `OutputPermissionError` or
    `TemporaryError` where it can't be written.
    """
    if path.exists() and not path.is_file():
        raise JobFileError(f"{path} is not a file")
    before = _successes(path)
    if job is None:
        job = next(iter(before)) if len(before) == 1 else stem
    job = job.encode(errors="replace").decode()
    values = _values(outcome)
    if LAST_SUCCESS not in values and job in before:
        values[LAST_SUCCESS] = before[job]
    registry = CollectorRegistry()
    registry.register(Families(job, values))
    text = generate_latest(registry)
    write_whole(path, lambda stream: stream.write(text))


def _values(outcome: RunOutcome) -> dict[str, float]:
    """Return what is known of a run."""
    known = {
        "last_run_timestamp_seconds": outcome.ended,
        "duration_seconds": outcome.seconds,
        "exit_code": outcome.exit_code,
    }
    if outcome.published:
        known[LAST_SUCCESS] = outcome.ended
    return known | (_found(outcome.report) if outcome.report else {})


def _found(report: Report) -> dict[str, float]:
    """Return what a report tells; what the run did not measure is left out."""
    worst = report.drift.columns[:1] if report.drift else []
    found = {
        "rows": report.input.n_rows,
        "clusters": len(report.clusters),
        "outlier_ratio": report.outliers.share if report.outliers.defined else None,
        "rows_moved_ratio": report.lineage.moved if report.lineage else None,
        "drift_max": worst[0].index if worst else None,
        "failed_checks": len(report.failed),
    }
    return {name: value for name, value in found.items() if value is not None}


def _successes(path: Path) -> dict[str, float]:
    """Return when each job that a file names last succeeded; nothing of a file that is damaged."""
    try:
        with open(path, "rb") as stream:
            text = stream.read(MOST_BYTES).decode()
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    except Exception:  # whatever is wrong with it, it is about to be replaced
        return {}
    return {
        sample.labels[JOB]: sample.value
        for sample in samples
        if sample.name == PREFIX + LAST_SUCCESS
        and JOB in sample.labels
        and math.isfinite(sample.value)
    }
