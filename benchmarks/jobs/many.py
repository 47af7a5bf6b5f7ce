"""What one driver can schedule: jobs of many small partitions on two workers.

Once with a task that does nothing, and once as a whole job whose table has `--partitions` row
groups of a few rows. The files of the runs are on the disk of `--work`.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import numpy as np

from benchmarks.harness.measure import alone, publish
from benchmarks.harness.rows import Row, show
from benchmarks.harness.runs import WORKERS, job_on, run_command, work_folder
from distsvc.job.config import ClusterConfig
from distsvc.run.work.directory import Result, RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.run.work.progress import Progress
from distsvc.run.work.workers.cluster import connect

ROWS, COLUMNS, FILES = 50, 4, 100
"""Rows of a partition, columns, and files of the table."""

PASSES = ("nothing", "survey", "gather", "label")
"""Phases whose work is that of the partitions."""

MODEL = {"effort": "fast", "max_iter": 10_000}


def many(options: Namespace) -> None:
    """Milliseconds a task, and the driver's memory, where partitions are many.

    A phase without tasks of partitions has no milliseconds a task.
    """
    n = options.partitions
    with work_folder(options.work) as work:
        figures = [{"job": "nothing", **alone(_nothing, work / "nothing", n)}]
        table = work / f"many-{n}"
        if not table.exists():
            print(f"making {table}", file=sys.stderr, flush=True)
            alone(_make_table, table, n)
        report = run_command(work, job_on(table, work / "run", ROWS, MODEL))
    figures += [{"job": "whole", **_row(phase, n)} for phase in report.phases]
    show("bars: 2 ms a task; driver < 500 MB", figures)
    seconds = report.warm_seconds
    print(f"  the whole job: {seconds:.1f} s, {1000 * seconds / n:.2f} ms a partition")
    publish(options.out, "many", figures)


def nothing(run: RunDirectory, number: int) -> Result:
    """Return a result that says nothing."""
    return Result(rows=1)


def _nothing(folder: Path, n: int) -> Row:
    progress = Progress(quiet=True)
    with connect(ClusterConfig(workers=WORKERS), 0, progress) as client:
        read = sum(1 for _ in Steps(RunDirectory(folder), client, progress).map(NOTHING, n))
    assert read == n
    return _row(progress.phases[-1].model_dump(), n)


NOTHING = Phase("nothing", nothing)


def _row(phase: Row, n: int) -> Row:
    """Return what is published of a phase."""
    known = ("name", "seconds", "driver_peak_mb", "worker_peak_mb")
    each = 1000 * phase["seconds"] / n if phase["name"] in PASSES else None
    return {name: phase[name] for name in known} | {"partitions": n, "ms_a_task": each}


def _make_table(folder: Path, n: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    random, each = np.random.default_rng(0), -(-n // FILES)
    for number in range(FILES):
        groups = min(each, n - number * each)
        if groups > 0:
            centres = random.integers(3, size=groups * ROWS)
            rows = random.normal(size=(groups * ROWS, COLUMNS)) + 8.0 * centres[:, None]
            columns = {f"f{k}": rows[:, k].astype(np.float32) for k in range(COLUMNS)}
            content = pa.table(columns | {"label": centres.astype(np.int32)})
            pq.write_table(content, folder / f"{number:03}.parquet", row_group_size=ROWS)
