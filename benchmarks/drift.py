"""How much drift is measured where there is none: tables and resamples of the same rows."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
from scipy.stats import chi2

from distsvc.bench.measure import in_processes, publish
from distsvc.bench.rows import Row, show
from distsvc.datasets import load
from distsvc.models.drift import BINS, ColumnCounts, decile_edges, stability_index

SETS = ("iris", "glass", "breast_cancer", "abalone", "pendigits", "letter", "shuttle", "kddcup")
NIGHTS, MOST_ROWS, PILOT = 100, 100_000, 10_000
BAR = 0.02
PROCESSES = 2


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
        "expected": (BINS - 1) * 2.0 / n,
        "most": float(most.max()),
        "expected_most": float(chi2.isf(1.0 / (NIGHTS * d), BINS - 1)) * 2.0 / n,
        "median_night": float(np.median(most)),
        "nights_above": int((most >= BAR).sum()),
    }


def _counted(edges: np.ndarray, X: np.ndarray) -> np.ndarray:
    counts = ColumnCounts.empty(edges)
    counts.add(X)
    return counts.counts
