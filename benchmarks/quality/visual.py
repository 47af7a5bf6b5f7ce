"""The papers' visual experiments."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np

from benchmarks.harness.data import standardised
from benchmarks.harness.measure import agreement, machine, publish, stamp, timed
from benchmarks.harness.rows import Row, show
from benchmarks.harness.systems import BUDGET, SYSTEMS, Facts
from benchmarks.papers import figures
from distsvc.errors import ParameterError
from distsvc.report.figures.drawing import as_figure

EXPECTED = {"rings": 3, "moons": 2, "gaussians3": 3, "gaussians4": 4}
PRINTED, OURS = "BSGD-R, as printed", "ours"
TOLD = {"C-Means": "c-means", "fuzzy C-Means": "fuzzy c-means"}
"""Systems that are told the number of clusters, by the names of Figures 1 and 2."""


def visual(options: Namespace) -> None:
    """Repeat Figures 1 to 3 of Pham, Le and Dang (2017): rings, moons, three and four Gaussians.

    The paper's method is removal with the budget of its tables, at the point of its grid that
    agrees best with the classes, since the figures' settings are not printed. Ours has the demo's
    parameters. C-Means and fuzzy C-Means are told the number of clusters. Every seed makes a new
    table and a new model. Columns are standardised, as a job does by default. The tables of the
    first seed are drawn in ``visual.png``.
    """
    from distsvc.published.demo import make_table

    rows, panels = [], {}
    for name in EXPECTED:
        for seed in range(options.seeds):
            table = make_table(name, seed)
            y = table["label"].to_numpy()
            X = standardised(np.column_stack([table[c].to_numpy() for c in ("x", "y")]))
            for system, (model, found) in fits(name, X, y, seed).items():
                rows.append({"data": name, "system": system, "seed": seed} | found)
                if seed == 0:
                    panels[name, system] = X, np.asarray(model.labels_)
    show("Visual experiments; the paper shows the expected clusters, ARI 1", rows)
    publish(options.out, "visual", rows)
    figure = as_figure(figures.clusters, panels)
    figure.supxlabel(f"Measured {stamp(machine())}", fontsize=8.5)
    figure.savefig(options.out / "visual.png", dpi=110)


def fits(name: str, X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, tuple[Any, Row]]:
    """Return a fitted model of every system, and its row, for a table X (n, 2) with classes y."""
    from distsvc import SupportVectorClustering
    from distsvc.published.demo import JOBS

    facts = Facts(len(X), EXPECTED[name], BUDGET)
    printed = []
    for point in SYSTEMS[PRINTED].grid:
        try:
            printed.append(_fit(SYSTEMS[PRINTED].make(facts, seed, **point), name, X, y, point))
        except ParameterError:  # no row lies within epsilon of the boundary
            continue
    ours = SupportVectorClustering(**JOBS[name], random_state=seed)
    found = {OURS: _fit(ours, name, X, y, JOBS[name])}
    if printed:
        found[PRINTED] = max(printed, key=lambda one: one[1]["ari"])
    for shown, system in TOLD.items():
        entry = SYSTEMS[system]
        model = entry.make(facts, seed, **(entry.oracle or {}))
        found[shown] = _fit(model, name, X, y, {"n_clusters": facts.classes})
    return found


def _fit(
    model: Any, name: str, X: np.ndarray, y: np.ndarray, point: dict[str, Any]
) -> tuple[Any, Row]:
    fit = timed(model.fit, X)
    outside = 0.0
    if hasattr(model, "decision_function"):
        outside = float((model.decision_function(X) < 0.0).mean())
    return model, {
        "clusters": len(np.unique(model.labels_)),
        "expected": EXPECTED[name],
        "ari": agreement(y, model.labels_)["ari"],
        "outside": outside,
        "settings": ", ".join(f"{key} {value}" for key, value in point.items()),
        "warnings": len(fit.warnings),
    }
