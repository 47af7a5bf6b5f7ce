"""Clustering without labels: 13 of the papers' sets and 17 shapes, beside HDBSCAN and k-means.

Every method gets the standardised columns and nothing else, but k-means the number of classes.
Labels only score. Larger sets are cut to 3,000 rows, drawn once. Ours and k-means run with several
seeds, HDBSCAN has none. Rows that HDBSCAN calls noise are a cluster of their own, and are also
given to the cluster of the nearest row that has one; ours has every row in a cluster, and is also
scored with its outliers as one of their own. Standard errors are those over seeds.

Of the sets of a group by name every second one, from the first, is for tuning; what was tuned is
judged on the others.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from benchmarks.measure import Row, load, pivot, publish, show, standardised

PROCESSES = 2
MOST_ROWS = 3200
SAMPLE_ROWS = 3000
SAMPLE_SEED = 0
KMEANS_STARTS = 10
GROUPS = {
    "bsgd": [
        "abalone",
        "aggregation",
        "breast_cancer",
        "car",
        "compound",
        "d31",
        "flame",
        "glass",
        "iris",
        "jain",
        "pathbased",
        "r15",
        "spiral",
    ],
    "shapes": [
        "atom",
        "banana",
        "birch1",
        "birch2",
        "cassini",
        "cluto_t4_8k",
        "cluto_t5_8k",
        "cluto_t7_10k",
        "complex8",
        "dartboard1",
        "rings",
        "s_set1",
        "smile1",
        "target",
        "zelnik1",
        "zelnik2",
        "zelnik4",
    ],
}
BARS = {"bsgd": "NMI .68 (goal .72), ARI .65", "shapes": "NMI .81 (goal .87), ARI .70"}
NOISE_CLASS = {"cluto_t4_8k": 6, "cluto_t5_8k": 6, "cluto_t7_10k": 9, "zelnik2": 2, "zelnik4": 4}
METHODS = {"ours": ("ours",), "hdbscan": ("HDBSCAN 5", "HDBSCAN n//50"), "kmeans": ("k-means",)}
APART = "ours, outliers apart"
ASSIGNED = "{}, noise assigned"


def run(options: Namespace) -> None:
    names = known(options.sets, [name for group in GROUPS.values() for name in group], "set")
    methods = methods_of(options, METHODS)
    tasks = [
        (options.data, name, method, seed)
        for name, method in product(names, methods)
        for seed in seeds_of(method, options.seeds)
    ]
    rows: list[Row] = []
    for number, found in enumerate(in_pool(rows_of_fit, tasks), 1):
        rows += found
        about = f"{found[0]['set']}, {found[0]['method']}"
        print(f"{number} of {len(tasks)} fits, {about}", file=sys.stderr, flush=True)
    report(rows)
    publish(options.out, "blind", rows)


def known(wanted: list[str] | None, names: list[str], what: str) -> list[str]:
    """Return the names that are wanted, all by default; end with a message for an unknown one."""
    for name in wanted or []:
        if name not in names:
            sys.exit(f"no {what} {name!r}; there are {', '.join(names)}")
    return wanted or names


def methods_of(options: Namespace, families: dict[str, tuple[str, ...]]) -> list[str]:
    """Return the methods of the families that the options ask for."""
    wanted = known(options.methods, list(families), "method")
    return [method for family in wanted for method in families[family]]


def seeds_of(method: str, n_seeds: int) -> list[int | None]:
    """Return the seeds of a method, None for one that needs no chance."""
    return [None] if method.startswith("HDBSCAN") else list(range(n_seeds))


def in_pool(function: Callable[..., Any], tasks: list[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield what a function makes of every task, in order, in processes of one thread each."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context, initializer=prepare) as pool:
        for task in [pool.submit(function, *task) for task in tasks]:
            yield task.result()


def prepare() -> None:
    """Compile the kernels and keep the process to one thread."""
    from threadpoolctl import threadpool_limits

    for method in ("ours", "k-means"):
        warm_up(method, 2)
    threadpool_limits(1)  # of the libraries that are loaded by now


def warm_up(method: str, n_columns: int) -> None:
    """Fit a method to some random rows, so that loading and compiling are not counted."""
    fit(method, np.random.default_rng(0).normal(size=(500, n_columns)), 2, 0, 1)


def fit_ours(X: np.ndarray, seed: int) -> Row:
    """Return labels (n,), outliers (n,) bool, k, agreement, seconds and the texts of warnings."""
    from distsvc import SupportVectorClustering

    model = SupportVectorClustering(random_state=seed)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    seconds = time.perf_counter() - started
    outliers = getattr(model, "outliers_", None)
    return {
        "labels": model.labels_,
        "outliers": model.decision_function(X) < 0.0 if outliers is None else outliers,
        "k": model.n_clusters_,
        "agreement": getattr(model, "agreement_", None),
        "seconds": seconds,
        "warnings": [str(warning.message) for warning in caught],
    }


def fit_peer(model: Any, X: np.ndarray) -> Row:
    """Return what `fit_ours` does, of another clustering with labels from -1, which is noise."""
    started = time.perf_counter()
    labels = model.fit(X).labels_
    seconds = time.perf_counter() - started
    k = len(np.unique(labels[labels >= 0]))
    none = {"agreement": None, "warnings": []}
    return {"labels": labels, "outliers": labels < 0, "k": k, "seconds": seconds} | none


def fit(method: str, X: np.ndarray, classes: int, seed: int | None, starts: int) -> Row:
    """Fit a method by its name; k-means is given the number of classes."""
    from sklearn.cluster import HDBSCAN, KMeans

    if method == "ours":
        return fit_ours(X, seed or 0)
    if method == "k-means":
        return fit_peer(KMeans(classes, n_init=starts, random_state=seed), X)
    size = method.removeprefix("HDBSCAN ")
    smallest = len(X) // int(size[3:]) if size.startswith("n//") else int(size)
    return fit_peer(HDBSCAN(min_cluster_size=smallest, copy=True), X)


def sample(data: Path, name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Return rows (n, d) of a set, standardised, their labels (n,) and how many the set has."""
    X, y = load(data, name)
    size = len(X)
    if size > MOST_ROWS:
        drawn = np.random.default_rng(SAMPLE_SEED).choice(size, SAMPLE_ROWS, replace=False)
        drawn.sort()
        X, y = X[drawn], y[drawn]
    return standardised(X), y, size


def rows_of_fit(data: Path, name: str, method: str, seed: int | None) -> list[Row]:
    """Return the rows of the result that are about one fit."""
    X, y, size = sample(data, name)
    classes = len(np.unique(y))
    found = fit(method, X, classes, seed, KMEANS_STARTS)
    group = next(group for group, names in GROUPS.items() if name in names)
    about = {
        "group": group,
        "set": name,
        "half": ("tune", "confirm")[sorted(GROUPS[group]).index(name) % 2],
        "rows_of_set": size,
        "n": len(X),
        "sample_seed": SAMPLE_SEED if len(X) < size else None,
        "d": X.shape[1],
        "classes": classes,
    }
    others = {key: found[key] for key in ("k", "agreement", "seconds")}
    others |= noise_scores(name, method, y, found["outliers"])
    others |= {"note": "; ".join(found["warnings"])}
    return [
        about | {"method": scoring, "seed": seed} | scored(y, labels) | others
        for scoring, labels in scorings(method, X, found).items()
    ]


def scorings(method: str, X: np.ndarray, found: Row) -> dict[str, np.ndarray]:
    """Return the labels (n,) to score, with outliers in clusters and as one of their own."""
    labels = found["labels"]
    if method == "ours":
        return {method: labels, APART: np.where(found["outliers"], -1, labels)}
    if method == "k-means":
        return {method: labels}
    return {method: labels, ASSIGNED.format(method): without_noise(X, labels)}


def without_noise(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return labels (n,) with every -1 replaced by the label of the nearest row that has one."""
    from sklearn.neighbors import NearestNeighbors

    clustered = labels >= 0
    if clustered.all() or not clustered.any():
        return labels
    nearest = NearestNeighbors(n_neighbors=1).fit(X[clustered]).kneighbors(X[~clustered])[1][:, 0]
    labels = labels.copy()
    labels[~clustered] = labels[clustered][nearest]
    return labels


def scored(y: np.ndarray, labels: np.ndarray) -> Row:
    """Return the indices of a clustering; NMI is normalised by the arithmetic mean."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    return {
        "nmi": float(normalized_mutual_info_score(y, labels)),
        "ari": float(adjusted_rand_score(y, labels)),
    }


def noise_scores(name: str, method: str, y: np.ndarray, outliers: np.ndarray) -> Row:
    """Return how well outliers (n,) bool are a set's noise class, None where it has none."""
    from sklearn.metrics import precision_recall_fscore_support

    scores: tuple[Any, ...] = (None, None, None)
    if name in NOISE_CLASS and method != "k-means":
        scores = precision_recall_fscore_support(
            y == NOISE_CLASS[name], outliers, average="binary", zero_division=0.0
        )[:3]
    return {
        "called_noise": float(outliers.mean()),
        **dict(zip(("precision", "recall", "f1"), scores, strict=True)),
    }


def report(rows: list[Row]) -> None:
    """Print the tables set by set, those of noise, and the means over groups and halves."""
    drawn = {row["set"]: row for row in rows if row["sample_seed"] is not None}
    for row in drawn.values():
        print(f"{row['set']}: {row['n']} of {row['rows_of_set']} rows, seed {row['sample_seed']}")
    extra = {row["method"] for row in rows if "," in row["method"]}
    plain = [row for row in rows if row["method"] not in extra]
    about = ("set", "n", "d", "classes", "half")
    for group, index in product(GROUPS, ("nmi", "ari")):
        of_group = [row for row in plain if row["group"] == group]
        if of_group:
            lines = pivot(over_seeds(of_group, index, about), about, "method", index)
            show(f"{index.upper()} on {group}, means over seeds", lines)
    show("Clusters", pivot(over_seeds(plain, "k"), ("set", "classes"), "method", "k"))
    show("Seconds of a fit", pivot(over_seeds(plain, "seconds"), about[:3], "method", "seconds"))
    ours = [row for row in plain if row["agreement"] is not None]
    if ours:
        show("Agreement of ours", over_seeds(ours, "agreement", ("set",)))
    report_noise(plain)
    bars = "; ".join(f"{group} {bar}" for group, bar in BARS.items())
    show(f"Means over the sets; bars: {bars}", means_of_groups(rows))


def report_noise(rows: list[Row]) -> None:
    rows = [row for row in rows if row["precision"] is not None]
    lines = [
        {"set": name, "method": method}
        | {index: mean(row[index] for row in alike) for index in ("precision", "recall", "f1")}
        for (name, method), alike in grouped(rows, ("set", "method")).items()
    ]
    if lines:
        show("Outliers as the noise class", lines)


def grouped(rows: list[Row], columns: tuple[str, ...]) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows by their values in columns."""
    alike: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        alike.setdefault(tuple(row[column] for column in columns), []).append(row)
    return alike


def over_seeds(
    rows: list[Row], index: str, about: tuple[str, ...] = ("set", "n", "d", "classes")
) -> list[Row]:
    """Return one row per set and method with the mean of an index, None where no fit has it."""
    lines = []
    for key, alike in grouped(rows, (*about, "method")).items():
        values = [float(row[index]) for row in alike if row[index] is not None]
        line = dict(zip((*about, "method"), key, strict=True))
        lines.append(line | {index: mean(values) if values else None})
    return lines


def mean_and_error(rows: list[Row], index: str) -> tuple[float | None, float | None]:
    """Return the mean over sets and seeds of an index, and its standard error over seeds.

    Fits without the index are left out. The error is that of the means over the sets, one for
    every seed; None where sets differ in their seeds.
    """
    rows = [row for row in rows if row[index] is not None]
    of_set = [[row[index] for row in alike] for alike in grouped(rows, ("set",)).values()]
    of_seed = [[row[index] for row in alike] for alike in grouped(rows, ("seed",)).values()]
    if not rows:
        return None, None
    complete = len(of_seed) > 1 and all(len(values) == len(of_set) for values in of_seed)
    error = stdev(map(mean, of_seed)) / len(of_seed) ** 0.5 if complete else None
    return mean(map(mean, of_set)), error


def means_of_groups(rows: list[Row]) -> list[Row]:
    lines = []
    methods = dict.fromkeys(row["method"] for row in rows)
    for group, part, method in product(GROUPS, ("all", "tune", "confirm"), methods):
        alike = [row for row in rows if (row["group"], row["method"]) == (group, method)]
        alike = [row for row in alike if part in ("all", row["half"])]
        if alike:
            lines.append(
                {"group": group, "sets": len({row["set"] for row in alike}), "half": part}
                | {"method": method}
                | mean_scores(alike)
            )
    return lines


def mean_scores(rows: list[Row]) -> Row:
    """Return means over the sets of NMI and ARI, each with its standard error over seeds."""
    nmi, nmi_error = mean_and_error(rows, "nmi")
    ari, ari_error = mean_and_error(rows, "ari")
    return {"nmi": nmi, "nmi_error": nmi_error, "ari": ari, "ari_error": ari_error}
