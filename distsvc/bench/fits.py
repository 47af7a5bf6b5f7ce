"""One fit of one system on one set, as a task: read, standardise, fit, score, write one file."""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from distsvc import __version__
from distsvc.bench.machine import machine
from distsvc.bench.systems import SYSTEMS, Point
from distsvc.datasets import load
from distsvc.metrics import (
    INDICES,
    clustering_report,
    contingency_table,
    indices_from_contingency,
)
from distsvc.storage.arrays import read_json, write_json

SAMPLE_SEED = 0
BUDGETS = {"shuttle": 100}
BUDGET = 50
"""Of the support vectors: Pham, Le and Dang (2017), Tables 2 to 8."""


@dataclass(frozen=True)
class Fit:
    """What a task does.

    Attributes
    ----------
    experiment : str
        What the fit is for: "grid", "blind", "oracle", or a figure's name.
    set : str
        The data set.
    system : str
        Its name in `distsvc.bench.systems.SYSTEMS`.
    protocol : str
        "oracle" when classes decide anything, else "blind".
    point : dict
        Settings of the system.
    seed : int
        Of the system, and of the order of the rows.
    sweep : list of dict
        Settings of the labelling that are tried on the trained model; each gives a row of its own.
    most_rows : int or None
        Rows of a sample, drawn once; None for all.
    split : int or None
        Which rows of a set that is split.
    whole : bool
        Compute every index, the distances between rows among them.

    """

    experiment: str
    set: str
    system: str
    protocol: str
    point: Point = field(default_factory=dict)
    seed: int = 0
    sweep: list[Point] = field(default_factory=list)
    most_rows: int | None = None
    split: int | None = None
    whole: bool = False

    @property
    def digest(self) -> str:
        """What names the fit's file: the same fit of the same version is not done again."""
        text = json.dumps([__version__, asdict(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]


class Folder:
    """The files of an evaluation's fits: what is to be done, and what is done."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def plan(self, fits: list[Fit], data: Path | None) -> None:
        """Write what the tasks read."""
        self.path.mkdir(parents=True, exist_ok=True)
        content = {"data": None if data is None else str(data), "fits": [asdict(f) for f in fits]}
        write_json(self.path / "plan.json", content)

    def result(self, fit: Fit) -> Path:
        """Return the path of a fit's result."""
        return self.path / fit.digest[:2] / f"{fit.digest}.json"

    def missing(self, fits: list[Fit]) -> list[int]:
        """Return the numbers of the fits without a result."""
        return [number for number, fit in enumerate(fits) if not self.result(fit).exists()]

    def rows(self, fits: list[Fit]) -> list[dict[str, Any]]:
        """Return the rows of all results, in the order of the fits."""
        return [row for fit in fits for row in read_json(self.result(fit))]


def run_fit(folder: str, number: int) -> int:
    """Do the fit of that number in ``plan.json`` and write its rows; return how many it has.

    A fit that raises is a row with a note and without indices: an hour of others is not lost.
    """
    files = Folder(folder)
    plan = files.path / "plan.json"
    data, fits = _plan(plan, plan.stat().st_mtime_ns)
    fit = fits[number]
    X, y, size = table(data, fit.set, fit.split, fit.most_rows)
    warm_up(fit.system, X.shape[1])
    about = asdict(fit) | {"n": size, "rows": len(X), "d": X.shape[1]}
    about |= {"classes": len(np.unique(y))}
    for name in ("sweep", "most_rows", "split", "whole"):
        about.pop(name)
    try:
        found = fitted(fit, X, y, size)
    except (ValueError, ArithmeticError, MemoryError) as error:
        found = [{"point": fit.point, "note": f"{type(error).__name__}: {error}"}]
    path = files.result(fit)
    path.parent.mkdir(exist_ok=True)
    write_json(path, [_plain(about | row | machine()) for row in found])
    return len(found)


def fitted(fit: Fit, X: np.ndarray, y: np.ndarray, size: int) -> list[dict[str, Any]]:
    """Fit a system to the rows X (n, d) of a set of `size` rows and score it by y (n,)."""
    system = SYSTEMS[fit.system]
    facts = {"n": size, "classes": len(np.unique(y)), "budget": BUDGETS.get(fit.set, BUDGET)}
    model = system.make(facts, fit.seed, **fit.point)
    order = np.random.default_rng(fit.seed).permutation(len(X))
    X, y = X[order], y[order]
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # a grid has odd corners, and k-means may meet few rows
        began = time.perf_counter()
        model.fit(X)
        seconds = time.perf_counter() - began
        if not fit.sweep:
            return [row_of(fit, model, seconds, fit.point, X, y)]
        rows = []
        for settings in fit.sweep:
            began = time.perf_counter()
            model.relabel(X, **settings)
            seconds = time.perf_counter() - began + model.seconds_["training"]
            rows.append(row_of(fit, model, seconds, fit.point | settings, X, y))
    return rows


def row_of(
    fit: Fit, model: Any, seconds: float, point: Point, X: np.ndarray, y: np.ndarray
) -> dict[str, Any]:
    """Return what is known of a fitted model: settings, seconds, indices."""
    labels = np.asarray(model.labels_)
    parts = getattr(model, "seconds_", None) or {"training": seconds, "clustering": None}
    row: dict[str, Any] = {
        "point": point,
        "total_seconds": seconds,
        "training_seconds": parts["training"],
        "clustering_seconds": parts["clustering"],
        "unlabelled": float((labels < 0).mean()),
    }
    if fit.whole:
        row |= clustering_report(X, labels, y)
    else:
        row |= indices_from_contingency(contingency_table(labels, y))
        row["n_clusters"] = len(np.unique(labels[labels >= 0]))
    return row | {"nmi_geometric": geometric(y, labels), "note": ""}


def geometric(y: np.ndarray, labels: np.ndarray) -> float:
    """Return NMI with the geometric mean of the entropies, with which Hofmeyr's table agrees."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(y, labels, average_method="geometric"))


@lru_cache(maxsize=2)
def table(
    data: str | None, name: str, split: int | None, most_rows: int | None
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return rows (n, d) float64 of a set, standardised, classes (n,), and how many rows it has.

    Columns have mean 0 and variance 1 over all rows of the set; constant ones are 0. The papers do
    not say how they scaled.
    """
    X, y = load(name, data, split)
    size = len(X)
    X = standardised(X)
    if most_rows is not None and size > most_rows:
        drawn = np.sort(np.random.default_rng(SAMPLE_SEED).choice(size, most_rows, replace=False))
        X, y = X[drawn], y[drawn]
    return X, y, size


def standardised(X: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and variance 1; constant ones become 0."""
    scale = X.std(axis=0)
    scale[scale == 0.0] = 1.0
    return (X - X.mean(axis=0)) / scale


@lru_cache(maxsize=64)
def warm_up(system: str, n_columns: int) -> None:
    """Fit a system to random rows, so that loading and compiling are not in the times."""
    entry = SYSTEMS[system]
    facts = {"n": 200, "classes": 2, "budget": BUDGET}
    rows = np.random.default_rng(0).normal(size=(200, n_columns))
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        entry.make(facts, 0, **entry.alone[1]).fit(rows)


@lru_cache(maxsize=2)
def _plan(path: Path, changed: int) -> tuple[str | None, list[Fit]]:
    content = read_json(path)
    return content["data"], [Fit(**fit) for fit in content["fits"]]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as JSON and a tidy table hold it: settings as one text, no NaN."""
    row = row | {"point": json.dumps(row["point"], sort_keys=True)}
    return {
        key: None if isinstance(value, float) and math.isnan(value) else value
        for key, value in row.items()
    }


MEASURES = (
    *INDICES, "nmi_geometric", "n_clusters", "unlabelled",
    "training_seconds", "clustering_seconds", "total_seconds", "peak_mb", "before_mb",
)  # fmt: skip
"""The columns of a row that are measured."""
