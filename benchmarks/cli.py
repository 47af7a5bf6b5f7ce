"""The commands about the papers: their data sets and their comparisons."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import click

from benchmarks.datasets.catalogue import catalogue, find
from distsvc.cli.ending import failing_cleanly

SUITES = ("bsgd", "imdh", "linear", "peers")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def commands() -> None:
    """Repeat the papers' comparisons, on their data sets."""


@commands.group()
def datasets() -> None:
    """List and fetch the data sets on which the papers were evaluated."""


@datasets.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print every fact as JSON.")
def list_datasets(as_json: bool) -> None:
    """List every data set: its size, and where it comes from without --from."""
    with failing_cleanly():
        sets = catalogue().values()
    if as_json:
        click.echo(json.dumps([asdict(one) | {"source": one.source} for one in sets]))
        return
    width = max(len(one.name) for one in sets)
    click.echo(f"{'name':<{width}}  group        rows  columns  classes  source")
    for one in sets:
        click.echo(
            f"{one.name:<{width}}  {one.group:<8} {one.rows:>8,}  {one.features:>7,}"
            f"  {len(one.class_counts):>7}  {one.source}"
        )


@datasets.command(name="fetch")
@click.argument("name")
@click.option("--from", "folder", metavar="DIR", help="A folder with GROUP/NAME.parquet.")
@click.option("--out", default="data", show_default=True, help="Folder for GROUP/NAME.parquet.")
@click.option("--json", "as_json", is_flag=True, help="Print path and facts as JSON.")
def fetch_dataset(name: str, folder: str | None, out: str, as_json: bool) -> None:
    """Write the data set NAME, once it is what the catalogue says."""
    with failing_cleanly():
        from benchmarks.datasets.loading import fetch

        path, facts = fetch(name, out, folder), find(name)
    click.echo(json.dumps({"path": str(path)} | asdict(facts)) if as_json else path)


@commands.group()
def papers() -> None:
    """Repeat the papers' comparisons."""


@papers.command("run")
@click.argument("suites", nargs=-1, required=True, type=click.Choice(SUITES), metavar="SUITE...")
@click.option("--data", metavar="DIR", type=Path, help="Data sets; they are fetched otherwise.")
@click.option("--out", default="bench-out", show_default=True, type=Path, help="Results.")
@click.option("--set", "sets", multiple=True, metavar="NAME", help="Only this set (repeatable).")
@click.option("--repetitions", type=click.IntRange(1), help="Seeds; the papers' number by default.")
@click.option("--quick", is_flag=True, help="Few sets and settings: minutes instead of an hour.")
@click.option("--limit", default=300.0, show_default=True, help="Seconds of a fit of peers.")
@click.option("--workers", default=2, show_default=True, help="Processes on this machine.")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler instead.")
@click.option("--scheduler-file", metavar="FILE", help="A file that a Dask scheduler wrote.")
def run_papers(
    suites: tuple[str, ...],
    data: Path | None,
    out: Path,
    sets: tuple[str, ...],
    repetitions: int | None,
    quick: bool,
    limit: float,
    workers: int,
    scheduler: str | None,
    scheduler_file: str | None,
) -> None:
    """Run SUITEs: bsgd, imdh, linear, peers. What is done already is not done again."""
    with failing_cleanly():
        from benchmarks.papers.evaluate import run_suites
        from benchmarks.papers.suites import SuiteOptions
        from distsvc.run.work.progress import Progress

        options = SuiteOptions(sets, repetitions, quick, limit)
        with closing(Progress()) as progress:
            written = run_suites(
                suites, out, data, options, progress, workers, scheduler, scheduler_file
            )
    for path in written:
        click.echo(path)


@papers.command("rebuild")
@click.option("--data", metavar="DIR", type=Path, help="Data sets; they are fetched otherwise.")
@click.option("--out", default="bench-out", show_default=True, type=Path, help="Results.")
@click.option("--quick", is_flag=True, help="Few sets and settings: minutes instead of an hour.")
@click.option("--workers", default=2, show_default=True, help="Processes on this machine.")
@click.pass_context
def rebuild_papers(
    context: click.Context, data: Path | None, out: Path, quick: bool, workers: int
) -> None:
    """Run every suite, then write the page and the tables. What is done is not done again."""
    context.invoke(run_papers, suites=SUITES, data=data, out=out, quick=quick, workers=workers)
    context.invoke(report_papers, out=out)


@papers.command("report")
@click.argument("out", default="bench-out", type=Path)
@click.option("--note", default="", help="A paragraph for each suite: what else the machine did.")
def report_papers(out: Path, note: str = "") -> None:
    """Write the page and the Markdown tables of the suites that were run into OUT."""
    with failing_cleanly():
        from benchmarks.papers.page import write_report

        for path in write_report(out, note):
            click.echo(path)
