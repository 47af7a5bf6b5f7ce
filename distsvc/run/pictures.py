"""What the report draws of a model: rows in a plane, the domain of novelty, the tree of splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distsvc.models.baselines.rules import RULES
from distsvc.models.hyperplanes.estimator import IncrementalMDH
from distsvc.models.hyperplanes.tree import valley
from distsvc.models.support_vector.engine import Engine
from distsvc.run import tasks
from distsvc.run.directory import RunDirectory
from distsvc.run.stream import prepared

SHOWN_ROWS = 3000
SHOWN_IN_NODE = 300
GRID = 120
DENSITY_POINTS = 81
HEAVIEST = 5
IN_RULES = 3


@dataclass(frozen=True)
class Rows:
    """The pilot's rows: raw (m, d) float64, prepared (m, d), their labels and scores."""

    raw: np.ndarray
    X: np.ndarray
    labels: np.ndarray
    scores: np.ndarray

    @classmethod
    def of(cls, run: RunDirectory, pilot: np.ndarray) -> Rows:
        """Label the pilot with the run's model."""
        X = prepared(run, pilot)
        return cls(pilot, X, *tasks.labeller(run)(X))


def plane(run: RunDirectory, rows: Rows) -> dict[str, Any]:
    """Return the points to draw: two columns, or the column and the score, or two components."""
    columns = run.plan.table.columns
    raw, X = rows.raw[:SHOWN_ROWS], rows.X[:SHOWN_ROWS]
    labels, scores = rows.labels[:SHOWN_ROWS], rows.scores[:SHOWN_ROWS]
    sample: dict[str, Any] = {}
    if len(columns) == 1:
        is_distance = run.read("labelling")[0]["algorithm"] in {"imdh", *RULES}
        sample |= {"kind": "single", "axes": [columns[0], "distance" if is_distance else "f(x)"]}
        x, y = raw[:, 0], np.where(np.isfinite(scores), scores, 0.0)
    elif len(columns) == 2:
        _, scaling = run.read("scaling")
        sample |= {"kind": "columns", "axes": list(columns)}
        x, y = np.where(np.isnan(raw), scaling["fill"], raw).T
    else:
        x, y, share = _components(X, scores >= 0.0)
        sample |= {"kind": "pca", "axes": ["first component", "second component"]}
        sample["explained"] = share
    far = _beyond(x, y, scores < 0.0)
    if far.any():
        x, y, labels, scores = x[~far], y[~far], labels[~far], scores[~far]
        sample["beyond"] = int(far.sum())
    sample |= {"label": labels.tolist(), "outlier": (scores < 0.0).tolist()}
    sample |= {"x": _rounded(x), "y": _rounded(y)}
    return {"sample": sample}


def _components(X: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Project rows on the principal components of those inside; return x, y, shares of variance."""
    base = X[inside] if inside.sum() > 2 else X
    _, spread, axes = np.linalg.svd(base - base.mean(axis=0), full_matrices=False)
    x, y = ((X - base.mean(axis=0)) @ axes[:2].T).T
    total = float((spread**2).sum())
    return x, y, [float(v) ** 2 / total if total > 0.0 else 0.0 for v in spread[:2]]


def _beyond(x: np.ndarray, y: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Return which outliers lie so far out that drawing them would shrink all else to a spot."""
    far = np.zeros(len(x), bool)
    if outside.all():
        return far
    for v in (x, y):
        low, high = v[~outside].min(), v[~outside].max()
        margin = 0.5 * (high - low)
        far |= (v < low - margin) | (v > high + margin)
    return far & outside


def domain(run: RunDirectory, model: Engine, sample: dict[str, Any]) -> dict[str, Any]:
    """Return f on a grid about the drawn rows, support vectors and equilibria, in raw units."""
    rows = np.column_stack([sample["x"], sample["y"]])
    low, high = rows.min(axis=0), rows.max(axis=0)
    margin = np.where(high > low, 0.06 * (high - low), 1.0)
    x, y = (np.linspace(a, b, GRID) for a, b in zip(low - margin, high + margin, strict=True))
    grid = np.column_stack([v.ravel() for v in np.meshgrid(x, y)])
    f = model.decision(prepared(run, grid)).reshape(GRID, GRID)
    _, scaling = run.read("scaling")

    def raw(X: np.ndarray) -> list[list[float]]:
        return (X.astype(float) * scaling["scale"] + scaling["centre"]).tolist()

    return {
        "grid_x": x.tolist(),
        "grid_y": y.tolist(),
        "f": np.round(f.astype(float), 5).tolist(),
        "support_vectors": raw(model.original(model.support_vectors)),
        "equilibria": raw(model.original(model.equilibria)),
    }


def tree(model: IncrementalMDH, columns: Sequence[str], rows: Rows) -> dict[str, Any]:
    """Return the pruned tree to draw, the curve of sums of squares and every cluster's rule."""
    cut, grown = model.cut_, model.cluster_tree_
    total, n_rows = float(grown.sums_of_squares[0]), float(grown.counts[0])
    nodes: dict[int, dict[str, Any]] = {0: {"id": int(grown.ids[0]), "parent": None}}
    conditions: dict[int, list[str]] = {0: []}
    for rank, (j, places, positions) in enumerate(cut.projections(rows.X), start=1):
        below, above = map(int, cut.children[j])
        weights = grown.V[j]
        heavy = np.argsort(-np.abs(weights), kind="stable")[:HEAVIEST]
        heavy = heavy[weights[heavy] != 0.0]
        gain = grown.sums_of_squares[j] - grown.sums_of_squares[[below, above]].sum()
        in_units = positions / grown.spreads[j]
        nodes[j] |= {
            "below": int(grown.ids[below]),
            "above": int(grown.ids[above]),
            "rank": rank,
            "gain": float(gain) / total if total > 0.0 else 0.0,
            "valley": valley(positions)[1],
            "direction": [
                {"column": columns[k], "weight": round(float(weights[k]), 4)} for k in heavy
            ],
            "others": int(np.count_nonzero(weights)) - len(heavy),
            "split": 0.0,
            "density": _density(in_units),
            "sample": {
                "x": _rounded(in_units[:SHOWN_IN_NODE]),
                "label": rows.labels[places[:SHOWN_IN_NODE]].tolist(),
            },
        }
        threshold = grown.thresholds[j] + float(weights.astype(np.float64) @ model.centre_)
        for child, sign in ((below, "<"), (above, "≥")):
            nodes[child] = {"id": int(grown.ids[child]), "parent": int(grown.ids[j])}
            text = _combination(weights, heavy[:IN_RULES], columns)
            conditions[child] = [*conditions[j], f"{text} {sign} {_number(threshold)}"]
    for j, node in nodes.items():
        node |= {"rows": round(float(grown.counts[j])), "share": float(grown.counts[j] / n_rows)}
        if cut.labels[j] >= 0:
            node["label"] = int(cut.labels[j])
    leaves = sorted((j for j in nodes if cut.labels[j] >= 0), key=lambda j: cut.labels[j])
    share = grown.curve / total if total > 0.0 else np.ones_like(grown.curve)
    return {
        "nodes": list(nodes.values()),
        "curve": {
            "clusters": list(range(1, grown.n_leaves + 1)),
            "share": _rounded(share),
            "chosen": cut.n_clusters,
            "by": _chosen_by(model),
        },
        "rules": [{"label": int(cut.labels[j]), "conditions": conditions[j]} for j in leaves],
    }


def _chosen_by(model: IncrementalMDH) -> str:
    if model.n_clusters is not None:
        return "n_clusters"
    return "for want of a valley of the density" if model.n_clusters_ == 1 else "elbow"


def _density(x: np.ndarray) -> dict[str, list[float]]:
    """Return a kernel estimate of the density of x (n,), by Scott's rule, but for the tails."""
    if len(x) < 2 or x.std() == 0.0:
        return {"x": [], "y": []}
    width = 1.06 * x.std() * len(x) ** -0.2
    low, high = np.quantile(x, [0.002, 0.998])
    low, high = min(low, 0.0) - 2.0 * width, max(high, 0.0) + 2.0 * width
    at = np.linspace(low, high, DENSITY_POINTS)
    kernels = np.exp(-0.5 * ((at[:, None] - x) / width) ** 2)
    return {"x": _rounded(at), "y": _rounded(kernels.sum(axis=1) / (len(x) * width * 2.5066283))}


def _combination(weights: np.ndarray, heavy: np.ndarray, columns: Sequence[str]) -> str:
    """Write the heaviest terms of a linear combination: "0.81 f3 − 0.42 f7 + …"."""
    terms: list[str] = []
    for k in heavy:
        sign = "−" if weights[k] < 0.0 else "+"
        lead = sign if terms or sign == "−" else ""
        gap = " " if terms else ""
        terms.append(f"{lead}{gap}{abs(float(weights[k])):.2g} {columns[k]}")
    if np.count_nonzero(weights) > len(heavy):
        terms.append("+ …")
    return " ".join(terms)


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(v), 6) for v in values]
