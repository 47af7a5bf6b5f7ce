"""The commands: each parses, calls one function, prints the result, and ends with an exit code.

Slow imports are inside the commands, so that ``--help`` answers at once.
"""

import datetime
import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distsvc import __version__
from distsvc.cli.ending import failing_cleanly
from distsvc.cli.options import (
    EXCLUDE,
    FRESH,
    METRICS_FILE,
    PATH,
    RUN_DATE,
    SET,
    WholeNumber,
    cluster_options,
    complete_setting,
    display_options,
    hint_of_option,
    option_words,
    short_keys,
    short_overrides,
    with_objects,
)
from distsvc.errors import one_line, things
from distsvc.errors.urls import bare_text, shown_address
from distsvc.job.dates import MOST_DAYS
from distsvc.published.calling import run_and_announce
from distsvc.run.work.start import ClusterAddress, Display, Start

if TYPE_CHECKING:
    from distsvc.published.backfill import BackfilledDay, Reprocess
    from distsvc.published.republish import LaterNight


DAY = click.DateTime(["%Y-%m-%d"])


class Command(click.Command):
    """A command; an error in it prints one line and sets the exit code.

    The function of the command gets one `Display` instead of --quiet, --verbose and --log-format.
    Likewise, it gets one `ClusterAddress` and one `Start` for the options that are their fields.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command."""
        display = with_objects(ctx.params)
        with failing_cleanly(display, click.ClickException):
            return super().invoke(ctx)


class Commands(click.Group):
    """The group of all commands; its errors show neither secrets nor unprintable characters."""

    command_class = Command

    def invoke(self, ctx: click.Context) -> Any:
        """Call a command."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            words = f"No such option: {error.option_name}{hint_of_option(error)}"
            raise click.UsageError(one_line(bare_text(words)), error.ctx) from None
        except click.UsageError as error:
            raise click.UsageError(one_line(bare_text(error.format_message())), error.ctx) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="distsvc")
def main() -> None:
    """Cluster tables too big for a notebook, and find the rows outside every cluster."""


@main.command()
@click.option(
    "--out", type=PATH, default="demo-out", show_default=True,
    help="Folder for data and results.",
)  # fmt: skip
@display_options
def demo(out: str, display: Display) -> None:
    """Run example jobs on bundled data, and write their reports."""
    from distsvc.published.demo import run_demo
    from distsvc.report.sections.headline import outcome
    from distsvc.run.work.progress import Progress

    with closing(Progress(*display)) as progress:
        reports = run_demo(Path(out), progress)
    for name, report in reports.items():
        indices = report.indices or {}
        say(
            f"{name:<11} {len(report.clusters):>3} clusters"
            f" in {report.input.n_rows:>5} rows"
            f"   {outcome(report)[1]:<27}"
            f"   adjusted Rand index {indices['adjusted_rand_index'].value:.3f}"
            f"   {out}/{name}/report.html"
        )


@main.command()
@click.argument("job_file", metavar="JOB.toml|TABLE", type=PATH)
@short_keys
@SET
@cluster_options
@RUN_DATE
@click.option(
    "--overwrite", is_flag=True, help="Replace the result that is published at the output path."
)
@FRESH
@METRICS_FILE
@click.option("--skip-missing", is_flag=True, help="Exit with 99 if the input is not there yet.")
@click.option("--skip-empty", is_flag=True, help="Exit with 99 if the input has no rows.")
@click.option(
    "--continue-from", type=PATH, metavar="OUT",
    help="Continue the cluster ids of the run at OUT, for this run only.",
)  # fmt: skip
@display_options
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
def run(
    job_file: str,
    run_date: str | None,
    settings: tuple[str, ...],
    continue_from: str | None,
    metrics_file: str | None,
    as_json: bool,
    display: Display,
    at: ClusterAddress,
    start: Start,
    **keys: Any,
) -> None:
    """Cluster a table and publish labels, model and report.

    The table is the one that JOB.toml names. Without a job file, give the TABLE itself (a file, a
    folder, a glob or a URL): the default job clusters it, into out/NAME. The commonest keys of a
    job have options of their own; --set overrides any key.
    """
    job, report = run_and_announce(
        job_file,
        run_date,
        settings,
        short_overrides(settings, keys),
        at=at,
        start=start,
        command=shlex.join(["distsvc", *sys.argv[1:]]),
        metrics_file=metrics_file,
        continue_from=continue_from,
        display=display,
    )
    if as_json:
        say(as_json=report.model_dump())
        return
    from distsvc.report.sections.headline import outcome

    night = ", ".join(outcome(report))
    if report.was_there:
        say(f"already published: {night}")
    else:
        say(f"{night}, {sum(phase.seconds for phase in report.phases):.1f} s")
    for warning in report.warnings:
        say(f"warning: {warning}")
    say(f"{job.output.path}/report.html")


@main.command()
@click.argument("run_dir", type=PATH)
@click.argument("input_path", metavar="INPUT", type=PATH)
@click.argument("output_path", metavar="OUTPUT", type=PATH)
@click.option(
    "--set", "settings", multiple=True, metavar="cluster.KEY=VALUE",
    shell_complete=complete_setting,
    help="Set a key of [cluster], such as cluster.workers=2; may be given several times.",
)  # fmt: skip
@cluster_options
@click.option("--overwrite", is_flag=True, help="Replace the labels that are published in OUTPUT.")
@FRESH
@display_options
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def predict(
    run_dir: str,
    input_path: str,
    output_path: str,
    settings: tuple[str, ...],
    as_json: bool,
    display: Display,
    at: ClusterAddress,
    start: Start,
) -> None:
    """Label the rows of INPUT with the model published in RUN_DIR, into the folder OUTPUT."""
    from distsvc.job.file import cluster_settings
    from distsvc.published.predict import predict_table
    from distsvc.run.work.progress import Progress

    paths, given = (run_dir, input_path, output_path), cluster_settings(settings)
    with closing(Progress(*display)) as progress:
        manifest = predict_table(*paths, settings=given, at=at, start=start, progress=progress)
    done = f"{things(manifest.rows, 'row')} labelled in {output_path}/labels"
    say(done, as_json=as_json and manifest.dumped())
    if display.quiet:  # otherwise they were displayed as they came
        say(*(f"warning: {note}" for note in progress.notes), err=True)


@main.command()
@click.argument("table", type=PATH)
@click.option(
    "--out", type=PATH, metavar="JOB.toml",
    help="Write the job file to this path instead of printing it.",
)  # fmt: skip
@EXCLUDE
@RUN_DATE
def init(table: str, out: str | None, exclude: list[str] | None, run_date: str | None) -> None:
    """Look at TABLE, and print a job file for it, with remarks as comments.

    The job runs as it is, and for every night if TABLE contains {run_date}. An existing job file is
    not overwritten.
    """
    from distsvc.run.drafts.drafting import draft, write_draft

    if out is None:
        print_text(draft(table, exclude=exclude or (), run_date=run_date).rstrip("\n"))
    else:
        write_draft(table, out, exclude or (), run_date)
        print_text(out)


@main.command()
@click.argument("job_file", metavar="JOB.toml|TABLE", type=PATH)
@short_keys
@SET
@RUN_DATE
@click.option("--json", "as_json", is_flag=True, help="Print the forecast as JSON.")
def plan(
    job_file: str, settings: tuple[str, ...], run_date: str | None, as_json: bool, **keys: Any
) -> None:
    """Forecast a run of JOB.toml, or of a TABLE: rows, partitions, tasks, memory and time."""
    from distsvc.run.drafts.asked_job import asked_job, hinting_at_date
    from distsvc.run.forecast import forecast_job

    job = asked_job(job_file, run_date, settings, short_overrides(settings, keys))
    with hinting_at_date(job, run_date):
        forecast = forecast_job(job)
    say(*forecast.lines(), as_json=as_json and forecast.dumped())


@main.command()
@click.argument("run_dir", type=PATH)
def report(run_dir: str) -> None:
    """Write the page of a published run again, from its report.json."""
    from distsvc.run.reporting.files import rewrite_page

    say(str(rewrite_page(run_dir)))


@main.command()
@click.argument("output_path", metavar="OUT", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print the state as JSON.")
def status(output_path: str, as_json: bool) -> None:
    """Show what is published, held, running or interrupted at OUT."""
    from distsvc.published import status as statuses

    found = statuses.status(output_path)
    lines = statuses.status_lines(found)
    say(*lines, as_json=as_json and found)


@main.command()
@click.argument("output_path", metavar="OUT", type=PATH)
@click.option(
    "--held", "run_id", required=True, metavar="RUN_ID",
    help="The id of the run, as distsvc status shows it.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def publish(output_path: str, run_id: str, as_json: bool) -> None:
    """Publish a result at OUT that a check held back."""
    from distsvc.published import republish
    from distsvc.report.sections.headline import outcome
    from distsvc.run.reporting.files import read_report
    from distsvc.storage.publishing.publication import Output

    manifest = republish.publish_held(output_path, run_id)
    gone = republish.continues_gone(manifest)
    passing = republish.passing_nights(output_path, manifest)
    published = read_report(Output(output_path))
    say(
        f"run {run_id} is published: {', '.join(outcome(published))}",
        *republish.lines_on_ended(published),
        *(f"warning: {check.words}" for check in manifest.failed),
        *([f"warning: {gone}"] if gone else []),
        *_lines_on_nights("continue an earlier run, not this run", passing),
        f"{output_path.rstrip('/')}/report.html",
        as_json=as_json and manifest.dumped(),
    )


@main.command()
@click.argument("output_path", metavar="OUT", type=PATH)
@click.option(
    "--withdraw",
    is_flag=True,
    help="Publish nothing at OUT; the result is kept, and can be published again.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def rollback(output_path: str, withdraw: bool, as_json: bool) -> None:
    """Publish the previous result at OUT again.

    The files of the replaced result are kept until another run is published at OUT, or gc removes
    them, so a second rollback undoes the first. With --withdraw nothing is published at OUT any
    more, and the next night continues from the night before the withdrawn night.
    """
    from distsvc.published import republish

    change = republish.withdraw if withdraw else republish.roll_back
    manifest, later = change(output_path)
    run = f"run {manifest.run_id} of {manifest.run_date}"
    if withdraw:
        lines = [
            f"{run} is withdrawn: nothing is published at {output_path}",
            *_lines_on_nights("continue the withdrawn run", later),
            f"to publish it again: distsvc publish {output_path} --held {manifest.run_id}",
        ]
    else:
        lines = [
            f"{run} is published again: {manifest.rows:,} rows",
            f"{output_path.rstrip('/')}/report.html",
            *_lines_on_nights("continue the run that was published until now", later),
        ]
    say(*lines, as_json=as_json and manifest.dumped())


def _lines_on_nights(what: str, nights: "Sequence[LaterNight]") -> list[str]:
    """Return a warning about the nights after a changed night, and a command to run them again.

    `what` completes "these nights ...", such as "continue the withdrawn run".
    """
    if not nights:
        return []
    named = ", ".join(
        f"{one.date} ({shown_address(one.address)}{', held back' * one.is_held})" for one in nights
    )
    days = f"--from {nights[0].date} --to {nights[-1].date}"
    return [
        f"warning: these nights {what}: {named}",
        f"to run these nights again: distsvc backfill JOB.toml {days} --reprocess completed",
    ]


@main.command()
@click.argument("folder", metavar="FOLDER", type=PATH)
@click.option("--page", type=PATH, metavar="FILE", help="Also draw the nights, as an HTML file.")
@click.option("--json", "as_json", is_flag=True, help="Print the nights as JSON.")
def history(folder: str, page: str | None, as_json: bool) -> None:
    """Show the nights below FOLDER: results, and changes since the previous night.

    Outputs are looked for in FOLDER and four folders deep, as in FOLDER/shop/2026/11/20.
    """
    from distsvc.published import history as histories

    nights = histories.history(folder)
    lines = histories.history_lines(nights)
    if page:
        histories.write_page(nights, page)
        lines.append(page)
    say(*lines, as_json=as_json and {"nights": [night.model_dump() for night in nights]})


@main.command()
@click.argument("folder", metavar="FOLDER", type=PATH)
@click.option(
    "--to", "table", type=PATH, required=True, metavar="TABLE",
    help="NAME.parquet, NAME.duckdb or delta://PATH; replaced if it exists.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the nights and rows as JSON.")
def export(folder: str, table: str, as_json: bool) -> None:
    """Write all published nights below FOLDER to one table.

    Its columns are id, night, cluster, name, outlier, score and run. Outputs are looked for in
    FOLDER and four folders deep, as in FOLDER/shop/2026/11/20.
    """
    from distsvc.published import export as exports

    done = exports.export(folder, table)
    say(
        f"{things(done.nights, 'night')}, {done.rows:,} rows: {done.table}",
        as_json=as_json and done._asdict(),
    )


@main.command()
@click.argument("output_path", metavar="OUT", type=PATH)
@click.option(
    "--keep", type=WholeNumber(1), metavar="N", help="Keep only the last N runs of each job."
)
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the removed and kept runs as JSON.")
def gc(output_path: str, keep: int | None, dry_run: bool, as_json: bool) -> None:
    """Remove from OUT the files that its manifest does not name, such as replaced results.

    With --keep, OUT is a folder of outputs, one for each night. The N newest runs of each job are
    kept, and the runs that these continue from; outputs of older runs are removed. Outputs are
    looked for in OUT and four folders deep, as in OUT/shop/2026/11/20.
    """
    gone = "would be removed" if dry_run else "removed"
    found: object
    from distsvc.storage.publishing.publication import collect
    from distsvc.storage.publishing.retention import is_output, retain

    if keep is None or is_output(output_path):
        files = collect(output_path, dry_run)
        found, lines = {"removed": files}, [f"{gone}: {one}" for one in files if dry_run]
        lines.append(f"{things(len(files), 'file')} {gone}")
    else:
        runs = found = retain(output_path, keep, dry_run)
        lines = [f"{gone}: {_run_words(one)}" for one in runs["removed"]]
        lines += [f"kept: {_run_words(one)}: {one['because']}" for one in runs["kept"]]
    say(*lines, as_json=as_json and found)


@main.command()
@click.argument("job_file", metavar="JOB.toml", type=PATH)
@click.option("--from", "first", type=DAY, required=True, metavar="DATE", help="The first day.")
@click.option("--to", "last", type=DAY, required=True, metavar="DATE", help="The last day.")
@click.option(
    "--reprocess", type=click.Choice(("none", "failed", "completed")), default="none",
    show_default=True,
    help="Published days to run again. none: no day; failed: days whose latest run was interrupted "
    "or held back; completed: all days.",
)  # fmt: skip
@SET
@cluster_options
@FRESH
@click.option("--skip-missing", is_flag=True, help="Leave out days whose input is not there yet.")
@click.option("--skip-empty", is_flag=True, help="Leave out days whose input has no rows.")
@METRICS_FILE
@display_options
@click.option("--json", "as_json", is_flag=True, help="Print the outcome of each day as JSON.")
def backfill(
    job_file: str,
    first: datetime.datetime,
    last: datetime.datetime,
    reprocess: "Reprocess",
    settings: tuple[str, ...],
    metrics_file: str | None,
    as_json: bool,
    display: Display,
    at: ClusterAddress,
    start: Start,
) -> None:
    """Run JOB.toml for every day of a range, the oldest first; stop at the first failure."""
    if first > last:
        raise click.UsageError("--from is after --to")
    n_days = (last - first).days + 1
    if n_days > MOST_DAYS:
        raise click.UsageError(f"--from and --to span {n_days} days, expected at most {MOST_DAYS}")
    shared = [*(f"--set={one}" for one in settings), *option_words(**vars(at))]
    until, again_if = last.date().isoformat(), reprocess != "none"

    def run_command(day: str, **more: object) -> str:
        words = ["run", job_file, "--run-date", day, *option_words(**more)]
        return shlex.join(["distsvc", *words, *shared])

    def again(day: str, skip_missing: bool = start.skip_missing) -> str:
        options = option_words(
            reprocess=again_if and reprocess,
            skip_missing=skip_missing,
            skip_empty=start.skip_empty,
            metrics_file=metrics_file,
        )
        words = ["backfill", job_file, "--from", day, "--to", until, *options]
        return shlex.join(["distsvc", *words, *shared])

    days: list[BackfilledDay] = []
    from distsvc.job.file import load_job
    from distsvc.published import backfill as backfills

    done = backfills.backfill(
        lambda day: load_job(job_file, settings, day),
        first.date(),
        last.date(),
        reprocess,
        at,
        start,
        commands=run_command,
        metrics_file=metrics_file,
        display=display,
    )
    for day in done:
        days.append(day)
        if not as_json:
            say(day.line(), *(f"  warning: {warning}" for warning in day.warnings))
    code = days[-1].exit_code
    go_on = [run_command(days[-1].day, fresh=True, overwrite=again_if)] * days[-1].fresh
    go_on += [again(days[-1].day)] if code else []
    publish = backfills.publish_commands(days[-1], until, again)
    if as_json:
        nights = [day._asdict() for day in days]
        say(as_json={"nights": nights, "go_on": go_on, "publish": publish})
    if code:
        *before, stopped = days
        so_far = f"done up to {before[-1].day}" if before else "no day is done"
        lines = [f"error: {stopped.day}: {stopped.words}", f"stopped at {stopped.day}, {so_far}"]
        lines += ["to go on, once the input is mended:" if publish else "to go on:"]
        lines += [f"  {line}" for line in go_on]
        if stopped.missing:
            lines += ["or, to leave out days without an input:", f"  {again(stopped.day, True)}"]
        lines += ["or, to publish the held night:"] if publish else []
        say(*lines, *(f"  {line}" for line in publish), err=True)
    sys.exit(code)


def _run_words(run: dict[str, str]) -> str:
    of = f" of {run['date']}" if run["date"] else ""
    return f"{run['path']}" + (f", run {run['run_id']}{of}" if run["run_id"] else "")


def say(*lines: str, err: bool = False, as_json: object = False) -> None:
    """Print lines, in which control characters are escaped.

    If the command has the flag --json, `as_json` is its result, which is printed instead.
    """
    for line in lines if as_json is False else [json.dumps(as_json)]:
        print_text(line if as_json is not False else one_line(line), err)


def print_text(text: str, err: bool = False) -> None:
    """Print a text and a line end; if this fails, the `OSError` names standard output or error."""
    try:
        click.echo(text, err=err)
    except OSError as error:
        stream = "standard error" if err else "standard output"
        raise OSError(error.errno, error.strerror, stream) from error
