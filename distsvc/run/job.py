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

from distsvc.config import Job
from distsvc.report.content import Report
from distsvc.run.labelling import Labelled, label_table, write_rule
from distsvc.run.manifest import publish
from distsvc.run.memory import check_memory
from distsvc.run.opening import opened
from distsvc.run.phases import Steps, steps_on
from distsvc.run.preparation import prepare
from distsvc.run.progress import Progress
from distsvc.run.report_files import read_report, write_report
from distsvc.run.room import Room
from distsvc.run.survey import Survey, survey_table


def run_job(
    job: Job,
    *,
    command: str = "",
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    require_tls: bool = False,
    overwrite: bool = False,
    fresh: bool = False,
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
    fresh
        Whether to start over where an earlier run was interrupted, which otherwise goes on.
    progress
        Where phases and events are shown; nowhere when not given.

    """
    progress = progress or Progress(quiet=True)
    with opened(job, overwrite, progress, fresh) as found:
        if found is None:
            progress.event("already published", output=job.output.path)
            return read_report(job.output.path)
        run, room = found.run, found.room
        where = job.cluster, found.table.nbytes, scheduler, scheduler_file, require_tls
        with steps_on(run, progress, *where) as steps:
            memory = check_memory(job, found.table, steps.workers).part()
            survey, labelled = cluster_table(steps, job, room)
        report = write_report(run, job, room, survey.pilot, labelled, command, progress, memory)
        with progress.phase("publish"):
            publish(found, job, labelled.counts)
    return report.with_phases(progress.phases)


def cluster_table(steps: Steps, job: Job, room: Room) -> tuple[Survey, Labelled]:
    """Survey the table, prepare its rows, fit, and label them all."""
    survey = survey_table(steps, room.engine.key_ranges)
    prepared_pilot = prepare(steps, job.preprocess, room, survey)
    rule = room.fit(steps, survey)
    write_rule(steps.run, rule, prepared_pilot)
    return survey, label_table(steps)
