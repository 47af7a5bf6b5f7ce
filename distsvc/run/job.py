"""The whole story of a run, top to bottom: open, survey, prepare, fit, label, report, publish.

Each step is a phase, the same task for every partition, on workers or in this process, or something
that the driver works out from what the tasks left in the run's directory. The table is read once
for its statistics and a random sample, and once to label it; some algorithms read it in between.
Learning is sequential: a stream of the sample's rows, in random order, or all of them at once.
Nothing that decides a label depends on how the table is cut or who does the work.

How an algorithm learns is told by its room (`distsvc.run.algorithms`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from distsvc.config import Job
from distsvc.errors import JobFileError, ParameterError
from distsvc.report.content import Report
from distsvc.report.page import render_page
from distsvc.run import algorithms
from distsvc.run.cluster import connected
from distsvc.run.directory import RunDirectory
from distsvc.run.labelling import check_output, label_table, write_rule
from distsvc.run.manifest import make_manifest
from distsvc.run.model import write_model
from distsvc.run.phases import Steps
from distsvc.run.plan import Plan
from distsvc.run.preparation import prepare, prepared
from distsvc.run.progress import Progress
from distsvc.run.summary import make_report, read_report
from distsvc.run.survey import survey_table
from distsvc.storage.arrays import write_json, write_text
from distsvc.storage.publication import Output
from distsvc.storage.tables import fingerprint, open_table


def run_job(
    job: Job,
    *,
    command: str = "",
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Cluster a table and publish labels, model and report; return the report.

    Nothing is published unless everything is. `distsvc.errors` lists what can go wrong.

    Parameters
    ----------
    job
        The validated job file.
    command
        What the page names as the way to run it again.
    scheduler, scheduler_file
        Where the cluster is; see `distsvc.run.cluster.connected`.
    overwrite
        Whether something else that is published at the output is replaced.
    progress
        Where phases and events are shown; nowhere when not given.

    """
    progress = progress or Progress(quiet=True)
    output, digest = Output(job.output.path), job.digest()
    with _naming_the_section(), output.locked(), output.run_folder(digest) as folder:
        run = RunDirectory(folder)
        with progress.phase("open"):
            table = open_table(job.input, folder / "staging")
            inputs = fingerprint(table)
            if output.check_free(digest, inputs, overwrite):
                progress.event("already published", output=str(output.path))
                return read_report(output.path)
            run.write_plan(Plan.of(job, table))
            room = algorithms.begin(job, table)
            check_output(job, table, room)
        with connected(job.cluster, table.nbytes, progress, scheduler, scheduler_file) as client:
            steps = Steps(run, client, progress)
            survey = survey_table(steps, room.engine.key_ranges)
            prepare(steps, job.preprocess, room, survey)
            rule = room.fit(steps, survey)
            write_rule(run, rule, prepared(run, survey.pilot))
            counts, tally = label_table(steps)
        with progress.phase("report"):
            write_model(run, job, room)
            report = make_report(run, job, room, survey.pilot, counts, tally, command)
            write_text(folder / "report.html", render_page(report.with_phases(progress.phases)))
        with progress.phase("publish"):
            report = report.with_phases(progress.phases)
            write_json(folder / "report.json", report.dumped())
            output.publish(folder, make_manifest(run, job, digest, inputs, counts))
    return report


@contextmanager
def _naming_the_section() -> Iterator[None]:
    """Say that a parameter that is not allowed is one of the job file's ``[model]``."""
    try:
        yield
    except ParameterError as error:
        raise JobFileError(f"model: {error}") from error
