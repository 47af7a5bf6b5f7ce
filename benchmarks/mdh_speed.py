"""iMDH against k-means, and its learning kernel against the machine.

All fits get the same standardised float32 rows and label them. iMDH works on one thread; k-means,
with as many clusters as there are classes and one start, is measured on one thread and on all.

The kernel's work on a row is counted from its code and set beside what one core of this machine is
seen to do: a copy of arrays larger than its caches, an update of arrays as large as the tree's, and
a product of matrices.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.mdh_table import load_all, settings
from benchmarks.measure import Row, interleaved, publish, show, standardised

CLASSES = {"kddcup": 23, "mnist": 10}
REPEATS = 3
BIG_BYTES = 2**30
PRODUCT = 3072
UPDATES = 2000
FLOPS = {"project": 5, "turn": 6, "pull": 3}
"""Operations per feature: x - mean, two multiply-adds; x - mean, mean, v; x - mean, mean."""

TOUCHED = {"project": 12, "turn": 20, "pull": 12}
"""Bytes per feature that are read and written: x, mean, v; the same, mean and v; x, mean, mean."""


def run(options: Namespace) -> None:
    repeats = options.repeats or REPEATS
    rows: list[Row] = []
    for name in CLASSES:
        X = prepared(options.data, name)
        fits = fit_rows(name, X, repeats)
        show(f"{name}, {X.shape[0]} x {X.shape[1]}, {repeats} repeats", fits)
        rows += fits
        kernel = kernel_rows(name, X, repeats)
        show("Learning kernel, published settings, one thread", kernel)
        rows += kernel
    publish(options.out, "mdh_speed", rows)


def prepared(data: Path, name: str) -> np.ndarray:
    return standardised(load_all(data, name)[0]).astype(np.float32)


def fit_rows(name: str, X: np.ndarray, repeats: int) -> list[Row]:
    """Return seconds of fits, and how many times those of k-means they are."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    from distsvc import IncrementalMDH

    def k_means() -> None:
        KMeans(CLASSES[name], n_init=1, random_state=0).fit(X)

    def k_means_alone() -> None:
        with threadpool_limits(1):
            k_means()

    def tree(parameters: dict[str, Any]) -> Callable[[], None]:
        def fit() -> None:
            with warnings.catch_warnings(), threadpool_limits(1):
                warnings.simplefilter("ignore", UserWarning)
                IncrementalMDH(random_state=0, **parameters).fit(X)

        return fit

    actions = {f"iMDH, {setting}": tree(given) for setting, given in settings().items()}
    actions |= {"k-means, one thread": k_means_alone, "k-means": k_means}
    seconds = interleaved(actions, repeats)
    alone, all_cores = (median(seconds[peer]) for peer in ("k-means, one thread", "k-means"))
    return [
        measured(name, what, "s", taken)
        | {
            "over_k_means_one_thread": median(taken) / alone,
            "over_k_means": median(taken) / all_cores,
        }
        | {"share": None, "of": ""}
        for what, taken in seconds.items()
    ]


def kernel_rows(name: str, X: np.ndarray, repeats: int) -> list[Row]:
    """Return the kernel's rates, what the machine can do, and the shares."""
    from threadpoolctl import threadpool_limits

    from distsvc import IncrementalMDH
    from distsvc.models.hyperplanes.tree import GrowingTree

    n, d = X.shape
    model = IncrementalMDH(**settings()["published"])
    shuffled = X[np.random.default_rng(0).permutation(n)]
    tree_values = 2 * d * (2**model.depth - 1)

    def learn() -> None:
        tree = GrowingTree.start(model.depth, d)
        tree.learn(shuffled, model.alpha, model.penalty, model.bandwidth, 2**62, np.inf)

    with threadpool_limits(1):
        seconds = interleaved({"learn": learn} | machine_actions(tree_values // 2), repeats)
    levels = model.depth - 1
    visit = ("project", "turn")
    flops = d * (levels * sum(FLOPS[k] for k in visit) + FLOPS["pull"])
    touched = d * (levels * sum(TOUCHED[k] for k in visit) + TOUCHED["pull"])
    work = {
        "copy": (4.0 * d, 2.0 * BIG_BYTES),
        "update": (float(touched), 12.0 * (tree_values // 2) * UPDATES),
        "product": (float(flops), 2.0 * PRODUCT**3),
    }
    names = {
        "copy": ("bytes of a row from memory", "copy of 1 GiB", "GB/s"),
        "update": (
            "bytes of a row touched in cache",
            "update of arrays as large as the tree",
            "GB/s",
        ),
        "product": ("operations on a row", f"product of {PRODUCT} x {PRODUCT} float32", "GFLOP/s"),
    }
    none = {"over_k_means_one_thread": None, "over_k_means": None, "share": None, "of": ""}
    rates = [n / taken for taken in seconds["learn"]]
    per_visit = [1e9 * taken / n / levels for taken in seconds["learn"]]
    rows = [
        measured(name, "learn", "rows/s", rates, max) | none,
        measured(name, "learn, one hyperplane", "ns", per_visit) | none,
    ]
    for action, (of_row, of_action) in work.items():
        what, reference, unit = names[action]
        possible = [1e-9 * of_action / taken for taken in seconds[action]]
        done = [1e-9 * of_row * rate for rate in rates]
        share = {"share": median(done) / median(possible), "of": reference}
        rows += [
            measured(name, reference, unit, possible, max) | none,
            measured(name, f"learn, {of_row:,.0f} {what}", unit, done, max) | none | share,
        ]
    return rows


def machine_actions(values: int) -> dict[str, Callable[[], Any]]:
    """Return what measures the machine; the update is of arrays of so many values."""
    import numba

    source, target = np.ones(BIG_BYTES // 4, np.float32), np.empty(BIG_BYTES // 4, np.float32)
    a = np.random.default_rng(0).random((PRODUCT, PRODUCT), np.float32)
    x, y = np.ones(values, np.float32), np.ones(values, np.float32)

    @numba.njit(fastmath={"reassoc", "contract", "nsz"})
    def update(x: np.ndarray, y: np.ndarray) -> None:
        for number in range(UPDATES):
            scale = np.float32(number % 2)
            for k in range(x.shape[0]):
                y[k] += scale * x[k]

    return {
        "copy": lambda: np.copyto(target, source),
        "update": lambda: update(x, y),
        "product": lambda: a @ a,
    }


def measured(
    name: str, what: str, unit: str, values: list[float], best: Callable[[list[float]], float] = min
) -> Row:
    return {"set": name, "what": what, "unit": unit, "median": median(values), "best": best(values)}
