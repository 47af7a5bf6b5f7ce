"""Answers beside each other, byte by byte: workers, blocks, partitions."""

from __future__ import annotations

import hashlib
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.measure import publish
from benchmarks.harness.rows import show

ROWS = 40_000
WAYS = ((0, 100_000, 10**6), (0, 1_000, 7_001), (1, 5_000, 12_345), (2, 777, 5_003))
"""Workers, and rows of a block and of a partition."""

ENCODE = {"country": "onehot", "city": "frequency"}
JOBS: dict[str, dict[str, Any]] = {
    "standard, encoded": {"preprocess": {"encode": ENCODE}},
    "robust, log, encoded": {"preprocess": {"scale": "robust", "log": ["bytes"], "encode": ENCODE}},
    "unit, vectors": {
        "input": {"columns": ["v"]},
        "preprocess": {"scale": "unit"},
    },
    "Delta, robust, encoded": {"preprocess": {"scale": "robust", "encode": ENCODE}},
}
MODELS = ({"algorithm": "support-vector", "effort": "fast"}, {"algorithm": "imdh"})


def cuts(options: Namespace) -> None:
    """SHA-256 of all published columns, for every way to cut the same work."""
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        paths = _tables(Path(folder))
        rows = [
            _row(Path(folder), paths, name, model, way)
            for name in JOBS
            for model in MODELS
            for way in WAYS
        ]
    found: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        found.setdefault((row["job"], row["algorithm"]), set()).add(row["sha256"])
    same = sum(len(digests) == 1 for digests in found.values())
    show(f"Jobs with one answer, however cut: {same} of {len(found)}", rows)
    publish(options.out, "cuts", rows)


def table(n: int) -> pa.Table:
    """Rows of clusters, with a heavy tail, a vector, categories and gaps."""
    random = np.random.default_rng(7)
    group = random.integers(0, 5, n)
    X = random.normal(0.0, 6.0, (5, 8))[group] + random.normal(0.0, 1.0, (n, 8))
    columns = {f"x{k}": X[:, k] for k in range(4)}
    heavy = np.exp(X[:, 4])
    heavy[11] = 1e9
    return pa.table(
        columns
        | {
            "bytes": heavy,
            "took": pa.array((X[:, 5] * 1e6).astype("m8[us]")),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(X.astype(np.float32).ravel()), 8),
            "country": pa.array(np.array(["DE", "FR", "IT", "ES", "PT"])[group]),
            "city": pa.array((random.pareto(1.0, n) * 9).astype(int) % 300).cast(pa.string()),
            "gap": pa.array(X[:, 6], mask=random.random(n) < 0.05),
        }
    )


def _tables(folder: Path) -> dict[bool, str]:
    from deltalake import DeltaTable, write_deltalake

    whole = table(ROWS)
    (folder / "t").mkdir()
    pq.write_table(whole.slice(0, 15_000), folder / "t" / "a.parquet", row_group_size=4_000)
    pq.write_table(whole.slice(15_000), folder / "t" / "b.parquet", row_group_size=9_000)
    for start in range(0, ROWS, 10_000):
        part = whole.slice(start, 10_000).drop_columns(["took", "v"])
        write_deltalake(str(folder / "d"), part, mode="append")
    DeltaTable(str(folder / "d")).delete("x0 < -6")
    return {False: str(folder / "t"), True: f"delta://{folder / 'd'}"}


def _row(
    folder: Path, paths: dict[bool, str], name: str, model: dict[str, Any], way: tuple[int, ...]
) -> dict[str, Any]:
    import distsvc

    workers, block_rows, partition_rows = way
    job = JOBS[name]
    out = folder / "out" / hashlib.sha256(repr((name, model, way)).encode()).hexdigest()[:8]
    began = time.perf_counter()
    run = distsvc.run(
        {
            "input": {"path": paths[name.startswith("Delta")]} | job.get("input", {}),
            "preprocess": {"missing": "median"} | job["preprocess"],
            "model": model,
            "cluster": {
                "workers": workers,
                "block_rows": block_rows,
                "partition_rows": partition_rows,
            },
            "output": {"path": str(out), "membership": True},
        },
        progress=False,
    )
    seconds = time.perf_counter() - began
    labels = run.labels().combine_chunks()
    digest = hashlib.sha256()
    for column in labels.columns:
        digest.update(np.ascontiguousarray(column.to_numpy()).tobytes())
    return {
        "job": name,
        "algorithm": model["algorithm"],
        "workers": workers,
        "block_rows": block_rows,
        "partition_rows": partition_rows,
        "rows": labels.num_rows,
        "clusters": run.manifest["clusters"],
        "seconds": round(seconds, 1),
        "sha256": digest.hexdigest()[:16],
    }
