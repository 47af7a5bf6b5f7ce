"""Runs from Python: ``distsvc.run(...)`` is ``distsvc run ...``, and returns what is published."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from distsvc.errors import InputNotFoundError
from distsvc.monitoring.announce import watched
from distsvc.run.work.start import SHOWN, ClusterAddress, Display, Start

if TYPE_CHECKING:
    from distsvc.job.config import Job
    from distsvc.published.run import Run
    from distsvc.report.content.report import Report


def run(
    job: str | os.PathLike[str] | Mapping[str, Any],
    *,
    run_date: Any = None,
    overrides: Mapping[str, Any] | None = None,
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    require_tls: bool = False,
    overwrite: bool = False,
    fresh: bool = False,
    skip_missing: bool = False,
    skip_empty: bool = False,
    continue_from: str | os.PathLike[str] | None = None,
    metrics_file: str | None = None,
    progress: bool = False,
) -> Run:
    """Cluster a table as ``distsvc run`` does, and return what is published.

    Where the same job has published already, nothing is computed. In a script, call it below
    ``if __name__ == "__main__":``, since workers on this machine begin by importing the script.

    Parameters
    ----------
    job : str, path or dict
        A job file; a table, for the default job into ``out/NAME``; or the sections of a job file as
        dictionaries.
    run_date : str, datetime.date or None, default=None
        What ``{run_date}`` stands for: ``"YYYY-MM-DD"`` or a date; today by default.
    overrides : dict or None, default=None
        Values of keys by their names, such as ``{"model.seed": 1}``.
    scheduler : str or None, default=None
        The address of a Dask scheduler; by default workers on this machine, as the job says.
    scheduler_file : str or None, default=None
        A file that a Dask scheduler wrote.
    require_tls : bool, default=False
        Whether a scheduler whose address is not ``tls://`` is refused.
    overwrite : bool, default=False
        Whether something else that is published at the output is replaced.
    fresh : bool, default=False
        Whether to start over where an earlier run was interrupted, which otherwise goes on.
    skip_missing : bool, default=False
        Whether an input that is not there yet is to be skipped (`distsvc.errors.SkippedError`).
    skip_empty : bool, default=False
        Whether one that has no rows is.
    continue_from : str, path or None, default=None
        The output of the published run whose cluster ids go on, in place of
        ``continuity.previous``.
    metrics_file : str or None, default=None
        Where Prometheus' metrics are written.
    progress : bool, default=False
        Whether to show on standard error how far the run is.

    Returns
    -------
    Run
        As `load` returns it.

    Raises
    ------
    DistsvcError
        One of those of `distsvc.errors`, which say what can go wrong; `CheckFailedError` where a
        check holds the result back.

    See Also
    --------
    load : What is published already.

    Examples
    --------
    >>> import distsvc
    >>> run = distsvc.run("moons.csv")
    >>> run.report.input.n_rows
    1000
    >>> run.labels().column_names
    ['row', 'label', 'score', 'outlier']

    """
    from distsvc.published.run import load

    _refuse_workers()
    asked, _ = run_told(
        job,
        run_date,
        overrides=overrides or {},
        at=ClusterAddress(scheduler, scheduler_file, require_tls),
        start=Start(overwrite, fresh, skip_missing, skip_empty),
        command=_call(job, run_date, overrides),
        metrics_file=metrics_file,
        continue_from=None if continue_from is None else os.fspath(continue_from),
        display=Display(quiet=not progress),
    )
    return load(asked.output.path)


def run_told(
    job: str | os.PathLike[str] | Mapping[str, Any],
    run_date: Any,
    settings: Iterable[str] = (),
    overrides: Mapping[str, Any] | None = None,
    *,
    at: ClusterAddress,
    start: Start,
    command: str,
    metrics_file: str | None,
    continue_from: str | None = None,
    display: Display = SHOWN,
) -> tuple[Job, Report]:
    """Run the job that is asked for, and tell others of it; return it and its report.

    The command line and `run` come here; parameters are theirs, and those of
    `distsvc.run.drafts.asked_job.asked_job` and `distsvc.run.job.run_job`.
    """
    name = os.fspath(job) if isinstance(job, (str, os.PathLike)) else "job"
    with watched(name, metrics_file) as announcer:
        from distsvc.run.drafts.asked_job import asked_job, is_table, with_free_output
        from distsvc.run.work.progress import Progress
        from distsvc.run.work.workers.cluster import expect_workers

        with closing(Progress(*display)) as progress:
            if continue_from is not None:
                overrides = {**(overrides or {}), "continuity.previous": _published(continue_from)}
            settings = list(settings)
            wanted = asked_job(job, run_date, settings, overrides)
            keys = {*(overrides or {}), *(one.partition("=")[0].strip() for one in settings)}
            own_output = start.overwrite or "output.path" in keys
            if not (own_output or isinstance(job, Mapping)) and is_table(os.fspath(job)):
                taken, wanted = wanted.output.path, with_free_output(wanted)
                if taken != wanted.output.path:
                    progress.event("another output", taken=taken, path=wanted.output.path)
            asked = announcer.begins(wanted)
            expect_workers(asked.cluster, at)
            from distsvc.run.job import run_job  # while the workers import, too

            report = run_job(asked, at, start, command=command, progress=progress)
        return asked, announcer.ends(report)


def _published(path: str) -> str:
    """Return the path of an output; `InputNotFoundError` where nothing is published there."""
    from distsvc.storage.places.store import store_of
    from distsvc.storage.publishing.manifest import read_manifest

    try:
        read_manifest(store_of(path))
    except InputNotFoundError as error:
        raise InputNotFoundError(f"--continue-from: {error}") from None
    return path


def _refuse_workers() -> None:
    """Raise RuntimeError in a worker that runs the script of its driver, to import it."""
    import multiprocessing

    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            "a worker of distsvc imports this script, and must not run the job again: put the call "
            "of distsvc.run below if __name__ == '__main__':"
        )


def _call(job: Any, run_date: Any, overrides: Mapping[str, Any] | None) -> str:
    """Return the call, as the page shows how to run it again."""
    given = dict(job) if isinstance(job, Mapping) else os.fspath(job)
    words = [repr(given), *([f"run_date={str(run_date)!r}"] if run_date is not None else [])]
    words += [f"overrides={dict(overrides)!r}"] if overrides else []
    return f"distsvc.run({', '.join(words)})"
