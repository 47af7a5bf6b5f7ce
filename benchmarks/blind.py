"""Clustering without labels, beside HDBSCAN and k-means.

Every method gets the standardised columns and nothing else, but k-means the number of classes.
Labels only score. Ours and k-means run with several seeds, HDBSCAN has none. Standard errors are
those over seeds.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from benchmarks.jobs import work_folder
from distsvc.bench.data import SAMPLE_SEED, drawn, scaled, standardised
from distsvc.bench.fits import warm_up
from distsvc.bench.measure import (
    agreement,
    alone,
    in_processes,
    limited,
    n_clusters,
    publish,
    timed,
)
from distsvc.bench.rows import Row, grouped, mean_of, only, pivot, read_csv, show
from distsvc.bench.suites import BSGD_SPLITS
from distsvc.bench.systems import SYSTEMS, Facts
from distsvc.datasets import load

PROCESSES = 2
MOST_ROWS = 3200
SAMPLE_ROWS = 3000
SMALL = {
    "bsgd": (
        "abalone", "aggregation", "breast_cancer", "car", "compound", "d31", "flame", "glass",
        "iris", "jain", "pathbased", "r15", "spiral",
    ),
    "shapes": (
        "atom", "banana", "birch1", "birch2", "cassini", "cluto_t4_8k", "cluto_t5_8k",
        "cluto_t7_10k", "complex8", "dartboard1", "rings", "s_set1", "smile1", "target", "zelnik1",
        "zelnik2", "zelnik4",
    ),
}  # fmt: skip
BARS = {"bsgd": "NMI .68 (goal .72), ARI .65", "shapes": "NMI .81 (goal .87), ARI .70"}
NOISE_CLASS = {"cluto_t4_8k": 6, "cluto_t5_8k": 6, "cluto_t7_10k": 9, "zelnik2": 2, "zelnik4": 4}
APART = "ours, outliers apart"
ASSIGNED = "{}, noise assigned"

LARGE = (
    "kddcup", "letter", "magic", "mnist", "musk", "optdigits", "page_blocks", "pendigits", "ring",
    "satimage", "shuttle", "texture", "twonorm", "waveform_21",
)  # fmt: skip
LIMIT_S = 600
COMPONENTS = 30
MEASURED = ("nmi", "ari", "k", "agreement", "seconds", "peak_mb", "before_mb", "note")
ABOUT = ("set", "n", "d", "classes")


def methods(share: int, starts: int) -> dict[str, dict[str, tuple[str, Callable[[int], Row]]]]:
    """Return by family and name a method's system, and its settings for so many rows."""
    return {
        "ours": {"ours": ("level tree", lambda n: {})},
        "hdbscan": {
            "HDBSCAN 5": ("HDBSCAN", lambda n: {}),
            f"HDBSCAN n//{share}": ("HDBSCAN", lambda n: {"min_cluster_size": n // share}),
        },
        "kmeans": {"k-means": ("k-means", lambda n: {"n_init": starts})},
    }


SMALL_METHODS = methods(50, 10)
LARGE_METHODS = methods(200, 3)


def blind(options: Namespace) -> None:
    """Clustering without labels: 13 of the papers' sets and 17 shapes.

    Larger sets are cut to 3,000 rows, drawn once. Rows that HDBSCAN calls noise are a cluster of
    their own, and are also given to the cluster of the nearest row that has one; ours has every row
    in a cluster, and is also scored with its outliers as one of their own. Of the sets of a group
    by name every second one, from the first, is for tuning; what was tuned is judged on the others.
    """
    names = known(options.sets, [name for group in SMALL.values() for name in group], "set")
    tasks = [
        (options.data, name, method, seed)
        for name, (method, seed) in product(names, fits_of(options, SMALL_METHODS))
    ]
    rows: list[Row] = []
    for number, found in enumerate(in_processes(rows_of_fit, tasks, PROCESSES, prepare), 1):
        rows += found
        about = f"{found[0]['set']}, {found[0]['method']}"
        print(f"{number} of {len(tasks)} fits, {about}", file=sys.stderr, flush=True)
    report_small(rows)
    publish(options.out, "blind", rows)


def blind_large(options: Namespace) -> None:
    """Clustering without labels: 14 large tables whole.

    mnist's pixels are not standardised, many being constant or nearly so, but divided by 255 and
    turned to their 30 leading principal components, unwhitened. Rows that HDBSCAN calls noise are a
    cluster of their own. Every fit is a process of its own, with the threads it asks for, and is
    stopped after ten minutes. Seconds are those of the fit alone, after a fit to some random rows;
    the peak memory is the process's, the table included, and stands beside that from before the
    fit. What a method had on a table the last time it ran stays in the result until it runs there
    again; the column `day` tells when.
    """
    names = known(options.sets, list(LARGE), "set")
    fits = fits_of(options, LARGE_METHODS)
    fitted = {method for method, _ in fits}
    in_order = [method for family in LARGE_METHODS.values() for method in family]
    rows = read_csv(options.out / "blind_large.csv")
    with work_folder(options.work) as work:
        for name in names:
            about = alone(prepare_table, options.data, name, work)
            fresh = [large_row(about, method, seed, work) for method, seed in fits]
            rows = [r for r in rows if r["set"] != name or r["method"] not in fitted] + fresh
            rows.sort(
                key=lambda row: (
                    LARGE.index(row["set"]), in_order.index(row["method"]), row["seed"] or 0
                )
            )  # fmt: skip
            publish(options.out, "blind_large", rows)
    report_large(rows)


def known(wanted: list[str] | None, names: list[str], what: str) -> list[str]:
    """Return the names that are wanted, all by default; end with a message for an unknown one."""
    for name in wanted or []:
        if name not in names:
            sys.exit(f"no {what} {name!r}; there are {', '.join(names)}")
    return wanted or names


def fits_of(
    options: Namespace, families: dict[str, dict[str, Any]]
) -> list[tuple[str, int | None]]:
    """Return the methods that the options ask for, each with its seeds; None without chance."""
    return [
        (method, seed)
        for family in known(options.methods, list(families), "method")
        for method in families[family]
        for seed in ([None] if family == "hdbscan" else range(options.seeds))
    ]


def prepare() -> None:
    """Compile the kernels and keep the process to one thread."""
    from threadpoolctl import threadpool_limits

    for system in ("level tree", "k-means"):
        warm_up(system, 2)
    threadpool_limits(1)  # of the libraries that are loaded by now


def fit_blind(
    families: dict[str, dict[str, Any]], method: str, X: np.ndarray, classes: int, seed: int | None
) -> tuple[Any, Row]:
    """Fit a method by its name; return the model, and the columns k, agreement, seconds, note."""
    system, settings = next(family[method] for family in families.values() if method in family)
    facts = Facts(len(X), classes, 0)
    model = SYSTEMS[system].make(facts, seed or 0, **settings(len(X)))
    fit = timed(model.fit, X)
    said = fit.warnings if method == "ours" else []
    return model, {
        "k": getattr(model, "n_clusters_", n_clusters(model.labels_)),
        "agreement": getattr(model, "agreement_", None),
        "seconds": fit.seconds,
        "note": "; ".join(said),
    }


def sample(data: Path, name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Return rows (n, d) of a set, standardised, their labels (n,) and how many the set has."""
    X, y = load(name, data, BSGD_SPLITS.get(name))
    size = len(X)
    if size > MOST_ROWS:
        rows = drawn(size, SAMPLE_ROWS)
        X, y = X[rows], y[rows]
    return standardised(X), y, size


def rows_of_fit(data: Path, name: str, method: str, seed: int | None) -> list[Row]:
    """Return the rows of the result that are about one fit."""
    X, y, size = sample(data, name)
    model, found = fit_blind(SMALL_METHODS, method, X, len(np.unique(y)), seed)
    group = next(group for group, names in SMALL.items() if name in names)
    about = {
        "group": group,
        "set": name,
        "half": ("tune", "confirm")[sorted(SMALL[group]).index(name) % 2],
        "rows_of_set": size,
        "n": len(X),
        "sample_seed": SAMPLE_SEED if len(X) < size else None,
        "d": X.shape[1],
        "classes": len(np.unique(y)),
    }
    labels = model.labels_
    outliers = labels < 0
    scorings = {method: labels}
    if method == "ours":
        outliers = getattr(model, "outliers_", None)
        outliers = model.decision_function(X) < 0.0 if outliers is None else outliers
        scorings[APART] = np.where(outliers, -1, labels)
    elif method != "k-means":
        scorings[ASSIGNED.format(method)] = without_noise(X, labels)
    note = found.pop("note")
    others = found | noise_scores(name, method, y, outliers) | {"note": note}
    return [
        about | {"method": scoring, "seed": seed} | scored(y, labels) | others
        for scoring, labels in scorings.items()
    ]


def scored(y: np.ndarray, labels: np.ndarray) -> Row:
    """Return NMI and ARI of a clustering."""
    found = agreement(y, labels)
    return {"nmi": found["nmi"], "ari": found["ari"]}


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


def prepare_table(data: Path, name: str, work: Path) -> Row:
    """Write a table's rows and labels for the fits, and return its columns of the result."""
    if name == "mnist":
        from sklearn.decomposition import PCA

        X, y = load(name, data)
        pca = PCA(COMPONENTS, svd_solver="covariance_eigh")
        X = np.ascontiguousarray(pca.fit_transform(X / 255.0))
    else:
        X, y = scaled(name, data, BSGD_SPLITS.get(name))
    np.save(work / "X.npy", X)
    np.save(work / "y.npy", y)
    return {"set": name, "n": len(X), "d": X.shape[1], "classes": len(np.unique(y))}


def large_row(about: Row, method: str, seed: int | None, work: Path) -> Row:
    """Return the row of the result that is about one fit."""
    found = limited(fit_and_score, LIMIT_S, work, method, about["classes"], seed)
    row = about | {"method": method, "seed": seed} | dict.fromkeys(MEASURED) | found
    score = "-" if row["nmi"] is None else f"NMI {row['nmi']:.3f}, {row['seconds']:.1f} s"
    said = f"{row['set']}, {method}, {seed}: {score} {row['note'] or ''}"
    print(said, file=sys.stderr, flush=True)
    return row


def fit_and_score(
    ready: Callable[[], None], work: Path, method: str, classes: int, seed: int | None
) -> Row:
    X, y = np.load(work / "X.npy"), np.load(work / "y.npy")
    system = next(f[method][0] for f in LARGE_METHODS.values() if method in f)
    warm_up(system, X.shape[1])
    ready()
    model, found = fit_blind(LARGE_METHODS, method, X, classes, seed)
    return scored(y, model.labels_) | found


def report_small(rows: list[Row]) -> None:
    """Print the tables set by set, those of noise, and the means over groups and halves."""
    drawn_sets = {row["set"]: row for row in rows if row["sample_seed"] is not None}
    for row in drawn_sets.values():
        print(f"{row['set']}: {row['n']} of {row['rows_of_set']} rows, seed {row['sample_seed']}")
    plain = [row for row in rows if "," not in row["method"]]
    for group, index in product(SMALL, ("nmi", "ari")):
        wide = pivot(only(plain, group=group), (*ABOUT, "half"), "method", index)
        show(f"{index.upper()} on {group}, means over seeds", wide)
    show("Clusters", pivot(plain, ("set", "classes"), "method", "k"))
    show("Seconds of a fit", pivot(plain, ABOUT[:3], "method", "seconds"))
    show("Agreement of ours", pivot(only(plain, method="ours"), ("set",), "method", "agreement"))
    noisy = [row for row in plain if row["precision"] is not None]
    lines = [
        {"set": name, "method": method}
        | {index: mean_of(row[index] for row in alike) for index in ("precision", "recall", "f1")}
        for (name, method), alike in grouped(noisy, ("set", "method")).items()
    ]
    show("Outliers as the noise class", lines)
    bars = "; ".join(f"{group} {bar}" for group, bar in BARS.items())
    show(f"Means over the sets; bars: {bars}", means_of_groups(rows))


def report_large(rows: list[Row]) -> None:
    """Print the tables, what did not end, and the means."""
    for title, index in (
        ("NMI", "nmi"),
        ("ARI", "ari"),
        ("Clusters", "k"),
        ("Seconds of a fit", "seconds"),
        ("Peak memory, MB", "peak_mb"),
    ):
        show(title, pivot(rows, ABOUT, "method", index))
    show("Agreement of ours", pivot(only(rows, method="ours"), ABOUT, "method", "agreement"))
    for row in rows:
        if row["nmi"] is None:
            print(f"  {row['set']}, {row['method']}: {row['note']}")
    show("Means over the tables where a fit ended; bar: NMI .43, goal .50", means_of_tables(rows))


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
    for group, part, method in product(SMALL, ("all", "tune", "confirm"), methods):
        alike = only(rows, group=group, method=method)
        alike = [row for row in alike if part in ("all", row["half"])]
        if alike:
            sets = len({row["set"] for row in alike})
            about = {"group": group, "sets": sets, "half": part, "method": method}
            lines.append(about | mean_scores(alike))
    return lines


def means_of_tables(rows: list[Row]) -> list[Row]:
    """Return means over all tables, without mnist, and over those where every method ended."""
    rows = [row for row in rows if row["nmi"] is not None]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    by_set = {name: {row["method"] for row in only(rows, set=name)} for name in LARGE}
    choices = {
        "all": LARGE,
        "without mnist": [name for name in LARGE if name != "mnist"],
        "ended by all": [name for name in LARGE if by_set[name] == set(methods)],
    }
    lines = []
    for (choice, names), method in product(choices.items(), methods):
        alike = [row for row in only(rows, method=method) if row["set"] in names]
        lines.append(
            {"tables": choice, "method": method, "ended": len({row["set"] for row in alike})}
            | mean_scores(alike)
            | {"seconds": mean_and_error(alike, "seconds")[0]}
            | {"peak_mb": max((row["peak_mb"] for row in alike), default=None)}
        )
    return lines


def mean_scores(rows: list[Row]) -> Row:
    """Return means over the sets of NMI and ARI, each with its standard error over seeds."""
    nmi, nmi_error = mean_and_error(rows, "nmi")
    ari, ari_error = mean_and_error(rows, "ari")
    return {"nmi": nmi, "nmi_error": nmi_error, "ari": ari, "ari_error": ari_error}
