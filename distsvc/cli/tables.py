"""The commands that look at a table and publish nothing, as in `distsvc.cli.main`."""

from __future__ import annotations

import json

import click

from distsvc.cli.ending import failing_cleanly
from distsvc.errors import one_line


@click.command()
@click.argument("table")
@click.option("--out", metavar="JOB.toml", help="Where the job file is written, if not printed.")
def init(table: str, out: str | None) -> None:
    """Look at TABLE, and print a job file for it, with what was seen as comments.

    The job runs as it is. A file that is there already is not overwritten.
    """
    with failing_cleanly():
        from distsvc.run.drafts.drafting import draft, write_draft

        if out is None:
            text = draft(table)
        else:
            write_draft(table, out)
            text = f"{out}\n"
    click.echo(text, nl=False)


@click.command()
@click.argument("job_file", metavar="JOB.toml|TABLE")
@click.option(
    "--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE", help="Override a key."
)
@click.option("--run-date", metavar="DATE", help="What {run_date} stands for; today by default.")
@click.option("--json", "as_json", is_flag=True, help="Print the forecast as JSON.")
def plan(job_file: str, settings: tuple[str, ...], run_date: str | None, as_json: bool) -> None:
    """Say what a run of JOB.toml, or of a TABLE, will take: rows, tasks, bytes, memory and time."""
    with failing_cleanly():
        from distsvc.run.drafts.asked_job import asked_job
        from distsvc.run.forecast.forecast import forecast_job

        forecast = forecast_job(asked_job(job_file, run_date, settings))
    if as_json:
        click.echo(json.dumps(forecast.dumped()))
    else:
        click.echo("\n".join(map(one_line, forecast.lines())))


COMMANDS = init, plan
