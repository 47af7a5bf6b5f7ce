"""Jobs on tables of hundreds of columns, beside copying the table and the estimators alone."""

from __future__ import annotations

import resource
import time
from argparse import Namespace
from pathlib import Path

import numpy as np

from benchmarks.harness.measure import alone, publish
from benchmarks.harness.rows import Row, show
from benchmarks.harness.runs import job_on, run_command, work_folder

TABLES = {"256": (400_000, 256), "784": (70_000, 784), "768-vectors": (1_000_000, 768)}
"""Rows and columns, of float32."""

BARS = {"256": (9.0, 1000), "784": (12.0, 1000), "768-vectors": (60.0, 1500)}
"""Seconds, and MB of the driver and of each worker."""

LARGEST_IN_MEMORY = 2**30
"""Bytes of a table, as float64, that the estimators alone are given."""

GROUP = 50_000
CLUSTERS, DIRECTIONS = 12, 20


def wide(options: Namespace) -> None:
    """Seconds and memory of the default job on wide tables; of each pass, what a copy takes.

    Rows lie about 12 centres and vary most in 20 directions. The last table is one column of
    vectors, with `scale = "unit"`. The estimators are fitted alone on the rows of the others.
    """
    rows = []
    with work_folder(options.work) as work:
        for name, (n, d) in TABLES.items():
            if options.sets and name not in options.sets:
                continue
            table = work / f"wide-{name}.parquet"
            if not table.exists():
                alone(make_table, table, n, d, name.endswith("vectors"))
            rows.append({"table": name} | _job(work, table, name) | {"copy_s": _copy_seconds(n, d)})
            if 8 * n * d <= LARGEST_IN_MEMORY:
                rows[-1] |= alone(_estimators, table)
            show("bars: seconds and MB", rows[-1:])
    publish(options.out, "wide", rows)


def make_table(path: Path, n: int, d: int, vectors: bool) -> None:
    """Write n rows of d values of float32, as columns or as one column of vectors."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    centres, directions = random.normal(size=(CLUSTERS, d)), random.normal(size=(DIRECTIONS, d))
    names = ["v"] if vectors else [f"f{k}" for k in range(d)]
    kind = pa.list_(pa.float32(), d) if vectors else pa.float32()
    label = pa.field("label", pa.int8())
    schema = pa.schema([*((name, kind) for name in names), label])
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for first in range(0, n, GROUP):
            m = min(GROUP, n - first)
            classes = random.integers(CLUSTERS, size=m)
            X = centres[classes] + 0.3 * random.normal(size=(m, DIRECTIONS)) @ directions
            X = (X + 0.8 * random.normal(size=(m, d))).astype(np.float32)
            flat = pa.array(X.ravel())
            columns = [pa.FixedSizeListArray.from_arrays(flat, d)] if vectors else list(X.T)
            columns.append(classes.astype(np.int8))
            writer.write_table(pa.table(columns, schema=schema), row_group_size=GROUP)


def _job(work: Path, table: Path, name: str) -> Row:
    """Run the default job with two workers."""
    preprocess = {"scale": "unit"} if name.endswith("vectors") else {}
    job = job_on(table, work / "run", 1_000_000, preprocess=preprocess)
    report = run_command(work, job)
    seconds, mb = BARS[name]
    readings = {f"{phase}_s": report.seconds(phase) for phase in ("survey", "views", "label")}
    figures = {"seconds": report.warm_seconds, "bar_s": seconds, "bar_mb": mb}
    return figures | report.peaks | readings | report.quality


def _copy_seconds(n: int, d: int) -> float:
    """Return the seconds of copying as many bytes as the table has, some rows at a time."""
    block = np.ones((2**23 // d, d), np.float32)
    other, taken = np.empty_like(block), []
    for _ in range(9):
        began = time.perf_counter()
        np.copyto(other, block)
        taken.append(time.perf_counter() - began)
    return min(taken) * n / len(block)


def _estimators(table: Path) -> Row:
    """Fit the level tree and iMDH on a table in memory; return their seconds and the peak."""
    import pyarrow.parquet as pq

    from distsvc import IncrementalMDH, SupportVectorClustering

    columns = pq.read_table(table).drop_columns("label").columns
    X = np.empty((len(columns[0]), len(columns)), np.float32)
    for k in range(len(columns)):
        X[:, k] = columns[k].to_numpy()
    del columns
    seconds = {}
    for model in SupportVectorClustering(random_state=0), IncrementalMDH(random_state=0):
        began = time.perf_counter()
        model.fit(X)
        seconds[f"{type(model).__name__}_s"] = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return seconds | {"estimators_peak_mb": peak}
