"""Ours and its peers as the rows grow: quality, seconds and peak memory, each fit in a process.

A process of its own, because the peak that the system reports is the process's. It is ended after
a limit of seconds; a system that was ended is not tried on larger tables.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.harness.data import gaussians, rings, standardised
from benchmarks.harness.measure import limited, machine
from benchmarks.harness.rows import Row
from benchmarks.harness.systems import SYSTEMS, warm_up
from benchmarks.papers.fits import Fit, fitted
from benchmarks.papers.suites import SuiteOptions

SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 10_000)
PEERS = (
    "level tree", "iMDH, ours", "k-means", "mini-batch k-means", "BIRCH", "HDBSCAN",
    "fast_hdbscan",
)  # fmt: skip
MAKERS: dict[str, Callable[[int, int], tuple[np.ndarray, np.ndarray]]] = {
    "gaussians": gaussians,
    "rings": rings,
}
TABLES = tuple(MAKERS)


def growth_rows(options: SuiteOptions, say: Callable[[str], object]) -> list[Row]:
    """Fit every peer to every table and size, one after the other, and return the rows."""
    rows = []
    for table in options.of(TABLES, TABLES):
        for system in PEERS:
            for n in QUICK_SIZES if options.quick else SIZES:
                seeds, limit_s = options.seeds(3, 1), options.limit_s
                fresh = [growth_row(table, n, system, seed, limit_s) for seed in seeds]
                rows += fresh
                say(_line(fresh[-1]))
                if any(row["note"] for row in fresh):
                    break
    return rows


def growth_row(table: str, n: int, system: str, seed: int, limit_s: float) -> Row:
    """Return the row of one fit, which is ended after `limit_s` seconds."""
    about = {
        "experiment": "growth", "set": table, "system": system, "point": "{}", "seed": seed,
        "protocol": SYSTEMS[system].alone[0],
        "n": n, "rows": n, "note": "",
    }  # fmt: skip
    return about | limited(fit_and_score, limit_s, table, n, system, seed) | machine()


def fit_and_score(ready: Callable[[], None], table: str, n: int, system: str, seed: int) -> Row:
    """Return the measured columns of one fit."""
    X, y = MAKERS[table](n, seed)
    X = standardised(X)
    try:
        warm_up(system, X.shape[1])
    except ImportError as error:
        ready()
        return {"note": f"not installed: {error.name}"}
    ready()
    (row,) = fitted(Fit("growth", table, system, *SYSTEMS[system].alone, seed), X, y, n)
    row.pop("point")
    return row | {"d": X.shape[1], "classes": len(np.unique(y))}


def _line(row: Row) -> str:
    if row["note"]:
        return f"{row['set']:10} {row['system']:20} {row['n']:>9,} rows  {row['note']}"
    return (
        f"{row['set']:10} {row['system']:20} {row['n']:>9,} rows  "
        f"NMI {row['normalized_mutual_information']:.3f}  {row['total_seconds']:8.2f} s  "
        f"{row['peak_mb']:7.0f} MB"
    )
