"""Table 2 of the iMDH paper, published settings and ours, set by set.

Columns are standardised over all rows; constant ones are 0. Every permutation of the rows is a
random state. iMDH finds the number of clusters, iMDH_k is given that of the classes; each is a fit
of its own. The third setting learns as the author's code does, which scales every row by the
statistics of the rows so far; one tree serves both algorithms then. Of the sets by name every
second one, from the first, is for tuning; what was tuned is judged on the others.

NMI is normalised by the geometric mean of the entropies, which the printed figures agree with.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
import warnings
from argparse import Namespace
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from benchmarks.measure import Row, load, pivot, publish, show, standardised, table_path
from distsvc.bench.published import printed
from distsvc.datasets import catalogue

PROCESSES = 2
BLOCK_ROWS = 8192
MOST_PERMUTATIONS = {"mnist": 3, "kddcup": 3, "fars": 3, "sleep": 3}
ALGORITHMS = ("iMDH", "iMDH_k")
NMI = printed("hofmeyr-2021", "normalized_mutual_information")
ARI = printed("hofmeyr-2021", "adjusted_rand_index")
SETS = sorted({name for name, _ in NMI} & set(catalogue()))
RUNNING = "published, running scale"
ONE_TREE = "default, one tree"
SETTINGS = ("published", RUNNING, ONE_TREE, "default")
HALVES = {name: ("tune", "confirm")[place % 2] for place, name in enumerate(SETS)}


def run(options: Namespace) -> None:
    names = options.sets or list(SETS)
    for name in names:
        if name not in SETS:
            sys.exit(f"no set {name!r}; there are {', '.join(SETS)}")
    names.sort(key=lambda name: -n_values(options.data, name))
    found: dict[str, list[Row]] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context, initializer=prepare) as pool:
        tasks = [
            pool.submit(rows_of_set, options.data, name, permutations(options, name))
            for name in names
        ]
        for number, task in enumerate(as_completed(tasks), 1):
            rows = task.result()
            found[rows[0]["set"]] = rows
            print(f"{number} of {len(names)} sets, {rows[0]['set']}", file=sys.stderr, flush=True)
    rows = [row for name in sorted(found) for row in found[name]]
    report(rows)
    publish(options.out, "mdh_table", rows)


def permutations(options: Namespace, name: str) -> int:
    """Return how many orders of a set's rows are tried."""
    return min(options.permutations, MOST_PERMUTATIONS.get(name, options.permutations))


def n_values(data: Path, name: str) -> int:
    """Return rows times columns of a set's table."""
    import pyarrow.parquet as pq

    about = pq.read_metadata(table_path(data, name))
    return about.num_rows * about.num_columns


def load_all(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows (n, d) float64 of a set, and their labels (n,)."""
    return load(data, name, split=None)


def settings() -> dict[str, dict[str, Any]]:
    """Return the parameters of the estimator by the setting's name."""
    from distsvc.models.hyperplanes.estimator import PUBLISHED

    return {"published": PUBLISHED, ONE_TREE: {"n_init": 1}, "default": {}}


def prepare() -> None:
    """Keep a worker to one thread and compile the kernels."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    rows = np.random.default_rng(0).normal(size=(100, 2))
    fitted_scores(rows, np.arange(100) % 2, 0, None, {})


def rows_of_set(data: Path, name: str, n_permutations: int) -> list[Row]:
    """Return the rows of the result that are about one set."""
    X, y = load_all(data, name)
    classes = len(np.unique(y))
    Z = standardised(X)
    scores: dict[tuple[str, str], list[Row]] = {pair: [] for pair in product(SETTINGS, ALGORITHMS)}
    for seed in range(n_permutations):
        for (setting, parameters), algorithm in product(settings().items(), ALGORITHMS):
            wanted = classes if algorithm == "iMDH_k" else None
            scores[setting, algorithm].append(fitted_scores(Z, y, seed, wanted, parameters))
        for algorithm, score in running_scores(X, y, seed, classes).items():
            scores[RUNNING, algorithm].append(score)
    return [
        {
            "set": name,
            "n": len(X),
            "d": X.shape[1],
            "classes": classes,
            "half": HALVES[name],
            "setting": setting,
            "algorithm": algorithm,
            "paper_nmi": NMI[name, algorithm],
            "paper_ari": ARI[name, algorithm],
            "nmi": mean(run["nmi"] for run in runs),
            "nmi_arithmetic": mean(run["nmi_arithmetic"] for run in runs),
            "ari": mean(run["ari"] for run in runs),
            "nmi_sd": spread([run["nmi"] for run in runs]),
            "clusters": mean(float(run["clusters"]) for run in runs),
            "permutations": len(runs),
            "seconds": mean(run["seconds"] for run in runs),
        }
        for (setting, algorithm), runs in scores.items()
    ]


def spread(values: list[float]) -> float | None:
    """Return the standard deviation, None of a single value."""
    return stdev(values) if len(values) > 1 else None


def fitted_scores(
    X: np.ndarray, y: np.ndarray, seed: int, n_clusters: int | None, parameters: dict[str, Any]
) -> Row:
    """Fit the estimator and return its scores."""
    from distsvc import IncrementalMDH

    model = IncrementalMDH(n_clusters=n_clusters, random_state=seed, **parameters)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fewer leaves than classes, one cluster
        model.fit(X)
    seconds = time.perf_counter() - started
    return scored(y, model.labels_) | {"clusters": model.n_clusters_, "seconds": seconds}


def running_scores(X: np.ndarray, y: np.ndarray, seed: int, classes: int) -> dict[str, Row]:
    """Learn from rows scaled as they come and return the scores of both algorithms.

    The rows are counted and labelled with the last statistics.
    """
    from distsvc import IncrementalMDH
    from distsvc.models.hyperplanes.tree import GrowingTree, elbow

    order = np.random.default_rng(seed).permutation(len(X))
    model = IncrementalMDH(**settings()["published"])
    started = time.perf_counter()
    stream, rows = running_scale(X[order])
    growing = GrowingTree.start(model.depth, X.shape[1])
    growing.learn(stream, model.alpha, model.penalty, model.bandwidth, 2**62, np.inf)
    growing.count(rows)
    tree = growing.with_rows(model.growth)
    learned = time.perf_counter() - started
    scores = {}
    for algorithm in ALGORITHMS:
        started = time.perf_counter()
        cut = tree.cut(classes if algorithm == "iMDH_k" else elbow(tree.curve, model.elbow))
        labels = cut.label(rows)[0]
        seconds = learned + time.perf_counter() - started
        score = scored(y[order], labels) | {"clusters": cut.n_clusters, "seconds": seconds}
        scores[algorithm] = score
    return scores


def running_scale(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, d) scaled by the statistics of the rows so far, and by those of all, float32.

    As in the author's code the mean and the mean square begin with the first d rows, which count
    again when they come, and a column without variance is only centred. Everything is relative to
    the first row, so that columns that have not changed yet are exactly 0.
    """
    n, d = X.shape
    X = X - X[0]
    total, squares, seen = X[:d].sum(axis=0), (X[:d] ** 2).sum(axis=0), len(X[:d])
    stream = np.empty((n, d), np.float32)
    for first in range(0, n, BLOCK_ROWS):
        rows = X[first : first + BLOCK_ROWS]
        counts = seen + np.arange(1, len(rows) + 1)[:, np.newaxis]
        totals, sums = total + rows.cumsum(axis=0), squares + (rows**2).cumsum(axis=0)
        means = totals / counts
        variances = sums / counts - means**2
        stream[first : first + BLOCK_ROWS] = scaled(rows, means, variances)
        total, squares, seen = totals[-1], sums[-1], int(counts[-1, 0])
    return stream, scaled(X, means[-1], variances[-1])


def scaled(X: np.ndarray, means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    return ((X - means) / np.sqrt(np.where(variances > 0.0, variances, 1.0))).astype(np.float32)


def scored(y: np.ndarray, labels: np.ndarray) -> Row:
    """Return the indices of a clustering."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    return {
        "nmi": float(normalized_mutual_info_score(y, labels, average_method="geometric")),
        "nmi_arithmetic": float(normalized_mutual_info_score(y, labels)),
        "ari": float(adjusted_rand_score(y, labels)),
    }


def report(rows: list[Row]) -> None:
    """Print the table, its distance from the paper's, and the settings on both halves."""
    for algorithm, index in product(ALGORITHMS, ("nmi", "ari")):
        lines = [
            row | {"paper": row[f"paper_{index}"]} for row in rows if row["algorithm"] == algorithm
        ]
        about = ("set", "n", "d", "classes", "half", "paper")
        show(f"{index.upper()} of {algorithm}", pivot(lines, about, "setting", index))
    chosen = [row for row in rows if row["algorithm"] == "iMDH"]
    show("Clusters of iMDH", pivot(chosen, ("set", "classes"), "setting", "clusters"))
    show("Seconds of a fit", pivot(chosen, ("set", "n", "d"), "setting", "seconds"))
    show("Ours less the paper's, mean over the sets", differences_from_paper(rows))
    show("Means over the halves of the sets", halves(rows))


def differences_from_paper(rows: list[Row]) -> list[Row]:
    lines = []
    for setting, algorithm in product(SETTINGS, ALGORITHMS):
        alike = [r for r in rows if (r["setting"], r["algorithm"]) == (setting, algorithm)]
        nmi = [row["nmi"] - row["paper_nmi"] for row in alike]
        ari = [row["ari"] - row["paper_ari"] for row in alike]
        lines.append(
            {
                "setting": setting,
                "algorithm": algorithm,
                "nmi": mean(nmi),
                "nmi_absolute": mean(map(abs, nmi)),
                "ari": mean(ari),
                "ari_absolute": mean(map(abs, ari)),
                "sets": len(alike),
            }
        )
    return lines


def halves(rows: list[Row]) -> list[Row]:
    lines = []
    for algorithm, index, half in product(ALGORITHMS, ("nmi", "ari"), ("tune", "confirm")):
        alike = [row for row in rows if (row["algorithm"], row["half"]) == (algorithm, half)]
        by_set = pivot(alike, ("set",), "setting", index)
        if not by_set:
            continue
        gains = [line["default"] - line["published"] for line in by_set]
        error = spread(gains)
        lines.append(
            {"algorithm": algorithm, "index": index, "half": half}
            | {setting: mean(line[setting] for line in by_set) for setting in SETTINGS}
            | {
                "default - published": mean(gains),
                "standard error": None if error is None else error / len(gains) ** 0.5,
                "better": sum(gain > 0.0 for gain in gains),
                "sets": len(gains),
            }
        )
    return lines
