"""The whole story of a run: open, assign or cluster, compare, check, report, publish.

1. `opened` holds the output and opens the table, the previous run and the algorithm, each once, and
   completes the job from the previous run. An `Output` in their place is published already.
2. `assign_table` labels with the model of the previous run, if the job asks for that and the model
   still fits. If not, it returns None, and `cluster_table` surveys, prepares, fits and labels.
   Either returns what was learned (the model and its `facts`) and what was labelled (its counts).
3. `fill_output` writes the files of labels, where the format needs more than the labelled parts.
4. `compare_and_check` compares with the previous run and does the job's `[checks]`; one of them is
   on `agreement`: how likely another sample has this answer, where an algorithm learns several
   models. `write_moves` lists the ids whose published cluster is not that of the previous run.
5. `write_report` writes `report.json` and the HTML page, and `publish` the manifest, if no check
   failed.

A phase is one task for every partition, done on workers or in this process; `steps` does phases.
All else the driver works out from results in the run's directory. How an algorithm learns, and what
memory that takes, says its `AlgorithmJob`, in a module of `distsvc.run.algorithms`. Labels depend
neither on how the table is cut nor on who does the work.
"""

from __future__ import annotations

from distsvc.job.config import Job
from distsvc.report.content.report import Report
from distsvc.run.fitting.clustering import assign_table, cluster_table
from distsvc.run.forecast.memory import check_memory
from distsvc.run.labelling.phase import fill_output
from distsvc.run.nights.comparison import compare_and_check
from distsvc.run.nights.moves import write_moves
from distsvc.run.reporting.files import rename_clusters, write_report
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
        Where the cluster is; see `distsvc.run.work.workers.cluster.connected`.
    start
        What may be replaced, started over or skipped.
    command
        The command that the HTML page names for running it again.
    progress
        Where phases and events are shown; nowhere when not given.

    """
    progress = progress or Progress(quiet=True)
    with opened(job, start, progress) as opening:
        if isinstance(opening, Output):  # it has this run already
            progress.event("already published", output=opening.shown)
            return rename_clusters(opening, job).of_before()
        run, asked, previous = opening.run, opening.job, opening.previous
        with steps_on(run, progress, asked.cluster, at) as steps:
            forecast = check_memory(asked, opening.table, steps.workers, opening.algorithm)
            learned, labelled = assign_table(steps, asked, previous) or cluster_table(
                steps, asked, opening.algorithm, opening.lineage
            )
            fill_output(steps, labelled.counts)
        comparison = compare_and_check(run, asked, previous, labelled, learned.facts, opening.notes)
        write_moves(run, previous, labelled.counts, progress)
        for check in comparison.checks:
            progress.event("check", **check.told())
        report = write_report(
            run, asked, learned, labelled, comparison, command, progress, forecast.part()
        )
        with progress.phase("publish"):
            publish(opening, labelled, report)
    return report.with_phases(progress.phases)
