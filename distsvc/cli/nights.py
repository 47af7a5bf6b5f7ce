"""The command that runs a job for many days, as in `distsvc.cli.main`."""

from __future__ import annotations

import datetime
import json
import shlex
import sys
from typing import Any

import click

from distsvc.cli.ending import failing_cleanly
from distsvc.errors import one_line
from distsvc.run.work.start import ClusterAddress, Start

TOLD = "day", "output", "state", "words", "exit_code", "held"
DAY = click.DateTime(["%Y-%m-%d"])


def cluster_options(command: Any) -> Any:
    """Give a command the options that say where the cluster is."""
    for option in (
        click.option("--require-tls", is_flag=True, help="Refuse a scheduler that is not tls://."),
        click.option(
            "--scheduler-file", metavar="FILE", help="A file that a Dask scheduler wrote."
        ),
        click.option(
            "--scheduler", metavar="ADDRESS", help="A Dask scheduler, e.g. tcp://10.0.0.5:8786."
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("job_file", metavar="JOB.toml")
@click.option("--from", "first", type=DAY, required=True, metavar="DATE", help="The first day.")
@click.option("--to", "last", type=DAY, required=True, metavar="DATE", help="The last day.")
@click.option(
    "--reprocess",
    type=click.Choice(("none", "failed", "completed")),
    default="none",
    show_default=True,
    help="Which days are run again that have something published.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE", help="Override a key."
)
@cluster_options
@click.option("--fresh", is_flag=True, help="Start over where an earlier run was interrupted.")
@click.option("--skip-missing", is_flag=True, help="Leave out days whose input is not there yet.")
@click.option("--json", "as_json", is_flag=True, help="Print what became of each day as JSON.")
def backfill(
    job_file: str,
    first: datetime.datetime,
    last: datetime.datetime,
    reprocess: Any,
    settings: tuple[str, ...],
    fresh: bool,
    skip_missing: bool,
    as_json: bool,
    **cluster: Any,
) -> None:
    """Run JOB.toml for every day of a range, the oldest first; stop at the first that fails."""
    if first > last:
        raise click.UsageError("--from is after --to")
    at = ClusterAddress(**cluster)
    shared = [f"--set={one}" for one in settings]
    shared += [f"--scheduler={at.scheduler}"] if at.scheduler else []
    shared += [f"--scheduler-file={at.scheduler_file}"] if at.scheduler_file else []
    shared += ["--require-tls"] if at.require_tls else []

    def command(*words: str) -> str:
        return shlex.join(["distsvc", *words, *shared])

    until = last.date().isoformat()

    def again(day: str) -> str:
        kept = [] if reprocess == "none" else [f"--reprocess={reprocess}"]
        kept += ["--skip-missing"] if skip_missing else []
        return command("backfill", job_file, "--from", day, "--to", until, *kept)

    days: list[Any] = []
    with failing_cleanly():
        from distsvc.errors.urls import masked
        from distsvc.job.file import load_job
        from distsvc.published import backfill as backfills

        done = backfills.backfill(
            lambda day: load_job(job_file, settings, day),
            first.date(),
            last.date(),
            reprocess,
            at,
            Start(fresh=fresh, skip_missing=skip_missing),
            commands=lambda day: command("run", job_file, "--run-date", day),
        )
        for day in done:
            days.append(day)
            if not as_json:
                click.echo(one_line(day.line()))
        code = days[-1].exit_code
        go_on = backfills.going_on(days[-1], until, again) if code else []
        go_on = [masked(line) for line in go_on]
    if as_json:
        told = [{name: getattr(day, name) for name in TOLD} for day in days]
        click.echo(json.dumps({"nights": told, "go_on": go_on}))
    if code:
        _tell_stop(days, go_on)
    sys.exit(code)


def _tell_stop(days: list[Any], go_on: list[str]) -> None:
    """Say which days are done, which one stopped the backfill, and how to go on."""
    *done, stopped = days
    before = f"done up to {done[-1].day}" if done else "no day is done"
    lines = [f"error: {stopped.day}: {stopped.words}", f"stopped at {stopped.day}, {before}"]
    for line in [*lines, "to go on:", *(f"  {line}" for line in go_on)]:
        click.echo(one_line(line), err=True)
