"""All steps of a run: open, assign or cluster, compare, check, report, publish.

1. `open_run` locks the output, and opens the table, the previous run and the algorithm. Unless the
   job's mode is "refit", `open_run` uses the previous model's preprocessing. If the run is already
   published, `open_run` yields its `Output`, and only changed names of clusters are published.
   `check_memory` refuses a run that needs too much memory.
2. `assign_table` labels the table with the previous run's model if the job's mode allows it and the
   model still fits. Otherwise it returns None, and `cluster_table` surveys, prepares, fits and
   labels. Both return the learned model with its facts for the report, and the counts of the
   labelled table.
3. `fill_output` converts the labelled parts (Parquet) if the output has another format.
4. `write_moves` lists the row ids whose published cluster has changed. `compare_and_check` compares
   with the previous run, and evaluates the job's `[checks]`. One check is on `agreement`: the
   probability that another sample gives this answer.
5. `write_report` writes `report.json` and the HTML page. `publish` writes the manifest. If a check
   failed, it stores the run as a candidate instead, and raises `CheckFailedError`.

A phase runs tasks, mostly one for each partition, on workers or in this process. `steps` runs the
phases. The driver computes everything else from results in the run's directory. An
`AlgorithmJob` in `distsvc.run.algorithms` defines how an algorithm learns, and its memory. Labels
depend neither on the partitions nor on the workers.
"""

from distsvc.job.config import Job
from distsvc.report.content.report import Report
from distsvc.run.fitting import assign_table, cluster_table
from distsvc.run.forecast import check_memory, memory_part
from distsvc.run.labelling.phase import fill_output
from distsvc.run.nights.comparison import compare_and_check, write_moves
from distsvc.run.reporting.files import rename_clusters, write_report
from distsvc.run.reporting.manifest import publish
from distsvc.run.starting import open_run
from distsvc.run.work.phases import steps_on
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import DEFAULT_ADDRESS, DEFAULT_START, ClusterAddress, Start
from distsvc.storage.publishing.publication import Output


def run_job(
    job: Job,
    at: ClusterAddress = DEFAULT_ADDRESS,
    start: Start = DEFAULT_START,
    *,
    command: str = "",
    progress: Progress | None = None,
) -> Report:
    """Cluster a table and publish labels, model and report; return the report.

    Either everything is published or nothing: a failed check of the job prevents it. The errors are
    listed in `distsvc.errors`. `at` is the address of a Dask cluster, as in `connect`. `start` has
    options, such as replacing another result. The page shows `command`, which runs the job again.
    """
    progress = progress or Progress(quiet=True)
    with open_run(job, start, progress) as context:
        if isinstance(context, Output):  # this run is already published
            progress.event("already published", output=context.shown)
            return rename_clusters(context, job).model_copy(update={"was_there": True})
        run, job, previous = context.run, context.job, context.previous
        with steps_on(run, progress, job.cluster, at) as steps:
            memory = check_memory(run.plan, steps.workers, context.algorithm)
            learned, labelled = assign_table(steps, job, previous) or cluster_table(
                steps, job, context.algorithm, context.lineage, previous
            )
            fill_output(steps, labelled.counts)
        ids_moved, notes = write_moves(run, previous, labelled.counts, progress)
        notes = [*context.notes, *notes]
        comparison = compare_and_check(
            run, job, previous, labelled, learned.facts, ids_moved, notes
        )
        for check in comparison.checks:
            # The words of a failed check are in the error.
            apart = {"name", "side", "warn", *(() if check.state == "warned" else ("words",))}
            progress.event("check", check=check.name, **check.model_dump(exclude=apart))
        forecast = memory_part(memory)
        report = write_report(run, job, learned, comparison, command, progress, forecast)
        with progress.phase("publish"):
            publish(context, labelled, report)
    return report.with_phases(progress.phases)
