"""Clustering without labels: 14 large tables whole, beside HDBSCAN and k-means.

Columns are standardised; mnist's pixels are not, many being constant or nearly so, but divided by
255 and turned to their 30 leading principal components, unwhitened. Labels only score; k-means is
given the number of classes, and rows that HDBSCAN calls noise are a cluster of their own.

Every fit is a process of its own, with the threads it asks for, and is stopped after ten minutes.
Seconds are those of the fit alone, after a fit to some random rows; the peak memory is the
process's, the table included, and stands beside that from before the fit. What a method had on a
table the last time it ran stays in the result until it runs there again; the column `day` tells
when.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from benchmarks.big import apart
from benchmarks.blind import (
    fit,
    known,
    mean_and_error,
    mean_scores,
    methods_of,
    over_seeds,
    scored,
    seeds_of,
    warm_up,
)
from benchmarks.measure import Row, earlier, load, pivot, publish, show, standardised, work_folder
from distsvc.bench.peers import limited

LIMIT_S = 600
KMEANS_STARTS = 3
COMPONENTS = 30
TABLES = [
    "kddcup",
    "letter",
    "magic",
    "mnist",
    "musk",
    "optdigits",
    "page_blocks",
    "pendigits",
    "ring",
    "satimage",
    "shuttle",
    "texture",
    "twonorm",
    "waveform_21",
]
SPLIT = {"shuttle": 0}
"""Of which only the rows of one split are used."""

METHODS = {"ours": ("ours",), "hdbscan": ("HDBSCAN 5", "HDBSCAN n//200"), "kmeans": ("k-means",)}
IN_ORDER = [method for family in METHODS.values() for method in family]
ABOUT = ("set", "n", "d", "classes")
MEASURED = ("nmi", "ari", "k", "agreement", "seconds", "peak_mb", "before_mb", "note")


def run(options: Namespace) -> None:
    names = known(options.sets, TABLES, "set")
    methods = methods_of(options, METHODS)
    rows = earlier(options.out, "blind_large")
    with work_folder(options.work) as work:
        for name in names:
            about = apart(prepare_table, options.data, name, work)
            fresh = [
                row_of_fit(about, method, seed, work)
                for method in methods
                for seed in seeds_of(method, options.seeds)
            ]
            rows = [r for r in rows if r["set"] != name or r["method"] not in methods] + fresh
            rows.sort(key=place)
            publish(options.out, "blind_large", rows)
    report(rows)


def place(row: Row) -> tuple[int, int, int]:
    """Return what the rows of the result are sorted by."""
    return TABLES.index(row["set"]), IN_ORDER.index(row["method"]), row["seed"] or 0


def prepare_table(data: Path, name: str, work: Path) -> Row:
    """Write a table's rows and labels for the fits, and return its columns of the result."""
    X, y = load(data, name, SPLIT.get(name))
    X = leading_components(X / 255.0) if name == "mnist" else standardised(X)
    np.save(work / "X.npy", X)
    np.save(work / "y.npy", y)
    return {"set": name, "n": len(X), "d": X.shape[1], "classes": len(np.unique(y))}


def leading_components(X: np.ndarray) -> np.ndarray:
    """Return the scores (n, 30) of the rows X (n, d), unwhitened."""
    from sklearn.decomposition import PCA

    return np.ascontiguousarray(PCA(COMPONENTS, svd_solver="covariance_eigh").fit_transform(X))


def row_of_fit(about: Row, method: str, seed: int | None, work: Path) -> Row:
    """Return the row of the result that is about one fit."""
    found = limited(fit_and_score, LIMIT_S, work, method, about["classes"], seed)
    row = about | {"method": method, "seed": seed} | dict.fromkeys(MEASURED) | found
    score = "-" if row["nmi"] is None else f"NMI {row['nmi']:.3f}, {row['seconds']:.1f} s"
    print(
        f"{row['set']}, {method}, {seed}: {score} {row['note'] or ''}", file=sys.stderr, flush=True
    )
    return row


def fit_and_score(
    sender: Connection, work: Path, method: str, classes: int, seed: int | None
) -> None:
    from distsvc.run.progress import peak_memory_mb

    X = np.load(work / "X.npy")
    warm_up(method, X.shape[1])
    before = peak_memory_mb()
    sender.send("ready")
    found = fit(method, X, classes, seed, KMEANS_STARTS)
    others = {key: found[key] for key in ("k", "agreement", "seconds")}
    others |= {"peak_mb": peak_memory_mb(), "before_mb": before}
    others |= {"note": "; ".join(found["warnings"])}
    sender.send(scored(np.load(work / "y.npy"), found["labels"]) | others)


def report(rows: list[Row]) -> None:
    """Print the tables, what did not end, and the means."""
    for title, index in (
        ("NMI", "nmi"),
        ("ARI", "ari"),
        ("Clusters", "k"),
        ("Seconds of a fit", "seconds"),
        ("Peak memory, MB", "peak_mb"),
    ):
        wide = pivot(over_seeds(rows, index), ABOUT, "method", index)
        columns = (*ABOUT, *(method for method in IN_ORDER if any(method in line for line in wide)))
        show(title, [{column: line.get(column) for column in columns} for line in wide])
    ours = [row for row in rows if row["agreement"] is not None]
    if ours:
        show("Agreement of ours", over_seeds(ours, "agreement"))
    for row in rows:
        if row["nmi"] is None:
            print(f"  {row['set']}, {row['method']}: {row['note']}")
    show("Means over the tables where a fit ended; bar: NMI .43, goal .50", means_of_tables(rows))


def means_of_tables(rows: list[Row]) -> list[Row]:
    """Return means over all tables, without mnist, and over those where every method ended."""
    rows = [row for row in rows if row["nmi"] is not None]
    methods = sorted({row["method"] for row in rows}, key=IN_ORDER.index)
    by_set = {name: {r["method"] for r in rows if r["set"] == name} for name in TABLES}
    choices = {
        "all": TABLES,
        "without mnist": [name for name in TABLES if name != "mnist"],
        "ended by all": [name for name in TABLES if by_set[name] == set(methods)],
    }
    lines = []
    for (choice, names), method in product(choices.items(), methods):
        alike = [row for row in rows if row["method"] == method and row["set"] in names]
        lines.append(
            {"tables": choice, "method": method, "ended": len({row["set"] for row in alike})}
            | mean_scores(alike)
            | {"seconds": mean_and_error(alike, "seconds")[0]}
            | {"peak_mb": max((row["peak_mb"] for row in alike), default=None)}
        )
    return lines
