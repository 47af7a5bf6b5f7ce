"""One fit of one system on one set, as a task: read, standardise, fit, score, write one file."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness.data import table
from benchmarks.harness.measure import machine, n_clusters, nmi_geometric, timed
from benchmarks.harness.rows import Row
from benchmarks.harness.systems import BUDGET, SYSTEMS, Facts, Point, warm_up
from distsvc import SupportVectorClustering, __version__
from distsvc.metrics import INDICES, clustering_report, contingency_table, indices_from_contingency
from distsvc.models.rows.sampling import row_keys
from distsvc.models.support_vector.boundary.base import Parameters
from distsvc.storage.places.arrays import make_folder, read_json, write_json

BUDGETS = {"shuttle": 100}
"""Of the support vectors, where it is not the usual one."""


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
        Its name in `benchmarks.harness.systems.SYSTEMS`.
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
        return _digest([__version__, asdict(self)])


class FitFolder:
    """The files of an evaluation's fits: what is to be done, and what is done.

    Every file is written once: a plan is named by what is in it, a result by its fit.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def plan(self, fits: list[Fit], data: Path | None) -> Path:
        """Write what the tasks read, unless it is there, and return its path."""
        content = {"data": None if data is None else str(data), "fits": [asdict(f) for f in fits]}
        path = self.path / f"plan-{_digest(content)}.json"
        if not path.exists():
            make_folder(self.path)
            write_json(path, content)
        return path

    def result(self, fit: Fit) -> Path:
        """Return the path of a fit's result."""
        return self.path / fit.digest[:2] / f"{fit.digest}.json"

    def missing(self, fits: list[Fit]) -> list[int]:
        """Return the numbers of the fits without a result."""
        return [number for number, fit in enumerate(fits) if not self.result(fit).exists()]

    def rows(self, fits: list[Fit]) -> list[Row]:
        """Return the rows of all results, in the order of the fits."""
        return [row for fit in fits for row in read_json(self.result(fit))]


def run_fit(plan: str, number: int) -> int:
    """Do the fit of that number in a plan and write its rows; return how many it has.

    A fit that raises is a row with a note and without indices: an hour of others is not lost.
    """
    path = Path(plan)
    data, fits = _plan(path)
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
    result = FitFolder(path.parent).result(fit)
    make_folder(result.parent)
    write_json(result, [_plain(about | row | machine()) for row in found])
    return len(found)


def fitted(fit: Fit, X: np.ndarray, y: np.ndarray, size: int) -> list[Row]:
    """Fit a system to the rows X (n, d) of a set of `size` rows and score it by y (n,)."""
    facts = Facts(size, len(np.unique(y)), BUDGETS.get(fit.set, BUDGET))
    model = SYSTEMS[fit.system].make(facts, fit.seed, **fit.point)
    order = np.random.default_rng(fit.seed).permutation(len(X))
    X, y = X[order], y[order]
    with threadpool_limits(1):
        seconds = timed(model.fit, X).cpu_seconds
        if not fit.sweep:
            return [row_of(fit, model, seconds, fit.point, X, y)]
        rows = []
        for settings in fit.sweep:
            seconds = timed(relabel, model, X, settings).cpu_seconds
            seconds += model.seconds_["training"]
            rows.append(row_of(fit, model, seconds, fit.point | settings, X, y))
    return rows


def relabel(model: SupportVectorClustering, X: np.ndarray, settings: Point) -> None:
    """Cluster the rows X (n, d) of `fit` again, with other settings of the labelling."""
    started, engine = perf_counter(), model._engine
    engine.parameters = Parameters(**model.set_params(**settings).get_params())
    rows = engine.seen(X)
    engine.find_clusters([(rows, row_keys(engine.seed, np.arange(len(rows))))])
    model.labels_ = model._values("label").of_centred(rows)
    model.seconds_ = model.seconds_ | {"clustering": perf_counter() - started}


def row_of(fit: Fit, model: Any, seconds: float, point: Point, X: np.ndarray, y: np.ndarray) -> Row:
    """Return what is known of a fitted model: settings, seconds, indices."""
    labels = np.asarray(model.labels_)
    parts = getattr(model, "seconds_", None) or {"training": seconds, "clustering": None}
    row: Row = {
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
        row["n_clusters"] = n_clusters(labels)
    return row | {"nmi_geometric": nmi_geometric(y, labels), "note": ""}


@lru_cache(maxsize=2)
def _plan(path: Path) -> tuple[str | None, list[Fit]]:
    content = read_json(path)
    return content["data"], [Fit(**fit) for fit in content["fits"]]


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _plain(row: Row) -> Row:
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
