"""The whole story of a run, top to bottom: open, assign or cluster, compare, report, publish.

1. `opened` holds the output and opens the table, the previous run and the algorithm, each once.
   They are carried from there as one value.
2. `assign_table` labels with the model of the previous run, if the job asks for that. Otherwise
   `cluster_table` surveys, prepares, fits and labels.
3. `compared` sets the result beside the previous run and checks it, `write_report` draws the page,
   and `publish` swaps the manifest, if no check failed.

A step is a phase, the same task for every partition, on workers or in this process; or the driver
works it out from the results in the run's directory. A learner is sequential: it streams the
sample's rows in random order, or holds them all. Labels depend neither on how the table is cut nor
on who does the work. How each algorithm learns stands in its module of `distsvc.run.algorithms`.
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
from distsvc.run.work.start import ANYWHERE, FIRST, ClusterAddress, Start
from distsvc.storage.publishing.publication import Output


def run_job(
    job: Job,
    at: ClusterAddress = ANYWHERE,
    start: Start = FIRST,
    *,
    command: str = "",
    progress: Progress | None = None,
) -> Report:
    """Cluster a table and publish labels, model and report; return the report.

    Nothing is published unless everything is, and passes the job's checks. `distsvc.errors` lists
    what can go wrong.

    Parameters
    ----------
    job
        The validated job file.
    at
        Where the cluster is; see `distsvc.run.work.cluster.connected`.
    start
        What may be replaced, started over or skipped.
    command
        What the page names as the way to run it again.
    progress
        Where phases and events are shown; nowhere when not given.

    """
    progress = progress or Progress(quiet=True)
    with opened(job, start, progress) as opening:
        if isinstance(opening, Output):  # it has this run already
            progress.event("already published", output=opening.shown)
            return read_report(opening)
        run, asked, previous = opening.run, opening.job, opening.previous
        with steps_on(run, progress, asked.cluster, at) as steps:
            memory = check_memory(asked, opening.table, steps.workers, opening.algorithm).part()
            learned, labelled = assign_table(steps, asked, previous) or cluster_table(
                steps, asked, opening.algorithm
            )
            fill_output(steps, labelled.counts)
        comparison = compared(run, asked, previous, labelled, learned.facts.get("agreement"))
        report = write_report(run, asked, learned, labelled, comparison, command, progress, memory)
        with progress.phase("publish"):
            publish(opening, labelled, report)
    return report.with_phases(progress.phases)
