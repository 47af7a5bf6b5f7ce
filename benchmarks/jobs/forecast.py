"""Forecasts of `distsvc plan` beside what `distsvc run` takes, for jobs of all kinds and sizes.

Each job is planned, and then run, in processes of its own. Bars: memory is at most 20 % below the
forecast and never above it, time within 30 % of it.
"""

from __future__ import annotations

import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.harness.measure import alone, publish
from benchmarks.harness.rows import Row, show
from benchmarks.harness.runs import WORKERS, JobReport, answer, started, work_folder, write_job

GROUP = 250_000
JOBS: dict[str, tuple[int, int, Row]] = {
    "levels-10k": (10_000, 2, {"model": {"algorithm": "support-vector"}}),
    "boundary": (100_000, 9, {"model": {"algorithm": "support-vector", "gamma": 2.0}}),
    "svdd": (200_000, 20, {"model": {"algorithm": "linear-svdd", "nu": 0.05}}),
    "one-class": (
        4_000_000,
        20,
        {
            "model": {"algorithm": "linear-one-class", "nu": 0.05},
            "preprocess": {"scale": "none"},
        },
    ),
    "imdh": (1_000_000, 41, {"model": {"algorithm": "imdh"}}),
    "bico": (2_000_000, 9, {"model": {"algorithm": "bico", "n_clusters": 8}}),
    "spdc": (100_000, 100, {"model": {"algorithm": "spdc"}}),
    "depddp": (20_000, 800, {"model": {"algorithm": "depddp", "n_clusters": 8}}),
    "fuzzy": (300_000, 50, {"model": {"algorithm": "fuzzy-c-means", "n_clusters": 8}}),
    "levels-20m": (20_000_000, 9, {"model": {"algorithm": "support-vector"}}),
}
"""Rows and columns of the table, and sections of the job."""

SMALL_BYTES = 64 * 2**20
"""Of a table that is clustered without workers, as jobs do by default."""


def forecast(options: Namespace) -> None:
    """Compare forecasts with what is measured; `--table` is for one of your own, by level trees."""
    rows = []
    with work_folder(options.work) as work:
        for name, job in _jobs(options, work):
            print(f"planning and running {name}", file=sys.stderr, flush=True)
            path, out = write_job(work, job), work / "run"
            answer(started("plan", path))  # compiles what no one has compiled yet
            planned = answer(started("plan", path))
            shutil.rmtree(out, ignore_errors=True)
            rows.append(_compared(name, planned, JobReport(answer(started("run", path)))))
            shutil.rmtree(out, ignore_errors=True)
    show("bars: driver and worker 0.83 to 1, seconds 0.77 to 1.43 of the forecast", rows)
    publish(options.out, "forecast", rows)


def _jobs(options: Namespace, work: Path) -> Iterator[tuple[str, Row]]:
    """Yield the name and the sections of every job; its table is there."""
    level_tree = {"model": {"algorithm": "support-vector"}}
    jobs = {options.table.stem: (0, 0, level_tree)} if options.table else JOBS
    for name, (n, d, sections) in jobs.items():
        if options.sets and name not in options.sets:
            continue
        table = options.table or work / f"clusters-{n}-{d}.parquet"
        if not table.exists():
            print(f"making {table}", file=sys.stderr, flush=True)
            alone(make_table, table, n, d)
        workers = WORKERS if not n or 8 * n * d >= SMALL_BYTES else 0
        job = {"input": {"path": str(table.absolute())}, "cluster": {"workers": workers}}
        yield name, job | sections | {"output": {"path": str((work / "run").absolute())}}


def _compared(name: str, planned: Row, report: JobReport) -> Row:
    """Return forecasts, measured figures, and the share of the forecast that was taken."""
    peaks, bytes_of = report.peaks, planned["memory_bytes"]
    pairs = {
        "driver_mb": (bytes_of["driver"] / 1e6, peaks["driver_peak_mb"]),
        "worker_mb": (bytes_of["worker"] / 1e6, peaks["worker_peak_mb"]),
        "seconds": (planned["seconds_in_all"], report.seconds()),
    }
    row: Row = {"job": name, "rows": planned["rows"], "columns": planned["columns"]}
    for what, (planned_for, measured) in pairs.items():
        ratio = measured / planned_for if planned_for else None
        row |= {what: planned_for, f"{what}_measured": measured, f"{what}_ratio": ratio}
    return row


def make_table(path: Path, n: int, d: int) -> None:
    """Write n rows of d columns about eight centres."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    centres = np.random.default_rng(1).random((8, d))
    schema = pa.schema([(f"f{k}", pa.float32()) for k in range(d)])
    with pq.ParquetWriter(path, schema) as writer:
        for number, first in enumerate(range(0, n, GROUP)):
            rng, rows = np.random.default_rng([2, number]), min(GROUP, n - first)
            X = centres[rng.integers(8, size=rows)] + 0.1 * rng.standard_normal((rows, d))
            columns = [pa.array(column) for column in X.astype(np.float32).T]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=GROUP)
