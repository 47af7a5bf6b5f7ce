"""The same job for every day of a range, the oldest first, each continuing the one before."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from distsvc.errors import CheckFailedError, DistsvcError, JobFileError
from distsvc.errors.faults import fault
from distsvc.job.config import Job
from distsvc.published.held import candidates
from distsvc.report.content.report import Report
from distsvc.run.job import run_job
from distsvc.run.starting.resuming import interrupted_runs
from distsvc.run.work.progress import Progress
from distsvc.storage.publishing.publication import Output

Reprocess = Literal["none", "failed", "completed"]

SKIPPED = 99
"""The exit code of a night whose input is not ready, and that may be left out."""


@dataclass(frozen=True)
class Night:
    """What became of a day of a backfill.

    Attributes
    ----------
    day : str
    output : str
        Where it is published.
    state : str
        ``published``; ``kept``, what was published before; ``skipped``, since its input is not
        ready; ``held`` by a check; or ``failed``.
    words : str
        Rows and clusters, or why.
    exit_code : int
        0 where the next day may follow, or that of the error.
    held : str or None
        The run that is held back.

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
    *,
    commands: Callable[[str], str] = str,
    progress_of: Callable[[], Progress] = Progress,
    options: Mapping[str, Any] | None = None,
) -> Iterator[Night]:
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
    commands
        Returns what the page of a day names as the way to run it again.
    progress_of
        Makes what shows the progress of a day.
    options
        Those of `distsvc.run.job.run_job`: where the cluster is, and ``fresh``.

    Raises
    ------
    JobFileError
        The job file is not valid, or its output is not another one for every day.
    ValueError
        `first` is after `last`.

    """
    for day, job in _jobs(job_of, first, last).items():
        output = Output(job.output.path)
        if not _is_wanted(output, reprocess):
            run_id = (output.manifest() or {})["run_id"]
            yield Night(day, job.output.path, "kept", f"run {run_id} was published before")
            continue
        progress = progress_of()
        given = dict(options or {}, command=commands(day), progress=progress)
        try:
            report = run_job(job, overwrite=reprocess != "none", **given)
            night = Night(day, job.output.path, "published", _words(report))
        except Exception as error:
            known = fault(error)
            if known is None:
                raise
            night = _stopped(day, output, known)
        finally:
            progress.close()
        yield night
        if night.exit_code:
            return


def going_on(night: Night, last: str, commands: Callable[[str], str]) -> list[str]:
    """Return the commands by which a backfill goes on after the night that stopped it.

    `commands` returns that of a backfill from a day.
    """
    if night.held is None:
        return [commands(night.day)]
    after = datetime.date.fromisoformat(night.day) + datetime.timedelta(1)
    following = [commands(after.isoformat())] if after.isoformat() <= last else []
    publish = ["distsvc", "publish", night.output, "--held", night.held]
    return [shlex.join(publish), *following]


def _jobs(
    job_of: Callable[[str], Job], first: datetime.date, last: datetime.date
) -> dict[str, Job]:
    """Return the jobs by their days, which have an output each."""
    if first > last:
        raise ValueError(f"expected a first day before the last, found {first} and {last}")
    count = (last - first).days + 1
    days = [first + datetime.timedelta(number) for number in range(max(count, 2))]
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
    """Return whether the night of an output is to be run."""
    manifest = output.manifest()
    if manifest is None or reprocess == "completed":
        return True
    if reprocess == "none":
        return False
    return bool(interrupted_runs(output) or candidates(output))


def _stopped(day: str, output: Output, error: DistsvcError) -> Night:
    where, words = (day, output.shown), str(error)
    if error.exit_code == SKIPPED:
        return Night(*where, "skipped", words)
    if isinstance(error, CheckFailedError):
        held = [one["run_id"] for one in candidates(output)]
        named = next((run_id for run_id in held if run_id in words), held[-1])
        return Night(*where, "held", words, error.exit_code, named)
    return Night(*where, "failed", words, error.exit_code)


def _words(report: Report) -> str:
    k, share = len(report.clusters), report.outliers.share
    outside = f", {share:.1%} outside" if report.outliers.defined else ""
    return f"{report.input.n_rows:,} rows, {k} cluster{'' if k == 1 else 's'}{outside}"
