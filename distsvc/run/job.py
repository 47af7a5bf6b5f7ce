"""The whole story of a run, top to bottom: open, survey, prepare, fit, label, report, publish.

Each step is a phase, the same task for every partition, on workers or in this process, or something
that the driver works out from what the tasks left in the run's directory. The table is read once
for its statistics and a random sample (twice where rows are left out), and once to label it; some
algorithms read it in between.
Learning is sequential: a learner streams the sample's rows in random order, or holds them all.
Nothing that decides a label depends on how the table is cut or who does the work.

How an algorithm learns is told by its room (`distsvc.run.algorithms`).
"""

from __future__ import annotations

from pathlib import Path

from distsvc.config import Job
from distsvc.report.content import Report
from distsvc.run.labelling import label_table, write_rule
from distsvc.run.manifest import publish
from distsvc.run.opening import opened
from distsvc.run.phases import steps_on
from distsvc.run.preparation import prepare
from distsvc.run.progress import Progress
from distsvc.run.report_files import read_report, write_report
from distsvc.run.survey import survey_table
from distsvc.storage.tables import check_unchanged


def run_job(
    job: Job,
    *,
    command: str = "",
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    require_tls: bool = False,
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
    scheduler, scheduler_file, require_tls
        Where the cluster is; see `distsvc.run.cluster.connected`.
    overwrite
        Whether something else that is published at the output is replaced.
    progress
        Where phases and events are shown; nowhere when not given.

    """
    progress = progress or Progress(quiet=True)
    with opened(job, overwrite, progress) as found:
        if found is None:
            progress.event("already published", output=job.output.path)
            return read_report(Path(job.output.path))
        run, room = found.run, found.room
        where = job.cluster, found.table.nbytes, scheduler, scheduler_file, require_tls
        with steps_on(run, progress, *where) as steps:
            survey = survey_table(steps, room.engine.key_ranges)
            prepared_pilot = prepare(steps, job.preprocess, room, survey)
            rule = room.fit(steps, survey)
            write_rule(run, rule, prepared_pilot)
            labelled = label_table(steps)
        report = write_report(run, job, room, survey.pilot, labelled, command, progress)
        with progress.phase("publish"):
            check_unchanged(found.table)
            publish(found, job, labelled.counts)
    return report.with_phases(progress.phases)
