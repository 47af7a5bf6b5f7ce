"""What far rows do to an answer: jobs with and without rows of 10^9."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from itertools import product
from pathlib import Path
from statistics import mean

import numpy as np

from benchmarks.harness.data import papers_rows, sampled
from benchmarks.harness.measure import agreement, measured, publish
from benchmarks.harness.rows import Row, grouped, show
from benchmarks.harness.runs import published, run_here, write_columns

FAR = 1e9
SETS = (
    "aggregation", "cassini", "d31", "iris", "page_blocks", "pathbased", "pendigits", "s_set1",
    "satimage", "shuttle",
)  # fmt: skip
MOST_ROWS = 5_000
"""Of larger sets a sample."""

WAYS = ("auto", "standard"), ("auto", "robust"), ("auto", "log"), ("imdh", "robust")
"""Algorithms, and how columns are scaled; "log" is standard after logarithms of all."""

BAR = 0.95

CASES = {
    "one": (1, False), "five": (5, False), "one, all columns": (1, True), "twenty": (20, False),
}  # fmt: skip
"""How many far rows, and whether they are far in all columns or in one. Twenty are not set aside.
"""


def far_rows(options: Namespace) -> None:
    """Compare answers with and without far rows, by the adjusted Rand index on the common rows.

    Ten tables; in one of them, shuttle, far rows decide three columns already. A far row is a copy
    of a row, with 10^9 in one column or in all, at a random place. Two references have no far row:
    one more copy of a row, at the end, and another seed. What they fall short of 1 is chance. The
    column `warned` says whether the page tells of far rows.
    """
    names = options.sets or SETS
    tasks = [(options.data, name, *way) for way, name in product(WAYS, names)]
    rows = measured(rows_of, tasks, options.processes)
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
    X, _ = sampled(*papers_rows(name, data), MOST_ROWS)
    clean = labels(X, algorithm, scale, 0)
    random = np.random.default_rng(0)
    copies, column = X[random.integers(len(X), size=20)], int(random.integers(X.shape[1]))
    copy, warned = labels(np.concatenate([X, copies[:1]]), algorithm, scale, 0)
    found = {"a copy": (copy[:-1], warned), "another seed": labels(X, algorithm, scale, 1)}
    for case, (count, everywhere) in CASES.items():
        far = copies[:count].copy()
        far[:, slice(None) if everywhere else column] = FAR
        places = np.sort(random.integers(len(X), size=count))
        answer, warned = labels(np.insert(X, places, far, axis=0), algorithm, scale, 0)
        found[case] = np.delete(answer, places + np.arange(count)), warned
    about = {"set": name, "n": len(X), "d": X.shape[1], "algorithm": algorithm, "scale": scale}
    return [
        about
        | {"case": case, "k_clean": len(np.unique(clean[0])), "k": len(np.unique(answer[0]))}
        | {"ari": agreement(clean[0], answer[0])["ari"], "warned": answer[1]}
        for case, answer in found.items()
    ]


def labels(X: np.ndarray, algorithm: str, scale: str, seed: int) -> tuple[np.ndarray, int]:
    """Run a job on rows X (n, d); return their labels (n,), and 1 if it told of far rows."""
    names = [f"f{k}" for k in range(X.shape[1])]
    preprocess = {"log": names} if scale == "log" else {"scale": scale}
    with tempfile.TemporaryDirectory(prefix="distsvc-benchmark-") as folder:
        table, output = Path(folder) / "table.parquet", Path(folder) / "run"
        write_columns(table, X)
        report = run_here(
            table, output, {}, {"algorithm": algorithm, "seed": seed}, {"workers": 0},
            more={"preprocess": preprocess},
        )  # fmt: skip
        found = published(output)
    words = "extreme rows", "extreme values"
    return found, int(any(word in text for text in report.content["warnings"] for word in words))
