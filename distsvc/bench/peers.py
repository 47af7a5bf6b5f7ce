"""Ours and its peers as the rows grow: quality, seconds and peak memory, each fit in a process.

A process of its own, because the peak that the system reports is the process's. It is ended after
`LIMIT_S` seconds; a system that was ended is not tried on larger tables.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from distsvc.bench.suites import Choice

LIMIT_S = 300.0
SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 10_000)
PEERS = (
    "level tree", "iMDH, ours", "k-means", "mini-batch k-means", "BIRCH", "HDBSCAN",
    "fast_hdbscan",
)  # fmt: skip
TABLES = ("gaussians", "rings")


def gaussians(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 8) and classes (n,) of twelve Gaussians of unequal size and spread."""
    random = np.random.default_rng(seed)
    k, d = 12, 8
    centres = random.normal(0.0, 4.0, (k, d))
    turns = random.normal(0.0, 0.6, (k, d, d))
    y = random.choice(k, n, p=(weights := random.uniform(1.0, 5.0, k)) / weights.sum())
    X = np.empty((n, d))
    for j in range(k):
        mine = np.flatnonzero(y == j)
        X[mine] = centres[j] + random.normal(size=(mine.size, d)) @ turns[j]
    return X, y


def rings(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 2) and classes (n,) of a Gaussian within two rings, as in Pham et al. (2017)."""
    random = np.random.default_rng(seed)
    y = random.choice(3, n, p=[1 / 7, 2 / 7, 4 / 7])
    angle = random.uniform(0.0, 2.0 * np.pi, n)
    distance = np.array([0.0, 2.0, 3.5])[y] + random.normal(0.0, 0.12, n)
    X = np.column_stack([distance * np.cos(angle), distance * np.sin(angle)])
    core = y == 0
    X[core] = random.normal(0.0, 0.3, (int(core.sum()), 2))
    return X, y


MAKERS: dict[str, Callable[[int, int], tuple[np.ndarray, np.ndarray]]] = {
    "gaussians": gaussians,
    "rings": rings,
}


def growth_rows(choice: Choice, say: Callable[[str], object]) -> list[dict[str, Any]]:
    """Fit every peer to every table and size, one after the other, and return the rows."""
    rows = []
    for table in choice.of(TABLES, TABLES):
        for system in PEERS:
            for n in QUICK_SIZES if choice.quick else SIZES:
                fresh = [growth_row(table, n, system, s) for s in choice.seeds(3, 1)]
                rows += fresh
                say(_line(fresh[-1]))
                if any(row["note"] for row in fresh):
                    break
    return rows


def growth_row(table: str, n: int, system: str, seed: int) -> dict[str, Any]:
    """Return the row of one fit."""
    from distsvc.bench.machine import machine
    from distsvc.bench.systems import SYSTEMS

    about = {
        "experiment": "growth", "set": table, "system": system, "point": "{}", "seed": seed,
        "protocol": SYSTEMS[system].alone[0],
        "n": n, "rows": n, "note": "",
    }  # fmt: skip
    return about | limited(fit_and_score, LIMIT_S, table, n, system, seed) | machine()


def limited(function: Callable[..., None], seconds: float, *arguments: Any) -> dict[str, Any]:
    """Return what a function sends from a process of its own, or a note why it sent nothing.

    It first sends anything to say that it is ready; the limit counts from then.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=function, args=(there, *arguments))
    process.start()
    there.close()
    try:
        here.recv()
        found: dict[str, Any] = (
            here.recv() if here.poll(seconds) else {"note": f"not done in {seconds:g} s"}
        )
    except EOFError:
        found = {"note": "failed"}
    finally:
        process.kill()
        process.join()
    return found


def fit_and_score(sender: Connection, table: str, n: int, system: str, seed: int) -> None:
    """Send the measured columns of one fit."""
    from distsvc.bench.fits import Fit, fitted, standardised, warm_up
    from distsvc.bench.systems import SYSTEMS
    from distsvc.run.progress import peak_memory_mb

    X, y = MAKERS[table](n, seed)
    X = standardised(X)
    try:
        warm_up(system, X.shape[1])
    except ImportError as error:
        sender.send("ready")
        sender.send({"note": f"not installed: {error.name}"})
        return
    before = peak_memory_mb()
    sender.send("ready")
    (row,) = fitted(Fit("growth", table, system, *SYSTEMS[system].alone, seed), X, y, n)
    row.pop("point")
    about = {"d": X.shape[1], "classes": len(np.unique(y))}
    sender.send(row | about | {"peak_mb": peak_memory_mb(), "before_mb": before})


def _line(row: dict[str, Any]) -> str:
    if row["note"]:
        return f"{row['set']:10} {row['system']:20} {row['n']:>9,} rows  {row['note']}"
    return (
        f"{row['set']:10} {row['system']:20} {row['n']:>9,} rows  "
        f"NMI {row['normalized_mutual_information']:.3f}  {row['total_seconds']:8.2f} s  "
        f"{row['peak_mb']:7.0f} MB"
    )
