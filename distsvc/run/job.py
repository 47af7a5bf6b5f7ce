"""The whole story of a run, top to bottom: open, cluster or assign, report, check, publish.

To cluster is to survey, prepare, fit and label (`distsvc.run.fitting.clustering`); to assign is
to label with the model of a run before. Each step is a phase, the same task for every partition, on
workers or in this process, or something that the driver works out from what the tasks left in the
run's directory. Learning is sequential: a learner streams the sample's rows in random order, or
holds them all. Nothing that decides a label depends on how the table is cut or who does the work.

How an algorithm learns is told by its room (`distsvc.run.algorithms`).
"""

from __future__ import annotations

from distsvc.job.config import Job
from distsvc.report.content.report import Report
from distsvc.run.fitting.assigning import assign_table
from distsvc.run.fitting.clustering import cluster_table
from distsvc.run.forecast.memory import check_memory
from distsvc.run.labelling.phase import fill_output
from distsvc.run.nights.comparison import compared
from distsvc.run.reporting.files import read_report, write_report
from distsvc.run.reporting.manifest import publish
from distsvc.run.starting.opening import opened
from distsvc.run.work.phases import steps_on
from distsvc.run.work.progress import Progress


def run_job(
    job: Job,
    *,
    command: str = "",
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    require_tls: bool = False,
    overwrite: bool = False,
    fresh: bool = False,
    skip_missing: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Cluster a table and publish labels, model and report; return the report.

    Nothing is published unless everything is, and passes the job's checks. `distsvc.errors` lists
    what can go wrong.

    Parameters
    ----------
    job
        The validated job file.
    command
        What the page names as the way to run it again.
    scheduler, scheduler_file, require_tls
        Where the cluster is; see `distsvc.run.work.cluster.connected`.
    overwrite
        Whether something else that is published at the output is replaced.
    fresh
        Whether to start over where an earlier run was interrupted, which otherwise goes on.
    skip_missing
        Whether an input that is not there yet is to be skipped (`SkippedError`).
    progress
        Where phases and events are shown; nowhere when not given.

    """
    progress = progress or Progress(quiet=True)
    with opened(job, overwrite, progress, fresh, skip_missing) as found:
        if found is None:
            progress.event("already published", output=job.output.path)
            return read_report(job.output.path)
        run, room, job = found.run, found.room, found.job
        where = job.cluster, found.table.nbytes, scheduler, scheduler_file, require_tls
        with steps_on(run, progress, *where) as steps:
            memory = check_memory(job, found.table, steps.workers).part()
            assigned = assign_table(steps, job, found.previous)
            if assigned is not None:
                room, pilot, labelled = assigned
            else:
                pilot, labelled = cluster_table(steps, job, room)
            fill_output(steps, labelled.counts)
        agreement = room.engine.fitted_facts().get("agreement")
        night = compared(run, job, found.previous, labelled.counts, agreement)
        report = write_report(run, job, room, pilot, labelled, night, command, progress, memory)
        with progress.phase("publish"):
            publish(found, labelled.counts, report)
    return report.with_phases(progress.phases)
