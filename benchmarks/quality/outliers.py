"""Outlier detection without labels: the scores of the clusterings beside four detectors.

`linear_outliers` has the linear models, and one-class machines of one gamma.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.datasets.catalogue import catalogue
from benchmarks.datasets.loading import load
from benchmarks.harness.data import standardised
from benchmarks.harness.measure import alone, limited, publish, timed
from benchmarks.harness.rows import Row, only, pivot, show
from benchmarks.harness.runs import published, run_here, work_folder
from benchmarks.harness.systems import Facts, made
from benchmarks.quality.without_labels import known, lacking, mean_scores, with_earlier

LIMIT_S = 1200
INDICES = ("roc_auc", "average_precision")
MEASURED = (*INDICES, "seconds", "peak_mb", "before_mb", "note")
SYSTEM_OF = {"level tree": "level tree", "iMDH": "iMDH, ours", "auto": "auto"}
OURS = ("job", *SYSTEM_OF)
SEEDED = (*OURS, "IsolationForest")
METHODS = (*SEEDED, "LOF", "ECOD", "HBOS")
BARS = "AUC .92, average precision .55 (goal: first)"


def outliers(options: Namespace) -> None:
    """Area under the ROC curve and average precision on eight labelled sets, without their labels.

    Every method gets all rows, standardised, learns from them and scores them. "job" is the score
    that a job with nothing but the table publishes; the others of ours are the estimators with
    their defaults. iMDH's score says how far a row is from the nearest hyperplane, not how unusual
    it is. IsolationForest and LOF are scikit-learn's, ECOD and HBOS are PyOD's, all with their
    defaults. LOF, ECOD and HBOS have no seed. Every fit is a process of its own and is stopped
    after twenty minutes. What a method had on a set the last time it ran stays in the result until
    it runs there again; the column `day` tells when.
    """
    sets = outlier_sets()
    names = known(options.sets, sets, "set")
    fits = fits_of(options)
    rows: list[Row] = []
    with work_folder(options.work) as work:
        for name in names:
            about = alone(prepare_table, options.data, name, work)
            for what, seed in fits:
                found = limited(fit_and_score, LIMIT_S, options.data, name, work, what, seed)
                rows.append(
                    about | {"method": what, "seed": seed} | dict.fromkeys(MEASURED) | found
                )
                print(line(rows[-1]), file=sys.stderr, flush=True)
    rows = with_earlier(options.out / "outliers.csv", rows, sets, METHODS)
    report(rows)
    publish(options.out, "outliers", rows)


def fits_of(options: Namespace) -> list[tuple[str, int | None]]:
    """Return the methods that the options ask for, each with its seeds; None without chance."""
    fits: list[tuple[str, int | None]] = []
    for what in known(options.methods, METHODS, "method"):
        if why := lacking(SYSTEM_OF[what]) if what in SYSTEM_OF else "":
            print(f"left out: {what}, {why}", file=sys.stderr, flush=True)
            continue
        fits += [(what, seed) for seed in (range(options.seeds) if what in SEEDED else [None])]
    return fits


def prepare_table(data: Path, name: str, work: Path) -> Row:
    """Write a set's rows and classes for the fits, and return its columns of the result."""
    X, y = load(f"outliers/{name}", data)
    np.save(work / "X.npy", standardised(X))
    np.save(work / "y.npy", y)
    return {"set": name, "rows": len(X), "columns": X.shape[1], "outliers": int(y.sum())}


def fit_and_score(
    ready: Callable[[], None], data: Path, name: str, work: Path, what: str, seed: int | None
) -> Row:
    X, y = np.load(work / "X.npy"), np.load(work / "y.npy")
    few = np.random.default_rng(0).normal(size=(500, X.shape[1]))
    if what != "job":
        timed(score, what, few, 0)  # compiles and loads what is needed
    ready()
    if what == "job":
        found = timed(score_of_job, data / f"outliers/{name}.parquet", work / "run", seed)
    else:
        found = timed(score, what, X, seed)
    outlying = np.nan_to_num(found.value.astype(np.float64))  # infinite where nothing was split
    return ranking_scores(y, outlying) | {"seconds": found.seconds}


def outlier_sets() -> list[str]:
    """Return the names of the eight labelled sets, without their group."""
    sets = sorted(one.name for one in catalogue().values() if one.group == "outliers")
    return [name.split("/")[1] for name in sets]


def ranking_scores(y: np.ndarray, outlying: np.ndarray) -> Row:
    """Return how well scores (n,) rank the outliers, y = 1, above the others."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    scores = roc_auc_score(y, outlying), average_precision_score(y, outlying)
    return dict(zip(INDICES, map(float, scores), strict=True))


def score(what: str, X: np.ndarray, seed: int | None) -> np.ndarray:
    """Fit a method to rows X (n, d) and return how outlying (n,) each is."""
    if what in SYSTEM_OF:
        return score_of_system(SYSTEM_OF[what], X, seed or 0)
    if what in ("ECOD", "HBOS"):
        from pyod.models.ecod import ECOD
        from pyod.models.hbos import HBOS

        return {"ECOD": ECOD, "HBOS": HBOS}[what]().fit(X).decision_scores_
    if what == "LOF":
        from sklearn.neighbors import LocalOutlierFactor

        return -LocalOutlierFactor().fit(X).negative_outlier_factor_
    from sklearn.ensemble import IsolationForest

    return -IsolationForest(random_state=seed).fit(X).score_samples(X)


def score_of_system(system: str, X: np.ndarray, seed: int) -> np.ndarray:
    """Return how outlying (n,) rows X (n, d) are to a clustering of ours."""
    return -made(system, Facts(len(X), 0, 0), seed).fit(X).score_samples(X)


def score_of_job(table: Path, output: Path, seed: int) -> np.ndarray:
    """Run a job with its defaults on a table and return how outlying (n,) its rows are."""
    run_here(table, output, {"label": "label"}, {"seed": seed}, {"workers": 0})
    return -published(output, "score")


def line(row: Row) -> str:
    scores = [f"{row[index]:.3f}" for index in INDICES if row[index] is not None]
    seconds = "" if row["seconds"] is None else f", {row['seconds']:.1f} s"
    said = f"{row['set']}, {row['method']}, {row['seed']}: {' / '.join(scores)}{seconds}"
    return f"{said} {row['note'] or ''}"


def report(rows: list[Row]) -> None:
    """Print the tables set by set, what did not end, and the means in the order of the AUC."""
    for index in (*INDICES, "seconds"):
        show(index, pivot(rows, ("set", "rows", "columns", "outliers"), "method", index))
    for row in rows:
        if row["note"]:
            print(f"  {row['set']}, {row['method']}: {row['note']}")
    means = []
    for what in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in only(rows, method=what) if row["roc_auc"] is not None]
        if mine:
            about = {"method": what, "sets": len({row["set"] for row in mine})}
            means.append(about | mean_scores(mine, INDICES))
    means.sort(key=lambda row: -row["roc_auc"])
    show(f"Means over the sets where a fit ended; bars for the job: {BARS}", means)
