"""``distsvc.run(...)``: runs a job from Python, as the command ``distsvc run`` does.

A table in memory is written to a temporary file first, which is then the input of the job.
"""

from __future__ import annotations

import os
import re
import shutil
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from distsvc.errors import DistsvcError, InputNotFoundError
from distsvc.errors.urls import FRAME, is_in_memory
from distsvc.monitoring.announce import Announcer
from distsvc.run.work.start import DEFAULT_DISPLAY, ClusterAddress, Display, Start

if TYPE_CHECKING:
    import datetime

    import pyarrow as pa

    from distsvc.job.config import Job
    from distsvc.published.run import Run
    from distsvc.report.content.report import Report


def run(
    job: str | os.PathLike[str] | Mapping[str, object] | ArrowStream,
    *,
    run_date: str | datetime.date | None = None,
    overrides: Mapping[str, object] | None = None,
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
    """Cluster a table as the command ``distsvc run`` does, and return the published run.

    Nothing is computed if this job has published its result for this table already.

    Parameters
    ----------
    job : str, path, dict, DataFrame or Arrow table
        The job or the table, in one of these forms:

        - The path of a job file, or the sections of a job file as dictionaries.
        - The path of a table. The default job clusters it and writes to ``out/NAME``.
        - A table of pandas, polars or Arrow, or any object with ``__arrow_c_stream__``. The default
          job clusters it. The result is in a temporary folder until the returned `Run` is deleted.
          With ``overrides["output.path"]``, the result is stored there, and replaces the result of
          an earlier table in memory. A named index of pandas is the id.
    run_date : str, datetime.date or None, default=None
        The date that replaces ``{run_date}`` in the job: ``"YYYY-MM-DD"`` or a date; by default
        today.
    overrides : dict or None, default=None
        Values that replace those of the job, by key, such as ``{"model.seed": 1}``.
    scheduler : str or None, default=None
        The address of a Dask scheduler; by default, workers are started as the job says.
    scheduler_file : str or None, default=None
        A file with the address of a Dask scheduler, which the scheduler wrote.
    require_tls : bool, default=False
        Refuse a scheduler whose address is not ``tls://``.
    overwrite : bool, default=False
        Replace the result of another job if there is one at the output.
    fresh : bool, default=False
        Start over instead of resuming an interrupted run. With `overwrite`, also repeat a job that
        has published its result.
    skip_missing : bool, default=False
        Raise `distsvc.errors.SkippedError` if the input does not exist yet.
    skip_empty : bool, default=False
        Raise `distsvc.errors.SkippedError` if the input has no rows.
    continue_from : str, path or None, default=None
        The output of the published run whose cluster ids are continued, in place of
        ``continuity.previous``.
    metrics_file : str or None, default=None
        File to which metrics of the run are written, in the format of Prometheus.
    progress : bool, default=False
        Show the progress on standard error.

    Returns
    -------
    Run
        The published run, as `load` returns it.

    Raises
    ------
    DistsvcError
        One of the errors in `distsvc.errors`, such as `CheckFailedError` if a check holds the
        result back.

    See Also
    --------
    load : Loads a published run.

    Examples
    --------
    >>> import distsvc
    >>> run = distsvc.run("moons.csv")
    >>> run.report.input.n_rows
    1000
    >>> run.labels().column_names
    ['row', 'label', 'score', 'outlier']

    A table in memory, and its columns with a cluster for each row:

    >>> import pandas as pd
    >>> frame = pd.read_csv("moons.csv")
    >>> distsvc.run(frame).labels(join=True).column_names
    ['x', 'y', 'row', 'label', 'score', 'outlier']

    """
    import multiprocessing

    from distsvc.published.run import load

    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(
            "a worker of distsvc imports this script, and must not run the job again: put the call "
            "of distsvc.run below if __name__ == '__main__':"
        )
    command = _call_text(job, run_date, overrides)
    table, folder = None, None
    with ExitStack() as stack:
        if hasattr(job, "__arrow_c_stream__"):
            from distsvc.storage.places.process import new_scratch

            folder = new_scratch(FRAME)
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            table, job, overrides = _write_table(job, folder, overrides or {})
            overwrite = overwrite or _is_of_frame(str(overrides["output.path"]))
            stack.enter_context(_in_words_of_python())
        published, _ = run_and_announce(
            job,
            run_date,
            overrides=overrides or {},
            at=ClusterAddress(scheduler, scheduler_file, require_tls),
            start=Start(overwrite, fresh, skip_missing, skip_empty),
            command=command,
            metrics_file=metrics_file,
            continue_from=None if continue_from is None else os.fspath(continue_from),
            display=Display(quiet=not progress),
        )
        found = load(published.output.path)
        found._frame = table
        if folder is not None and Path(found.path).is_relative_to(folder):
            weakref.finalize(found, stack.pop_all().close)
        return found


@contextmanager
def _in_words_of_python() -> Iterator[None]:
    """Rewrite ``--set key=value`` in error messages as ``overrides={"key": "value"}``."""
    try:
        yield
    except DistsvcError as error:
        words = re.sub(r"--set ([\w.]+)=(\w+)", r'overrides={"\1": "\2"}', str(error))
        error.args = (re.sub(r'(?<="}), or =(\w+)', r', or "\1"', words),)
        raise


class ArrowStream(Protocol):
    """A table in memory that can be read as an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return the table as an Arrow stream."""


def _write_table(
    given: Any, folder: Path, overrides: Mapping[str, object]
) -> tuple[pa.Table, str, dict[str, object]]:
    """Write a table in memory to a file in `folder`; return the table, the path, and overrides.

    The returned overrides add two values that `overrides` lack. ``output.path`` is a subfolder of
    `folder`. ``input.id`` is the index of a pandas table, if the index has a name.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from distsvc.inputs.given import UNREADABLE, unreadable
    from distsvc.storage.places.arrays import write_whole

    try:
        table = pa.table(given)
        views = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
        kinds = [field.with_type(views.get(field.type, field.type)) for field in table.schema]
        table = table.cast(pa.schema(kinds, table.schema.metadata))
    except UNREADABLE as error:
        raise unreadable("the table", error, given) from None
    file, keys = folder / "table.parquet", dict[str, object]({"output.path": str(folder / "out")})
    index = (table.schema.pandas_metadata or {}).get("index_columns", ())
    named = [name for name in index if isinstance(name, str) and not name.startswith("__index_")]
    if len(named) == 1:
        keys["input.id"] = named[0]
    write_whole(file, lambda stream: pq.write_table(table, stream))
    return table, str(file), keys | dict(overrides)


def _is_of_frame(path: str) -> bool:
    """Return True if the published run at an output path clustered a table in memory."""
    from distsvc.storage.publishing.publication import Output

    found = Output(path).manifest()
    given = found.job.get("input") if found else None
    return isinstance(given, dict) and is_in_memory(str(given.get("path")))


def run_and_announce(
    job: str | os.PathLike[str] | Mapping[str, object],
    run_date: str | datetime.date | None,
    settings: Iterable[str] = (),
    overrides: Mapping[str, object] | None = None,
    *,
    at: ClusterAddress,
    start: Start,
    command: str,
    metrics_file: str | None,
    continue_from: str | None = None,
    display: Display = DEFAULT_DISPLAY,
) -> tuple[Job, Report]:
    """Run a job, and announce its start and outcome; return the job and its report.

    `job`, `run_date`, `settings` and `overrides` describe the job, as in
    `distsvc.run.drafts.asked_job.asked_job`. `at`, `start` and `command` are arguments of
    `distsvc.run.job.run_job`. Metrics are written to `metrics_file`. `continue_from` is the output
    of the run whose cluster ids are continued.
    """
    name = os.fspath(job) if isinstance(job, (str, os.PathLike)) else "job"
    with Announcer(name, metrics_file) as announcer:
        from distsvc.job.config import DEFAULT_MODEL
        from distsvc.run.drafts.asked_job import (
            asked_job,
            hinting_at_date,
            is_table,
            with_free_output,
        )
        from distsvc.run.work.progress import Progress
        from distsvc.run.work.workers.cluster import expect_workers
        from distsvc.run.work.workers.lean import is_lean

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
            announcer.start(wanted)
            expect_workers(wanted.cluster, at)
            from distsvc.kernels.ahead import compiling_ahead
            from distsvc.run.job import run_job  # here, while the workers import it, too

            is_ahead = wanted.model.algorithm == DEFAULT_MODEL.algorithm and is_lean()
            compiling = compiling_ahead() if is_ahead else nullcontext()
            with compiling, hinting_at_date(wanted, run_date):
                report = run_job(wanted, at, start, command=command, progress=progress)
        announcer.add_report(report)
        return wanted, report


def _published(path: str) -> str:
    """Return the path of an output; raise `InputNotFoundError` if nothing is published there."""
    from distsvc.storage.places.store import store_of
    from distsvc.storage.publishing.manifest import read_manifest

    try:
        read_manifest(store_of(path))
    except InputNotFoundError as error:
        raise InputNotFoundError(f"--continue-from: {error}") from None
    return path


def _call_text(
    job: object, run_date: str | datetime.date | None, overrides: Mapping[str, object] | None
) -> str:
    first = repr(dict(job)) if isinstance(job, Mapping) else "table"
    if isinstance(job, (str, os.PathLike)):
        first = repr(os.fspath(job))
    words = [first, *([f"run_date={str(run_date)!r}"] if run_date is not None else [])]
    words += [f"overrides={dict(overrides)!r}"] if overrides else []
    return f"distsvc.run({', '.join(words)})"
