"""The commands about the papers' data sets and comparisons, as in `distsvc.cli.main`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from distsvc.cli.ending import failing_cleanly


@contextmanager
def shown_progress() -> Iterator[Any]:
    """Show how far a command is while it lasts."""
    from distsvc.run.work.progress import Progress

    progress = Progress()
    try:
        yield progress
    finally:
        progress.close()


@click.group()
def datasets() -> None:
    """Tell and bring the data sets on which the papers were evaluated."""


@datasets.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print every fact as JSON.")
def list_datasets(as_json: bool) -> None:
    """List every data set: its size, and where it comes from without --from."""
    with failing_cleanly():
        from distsvc.datasets import catalogue

        sets = catalogue().values()
    if as_json:
        from dataclasses import asdict

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
        from distsvc.datasets import fetch, find

        path, facts = fetch(name, out, folder), find(name)
    if as_json:
        from dataclasses import asdict

        click.echo(json.dumps({"path": str(path)} | asdict(facts)))
        return
    click.echo(path)


@click.group()
def bench() -> None:
    """Repeat the papers' comparisons."""


@bench.command("run")
@click.argument(
    "suites",
    nargs=-1,
    required=True,
    type=click.Choice(("bsgd", "imdh", "linear", "peers")),
    metavar="SUITE...",
)
@click.option("--data", metavar="DIR", help="Folder of data sets; they are fetched otherwise.")
@click.option("--out", default="bench-out", show_default=True, help="Folder of the results.")
@click.option("--set", "sets", multiple=True, metavar="NAME", help="Only this set (repeatable).")
@click.option("--repetitions", type=click.IntRange(1), help="Seeds; the papers' number by default.")
@click.option("--quick", is_flag=True, help="Few sets and settings: minutes instead of an hour.")
@click.option("--workers", default=2, show_default=True, help="Processes on this machine.")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler instead.")
@click.option("--scheduler-file", metavar="FILE", help="A file that a Dask scheduler wrote.")
def bench_run(
    suites: tuple[str, ...],
    data: str | None,
    out: str,
    sets: tuple[str, ...],
    repetitions: int | None,
    quick: bool,
    workers: int,
    scheduler: str | None,
    scheduler_file: str | None,
) -> None:
    """Run SUITEs: bsgd, imdh, linear, peers. What is done already is not done again."""
    with failing_cleanly(), shown_progress() as progress:
        from distsvc.bench.evaluate import run_suites
        from distsvc.bench.suites import Choice

        written = run_suites(
            suites,
            Path(out),
            Path(data) if data else None,
            Choice(sets, repetitions, quick),
            progress,
            workers,
            scheduler,
            scheduler_file,
        )
    for path in written:
        click.echo(str(path))


@bench.command("report")
@click.argument("out", default="bench-out")
def bench_report(out: str) -> None:
    """Write the page and the Markdown tables of the suites that were run into OUT."""
    with failing_cleanly():
        from distsvc.bench.page import write_report

        for path in write_report(Path(out)):
            click.echo(str(path))
