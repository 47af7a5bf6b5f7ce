"""How many rows of clean clusters are called outside, and how many strange ones are found."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from itertools import product

import numpy as np

from benchmarks.harness.data import standardised
from benchmarks.harness.measure import measured, publish
from benchmarks.harness.rows import Row, grouped, mean_of, show

ROWS, PLANTED = 3000, 60
COLUMNS, CLUSTERS = (2, 5, 10), (1, 3, 6)
APART = 8.0
"""Standard deviations, at least, between the centres of normal clusters."""


def mixture(d: int, k: int, n: int, random: np.random.Generator) -> np.ndarray:
    """Return n rows (n, d) of k normal clusters, of variance 1 and about as many rows each."""
    centres: list[np.ndarray] = []
    side = APART * max(1.0, k ** (1.0 / d))
    while len(centres) < k:
        centre = random.uniform(-side, side, d)
        if all(np.linalg.norm(centre - other) > APART for other in centres):
            centres.append(centre)
    return np.array(centres)[random.integers(k, size=n)] + random.normal(size=(n, d))


def sample(d: int, k: int, planted: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 3,000 rows, standardised, and which (3000,) bool are strange.

    So many strange ones, the last, are uniform in the box of the others.
    """
    random = np.random.default_rng([seed, d, k])
    X = mixture(d, k, ROWS - planted, random)
    strange = random.uniform(X.min(axis=0), X.max(axis=0), (planted, d))
    return standardised(np.concatenate([X, strange])), np.arange(ROWS) >= ROWS - planted


def ours(X: np.ndarray, seed: int) -> np.ndarray:
    from distsvc import AutoClustering

    return AutoClustering(random_state=seed).fit(X).decision_function(X) < 0.0


def local_factor(X: np.ndarray, seed: int) -> np.ndarray:
    from sklearn.neighbors import LocalOutlierFactor

    return LocalOutlierFactor().fit_predict(X) < 0


def forest(X: np.ndarray, seed: int) -> np.ndarray:
    from sklearn.ensemble import IsolationForest

    return IsolationForest(random_state=seed).fit_predict(X) < 0


FLAGS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "auto": ours,
    "LOF": local_factor,
    "IsolationForest": forest,
}


def flag(options: Namespace) -> None:
    """Rows called outside, of nine normal mixtures, clean and with 2 % of uniform rows planted.

    2, 5 and 10 columns, 1, 3 and 6 clusters, 3,000 rows. The share of clean rows that are called
    outside is false; the recall is that of planted ones. LOF and IsolationForest are scikit-learn's
    with their defaults.
    """
    kinds = product(FLAGS, COLUMNS, CLUSTERS, (0, PLANTED), range(options.seeds))
    rows = measured(rows_of_fit, list(kinds), options.processes, compiled)
    keys = ("method", "planted", "d", "clusters")
    lines = [
        dict(zip(keys, key, strict=True))
        | {name: mean_of(row[name] for row in alike) for name in ("false", "recall")}
        for key, alike in grouped(rows, keys).items()
    ]
    show("Rows called outside, means over seeds", lines)
    means = [
        {
            "method": method,
            "planted": planted,
            "false": mean_of(row["false"] for row in alike),
            "worst": max(row["false"] for row in alike),
            "recall": mean_of(row["recall"] for row in alike),
        }
        for (method, planted), alike in grouped(lines, ("method", "planted")).items()
    ]
    show("Means over the mixtures; bar: false at most .01 each, recall at least LOF's", means)
    publish(options.out, "flag", rows)


def compiled() -> None:
    """Fit once, so that what is measured finds its kernels compiled."""
    ours(sample(2, 1, 0, 0)[0], 0)


def rows_of_fit(method: str, d: int, k: int, planted: int, seed: int) -> list[Row]:
    """Return the row of the result that is about one fit."""
    X, strange = sample(d, k, planted, seed)
    outside = FLAGS[method](X, seed)
    about = {"method": method, "d": d, "clusters": k, "planted": planted, "seed": seed}
    recall = float(outside[strange].mean()) if planted else None
    return [about | {"false": float(outside[~strange].mean()), "recall": recall}]
