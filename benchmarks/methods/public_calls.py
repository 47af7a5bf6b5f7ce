"""The public calls of whichever distsvc is on the path, each timed when `calls` asks for it.

It runs as a program of its own and imports nothing of the benchmarks, so that it measures older
versions, too, which lack some calls or have them elsewhere. A line of its input is the name of a
call, or nothing for a list of all; a line of its output is the answer as JSON.
"""

from __future__ import annotations

import atexit
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import numpy as np

COLUMNS, CLUSTERS = 8, 6
FEW, SOME, MANY = 1_000, 10_000, 200_000
CLASSES = {
    "SupportVectorClustering": ("distsvc",),
    "IncrementalMDH": ("distsvc",),
    "LinearOneClassSVM": ("distsvc",),
    "LinearSVDD": ("distsvc",),
    "AutoClustering": ("distsvc", "distsvc.models.automatic.estimator"),
    "BICO": ("distsvc.baselines",),
    "SPDC": ("distsvc.baselines",),
    "DePDDP": ("distsvc.baselines",),
    "FuzzyCMeans": ("distsvc.baselines",),
}
"""The estimators, and where they may be."""

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "level tree": ("SupportVectorClustering", {"random_state": 0}),
    "boundary": ("SupportVectorClustering", {"gamma": 0.1, "nu": 0.1, "random_state": 0}),
    "auto": ("AutoClustering", {"random_state": 0}),
    "imdh": ("IncrementalMDH", {"random_state": 0}),
    "linear one-class": ("LinearOneClassSVM", {"nu": 0.1}),
    "linear SVDD": ("LinearSVDD", {"nu": 0.1}),
    "bico": ("BICO", {"n_clusters": CLUSTERS, "random_state": 0}),
    "spdc": ("SPDC", {"random_state": 0}),
    "depddp": ("DePDDP", {}),
    "fuzzy c-means": ("FuzzyCMeans", {"n_clusters": CLUSTERS, "random_state": 0}),
}
OF_ROWS = ("predict", "decision_function", "score_samples", "predict_proba")
"""Methods that have a value for every row."""

METRICS = ("compactness", "purity", "davies_bouldin", "clustering_report")
LARGEST = {"fuzzy c-means": SOME}
"""Rows that a model is fitted to, where many would take minutes."""


@cache
def rows(n: int) -> np.ndarray:
    """Return n rows of a mixture of normal clusters, (n, 8) float64."""
    random = np.random.default_rng(n)
    middles = np.random.default_rng(0).normal(0.0, 4.0, (CLUSTERS, COLUMNS))
    return middles[random.integers(0, CLUSTERS, n)] + random.normal(size=(n, COLUMNS))


def new(name: str) -> Any:
    """Return a model that is not fitted; AttributeError or ImportError where there is none."""
    of, parameters = MODELS[name]
    for home in CLASSES[of]:
        try:
            return getattr(import_module(home), of)(**parameters)
        except (AttributeError, ImportError):
            continue
    raise AttributeError(of)


@cache
def fitted(name: str) -> Any:
    """Return a model of some rows."""
    return new(name).fit(rows(SOME))


@cache
def saved() -> Any:
    """Return the run of a job on some rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import distsvc

    folder = mkdtemp()
    atexit.register(rmtree, folder)
    table = pa.table({f"x{k}": column for k, column in enumerate(rows(SOME).T)})
    pq.write_table(table, f"{folder}/table.parquet")
    job = {
        "input": {"path": f"{folder}/table.parquet"},
        "model": {"algorithm": "support-vector"},
        "cluster": {"workers": 0},
        "output": {"path": f"{folder}/out"},
    }
    return distsvc.run(job, progress=False)


def calls() -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """Yield the name of each call that is offered, the rows it is given, and the call."""
    for name in MODELS:
        try:
            model = new(name)
        except AttributeError:
            continue
        for n in (FEW, SOME, MANY):
            if n <= LARGEST.get(name, MANY):
                yield f"{name}: fit", n, lambda name=name, n=n: new(name).fit(rows(n))
        for method in OF_ROWS:
            if hasattr(model, method):
                yield (
                    f"{name}: {method}",
                    MANY,
                    lambda name=name, method=method: getattr(fitted(name), method)(rows(MANY)),
                )
        if hasattr(model, "partial_fit") and name in ("boundary", "imdh"):
            yield f"{name}: partial_fit", SOME, lambda name=name: new(name).partial_fit(rows(SOME))
        if hasattr(model, "cut") and name in ("level tree", "auto", "imdh"):
            yield (
                f"{name}: cut",
                SOME,
                lambda name=name: fitted(name).cut(CLUSTERS - 1, X=rows(SOME)),
            )
    yield from _of_metrics()
    yield from _of_runs()


def _of_metrics() -> Iterator[tuple[str, int, Callable[[], Any]]]:
    from distsvc import metrics

    labels = (rows(SOME)[:, 0] > 0.0).astype(int)
    y = (rows(SOME)[:, 1] > 0.0).astype(int)
    given = {"purity": (labels, y), "clustering_report": (rows(SOME), labels, y)}
    for name in METRICS:
        if hasattr(metrics, name):
            of = given.get(name, (rows(SOME), labels))
            yield f"metrics.{name}", SOME, lambda name=name, of=of: getattr(metrics, name)(*of)


def _of_runs() -> Iterator[tuple[str, int, Callable[[], Any]]]:
    import distsvc

    if not callable(getattr(distsvc, "run", None)) or not hasattr(distsvc, "load"):
        return
    yield "load", SOME, lambda: distsvc.load(saved().path)
    yield "Run.labels", SOME, lambda: saved().labels()
    for method in ("predict", "score_samples", "predict_proba"):
        yield (
            f"Run.model.{method}",
            MANY,
            lambda method=method: getattr(saved().model, method)(rows(MANY)),
        )


def main() -> None:
    """Answer until the input ends."""
    warnings.simplefilter("ignore")
    answers, sys.stdout = sys.stdout, sys.stderr
    offered = {name_of(call, n): action for call, n, action in calls()}
    asked: set[str] = set()
    for line in sys.stdin:
        name = line.strip()
        if not name:
            told: Any = list(offered)
        else:
            if name not in asked:
                offered[name]()  # compiles, and fits what is asked
                asked.add(name)
            began = time.process_time()
            offered[name]()
            told = time.process_time() - began
        print(json.dumps(told), file=answers, flush=True)


def name_of(call: str, n: int) -> str:
    """Return the name by which a call of so many rows is asked for."""
    return f"{call}, {n:,} rows"


if __name__ == "__main__":
    main()
