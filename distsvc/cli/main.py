"""The command line: parse, call one library function, turn errors into exit codes.

Standard output is the result; standard error is progress and log. Imports that cost time are made
where they are used, so that ``--help`` answers at once.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distsvc import __version__
from distsvc.cli import outputs as cli_outputs
from distsvc.cli import tables as cli_tables
from distsvc.cli.ending import failing_cleanly
from distsvc.cli.nights import backfill, cluster_options
from distsvc.errors import one_line
from distsvc.published.calling import run_told
from distsvc.run.work.start import ClusterAddress, Start

if TYPE_CHECKING:
    from distsvc.report.content.report import Report


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="distsvc")
def main() -> None:
    """Cluster tables too big for a notebook, and say which rows lie outside every cluster."""


for command in (*cli_tables.COMMANDS, backfill, *cli_outputs.COMMANDS):
    main.add_command(command)


@contextmanager
def shown_progress() -> Iterator[Any]:
    """Show how far a command is while it lasts."""
    from distsvc.run.work.progress import Progress

    progress = Progress()
    try:
        yield progress
    finally:
        progress.close()


@main.command()
@click.option("--out", default="demo-out", show_default=True, help="Folder for data and results.")
def demo(out: str) -> None:
    """Run the main job on bundled data, from nothing to a report."""
    with failing_cleanly(), shown_progress() as progress:
        from distsvc.published.demo import run_demo

        reports = run_demo(Path(out), progress)
    for name, report in reports.items():
        indices = report.indices or {}
        click.echo(
            f"{name:<11} {len(report.clusters):>3} clusters"
            f" in {report.input.n_rows:>5} rows"
            f"   {outside(report):<13}"
            f"   adjusted Rand index {indices['adjusted_rand_index'].value:.3f}"
            f"   {out}/{name}/report.html"
        )


@main.command()
@click.argument("job_file", metavar="JOB.toml|TABLE")
@click.option(
    "--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE", help="Override a key."
)
@cluster_options
@click.option("--run-date", metavar="DATE", help="What {run_date} stands for; today by default.")
@click.option("--overwrite", is_flag=True, help="Replace what is published at the output path.")
@click.option("--fresh", is_flag=True, help="Start over where an earlier run was interrupted.")
@click.option("--metrics-file", metavar="FILE", help="Where Prometheus' metrics are written.")
@click.option("--skip-missing", is_flag=True, help="Exit with 99 where the input is not there yet.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
def run(
    job_file: str,
    run_date: str | None,
    settings: tuple[str, ...],
    overwrite: bool,
    fresh: bool,
    skip_missing: bool,
    metrics_file: str | None,
    as_json: bool,
    **cluster: Any,
) -> None:
    """Cluster a table and publish labels, model and report.

    The table is the one that JOB.toml names. Without a job file, give the TABLE itself (a file, a
    folder, a glob or a URL): the default job clusters it, into out/NAME, which --set
    output.path=... changes, as any other key.
    """
    with failing_cleanly():
        job, report = run_told(
            job_file,
            run_date,
            settings,
            at=ClusterAddress(**cluster),
            start=Start(overwrite, fresh, skip_missing),
            command=shlex.join(["distsvc", *sys.argv[1:]]),
            metrics_file=metrics_file,
        )
    if as_json:
        click.echo(json.dumps(report.dumped()))
        return
    seconds = sum(phase.seconds for phase in report.phases)
    k = len(report.clusters)
    alone = report.outliers.only
    clusters = "" if alone else f"{k} cluster{'' if k == 1 else 's'} in "
    where = outside(report, "" if alone else " every cluster")
    click.echo(f"{clusters}{report.input.n_rows:,} rows, {where}, {seconds:.1f} s")
    for warning in [*report.warnings, *(report.levels.doubts if report.levels else ())]:
        click.echo(one_line(f"warning: {warning}"))
    click.echo(f"{job.output.path}/report.html")


@main.command()
@click.argument("run_dir")
@click.argument("input_path", metavar="INPUT")
@click.argument("output_path", metavar="OUTPUT")
@click.option(
    "--set", "settings", multiple=True, metavar="cluster.KEY=VALUE", help="A key of [cluster]."
)
@cluster_options
@click.option("--overwrite", is_flag=True, help="Replace what is published in OUTPUT.")
@click.option("--fresh", is_flag=True, help="Start over where an earlier one was interrupted.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def predict(
    run_dir: str,
    input_path: str,
    output_path: str,
    settings: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Label the rows of INPUT with the model published in RUN_DIR, into the folder OUTPUT."""
    with failing_cleanly(), shown_progress() as progress:
        from distsvc.job.file import cluster_settings
        from distsvc.published.predict import predict_table

        keys = cluster_settings(settings)
        manifest = predict_table(
            run_dir, input_path, output_path, settings=keys, progress=progress, **options
        )
    if as_json:
        click.echo(json.dumps(manifest.dumped()))
    else:
        click.echo(f"{manifest.rows:,} rows labelled in {output_path}/labels")


def outside(report: Report, of: str = "") -> str:
    """Say which share of the rows is outside, or that the algorithm has no outside."""
    outliers = report.outliers
    return f"{outliers.share:.1%} outside{of}" if outliers.defined else "no outside"
