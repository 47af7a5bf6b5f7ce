"""What a run leaves for people: its model, its page, and the numbers of the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from distsvc.config import Job
from distsvc.report.content import Report
from distsvc.report.page import render_page
from distsvc.run.directory import RunDirectory
from distsvc.run.labelling import Labelled
from distsvc.run.model import write_model
from distsvc.run.progress import Progress
from distsvc.run.room import Room
from distsvc.run.summary import make_report
from distsvc.storage.arrays import read_json, write_json, write_text
from distsvc.storage.listing import MANIFEST, checked, listed, read_manifest
from distsvc.storage.published import described

PAGE, REPORT = "report.html", "report.json"


def write_report(
    run: RunDirectory,
    job: Job,
    room: Room,
    pilot: np.ndarray,
    labelled: Labelled,
    command: str,
    progress: Progress,
) -> Report:
    """Write model, page and ``report.json`` into a run's directory; return the report.

    `pilot` are the raw rows (m, d) float64.
    """
    with progress.phase("report"):
        write_model(run, job, room)
        report = make_report(run, job, room, pilot, labelled, command)
        write_text(run.path / PAGE, render_page(report.with_phases(progress.phases)))
    report = report.with_phases(progress.phases)
    write_json(run.path / REPORT, report.dumped())
    return report


def read_report(folder: Path) -> Report:
    """Return the report of a published run; `DataError` where it is missing or damaged."""
    path = folder / REPORT
    return Report.parsed(read_json(path), str(path))


def rewrite_page(folder: Path) -> Path:
    """Write ``report.html`` of a published run again and return its path.

    ``report.json`` has to be what the manifest lists. That is brought up to date: it holds the
    page's checksum.

    Raises
    ------
    InputNotFoundError
        No run is published there.
    JobFileError
        The manifest was written by another version.
    DataError
        Manifest or report are damaged.

    """
    content = read_manifest(folder)
    checked(folder, content, listed(folder, content, REPORT))
    page = folder / PAGE
    write_text(page, render_page(read_report(folder)))
    for file in content["files"]:
        if file["file"] == page.name:
            file |= described(page)
    write_json(folder / MANIFEST, content)
    return page
