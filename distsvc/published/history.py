"""The history of all nights below a folder of outputs: lines of text, or one HTML page."""

import datetime
import os
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from distsvc import __version__
from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.errors.urls import local_file
from distsvc.published.republish import waiting_at
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.night import Night, some_ids
from distsvc.report.figures import drawing
from distsvc.report.figures import nights as figures
from distsvc.report.formats import template
from distsvc.report.sections.names import cluster_names
from distsvc.run.reporting.files import read_report
from distsvc.storage.places.arrays import write_content
from distsvc.storage.publishing.manifest import PAGE
from distsvc.storage.publishing.publication import Output
from distsvc.storage.publishing.retention import each_below


def _text(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"


HISTORY_COLUMNS: tuple[tuple[str, Callable[[Night], str]], ...] = (
    ("date", lambda night: night.date),
    ("run", lambda night: night.run_id),
    ("rows", lambda night: _text(night.rows, ",")),
    ("clusters", lambda night: _text(night.clusters, ",")),
    ("outside", lambda night: _text(night.outside, ".1%")),
    ("moved", lambda night: _text(night.moved, ".1%")),
    ("ids_moved", lambda night: _text(night.ids_moved, ".1%")),
    ("new", lambda night: night.came),
    ("gone", lambda night: some_ids(night.gone)),
    ("drift", lambda night: night.drift_and_column),
    ("checks", lambda night: night.checked),
    ("seconds", lambda night: _text(night.seconds, ".1f")),
    ("held", lambda night: ", ".join(night.held)),
)
"""The columns of `history_lines`: name, and the function that returns a night's cell."""


def history(path: str) -> list[Night]:
    """Return the nights below a folder of outputs, sorted by job and date.

    `JobFileError` is raised if the folder is too broad, such as a home folder, and
    `InputNotFoundError` if there are no nights below it.
    """
    nights = each_below(path, _night)
    return sorted(nights, key=lambda one: (one.job, one.date, one.created, one.output))


def _night(output: Output) -> Night | None:
    try:
        manifest = output.manifest()
        waiting = list(waiting_at(output).values())
        held = [one.run_id for one in waiting]
        if manifest is None and not waiting:
            return None
        if manifest is None:
            last = waiting[-1]
            return Night(
                job=last.job_name,
                date=last.run_date,
                output=output.shown,
                odd="nothing is published",
                held=held,
                failed=[check.name for check in last.failed],
            )
        report = read_report(output)
    except (DataError, JobFileError, InputNotFoundError) as error:
        return Night(output=output.shown, odd=str(error))
    lineage = report.lineage
    stories = lineage.clusters if lineage and lineage.path else []
    states = [check.state for check in report.checks]
    worst = report.drift.columns[0] if report.drift and report.drift.columns else None
    return Night(
        job=manifest.job_name,
        date=manifest.run_date,
        output=output.shown,
        run_id=manifest.run_id,
        previous=manifest.previous.run_id if manifest.previous else "",
        created=manifest.created,
        rows=manifest.rows,
        clusters=manifest.clusters,
        held=held,
        outside=report.outliers.share if report.outliers.defined else None,
        moved=lineage.moved if lineage else None,
        ids_moved=lineage.ids_moved if lineage else None,
        new=[one.id for one in stories if one.is_new],
        back=[one.id for one in stories if one.event == "returned"],
        gone=[one.id for one in stories if one.has_ended],
        drift=worst.index if worst else None,
        drifted=worst.column if worst else "",
        failed=[check.name for check in report.failed],
        warned=[check.name for check in report.checks if check.state == "warned"],
        passed=states.count("passed"),
        unmeasured=states.count("not measured"),
        sizes={one.label: one.rows for one in report.clusters},
        names={int(label): name for label, name in report.names.items()},
        page_names=cluster_names(report),
        seconds=sum(phase.seconds for phase in report.phases),
    )


def write_page(nights: list[Night], path: str) -> None:
    """Write the history page to a file, with links to the pages of nights that are local files."""
    file = local_file("--page", path).absolute()
    if not file.parent.is_dir():
        raise JobFileError(f"--page: expected a file in an existing folder, found {path}")
    links = []
    for night in nights:
        page = os.path.relpath(Path(night.output).absolute() / PAGE, file.parent)
        has_page = night.run_id and "://" not in night.output
        links.append(quote(page.replace(os.sep, "/")) if has_page else "")
    write_content(file, render_history(nights, links))


def history_lines(nights: list[Night]) -> list[str]:
    """Return the nights as a table of text: a line for each, below the name of its job."""
    rows = [[name for name, _ in HISTORY_COLUMNS]]
    rows += [[cell(night) or "-" for _, cell in HISTORY_COLUMNS] for night in nights]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    has_headings = len({night.job for night in nights}) > 1
    found, job = lines[:1], None
    for night, line in zip(nights, lines[1:], strict=True):
        if has_headings and night.job != job:
            found.append(f"{night.job or 'no name'}:")
        found.append(line + (f"  {night.output}: {night.odd}" if night.odd else ""))
        job = night.job
    return found


def render_history(nights: Sequence[Night], links: Sequence[str]) -> str:
    """Return the history page as HTML.

    `links` has the address of each night's own page; it is empty if there is no page to link.
    """
    linked = zip(nights, links, strict=True)
    jobs = [(job, list(group)) for job, group in groupby(linked, key=lambda pair: pair[0].job)]
    return template("history.html", themed=drawing.themed, some_ids=some_ids).render(
        jobs=jobs, figures=figures, limits=PAGE_LIMITS, version=__version__, theme=drawing.THEME,
        made=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )  # fmt: skip
