"""Running a suite: every fit is a task, finished fits are kept, rows go to one tidy table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.harness.rows import Row, write_rows
from benchmarks.papers.fits import MEASURES, Fit, FitFolder, run_fit
from benchmarks.papers.linear import run_linear
from benchmarks.papers.peers import TABLES, growth_rows
from benchmarks.papers.suites import SUITES, SuiteOptions
from distsvc.errors import InputNotFoundError
from distsvc.job.config import ClusterConfig
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import ClusterAddress
from distsvc.run.work.workers.cluster import connect
from distsvc.run.work.workers.fanout import fan_out
from distsvc.storage.places.arrays import make_folder

KNOWN = (*SUITES, "linear", "peers")
BEFORE = ("suite", "experiment", "set", "system", "protocol", "point")
COUNTS = ("seed", "n", "rows", "d", "classes")
SCHEMA = pa.schema(
    [(name, pa.string()) for name in BEFORE]
    + [(name, pa.int64()) for name in COUNTS]
    + [(name, pa.int64() if name == "n_clusters" else pa.float64()) for name in MEASURES]
    + [("note", pa.string()), ("cpu", pa.string()), ("cores", pa.int64())]
    + [("versions", pa.string()), ("day", pa.string())]
)
"""The columns of ``<suite>.parquet``: one row for each fit and setting of its labelling."""


def run_suites(
    names: Sequence[str],
    out: Path,
    data: Path | None,
    options: SuiteOptions,
    progress: Progress,
    workers: int = 2,
    scheduler: str | None = None,
    scheduler_file: str | None = None,
) -> list[Path]:
    """Run suites one after the other; return their tables' paths, ``<out>/<name>.parquet``.

    Parameters
    ----------
    names
        Suites of `KNOWN`.
    out
        Folder of the results. Finished fits are in ``.fits`` there: a run that was stopped goes on
        where it was, and one with more sets does what is new.
    data
        Folder of the data sets; None loads them from where they are published.
    options
        Sets, repetitions, quick or not.
    progress
        Shows the phases.
    workers, scheduler, scheduler_file
        Where the fits are done, as for a job. Those of `linear` and `peers` are measured one at a
        time, without a cluster.

    Raises
    ------
    InputNotFoundError
        There is no such suite, or it has no such set.

    """
    for name in names:
        if name not in KNOWN:
            raise InputNotFoundError(f"there is no suite {name!r}; there are {', '.join(KNOWN)}")
    make_folder(out)
    at = ClusterAddress(scheduler, scheduler_file)
    where = ClusterConfig(workers=workers), 0, progress, at
    for name in names:
        if name == "linear":
            run_linear(out, data, options, partial(_say, progress, name))
            continue
        _check_sets(name, options, SUITES[name].sets if name in SUITES else TABLES)
        if name == "peers":
            rows = growth_rows(options, partial(_say, progress, name))
        else:
            suite, task = SUITES[name], (FitFolder(out / ".fits"), data, progress)
            with connect(*where) as client:
                rows = done(suite.first(options), *task, client, f"{name}, first fits")
                if suite.then:
                    best = suite.then(options, rows)
                    rows = rows + done(best, *task, client, f"{name}, best fits")
        write_rows(out / f"{name}.parquet", [{"suite": name} | row for row in rows], SCHEMA)
    return [out / f"{name}.parquet" for name in names]


def _say(progress: Progress, name: str, line: str) -> None:
    progress.event(name, result=line)


def _check_sets(suite: str, options: SuiteOptions, known: Sequence[str]) -> None:
    for wanted in options.sets:
        if wanted not in known:
            raise InputNotFoundError(
                f"suite {suite} has no set {wanted!r}; it has {', '.join(known)}"
            )


def done(
    fits: list[Fit],
    folder: FitFolder,
    data: Path | None,
    progress: Progress,
    client: Any,
    title: str,
) -> list[Row]:
    """Do the fits that are missing and return the rows of all."""
    plan = folder.plan(fits, data)
    with progress.phase(title) as phase:
        missing = folder.missing(fits)
        phase.begin(len(fits), len(fits) - len(missing))
        for _ in fan_out(client, run_fit, str(plan), missing, phase):
            pass
    return folder.rows(fits)
