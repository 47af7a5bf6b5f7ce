"""The model, the page and ``report.json`` of a run."""

from __future__ import annotations

from distsvc.errors.extras import check_extra, is_installed
from distsvc.job.config import Job
from distsvc.job.file import job_text
from distsvc.report.content.report import ForecastPart, Report
from distsvc.run.algorithms.algorithm import Learned
from distsvc.run.labelling.phase import Labelled
from distsvc.run.model.files import copy_model, write_model
from distsvc.run.nights.comparison import Comparison
from distsvc.run.reporting.summary import make_report
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.progress import Progress
from distsvc.run.work.workers.lean import skip_docstrings
from distsvc.storage.places.arrays import json_bytes, read_json, write_json, write_text
from distsvc.storage.publishing.publication import COPIES, Output

PAGE, REPORT = COPIES


def write_report(
    run: RunDirectory,
    job: Job,
    learned: Learned,
    labelled: Labelled,
    comparison: Comparison,
    command: str,
    progress: Progress,
    forecast: ForecastPart | None = None,
) -> Report:
    """Write the model, the page and ``report.json`` of a run; return the report."""
    place = run.place("report")
    with progress.phase("report"):
        if learned.folder is None:
            write_model(run, job, learned, labelled)
        else:
            copy_model(run, learned.folder)
        report = make_report(run, job, learned, labelled, comparison, command)
        report = report.model_copy(update={"forecast": forecast})
        for warning in report.warnings:
            progress.event("warning", because=warning)
        for name, part in {"lineage": comparison.lineage, "drift": comparison.drift}.items():
            if part is not None:
                with place.created(f"{name}.json") as path:
                    write_json(path, part.model_dump())
        if not is_installed("matplotlib"):
            progress.event("page without figures")
        with place.created(PAGE) as path:
            write_text(path, page_of(report.with_phases(progress.phases)))
    report = report.with_phases(progress.phases)
    with place.created(REPORT) as path:
        write_json(path, report.dumped())
    return report


def read_report(published: Output) -> Report:
    """Return the report of a published run; `DataError` if it is missing or damaged."""
    path = published.file(REPORT)
    return Report.parsed(read_json(path), str(path))


def page_of(report: Report) -> str:
    """Return the HTML page of a report."""
    skip_docstrings()
    from distsvc.report.page import render_page  # matplotlib takes time to import

    return render_page(report)


def rename_clusters(output: Output, job: Job) -> Report:
    """Return the report of a published run with the cluster names of a job.

    If names differ, page and report are published again. Errors as in `Output.locked` and
    `Output.file`.
    """
    report = read_report(output)
    if report.names == job.names:
        return report
    with output.locked():
        news = {"names": dict(job.names), "job_file": job_text(job)}
        report = read_report(output).model_copy(update=news)
        output.revise({PAGE: page_of(report), REPORT: json_bytes(report.dumped()).decode()})
    return report


def rewrite_page(published: str) -> str:
    """Publish the page of a run again, as a new file made from its report; return its path.

    Errors as in `Output.locked` and `Output.file`; `MissingExtraError` without matplotlib.
    """
    check_extra("matplotlib", "report", "a page with figures")
    output = Output(published)
    read_report(output)  # before anything is written
    with output.locked():
        output.revise({PAGE: page_of(read_report(output))})
    return f"{published.rstrip('/')}/{PAGE}"
