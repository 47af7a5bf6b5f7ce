"""Running a suite: every fit is a task, finished fits are kept, rows go to one tidy table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from distsvc.bench.fits import MEASURES, Fit, Folder, run_fit
from distsvc.bench.linear import run_linear
from distsvc.bench.peers import TABLES, growth_rows
from distsvc.bench.rows import Row, write_rows
from distsvc.bench.suites import SUITES, Choice
from distsvc.errors import InputNotFoundError
from distsvc.job.config import ClusterConfig
from distsvc.run.work.cluster import connected
from distsvc.run.work.fanout import fan_out
from distsvc.run.work.progress import Progress
from distsvc.run.work.start import ClusterAddress
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
    choice: Choice,
    progress: Progress,
    workers: int = 2,
    scheduler: str | None = None,
    scheduler_file: str | None = None,
) -> list[Path]:
    """Run suites one after the other, and return the paths of their tables.

    Raises
    ------
    InputNotFoundError
        There is no such suite, or it has no such set.

    """
    for name in names:
        if name not in KNOWN:
            raise InputNotFoundError(f"there is no suite {name!r}; there are {', '.join(KNOWN)}")
    make_folder(out)
    where = ClusterConfig(workers=workers)
    written = []
    for name in names:
        if name in SUITES:
            path = run_suite(name, out, data, choice, progress, where, scheduler, scheduler_file)
        else:
            path = _run_alone(name, out, data, choice, progress)
        written.append(path)
    return written


def _run_alone(name: str, out: Path, data: Path | None, choice: Choice, progress: Progress) -> Path:
    """Run a suite whose fits are measured one at a time, without a cluster."""

    def say(line: str) -> None:
        progress.event(name, result=line)

    if name == "linear":
        if data is None:
            raise InputNotFoundError("suite linear needs --data DIR with linear/NAME_train.svm")
        return run_linear(out, data, choice, say)
    _check_sets(name, choice, TABLES)
    path = out / "peers.parquet"
    write_rows(path, [{"suite": name} | row for row in growth_rows(choice, say)], SCHEMA)
    return path


def _check_sets(suite: str, choice: Choice, known: Sequence[str]) -> None:
    for wanted in choice.sets:
        if wanted not in known:
            raise InputNotFoundError(
                f"suite {suite} has no set {wanted!r}; it has {', '.join(known)}"
            )


def run_suite(
    name: str,
    out: Path,
    data: Path | None,
    choice: Choice,
    progress: Progress,
    cluster: ClusterConfig,
    scheduler: str | None = None,
    scheduler_file: str | None = None,
) -> Path:
    """Do all fits of a suite that are not done yet, and write ``<out>/<name>.parquet``.

    Parameters
    ----------
    name
        A suite of `distsvc.bench.suites.SUITES`.
    out
        Folder of the results. Finished fits are in ``.fits`` there: a run that was stopped goes on
        where it was, and one with more sets does what is new.
    data
        Folder of the data sets, as `distsvc.datasets.load` takes it; None loads them from where
        they are published.
    choice
        Sets, repetitions, quick or not.
    progress
        Shows the phases.
    cluster, scheduler, scheduler_file
        Where the fits are done, as for a job.

    Raises
    ------
    InputNotFoundError
        The suite has no such set.

    """
    suite = SUITES[name]
    _check_sets(name, choice, suite.sets)
    folder = Folder(out / ".fits")
    with connected(cluster, 0, progress, ClusterAddress(scheduler, scheduler_file)) as client:
        first = suite.first(choice)
        rows = done(folder, first, data, client, progress, f"{name}, first fits")
        then = suite.then(choice, rows)
        if then:
            rows = rows + done(folder, then, data, client, progress, f"{name}, best fits")
    path = out / f"{name}.parquet"
    write_rows(path, [{"suite": name} | row for row in rows], SCHEMA)
    return path


def done(
    folder: Folder, fits: list[Fit], data: Path | None, client: Any, progress: Progress, title: str
) -> list[Row]:
    """Do the fits that are missing and return the rows of all."""
    plan = folder.plan(fits, data)
    with progress.phase(title) as phase:
        missing = folder.missing(fits)
        phase.begin(len(fits), len(fits) - len(missing))
        for _ in fan_out(client, run_fit, str(plan), missing, phase):
            pass
    return folder.rows(fits)
