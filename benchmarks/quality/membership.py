"""How well memberships are calibrated, and what they cost."""

from __future__ import annotations

import shutil
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.data import gaussians, table
from benchmarks.harness.measure import in_processes, publish, timed
from benchmarks.harness.rows import Row, show
from benchmarks.harness.runs import run_here, work_folder, write_columns

SETS = ("aggregation", "compound", "d31", "r15", "breast_cancer", "banana", "s_set1", "texture",
        "page_blocks", "magic")  # fmt: skip
"""Other sets than those on which the constants of memberships were chosen, see README.md."""

METHODS = ("auto", "support-vector", "imdh", "equilibria", "bico")
LEAST = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
BINS = 10
MOST_ROWS = 20_000

COST_ROWS = 2_000_000
COSTS: dict[str, Row] = {
    "level-tree": {"algorithm": "support-vector"},
    "imdh": {"algorithm": "imdh"},
    "support-vector": {"gamma": 0.1, "nu": 0.05},
    "centres": {"algorithm": "bico", "n_clusters": 12},
    "splits": {"algorithm": "depddp", "n_clusters": 12},
}
EXTRAS: dict[str, Row] = {"labels": {}, "membership": {"membership": True}, "top": {"top": 3}}


def membership(options: Namespace) -> None:
    """Share of rows with a membership of p or more that are in the cluster of their class.

    The class of a cluster is that of most of its rows. `error` is the expected calibration error:
    the mean over ten bins of membership, by their rows, of how far the share of rows in the cluster
    of their class is from the mean membership.
    """
    tasks = [(options.data, name, method) for name in options.sets or SETS for method in METHODS]
    figures = [row for rows in in_processes(one_fit, tasks, 1) for row in rows]
    whole = [row for row in figures if row["p"] == 0.0]
    show("Memberships: all rows", whole)
    sure = [row for row in figures if row["p"] == 0.9]
    show("Memberships: rows of .9 or more", sure)
    means = [
        {"method": method}
        | {name: _mean(whole, method, name) for name in ("membership", "right", "error", "brier")}
        | {"rows_of_.9": _mean(sure, method, "rows"), "right_of_.9": _mean(sure, method, "right")}
        for method in METHODS
    ]
    show("Memberships: means over the sets", means)
    publish(options.out, "membership", figures)
    draw(options.out / "membership.png", figures)


def one_fit(data: Path, name: str, method: str) -> list[Row]:
    """Return the rows of one method on one set, one for each p."""
    X, y, _ = table(str(data), name, None, MOST_ROWS)
    model = _model(method, X, len(np.unique(y)))
    shares = timed(model.predict_proba, X).value
    labels = timed(model.predict, X).value
    own = shares[np.arange(len(X)), labels].astype(np.float64)
    right = in_cluster_of_class(labels, y)
    about = {"set": name, "method": method, "clusters": shares.shape[1]}
    about |= {"classes": len(np.unique(y)), "error": calibration_error(own, right)}
    about |= {"brier": float(((own - right) ** 2).mean())}
    return [about | at_least(own, right, p) for p in LEAST]


def at_least(own: np.ndarray, right: np.ndarray, p: float) -> Row:
    """Return what is told of the rows with a membership of p or more, of all (n,)."""
    sure = own >= p
    found = {"p": p, "rows": float(sure.mean()), "membership": float("nan"), "right": float("nan")}
    if sure.any():
        found |= {"membership": float(own[sure].mean()), "right": float(right[sure].mean())}
    return found


def in_cluster_of_class(labels: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return which rows (n,) have the class of most rows of their cluster."""
    right = np.zeros(len(y), bool)
    for c in np.unique(labels):
        own = labels == c
        classes, counts = np.unique(y[own], return_counts=True)
        right[own] = y[own] == classes[np.argmax(counts)]
    return right


def calibration_error(own: np.ndarray, right: np.ndarray) -> float:
    """Return the expected calibration error of memberships (n,) by ten bins."""
    place = np.minimum((own * BINS).astype(int), BINS - 1)
    off = [abs(own[place == b].sum() - right[place == b].sum()) for b in range(BINS)]
    return float(sum(off) / len(own))


class _Centres:
    """BICO with the shares of its rule."""

    def __init__(self, X: np.ndarray, k: int):
        from distsvc.baselines import BICO

        self.rule = BICO(n_clusters=k, random_state=0).fit(X)._rule()

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.rule.label(X)["label"]

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.rule.shares(X)


def _model(method: str, X: np.ndarray, k: int) -> Any:
    from distsvc import AutoClustering, IncrementalMDH, SupportVectorClustering

    if method == "bico":
        return _Centres(X, k)
    models = {
        "auto": AutoClustering(random_state=0),
        "support-vector": SupportVectorClustering(random_state=0),
        "imdh": IncrementalMDH(random_state=0),
        "equilibria": SupportVectorClustering(labelling="equilibria", random_state=0),
    }
    return timed(models[method].fit, X).value


def _mean(rows: list[Row], method: str, name: str) -> float:
    return float(np.nanmean([row[name] for row in rows if row["method"] == method]))


def draw(path: Path, figures: list[Row]) -> None:
    """Draw, for every set, the share of right rows over p, and how many rows there are."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row["set"] for row in figures))
    figure = Figure(figsize=(14.0, 3.0 * -(-len(names) // 5)), layout="constrained")
    axes = figure.subplots(-(-len(names) // 5), 5, sharex=True, sharey=True, squeeze=False).ravel()
    for place, name in enumerate(names):
        plot = axes[place]
        plot.plot([0.4, 1.0], [0.4, 1.0], color="0.8", lw=1.0)
        for number, method in enumerate(METHODS):
            rows = [r for r in figures if (r["set"], r["method"]) == (name, method) and r["p"]]
            p, colour = [row["p"] for row in rows], f"C{number}" if number else "0.3"
            wide = {"lw": 1.4 if number else 5.0, "alpha": 1.0 if number else 0.4}  # seen below all
            right, of_all = ([row[key] for row in rows] for key in ("right", "rows"))
            plot.plot(p, right, "o-", color=colour, ms=3, label=method, **wide)
            plot.plot(p, of_all, ":", color=colour, lw=1.2)
        plot.set(title=name, xlim=(0.48, 1.01), ylim=(0.0, 1.03))
        plot.grid(alpha=0.3)
    axes[0].legend(frameon=False, loc="lower left", fontsize=8)
    figure.supxlabel("membership of p or more")
    figure.supylabel("share")
    figure.suptitle(
        "Rows of at least that membership: in the cluster of their class (lines), of all (dotted)"
    )
    figure.savefig(path, dpi=100)
    print(f"-> {path}\n", flush=True)


def membership_cost(options: Namespace) -> None:
    """Processor seconds of `distsvc predict` on 2,000,000 x 8 rows, with memberships and without.

    Of all its threads, so that other work on the machine counts less; the least of some repeats.
    """
    figures: list[Row] = []
    with work_folder(options.work) as work:
        X, _ = gaussians(COST_ROWS, 0)
        path = work / "made.parquet"
        write_columns(path, X)
        for form, model in COSTS.items():
            for extra, keys in EXTRAS.items():
                more = {"output": {"path": str(work / extra)} | keys}
                run_here(path, work / extra, {}, model, {"workers": 0}, more=more)
            seconds: dict[str, list[float]] = {extra: [] for extra in EXTRAS}
            for _ in range(options.repeats or 3):
                for extra, times in seconds.items():
                    times.append(_predict(work / extra, path, work / "new"))
            least = {extra: min(times) for extra, times in seconds.items()}
            ratios = {f"{e}_ratio": least[e] / least["labels"] for e in EXTRAS if e != "labels"}
            figures.append({"form": form} | {f"{e}_s": s for e, s in least.items()} | ratios)
            show("Processor seconds of labelling", figures[-1:])
    publish(options.out, "membership_cost", figures)


def _predict(published: Path, path: Path, out: Path) -> float:
    from distsvc.published.predict import predict_table

    shutil.rmtree(out, ignore_errors=True)
    before = time.process_time()
    predict_table(published, str(path), str(out), settings={"workers": 0})
    return time.process_time() - before
