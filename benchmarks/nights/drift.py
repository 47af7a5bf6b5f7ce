"""Drift where there is none, and drift and lineage of a night by different numbers of workers."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import chi2

from benchmarks.datasets.loading import load
from benchmarks.harness.measure import in_processes, publish
from benchmarks.harness.rows import Row, show
from benchmarks.harness.runs import run_here, work_folder
from distsvc.models.nights.drift import DRIFT_BINS, ColumnCounts, decile_edges, stability_index
from distsvc.storage.places.arrays import read_json

SETS = ("iris", "glass", "breast_cancer", "abalone", "pendigits", "letter", "shuttle", "kddcup")
NIGHTS, MOST_ROWS, PILOT = 100, 100_000, 10_000
BAR = 0.02
PROCESSES = 2

WORKER_SETS, WORKERS = ("shuttle", "pendigits"), (0, 1, 2, 4)
LEARNED = (("support-vector", "refit"), ("imdh", "refit"), ("linear-svdd", "refit"),
           ("support-vector", "assign"), ("support-vector", "auto"))  # fmt: skip
"""Algorithms and modes of the second night."""
TOLD = ("drift.json", "lineage.json")


def drift_null(options: Namespace) -> None:
    """Drift, the largest of any column, in 100 nights of resampled rows; bar: below .02.

    A night has as many rows as the table, 100,000 at most, drawn with replacement, and so has the
    table that it is compared with. `expected` is what sampling alone gives a column of ten bins in
    the mean, and `expected_most` in the worst of all nights and columns, by the chi-square
    distribution, half a row in every bin aside.
    """
    tasks = [(options.data, name) for name in options.sets or SETS]
    figures = list(in_processes(one_set, tasks, PROCESSES))
    show(f"Null drift in {NIGHTS} nights; bar: most < {BAR}", figures)
    publish(options.out, "drift_null", figures)


def one_set(data: Path, name: str) -> Row:
    """Return the row of one data set."""
    X = np.ascontiguousarray(load(name, data)[0], np.float64)
    n, d = min(len(X), MOST_ROWS), X.shape[1]
    random = np.random.default_rng(0)
    table = X[random.integers(len(X), size=n)]
    edges = decile_edges(table[random.permutation(n)[:PILOT]])
    expected = _counted(edges, table)
    found = np.array(
        [
            stability_index(expected, _counted(edges, X[random.integers(len(X), size=n)]))
            for _ in range(NIGHTS)
        ]
    )
    most = found.max(axis=1)
    return {
        "set": name,
        "rows": n,
        "columns": d,
        "mean": float(found.mean()),
        "expected": (DRIFT_BINS - 1) * 2.0 / n,
        "most": float(most.max()),
        "expected_most": float(chi2.isf(1.0 / (NIGHTS * d), DRIFT_BINS - 1)) * 2.0 / n,
        "median_night": float(np.median(most)),
        "nights_above": int((most >= BAR).sum()),
    }


def _counted(edges: np.ndarray, X: np.ndarray) -> np.ndarray:
    counts = ColumnCounts.empty(edges)
    counts.add(X)
    return counts.counts


def drift_workers(options: Namespace) -> None:
    """Drift, lineage and labels of a night by 0, 1, 2 and 4 workers; bar: byte-identical.

    Two nights have a third of their rows in common. The first one is learned once, and the second
    goes on from it with each number of workers.
    """
    figures: list[Row] = []
    with work_folder(options.work) as work:
        for name in options.sets or WORKER_SETS:
            for algorithm, mode in LEARNED:
                figures += one_pair(options.data, name, work / name, algorithm, mode)
                show(f"{name}, {algorithm}, {mode}", figures[-len(WORKERS) :])
    same = all(row["identical"] for row in figures)
    print(f"  drift, lineage and labels byte-identical: {same}")
    publish(options.out, "drift_workers", figures)


def one_pair(data: Path, name: str, work: Path, algorithm: str, mode: str) -> list[Row]:
    """Return the row of each number of workers."""
    work.mkdir(parents=True, exist_ok=True)
    X = load(name, data)[0]
    order = np.random.default_rng(0).permutation(len(X))
    third = len(X) // 3
    tables = []
    for number, at in enumerate((order[: 2 * third], order[third:])):
        columns = {f"x{k}": X[np.sort(at), k] for k in range(X.shape[1])}
        tables.append(work / f"{number}.parquet")
        pq.write_table(pa.table(columns), tables[-1], row_group_size=1000)
    first = work / f"{algorithm}-{mode}" / "first"
    cluster, model = {"workers": 0, "partition_rows": 2000}, {"algorithm": algorithm, "seed": 1}
    run_here(tables[0], first, {}, model, cluster)
    figures: list[Row] = []
    known: dict[str, bytes] = {}
    for workers in WORKERS:
        out = first.parent / str(workers)
        more = {"continuity": {"previous": str(first)}}
        given = model | {"seed": 2, "mode": mode}
        run_here(tables[1], out, {}, given, cluster | {"workers": workers}, more=more)
        found = _published(out)
        known = known or found
        row = {"set": name, "algorithm": algorithm, "mode": mode, "workers": workers}
        parts = sum(one.startswith("part-") for one in found)
        figures.append(row | {"parts": parts, "identical": found == known})
    return figures


def _published(out: Path) -> dict[str, bytes]:
    """Return drift, lineage and labels of a run, by their own names."""
    listed = [Path(file["file"]) for file in read_json(out / "manifest.json")["files"]]
    wanted = [path for path in listed if path.name in TOLD or path.parts[0] == "labels"]
    return {path.name: (out / path).read_bytes() for path in wanted}
