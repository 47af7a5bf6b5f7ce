"""The report of a run: what all algorithms tell, and the parts that the run's own has besides."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from distsvc import __version__
from distsvc.config import Job
from distsvc.errors import InputNotFoundError
from distsvc.metrics import clustering_report, indices_from_contingency
from distsvc.models.rules import Rule
from distsvc.report.page import write_page
from distsvc.run.directory import RunDirectory
from distsvc.run.labelling import RULE, Counts, read_rule
from distsvc.run.pictures import labelled_pilot
from distsvc.run.room import Room, Rows, Tally
from distsvc.storage.arrays import read_json, write_json
from distsvc.storage.publication import described

INDEX_ROWS = 5000


def make_report(
    run: RunDirectory,
    job: Job,
    room: Room,
    pilot: np.ndarray,
    counts: Counts,
    tally: Tally | None,
    command: str,
) -> dict[str, Any]:
    """Return what ``report.json`` holds, but for the phases."""
    rule = read_rule(run)
    rows = labelled_pilot(run, rule, pilot)
    report: dict[str, Any] = {
        "title": Path(job.output.path).name or "distsvc",
        "distsvc_version": __version__,
        "command": command,
        "job_file": tomli_w.dumps(job.model_dump(mode="json", exclude_none=True)),
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "input": _input(run, job, counts),
        "model": {
            "algorithm": job.model.algorithm,
            "parameters": room.parameters,
            "fitted": room.engine.fitted_facts(),
        },
        "clusters": _clusters(counts),
        "outliers": _outliers(rule, counts),
        "score_histogram": _histogram(run, rule, counts),
        "warnings": room.engine.notes,
        "sample": rows.sample,
    }
    report |= room.parts(run, rows, tally)
    if counts.classes and "reasons" not in report:
        report["indices"] = _indices(rows, counts)
    return report


def _input(run: RunDirectory, job: Job, counts: Counts) -> dict[str, Any]:
    table = run.plan.table
    return {
        "path": job.input.path,
        "format": table.format,
        "n_rows": counts.n_rows,
        "n_rows_read": table.n_rows,
        "n_features": len(table.columns),
        "columns": list(table.columns),
    }


def _clusters(counts: Counts) -> list[dict[str, Any]]:
    """Return the clusters, the largest first."""
    rows_of = counts.sizes.sum(axis=1)
    return [
        {
            "label": int(c),
            "rows": int(rows_of[c]),
            "share": float(rows_of[c] / counts.n_rows),
            "outliers": int(counts.sizes[c, 1]),
        }
        for c in np.argsort(-rows_of, kind="stable")
    ]


def _outliers(rule: Rule, counts: Counts) -> dict[str, Any]:
    n_outside = int(counts.sizes[:, 1].sum())
    outliers = {"rows": n_outside, "share": n_outside / counts.n_rows}
    if not rule.words.has_outliers:
        outliers["defined"] = False
    if rule.words.meaning:
        outliers["meaning"] = rule.words.meaning
    return outliers


def _histogram(run: RunDirectory, rule: Rule, counts: Counts) -> dict[str, Any]:
    words = rule.words
    edges, rows = run.read(RULE).arrays["score_edges"], counts.histogram.tolist()
    histogram = {"edges": edges.tolist(), "counts": rows}
    if not words.has_outliers:
        histogram |= {"heading": words.heading, "title": words.axis, "boundary": words.boundary}
        if rule.n_clusters == 1:
            histogram["counts"] = []
    elif words.axis != Rule.words.axis:
        histogram["title"] = words.axis
    return histogram


def _indices(rows: Rows, counts: Counts) -> dict[str, dict[str, Any]]:
    """Return the indices by class on all rows, the others on the pilot's rows."""
    table = np.column_stack(list(counts.classes.values()))
    indices: dict[str, dict[str, Any]] = {
        name: {"value": value, "rows": counts.n_rows}
        for name, value in indices_from_contingency(table).items()
        if name != "n_clusters"
    }
    X, labels = rows.X[:INDEX_ROWS], rows.labels[:INDEX_ROWS]
    for name, value in clustering_report(X, labels).items():
        if name != "n_clusters":
            indices[name] = {"value": value if np.isfinite(value) else None, "rows": len(X)}
    return indices


def rewrite_page(folder: Path) -> Path:
    """Write ``report.html`` of a published run again and return its path.

    The manifest is brought up to date: it holds the page's checksum.
    """
    if not (folder / "manifest.json").exists():
        raise InputNotFoundError(f"no run is published in {folder}: it has no manifest.json")
    page = folder / "report.html"
    write_page(read_json(folder / "report.json"), page)
    content = read_json(folder / "manifest.json")
    for file in content["files"]:
        if file["file"] == page.name:
            file |= described(page)
    write_json(folder / "manifest.json", content)
    return page
