"""Backfill: run a job for every day of a range, the oldest first."""

import datetime
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Literal, NamedTuple

from distsvc.errors import (
    CheckFailedError,
    DataError,
    DistsvcError,
    InputNotFoundError,
    InputNotReadyError,
    InterruptedRunError,
    JobFileError,
    SkippedError,
)
from distsvc.errors.faults import DEFECT, exit_code_and_message
from distsvc.job.config import Job
from distsvc.monitoring.announce import Announcer
from distsvc.published.republish import waiting_at
from distsvc.report.sections.headline import outcome
from distsvc.run.job import run_job
from distsvc.run.reporting.files import read_report
from distsvc.run.starting import interrupted_runs
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import (
    DEFAULT_ADDRESS,
    DEFAULT_DISPLAY,
    DEFAULT_START,
    ClusterAddress,
    Display,
    Start,
)
from distsvc.storage.publishing.publication import Output

Reprocess = Literal["none", "failed", "completed"]


class BackfilledDay(NamedTuple):
    """The outcome of a day of a backfill."""

    day: str
    output: str
    # Kept: published before; skipped: its input is not ready; held: a check failed.
    state: Literal["published", "kept", "skipped", "held", "failed"]
    words: str  # the result, or why the day was kept, skipped, held or failed
    exit_code: int = 0  # exit code of the backfill if it ends at this day; 0 if it continues
    held: str | None = None  # id of the run that a check held back
    fresh: bool = False  # whether an interrupted run can only be started over, by ``--fresh``
    warnings: Sequence[str] = ()  # warnings of the published run
    missing: bool = False  # whether the option ``--skip-missing`` would skip the day

    def line(self) -> str:
        """Return the day and its outcome as a line of text."""
        words = f"run {self.held}" if self.held else f"exit code {self.exit_code}"
        return f"{self.day}  {self.state:<9}  {words if self.exit_code else self.words}"


def backfill(
    job_of: Callable[[str], Job],
    first: datetime.date,
    last: datetime.date,
    reprocess: Reprocess = "none",
    at: ClusterAddress = DEFAULT_ADDRESS,
    start: Start = DEFAULT_START,
    *,
    commands: Callable[[str], str] = str,
    metrics_file: str | None = None,
    display: Display = DEFAULT_DISPLAY,
) -> Iterator[BackfilledDay]:
    """Run a job for every day from `first` to `last`; yield each day's outcome.

    A backfill ends at the first day that fails or is held back. `reprocess` selects days:

    - ``none``: days without a published result
    - ``failed``: also published days whose last try was held back or interrupted
    - ``completed``: all days

    All other days keep their result. New names of clusters in the job are written into the result.

    ``job_of("2026-01-31")`` returns the job of this day. The function `commands` returns, for such
    a date, the command that the day's page shows. Metrics are written to `metrics_file` after every
    day that is run. `JobFileError` is raised if two days have the same output.
    """
    repeated_until = last.isoformat() if reprocess == "completed" else ""
    start = replace(start, overwrite=reprocess != "none", repeated_until=repeated_until)
    for day, job in _jobs(job_of, first, last).items():
        output = Output(job.output.path)
        is_wanted = reprocess == "completed" or output.manifest() is None
        if reprocess == "failed" and not is_wanted:
            is_wanted = bool(interrupted_runs(output) or waiting_at(output))
        if not is_wanted:
            words, warnings = _rename(output, job, at)
            words = f"run {output.run_id} was already published{words}"
            yield BackfilledDay(day, job.output.path, "kept", words, warnings=warnings)
            continue
        try:
            announcing = Announcer(job.job.name, metrics_file)
            with closing(Progress(*display)) as progress, announcing as announcer:
                announcer.start(job)
                report = run_job(job, at, start, command=commands(day), progress=progress)
                announcer.add_report(report)
            state: Literal["kept", "published"] = "kept" if report.was_there else "published"
            words = ", ".join(outcome(report))
            done = BackfilledDay(day, job.output.path, state, words, warnings=report.warnings)
        except Exception as error:
            code, words = exit_code_and_message(error)
            if code == DEFECT:
                raise
            done = BackfilledDay(day, output.shown, "failed", words, code)
            if code == SkippedError.exit_code:
                done = done._replace(state="skipped", exit_code=0)
            elif code == CheckFailedError.exit_code:
                held = list(waiting_at(output))
                named = next((run_id for run_id in held if run_id in words), held[-1])
                done = done._replace(state="held", held=named)
            missing = isinstance(error, InputNotFoundError | InputNotReadyError)
            done = done._replace(fresh=isinstance(error, InterruptedRunError), missing=missing)
        yield done
        if done.exit_code:
            return


def _rename(output: Output, job: Job, at: ClusterAddress) -> tuple[str, list[str]]:
    """Give the clusters of a published run the names in a job; return the outcome and warnings."""
    with suppress(DataError, InputNotFoundError):  # a report of another version
        if read_report(output).names == job.names:
            return "", []
        try:
            report = run_job(job, at)
        except DistsvcError as error:
            return f"; its names stay: {error}", []
        return f", {outcome(report)[-1]}", [one for one in report.warnings if one[:7] == "names: "]
    return "", []


def publish_commands(
    stopped: BackfilledDay, last: str, commands: Callable[[str], str]
) -> list[str]:
    """Return the commands that publish a held day and resume the backfill; [] for other days.

    `last` is the backfill's last day; ``commands(day)`` returns the command that resumes at `day`.
    """
    if stopped.held is None:
        return []
    publish = shlex.join(["distsvc", "publish", stopped.output, "--held", stopped.held])
    if stopped.day >= last:
        return [publish]
    following = datetime.date.fromisoformat(stopped.day) + datetime.timedelta(1)
    return [publish, commands(following.isoformat())]


def _jobs(
    job_of: Callable[[str], Job], first: datetime.date, last: datetime.date
) -> dict[str, Job]:
    """Return the job of each day by its date; raise `JobFileError` if two have one output."""
    count = (last - first).days + 1
    days = [first + datetime.timedelta(number) for number in range(count)]
    if count == 1:  # a second day, only to compare outputs
        days.append(first + datetime.timedelta(-1 if first == datetime.date.max else 1))
    jobs = {day.isoformat(): job_of(day.isoformat()) for day in days}
    days_of: dict[str, str] = {}
    for day, job in jobs.items():
        path = job.output.path
        if path in days_of:
            raise JobFileError(
                "output.path must contain the date, such as out/{run_date}, so that no night "
                f"replaces another: {days_of[path]} and {day} both have {path}"
            )
        days_of[path] = day
    return dict(list(jobs.items())[:count])
