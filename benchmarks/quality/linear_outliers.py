"""Outlier detection without labels, ours beside scikit-learn's, on eight labelled sets."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.datasets.loading import load
from benchmarks.harness.data import standardised
from benchmarks.harness.measure import publish, timed
from benchmarks.harness.rows import Row, mean_of, only, pivot, show
from benchmarks.quality.outliers import INDICES, outlier_sets, ranking_scores

NU = 0.1
TRAINING_ROWS = 20_000
WIDER = 1000.0
PAIRS = {
    "LinearOneClassSVM": "OneClassSVM linear",
    "LinearSVDD": "OneClassSVM wide",
    "SupportVectorClustering": "OneClassSVM rbf",
}


def linear_outliers(options: Namespace) -> None:
    """Area under the ROC curve and average precision on eight labelled sets, without their labels.

    Ours are LinearOneClassSVM, LinearSVDD and SupportVectorClustering, beside scikit-learn's
    OneClassSVM (linear and Gaussian), SGDOneClassSVM and IsolationForest. nu is 0.1 and every
    parameter that is not named here is a default. What separates rows from the origin has columns
    scaled to [0, 1], the others to variance 1. Models learn from at most 20,000 rows (kernel
    machines take no more in a sensible time), always the same, and score all rows. The matching
    pairs are LinearOneClassSVM with OneClassSVM(kernel="linear"), and SupportVectorClustering with
    OneClassSVM(kernel="rbf"), both with gamma = 1 / d; for a linear ball scikit-learn has no match,
    so it is OneClassSVM with a Gaussian kernel 1000 times as wide, whose limit is the ball.
    """
    sets = [name for name in outlier_sets() if options.sets is None or name in options.sets]
    rows = [row for name in sets for row in rows_of_set(name, options.data)]
    for index in INDICES:
        show(index, pivot(rows, ("set",), "model", index))
        names = dict.fromkeys(row["model"] for row in rows)
        means = {name: mean_of(row[index] for row in only(rows, model=name)) for name in names}
        print("  means: " + ", ".join(f"{name} {mean:.4f}" for name, mean in means.items()))
        for ours, peer in PAIRS.items():
            print(f"  {ours} less {peer}: {means[ours] - means[peer]:+.4f}; bar -0.005")
    publish(options.out, "linear_outliers", rows)


def rows_of_set(name: str, data: Path) -> Iterator[Row]:
    """Yield the row of every model on a set."""
    from sklearn.preprocessing import minmax_scale

    X, y = load(f"outliers/{name}", data)
    chosen = np.sort(np.random.default_rng(0).permutation(len(X))[:TRAINING_ROWS])
    scaled = {"standard": standardised(X), "minmax": minmax_scale(X)}
    for model_name, (model, scale) in models(X.shape[1]).items():
        Z = scaled[scale]
        seconds = timed(model.fit, Z[chosen]).seconds
        outlying = -model.score_samples(Z)
        row = {
            "set": name,
            "model": model_name,
            "rows": len(X),
            "columns": X.shape[1],
            "outliers": int(y.sum()),
            **ranking_scores(y, outlying),
            "fit_s": seconds,
        }
        print(row["set"], model_name, f"{row['roc_auc']:.4f}", f"{seconds:.2f} s", flush=True)
        yield row


def models(d: int) -> dict[str, tuple[Any, str]]:
    from sklearn.ensemble import IsolationForest
    from sklearn.linear_model import SGDOneClassSVM
    from sklearn.svm import OneClassSVM

    from distsvc import LinearOneClassSVM, LinearSVDD, SupportVectorClustering

    gamma = 1.0 / d
    return {
        "LinearOneClassSVM": (LinearOneClassSVM(NU), "minmax"),
        "OneClassSVM linear": (OneClassSVM(kernel="linear", nu=NU), "minmax"),
        "SGDOneClassSVM": (SGDOneClassSVM(nu=NU, random_state=0), "minmax"),
        "LinearSVDD": (LinearSVDD(NU), "standard"),
        "OneClassSVM wide": (OneClassSVM(nu=NU, gamma=gamma / WIDER, tol=1e-6), "standard"),
        "SupportVectorClustering": (
            SupportVectorClustering(gamma, nu=NU, random_state=0),
            "standard",
        ),
        "OneClassSVM rbf": (OneClassSVM(nu=NU, gamma=gamma), "standard"),
        "IsolationForest": (IsolationForest(random_state=0), "standard"),
    }
