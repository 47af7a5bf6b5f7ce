"""What far rows do to an answer: jobs with and without rows of 10^9."""

from __future__ import annotations

import sys
import tempfile
from argparse import Namespace
from itertools import product
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.jobs import run_here
from distsvc.bench.data import drawn
from distsvc.bench.measure import agreement, in_processes, publish
from distsvc.bench.rows import Row, grouped, show
from distsvc.bench.suites import BSGD_SPLITS
from distsvc.datasets import load

FAR = 1e9
SETS = (
    "aggregation", "cassini", "d31", "iris", "page_blocks", "pathbased", "pendigits", "s_set1",
    "satimage", "shuttle",
)  # fmt: skip
MOST_ROWS = 5_000
"""Of larger sets a sample."""

WAYS = (
    ("auto", "robust"), ("imdh", "robust"), ("auto", "standard"), ("support-vector", "robust"),
)  # fmt: skip
"""Algorithms, and how columns are scaled."""

BAR = 0.95

CASES = {"one": (1, False), "five": (5, False), "one, all columns": (1, True)}
"""How many far rows, the last of the table, and whether they are far in all columns or in one."""


def far_rows(options: Namespace) -> None:
    """Compare answers with and without far rows, by the adjusted Rand index on the common rows.

    Ten tables; in one of them, shuttle, far rows decide three columns already. A far row is a copy
    of a row, with 10^9 in one column or in all. It comes last, so that the others keep their
    numbers and random keys. Two references have no far row: one more copy of a row, and another
    seed. What they fall short of 1 is chance. Under "standard" one far row is enough. The column
    `warned` says whether the page tells that far rows decide a scale.
    """
    names = options.sets or SETS
    tasks = [(options.data, name, *way) for way, name in product(WAYS, names)]
    rows: list[Row] = []
    for found in in_processes(rows_of, tasks, options.processes):
        rows += found
        told = {row["case"]: round(row["ari"], 3) for row in found}
        print(found[0]["set"], found[0]["algorithm"], found[0]["scale"], told, file=sys.stderr)
    summary = [
        {
            "algorithm": algorithm,
            "scale": scale,
            "case": case,
            "sets": len(alike),
            "mean": mean(row["ari"] for row in alike),
            "least": min(row["ari"] for row in alike),
            f"at_least_{BAR:g}": sum(row["ari"] >= BAR for row in alike),
            "warned": sum(row["warned"] for row in alike),
        }
        for (algorithm, scale, case), alike in grouped(rows, ("algorithm", "scale", "case")).items()
    ]
    show(f"Adjusted Rand index with the answer without far rows; bar: {BAR:g}", summary)
    publish(options.out, "far_rows", rows)


def rows_of(data: Path, name: str, algorithm: str, scale: str) -> list[Row]:
    """Return the rows of the result that are about one set, algorithm and scale."""
    X = rows_of_set(data, name)
    clean = labels(X, algorithm, scale, 0)
    random = np.random.default_rng(0)
    copies, column = X[random.integers(len(X), size=5)], int(random.integers(X.shape[1]))
    tables = {"a copy": np.concatenate([X, copies[:1]])}
    for case, (count, everywhere) in CASES.items():
        far = copies[:count].copy()
        far[:, slice(None) if everywhere else column] = FAR
        if scale == "robust" or case == "one":
            tables[case] = np.concatenate([X, far])
    found = {case: labels(table, algorithm, scale, 0) for case, table in tables.items()}
    found |= {"another seed": labels(X, algorithm, scale, 1)}
    about = {"set": name, "n": len(X), "d": X.shape[1], "algorithm": algorithm, "scale": scale}
    return [
        about
        | {"case": case, "k_clean": len(np.unique(clean[0])), "k": len(np.unique(answer[0]))}
        | {"ari": agreement(clean[0], answer[0][: len(X)])["ari"], "warned": answer[1]}
        for case, answer in found.items()
    ]


def rows_of_set(data: Path, name: str) -> np.ndarray:
    """Return the rows (n, d) float64 of a set, a sample of large ones."""
    X, _ = load(name, data, BSGD_SPLITS.get(name))
    X = np.asarray(X, np.float64)
    return X[drawn(len(X), MOST_ROWS)] if len(X) > MOST_ROWS else X


def labels(X: np.ndarray, algorithm: str, scale: str, seed: int) -> tuple[np.ndarray, int]:
    """Run a job on rows X (n, d); return their labels (n,), and 1 if it told of far rows."""
    with tempfile.TemporaryDirectory(prefix="distsvc-benchmark-") as folder:
        table, output = Path(folder) / "table.parquet", Path(folder) / "run"
        pq.write_table(pa.table({f"f{k}": column for k, column in enumerate(X.T)}), table)
        report = run_here(
            table, output, {}, {"algorithm": algorithm, "seed": seed}, {"workers": 0},
            more={"preprocess": {"scale": scale}},
        )  # fmt: skip
        parts = sorted(output.glob("labels/**/*.parquet"))
        found = pq.read_table(parts).sort_by("row")["label"].to_numpy()
    return found, int(any("far rows" in text for text in report.content["warnings"]))
