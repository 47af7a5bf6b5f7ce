"""Stability of the clusters of `IncrementalMDH` under changes that should not matter."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import numpy as np

from benchmarks.harness.data import papers_rows
from benchmarks.harness.measure import agreement, by_task, publish, timed
from benchmarks.harness.rows import Row, only, show
from benchmarks.harness.systems import prepare

HALVES = {
    "tune": (
        "iris", "wine", "breast cancer", "digits", "glass", "ecoli", "date_fruit", "churn",
        "page_blocks", "satimage", "phoneme",
    ),
    "confirm": (
        "breast_cancer", "abalone", "aggregation", "d31", "texture", "optdigits", "waveform_21",
        "ann_thyroid", "pendigits", "dry_bean", "birds_bones_and_living_habits",
    ),
}  # fmt: skip
"""Eleven tables on which the settings were chosen, and eleven that confirm them."""

SEED = 7


def mdh_disturbed(options: Namespace) -> None:
    """Compare the clusters of a table before and after a change of the table.

    Each of eight changes leaves the clusters as they are: another seed (twice), another order of
    the rows (twice) or of the columns, other units (columns times powers of ten), a copy of one
    row, and copies of 5 % of the rows. The reference is the fit to the table as stored, with seed
    0. The measure is the adjusted Rand index on the rows of the table, averaged over the changes,
    then over the tables of a half. Its bar is .90.
    """
    tasks = [
        (options.data, half, name)
        for half, names in HALVES.items()
        for name in options.sets or names
        if name in names and options.half in (None, half)
    ]
    found = [row for rows in by_task(disturbed, tasks, options.processes, compiled) for row in rows]
    lines = [
        {"half": half, "set": name, "ari": mean(row["ari"] for row in only(found, set=name))}
        for _, half, name in tasks
    ]
    for half in dict.fromkeys(line["half"] for line in lines):
        values = [line["ari"] for line in lines if line["half"] == half]
        lines.append({"half": half, "set": "mean", "ari": mean(values)})
    show("ARI under eight disturbances; bar .90", lines)
    publish(options.out, "mdh_disturbed", found)


def compiled() -> None:
    """Compile the kernels."""
    prepare(("iMDH, ours",))


def disturbed(data: Path, half: str, name: str) -> list[Row]:
    """Return one row for each change of a set: the agreement, and both numbers of clusters."""
    from distsvc import IncrementalMDH

    X = _rows(name, data)
    model = IncrementalMDH(random_state=0)
    seconds = timed(model.fit, X).cpu_seconds
    rows = []
    for change, Z, places, seed in disturbances(X):
        other = IncrementalMDH(random_state=seed)
        timed(other.fit, Z)
        rows.append(
            {
                "half": half, "set": name, "rows": len(X), "d": X.shape[1], "change": change,
                "ari": agreement(model.labels_, other.labels_[places])["ari"],
                "clusters": model.n_clusters_, "clusters_after": other.n_clusters_,
                "cpu_seconds": seconds,
            }
        )  # fmt: skip
    return rows


def disturbances(X: np.ndarray) -> Iterator[tuple[str, np.ndarray, np.ndarray, int]]:
    """Yield the changes of a table X (n, d).

    Yields
    ------
    name : str
    Z : ndarray of shape (m, d)
        The changed table.
    places : ndarray of shape (n,)
        Row i of X is row places[i] of Z.
    seed : int
        Random state of the fit to Z.

    """
    random, n, d = np.random.default_rng(SEED), *X.shape
    same = np.arange(n)
    yield "seed 1", X, same, 1
    yield "seed 2", X, same, 2
    yield "rows reversed", X[::-1], same[::-1], 0
    order = random.permutation(n)
    yield "rows in another order", X[order], np.argsort(order), 0
    yield "columns in another order", X[:, random.permutation(d)], same, 0
    yield "units", X * 10.0 ** random.integers(-3, 4, d), same, 0
    copied = X[[int(random.integers(n))]]
    yield "a copied row", np.concatenate([X, copied]), same, 0
    copied = X[random.choice(n, max(n // 20, 1), replace=False)]
    yield "5 % of the rows copied", np.concatenate([X, copied]), same, 0


def _rows(name: str, data: Path) -> np.ndarray:
    """Return the rows (n, d) of a set of the catalogue, or of scikit-learn's."""
    from sklearn import datasets

    bundled = {
        "wine": datasets.load_wine, "breast cancer": datasets.load_breast_cancer,
        "digits": datasets.load_digits,
    }  # fmt: skip
    return bundled[name]().data if name in bundled else papers_rows(name, data)[0]
