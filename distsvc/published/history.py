"""The nights of a lineage, one after the other, as manifests and reports tell them."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.errors.urls import bare_url
from distsvc.published.held import waiting_at
from distsvc.report.content.night import Night, some_ids
from distsvc.report.content.report import Report
from distsvc.report.history import render_history
from distsvc.run.reporting.files import PAGE, read_report
from distsvc.storage.places.arrays import write_text
from distsvc.storage.publishing.publication import Output
from distsvc.storage.publishing.retention import AT_ONCE, check_folder, outputs_below

HEADER = (
    "date", "run", "rows", "clusters", "outside", "moved", "new", "gone", "drift", "checks",
    "seconds", "held",
)  # fmt: skip
UNKNOWN = "-"


def history(path: str) -> list[Night]:
    """Return the nights below a folder of outputs, by job and date.

    Outputs are looked for as `distsvc.storage.publishing.retention.retain` does. An output that
    can't be read is a night that says so; one where nothing is published or held back is none.

    Raises
    ------
    JobFileError
        The folder is one that holds all else, too, such as a home.
    InputNotFoundError
        No output is below `path`.

    """
    check_folder(path)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        nights = [one for one in pool.map(_night, outputs_below(path)) if one is not None]
    if not nights:
        raise InputNotFoundError(f"no run was published in {path}, nor in a folder below it")
    return sorted(nights, key=lambda one: (one.job, one.date, one.created, one.output))


def _night(output: Output) -> Night | None:
    try:
        manifest = output.manifest()
        waiting = sorted(waiting_at(output).values(), key=lambda one: (one.created, one.run_id))
        held = [one.run_id for one in waiting]
        if manifest is None:
            if not waiting:
                return None
            job, date = waiting[-1].job_name, waiting[-1].run_date
            odd = "nothing is published"
            return Night(job=job, date=date, output=output.shown, held=held, odd=odd)
        report = read_report(output)
    except (DataError, JobFileError, InputNotFoundError) as error:
        return Night(output=output.shown, odd=str(error))
    known = Night(
        job=manifest.job_name,
        date=manifest.run_date,
        output=output.shown,
        run_id=manifest.run_id,
        previous=manifest.previous.run_id if manifest.previous else "",
        created=manifest.created,
        rows=manifest.rows,
        clusters=manifest.clusters,
        held=held,
    )
    return known.model_copy(update=_told(report))


def _told(report: Report) -> dict[str, object]:
    """Return what a report tells of its night."""
    stories = report.lineage.clusters if report.lineage and report.lineage.path else []
    states = {check.name: check.state for check in report.checks}
    told: dict[str, object] = {
        "outside": report.outliers.share if report.outliers.defined else None,
        "moved": report.lineage.moved if report.lineage else None,
        "new": [one.id for one in stories if one.is_new],
        "back": [one.id for one in stories if one.event == "returned"],
        "gone": [one.id for one in stories if one.has_ended],
        "failed": [name for name, state in states.items() if state == "failed"],
        "warned": [name for name, state in states.items() if state == "warned"],
        "passed": list(states.values()).count("passed"),
        "sizes": {one.label: one.rows for one in report.clusters},
        "seconds": sum(phase.seconds for phase in report.phases),
    }
    if report.drift and report.drift.columns:
        worst = report.drift.columns[0]
        told |= {"drift": worst.index, "drifted": worst.column}
    return told


def write_page(nights: list[Night], path: str) -> None:
    """Write the page on nights to a file, with a link to the page of each that is on this disk.

    Raises
    ------
    JobFileError
        The file is not one of this machine, but in a bucket, or its folder is not there.
    OutputPermissionError
        It may not be written.

    """
    if "://" in path:
        raise JobFileError(f"--page takes a file of this machine, found {bare_url(path)}")
    file = Path(path).absolute()
    if not file.parent.is_dir():
        raise JobFileError(f"--page: expected a file in a folder that is there, found {path}")
    write_text(file, render_history(nights, [_link(one, file.parent) for one in nights]))


def _link(night: Night, folder: Path) -> str:
    """Return the address, seen from a folder, of a night's page: nothing where it has none."""
    if not night.run_id or "://" in night.output:
        return ""
    page = os.path.relpath(Path(night.output).absolute() / PAGE, folder)
    return quote(page.replace(os.sep, "/"))


def in_lines(nights: list[Night]) -> list[str]:
    """Return a table for people: a line for each night, below the name of its job."""
    rows = [HEADER, *map(_cells, nights)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    jobs = [night.job for night in nights]
    if len(set(jobs)) == 1:
        return [line + _why(night) for line, night in zip(lines, [None, *nights], strict=True)]
    found = [lines[0]]
    for i, night in enumerate(nights):
        if i == 0 or night.job != jobs[i - 1]:
            found.append(f"{night.job or 'no name'}:")
        found.append(lines[i + 1] + _why(night))
    return found


def _why(night: Night | None) -> str:
    return f"  {night.output}: {night.odd}" if night is not None and night.odd else ""


def _cells(night: Night) -> tuple[str, ...]:
    """Return a line of the table."""
    cells = (
        night.date,
        night.run_id,
        _number(night.rows),
        _number(night.clusters),
        _share(night.outside),
        _share(night.moved),
        night.came,
        some_ids(night.gone),
        night.drift_and_column,
        night.checked,
        "" if night.seconds is None else f"{night.seconds:.1f}",
        ", ".join(night.held),
    )
    return tuple(cell or UNKNOWN for cell in cells)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
