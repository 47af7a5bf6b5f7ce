"""Linear one-class models on a table that does not fit: the optimum, passes, memory, time.

The tables are made: 20 positive columns, correlated by three common factors, with one row in a
hundred elsewhere. Jobs run as `distsvc run` with two workers, in processes of their own. On a
million rows the answer of outer steps, which begin with 100,000 rows in memory, is compared with
the answer in memory; the tables of a quarter of `--rows` and of `--rows` do not fit into what a
job takes for rows in memory by default.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from benchmarks.big import apart, run_job
from benchmarks.measure import Row, publish, show, work_folder

COLUMNS = 20
GROUP = 500_000
COMPARED = 1_000_000
SMALL_MEMORY = 100_000
NU = 0.05
TOLERANCE = 1e-7
SCALES = {"linear-one-class": "none", "linear-svdd": "standard"}


def run(options: Namespace) -> None:
    figures: list[Row] = []
    with work_folder(options.work) as work:
        tables = {}
        for n in (COMPARED, options.rows // 4, options.rows):
            tables[n] = work / f"factors-{n}.parquet"
            if not tables[n].exists():
                print(f"making {tables[n]}", file=sys.stderr, flush=True)
                apart(make_factors, tables[n], n)
        for algorithm in SCALES:
            for n, memory in ((COMPARED, None), (COMPARED, SMALL_MEMORY)):
                figures.append(job(work, tables[n], n, algorithm, memory))
            for n in (options.rows // 4, options.rows):
                figures.append(job(work, tables[n], n, algorithm, None))
    show("Jobs", figures)
    for algorithm in SCALES:
        inside, outer, small, large = (row for row in figures if row["algorithm"] == algorithm)
        gap = abs(outer["objective"] - inside["objective"]) / abs(inside["objective"])
        print(f"  {algorithm}: objective in passes and in memory differ by {gap:.2g}; bar 1e-6")
        for who in ("driver", "worker"):
            ratio = large[f"{who}_peak_mb"] / small[f"{who}_peak_mb"]
            print(f"  {algorithm}: {who}, large over small: {ratio:.3f}; bar 0.9 to 1.1")
    publish(options.out, "linear_big", figures)


def job(work: Path, table: Path, n: int, algorithm: str, memory: int | None) -> Row:
    model: Row = {"algorithm": algorithm, "nu": NU, "tol": TOLERANCE}
    model |= {} if memory is None else {"memory_rows": memory}
    report: dict[str, Any] = run_job(work, table, GROUP, model, {"scale": SCALES[algorithm]})
    fitted, phases = report["model"]["fitted"], report["phases"]
    seconds: dict[str, float] = {}
    for phase in phases:
        seconds[phase["name"]] = seconds.get(phase["name"], 0.0) + phase["seconds"]
    return {
        "algorithm": algorithm,
        "rows": n,
        "memory_rows": memory,
        "objective": fitted["objective"],
        "violation": fitted["violation"],
        "passes": fitted.get("n_passes", 0),
        "outside": report["outliers"]["share"],
        "seconds": sum(seconds.values()) - seconds["cluster"],
        "in_memory_s": seconds["train"],
        "passes_s": seconds.get("begin", 0.0) + seconds.get("pass", 0.0),
        "working_set_s": seconds.get("descend", 0.0),
        "driver_peak_mb": max(phase["driver_peak_mb"] for phase in phases),
        "worker_peak_mb": max(phase["worker_peak_mb"] or 0.0 for phase in phases),
    }


def make_factors(path: Path, n: int) -> None:
    """Write a table of n rows; the first rows are the same whatever n is."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    loadings = np.random.default_rng(1).random((3, COLUMNS))
    names = [f"f{k}" for k in range(COLUMNS)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("label", pa.int8())])
    with pq.ParquetWriter(path, schema) as writer:
        for number in range(-(-n // GROUP)):
            rng = np.random.default_rng([0, number])
            odd = rng.random(GROUP) < 0.01
            X = rng.gamma(4.0, size=(GROUP, 3)) @ loadings
            X += rng.gamma(2.0, 0.5, size=(GROUP, COLUMNS))
            X[odd] *= rng.choice([0.2, 2.0], size=(int(odd.sum()), 1))
            rows = min(GROUP, n - number * GROUP)
            arrays = [pa.array(X[:rows, k].astype(np.float32)) for k in range(COLUMNS)]
            arrays.append(pa.array(odd[:rows].astype(np.int8)))
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=GROUP)
