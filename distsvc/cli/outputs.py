"""The commands about what is published already, as in `distsvc.cli.main`."""

from __future__ import annotations

import json
from typing import Any

import click

from distsvc.cli.ending import failing_cleanly
from distsvc.errors import one_line


@click.command()
@click.argument("run_dir")
def report(run_dir: str) -> None:
    """Write the page of a published run again, from its report.json."""
    with failing_cleanly():
        from distsvc.run.reporting.files import rewrite_page

        click.echo(rewrite_page(run_dir))


@click.command()
@click.argument("output_path", metavar="OUT")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def status(output_path: str, as_json: bool) -> None:
    """Say what is published at OUT, what is held back or runs there, and what was interrupted."""
    with failing_cleanly():
        from distsvc.published import status as statuses

        found = statuses.status(output_path)
        lines = statuses.in_words(found)
    click.echo(json.dumps(found) if as_json else _one_line_each(lines))


@click.command()
@click.argument("output_path", metavar="OUT")
@click.option("--held", "run_id", required=True, metavar="RUN_ID", help="The candidate.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def publish(output_path: str, run_id: str, as_json: bool) -> None:
    """Publish a candidate at OUT although a check held it back."""
    with failing_cleanly():
        from distsvc.published.held import publish_held

        manifest = publish_held(output_path, run_id)
    if as_json:
        click.echo(json.dumps(manifest.dumped()))
        return
    click.echo(f"run {run_id} is published: {manifest.rows:,} rows")
    for check in manifest.failed:
        click.echo(one_line(f"warning: {check.words}"))
    click.echo(f"{output_path.rstrip('/')}/report.html")


@click.command()
@click.argument("output_path", metavar="OUT")
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Keep only the last N runs.")
@click.option("--json", "as_json", is_flag=True, help="Print what was removed, and kept.")
def gc(output_path: str, keep: int | None, as_json: bool) -> None:
    """Remove from OUT what its manifest does not name, such as results that were replaced.

    With --keep, OUT is a folder of outputs, one for each night: all but the last N runs are
    removed whole, but for one that a run which stays continues from.
    """
    with failing_cleanly():
        from distsvc.storage.publishing.publication import collect
        from distsvc.storage.publishing.retention import is_output, retain

        found: dict[str, Any]
        if keep is None or is_output(output_path):
            found = {"removed": collect(output_path)}
            lines = [f"{len(found['removed'])} files removed"]
        else:
            found = retain(output_path, keep)
            lines = [f"removed: {_run(one)}" for one in found["removed"]]
            lines += [f"kept: {_run(one)}: {one['because']}" for one in found["kept"]]
    click.echo(json.dumps(found) if as_json else _one_line_each(lines))


COMMANDS = report, status, publish, gc


def _run(told: dict[str, str]) -> str:
    of = f" of {told['date']}" if told["date"] else ""
    return f"{told['path']}" + (f", run {told['run_id']}{of}" if told["run_id"] else "")


def _one_line_each(lines: list[str]) -> str:
    """Return lines as one text, each safe to print."""
    return "\n".join(map(one_line, lines))
