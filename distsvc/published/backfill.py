"""The same job for every day of a range, the oldest first, each continuing the one before."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Literal

from distsvc.errors import CheckFailedError, JobFileError, SkippedError
from distsvc.errors.faults import DEFECT, exit_code_and_message
from distsvc.job.config import Job
from distsvc.job.dates import MOST_DAYS
from distsvc.monitoring.announce import watched
from distsvc.published.held import candidates
from distsvc.report.content.night import words_of_night
from distsvc.report.content.report import Report
from distsvc.report.sections.headline import brief
from distsvc.run.job import run_job
from distsvc.run.starting.resuming import interrupted_runs
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import ANYWHERE, FIRST, SHOWN, ClusterAddress, Display, Start
from distsvc.storage.publishing.publication import Output

Reprocess = Literal["none", "failed", "completed"]


@dataclass(frozen=True)
class BackfilledDay:
    """The outcome of a day of a backfill.

    `state` is ``published``; ``kept``, what was published before; ``skipped``, since its input is
    not ready; ``held`` by a check; or ``failed``. `words` are what came of the night, or why.
    `exit_code` is 0 where the next day may follow, or that of the error, and `held` the run that is
    held back.
    """

    day: str
    output: str
    state: Literal["published", "kept", "skipped", "held", "failed"]
    words: str
    exit_code: int = 0
    held: str | None = None

    def line(self) -> str:
        """Return it as a line for people; why the backfill stops here is told elsewhere."""
        words = f"run {self.held}" if self.held else f"exit code {self.exit_code}"
        return f"{self.day}  {self.state:<9}  {words if self.exit_code else self.words}"


def backfill(
    job_of: Callable[[str], Job],
    first: datetime.date,
    last: datetime.date,
    reprocess: Reprocess = "none",
    at: ClusterAddress = ANYWHERE,
    start: Start = FIRST,
    *,
    commands: Callable[[str], str] = str,
    metrics_file: str | None = None,
    display: Display = SHOWN,
) -> Iterator[BackfilledDay]:
    """Run a job for every day from `first` to `last`; yield what became of each.

    The first that a check holds back, or that fails, is the last.

    Parameters
    ----------
    job_of
        Returns the job of a day, ``YYYY-MM-DD``.
    reprocess
        ``none``: only days of which nothing is published. ``failed``: also those of which
        something is, and whose last try since was held back or interrupted. ``completed``: all;
        what is published is replaced.
    at, start
        As of `distsvc.run.job.run_job`; `reprocess` says what is replaced.
    commands
        Returns what the page of a day names as the way to run it again.
    metrics_file
        Where Prometheus' metrics are written, after every day that is run.
    display
        How the progress of the days is shown.

    Raises
    ------
    JobFileError
        The job file is not valid, or its output is not another one for every day.
    ValueError
        `first` is after `last`, or the range has more than `MOST_DAYS` days.

    """
    start = replace(start, overwrite=reprocess != "none")
    for day, job in _jobs(job_of, first, last).items():
        output = Output(job.output.path)
        if not _is_wanted(output, reprocess):
            words = f"run {output.run_id} was published before"
            yield BackfilledDay(day, job.output.path, "kept", words)
            continue
        try:
            name = job.job.name
            with closing(Progress(*display)) as progress, watched(name, metrics_file) as announcer:
                asked = announcer.begins(job)
                report = run_job(asked, at, start, command=commands(day), progress=progress)
                announcer.ends(report)
            state: Literal["kept", "published"] = "kept" if report.was_there else "published"
            done = BackfilledDay(day, job.output.path, state, _words(report))
        except Exception as error:
            code, words = exit_code_and_message(error)
            if code == DEFECT:
                raise
            done = _stopped(day, output, code, words)
        yield done
        if done.exit_code:
            return


def going_on(stopped: BackfilledDay, last: str, commands: Callable[[str], str]) -> list[str]:
    """Return the commands by which a backfill goes on after the day that stopped it.

    `commands` returns that of a backfill from a day.
    """
    if stopped.held is None:
        return [commands(stopped.day)]
    day = datetime.date.fromisoformat(stopped.day)
    following = []
    if stopped.day < last:
        following.append(commands((day + datetime.timedelta(1)).isoformat()))
    publish = ["distsvc", "publish", stopped.output, "--held", stopped.held]
    return [shlex.join(publish), *following]


def _jobs(
    job_of: Callable[[str], Job], first: datetime.date, last: datetime.date
) -> dict[str, Job]:
    """Return the jobs by their days, which have an output each."""
    if first > last:
        raise ValueError(f"expected a first day before the last, found {first} and {last}")
    count = (last - first).days + 1
    if count > MOST_DAYS:
        raise ValueError(f"expected at most {MOST_DAYS} days, found {count} from {first} to {last}")
    days = [first + datetime.timedelta(number) for number in range(count)]
    if count == 1:  # another one, to compare outputs with
        days.append(first + datetime.timedelta(-1 if first == datetime.date.max else 1))
    jobs = {day.isoformat(): job_of(day.isoformat()) for day in days}
    days_of: dict[str, str] = {}
    for day, job in jobs.items():
        path = job.output.path
        if path in days_of:
            raise JobFileError(
                "output.path must hold the date, as out/{run_date} does, so that no night replaces "
                f"another: {path} is that of {days_of[path]} and of {day}"
            )
        days_of[path] = day
    return dict(list(jobs.items())[:count])


def _is_wanted(output: Output, reprocess: Reprocess) -> bool:
    """Return whether the day of an output is to be run."""
    manifest = output.manifest()
    if manifest is None or reprocess == "completed":
        return True
    if reprocess == "none":
        return False
    return bool(interrupted_runs(output) or candidates(output))


def _stopped(day: str, output: Output, code: int, words: str) -> BackfilledDay:
    if code == SkippedError.exit_code:
        return BackfilledDay(day, output.shown, "skipped", words)
    if code == CheckFailedError.exit_code:
        held = [one.run_id for one in candidates(output)]
        named = next((run_id for run_id in held if run_id in words), held[-1])
        return BackfilledDay(day, output.shown, "held", words, code, named)
    return BackfilledDay(day, output.shown, "failed", words, code)


def _words(report: Report) -> str:
    share = report.outliers.share
    outside = f", {share:.1%} outside" if report.outliers.defined else ""
    counted = f"{report.input.n_rows:,} rows, {brief(report)}{outside}"
    return ", ".join([counted, *words_of_night(report)])
