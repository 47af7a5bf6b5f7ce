"""Area under the ROC curve and average precision on eight labelled sets, without their labels.

Ours are LinearOneClassSVM, LinearSVDD and SupportVectorClustering, beside scikit-learn's
OneClassSVM (linear and Gaussian), SGDOneClassSVM and IsolationForest. nu is 0.1 and every parameter
that is not named here is a default. What separates rows from the origin has columns scaled to [0,
1], the others to variance 1. Models learn from at most 20,000 rows (kernel machines take no more
in a sensible time), always the same, and score all rows. The matching pairs are LinearOneClassSVM
with OneClassSVM(kernel="linear"), and SupportVectorClustering with OneClassSVM(kernel="rbf"), both
with gamma = 1 / d; for a linear ball scikit-learn has no match, so it is OneClassSVM with a
Gaussian kernel 1000 times as wide, whose limit is the ball.
"""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, pivot, publish, show, standardised

NU = 0.1
TRAINING_ROWS = 20_000
WIDER = 1000.0
PAIRS = {
    "LinearOneClassSVM": "OneClassSVM linear",
    "LinearSVDD": "OneClassSVM wide",
    "SupportVectorClustering": "OneClassSVM rbf",
}


def run(options: Namespace) -> None:
    import numpy as np

    rows: list[Row] = []
    for path in sorted((options.data / "outliers").glob("*.parquet")):
        if options.sets is None or path.stem in options.sets:
            rows += one_set(path)
    if not rows:
        raise SystemExit(f"there is no {options.data / 'outliers'}/NAME.parquet")
    for index in ("roc_auc", "average_precision"):
        show(index, pivot(rows, ("set",), "model", index))
        means = {
            model: np.mean([row[index] for row in rows if row["model"] == model])
            for model in dict.fromkeys(row["model"] for row in rows)
        }
        print("  means: " + ", ".join(f"{name} {mean:.4f}" for name, mean in means.items()))
        for ours, peer in PAIRS.items():
            print(f"  {ours} less {peer}: {means[ours] - means[peer]:+.4f}; bar -0.005")
    publish(options.out, "linear_outliers", rows)


def one_set(path: Path) -> list[Row]:
    import numpy as np
    import pyarrow.parquet as pq
    from sklearn.metrics import average_precision_score, roc_auc_score
    from sklearn.preprocessing import minmax_scale

    table = pq.read_table(path)
    names = [name for name in table.column_names if name != "label"]
    X = np.column_stack([table[name].to_numpy().astype(np.float64) for name in names])
    y = table["label"].to_numpy()
    chosen = np.sort(np.random.default_rng(0).permutation(len(X))[:TRAINING_ROWS])
    scaled = {"standard": standardised(X), "minmax": minmax_scale(X)}
    rows = []
    for name, (model, scale) in models(X.shape[1]).items():
        Z = scaled[scale]
        started = time.perf_counter()
        fit(model, Z[chosen])
        seconds = time.perf_counter() - started
        outlying = -model.score_samples(Z)
        rows.append(
            {
                "set": path.stem,
                "model": name,
                "rows": len(X),
                "columns": len(names),
                "outliers": int(y.sum()),
                "roc_auc": float(roc_auc_score(y, outlying)),
                "average_precision": float(average_precision_score(y, outlying)),
                "fit_s": seconds,
            }
        )
        print(path.stem, name, f"{rows[-1]['roc_auc']:.4f}", f"{seconds:.2f} s", flush=True)
    return rows


def fit(model: Any, X: Any) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)


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
