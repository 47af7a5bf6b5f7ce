"""Tables of mixed columns: categories encoded, beside what else can be done with them.

Ten tables. The columns of categories of the real ones are stored as codes in the sets, which are
turned into text here; so their values have no names, but are those of the tables as published.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.datasets.loading import load
from benchmarks.harness.data import SAMPLE_SEED, sampled, standardised
from benchmarks.harness.measure import agreement, measured, n_clusters, publish, timed
from benchmarks.harness.rows import Row, mean_of, pivot, show
from benchmarks.harness.runs import published, run_here, work_folder
from benchmarks.harness.systems import prepare
from benchmarks.quality.without_labels import with_earlier

SAMPLE_ROWS = 2000
MADE_ROWS = 1500

REAL = {
    "adult": ((1, 3, 5, 6, 7, 8, 9, 13), ()),
    "churn": ((0, 2, 4, 5), (3,)),
    "kddcup": ((1, 2, 3), ()),
    "fars": ((2, 3, 7, 8, 9, 11, 12, 13, 15, 16, 17, 19, 21, 23, 24), ()),
    "abalone": ((0,), ()),
    "mushroom": (tuple(range(22)), ()),
}
"""Of each set the columns of categories, and those left out: the phone number of churn."""

TUNE = ("adult", "fars", "made_both", "made_noise")
"""On which defaults were chosen; they were confirmed on the others."""

WAYS = ("encoded", "frequencies", "dropped", "codes as numbers")
"""What a job is told of the columns of categories."""

PEERS = ("k-prototypes", "Gower, HDBSCAN")


@dataclass(frozen=True)
class Mixed:
    """Numbers (n, d) float64, codes (n, c) int64 of categories, and classes (n,)."""

    numbers: np.ndarray
    codes: np.ndarray
    y: np.ndarray


def categories(options: Namespace) -> None:
    """Clusters of mixed tables: encoded, dropped, and by k-prototypes and Gower's distance.

    Large sets are cut to 2,000 rows, drawn once. Ours is a job as it is by default, told which
    columns are categories: as one-hot columns, as frequencies, without them, or with their codes
    as if they were numbers. K-prototypes is told the number of classes; HDBSCAN on Gower's distance
    has clusters of 5 rows and more, and its noise is one cluster. What a method had on a table the
    last time it ran stays in the results until it runs there again. Four of the tables are made up:
    `made_both`, where numbers and categories tell of the clusters; `made_split`, where categories
    divide what numbers don't; `made_only`, where only categories do; and `made_noise`, where they
    say nothing.
    """
    names = options.sets or [*REAL, *MADE]
    ways = options.methods or [*WAYS, *PEERS]
    unknown = [one for one in (*names, *ways) if one not in (*REAL, *MADE, *WAYS, *PEERS)]
    if unknown:
        sys.exit(f"no set or method {unknown[0]!r}")
    seeds = {way: range(options.seeds) if way in (*WAYS, PEERS[0]) else [0] for way in ways}
    with work_folder(options.work) as folder:
        tasks = [
            (options.data, folder, name, way, seed)
            for name, way in product(names, ways)
            for seed in seeds[way]
        ]
        begin = partial(prepare, ())
        rows = measured(rows_of_fit, tasks, options.processes, begin)
    rows = with_earlier(options.out / "categories.csv", rows, [*REAL, *MADE], [*WAYS, *PEERS])
    publish(options.out, "categories", rows)
    index = ("set", "half", "rows", "n", "numbers", "categories", "classes")
    for value in ("nmi", "ari", "k", "seconds"):
        show(f"{value}, means over seeds", pivot(rows, index, "method", value))
    show("Means over the tables; bar: encoded above dropped", means(rows))


def means(rows: list[Row]) -> list[Row]:
    """Return the means over the tables that a method has an answer for, by half."""
    found = []
    for half, way in product(("tune", "confirm", "all"), dict.fromkeys(r["method"] for r in rows)):
        chosen = [r for r in rows if r["method"] == way and half in (r["half"], "all")]
        chosen = [r for r in chosen if r["nmi"] is not None]
        by_set = pivot(chosen, ("set",), "method", "nmi")
        aris = pivot(chosen, ("set",), "method", "ari")
        found.append(
            {"half": half, "method": way, "sets": len(by_set)}
            | {"nmi": mean_of(row[way] for row in by_set)}
            | {"ari": mean_of(row[way] for row in aris)}
        )
    return found


def rows_of_fit(data: Path, folder: Path, name: str, way: str, seed: int) -> list[Row]:
    """Return the row of the result that is about one fit; one that fails has a note instead."""
    table = mixed(data, name)
    k = len(np.unique(table.y))
    if way in WAYS:
        fit: Callable[[], np.ndarray] = partial(by_job, table, way, seed, folder / name)
    elif way == "k-prototypes":
        fit = partial(k_prototypes, table, k, seed)
    else:
        fit = partial(gower_hdbscan, table)
    about = {
        "set": name,
        "half": "tune" if name in TUNE else "confirm",
        "rows": "made up" if name in MADE else "real",
        "n": len(table.y),
        "numbers": table.numbers.shape[1],
        "categories": table.codes.shape[1],
        "classes": k,
        "method": way,
        "seed": seed,
    }
    try:
        one = timed(fit)
    except ValueError as error:  # k-prototypes finds no beginning
        empty = dict.fromkeys(("nmi", "ari", "k", "seconds"))
        return [about | empty | {"note": str(error)}]
    known = agreement(table.y, one.value)
    found = {"nmi": known["nmi"], "ari": known["ari"], "k": n_clusters(one.value)}
    return [about | found | {"seconds": one.seconds, "note": ""}]


def mixed(data: Path | None, name: str) -> Mixed:
    """Return a table by its name."""
    if name in MADE:
        return MADE[name](np.random.default_rng(SAMPLE_SEED))
    coded, left_out = REAL[name]
    X, y = sampled(*load(name, data), SAMPLE_ROWS)
    others = [k for k in range(X.shape[1]) if k not in (*coded, *left_out)]
    return Mixed(X[:, others], X[:, list(coded)].astype(np.int64), y)


def by_job(table: Mixed, way: str, seed: int, stem: Path) -> np.ndarray:
    """Return the labels (n,) of a job that is told of the categories in one of the `WAYS`."""
    columns: dict[str, Any] = {f"x{k}": x for k, x in enumerate(table.numbers.T)}
    coded = {f"c{k}": codes for k, codes in enumerate(table.codes.T)}
    if way == "dropped" and not columns:
        return np.zeros(len(table.y), np.int64)
    if way == "codes as numbers":
        columns |= {name: codes.astype(np.float64) for name, codes in coded.items()}
    elif way != "dropped":
        columns |= {name: [f"v{code}" for code in codes] for name, codes in coded.items()}
    how = {"encoded": "onehot", "frequencies": "frequency"}.get(way)
    path = Path(f"{stem}-{way.replace(' ', '-')}-{seed}")
    path.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path / "table.parquet")
    encode = {"encode": dict.fromkeys(coded, how) if how else {}}
    table_path, out = path / "table.parquet", path / "out"
    run_here(table_path, out, {}, {"seed": seed}, {"workers": 0}, more={"preprocess": encode})
    return published(out)


def k_prototypes(table: Mixed, k: int, seed: int) -> np.ndarray:
    """Return the labels (n,) of k-prototypes; of k-modes where there are no numbers."""
    from kmodes.kmodes import KModes
    from kmodes.kprototypes import KPrototypes

    if not table.numbers.shape[1]:
        return KModes(k, init="Huang", n_init=3, random_state=seed).fit_predict(table.codes)
    numbers, codes = standardised(table.numbers), table.codes.astype(str)
    rows = np.hstack([numbers.astype(object), codes.astype(object)])
    d = table.numbers.shape[1]
    places = list(range(d, d + table.codes.shape[1]))
    return KPrototypes(k, init="Huang", n_init=3, random_state=seed).fit_predict(
        rows, categorical=places
    )


def gower_hdbscan(table: Mixed) -> np.ndarray:
    """Return the labels (n,) of HDBSCAN on Gower's distance."""
    from sklearn.cluster import HDBSCAN

    n, d = len(table.y), table.numbers.shape[1] + table.codes.shape[1]
    D = np.zeros((n, n))
    for x in table.numbers.T:
        D += np.abs(x[:, None] - x) / (np.ptp(x) or 1.0)
    for codes in table.codes.T:
        D += codes[:, None] != codes
    return HDBSCAN(min_cluster_size=5, metric="precomputed").fit_predict(D / d)


def _profiles(rng: np.random.Generator, y: np.ndarray, values: tuple[int, ...], p: float) -> Any:
    """Return codes (n, c): of each column the class's own value with probability p, else any."""
    own = [rng.permutation(max(v, int(y.max()) + 1))[: int(y.max()) + 1] % v for v in values]
    drawn_at_random = np.column_stack([rng.integers(0, v, len(y)) for v in values])
    usual = np.column_stack([of[y] for of in own])
    return np.where(rng.random(usual.shape) < p, usual, drawn_at_random)


def made_both(rng: np.random.Generator) -> Mixed:
    """Four clusters that overlap in numbers, and have their own values in most rows."""
    y = rng.integers(0, 4, MADE_ROWS)
    X = rng.normal(scale=1.8, size=(4, 3))[y] + rng.normal(size=(len(y), 3))
    return Mixed(X, _profiles(rng, y, (5, 6, 8), 0.7), y)


def made_split(rng: np.random.Generator) -> Mixed:
    """Two clear blobs, each of three kinds that only categories tell apart."""
    y = rng.integers(0, 6, MADE_ROWS)
    X = np.array([[-3.0, 0.0], [3.0, 1.0]])[y // 3] + rng.normal(size=(len(y), 2))
    return Mixed(X, _profiles(rng, y % 3, (4, 5), 0.85), y)


def made_only(rng: np.random.Generator) -> Mixed:
    """Three kinds that only categories tell apart, beside two columns of noise."""
    y = rng.integers(0, 3, MADE_ROWS)
    return Mixed(rng.normal(size=(len(y), 2)), _profiles(rng, y, (4, 5, 6, 8), 0.8), y)


def made_noise(rng: np.random.Generator) -> Mixed:
    """Four blobs, beside three columns of categories that say nothing."""
    y = rng.integers(0, 4, MADE_ROWS)
    X = 5.0 * np.eye(4)[y] + rng.normal(size=(len(y), 4))
    codes = np.column_stack([rng.integers(0, v, len(y)) for v in (3, 6, 10)])
    return Mixed(X, codes, y)


MADE: dict[str, Callable[[np.random.Generator], Mixed]] = {
    "made_both": made_both,
    "made_split": made_split,
    "made_only": made_only,
    "made_noise": made_noise,
}
