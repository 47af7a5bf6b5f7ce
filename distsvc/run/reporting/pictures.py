"""The picture of a run: the labelled pilot in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from distsvc.models.graph.plane import telling_plane
from distsvc.models.rules.rule import Rule
from distsvc.report.content.report import Sample
from distsvc.run.algorithms.algorithm import PilotRows
from distsvc.run.learning.aside import numbers_of
from distsvc.run.learning.preparation import Preparation
from distsvc.run.learning.survey import Pilot
from distsvc.run.reporting.explaining import MAX_VECTOR_COMPONENTS, components
from distsvc.run.work.directory import RunDirectory

MAX_DRAWN_ROWS = 3000


def labelled_pilot(run: RunDirectory, rule: Rule, pilot: Pilot) -> PilotRows:
    """Return the labelled pilot with its picture."""
    preparation = Preparation.read(run)
    X, numbers = preparation(pilot.X), numbers_of(run, pilot.keys)
    labelled = rule.label(X)
    labels, scores = labelled["label"], labelled["score"]
    raw = np.where(np.isnan(pilot.X), preparation.scaling.fill, pilot.X)
    sample = plane(rule, run.plan.table.columns, raw, X, labels, scores, preparation.firsts)
    return PilotRows(numbers, pilot.X, X, labels, scores, sample)


def plane(
    rule: Rule,
    columns: Sequence[str],
    raw: np.ndarray,
    X: np.ndarray,
    labels: np.ndarray,
    scores: np.ndarray,
    firsts: np.ndarray | slice = slice(None),
) -> Sample:
    """Return the points to draw: two columns, a column and the score, or two directions.

    Rows are raw (m, d) and prepared (m, D), with labels and scores (m,). The first prepared column
    of stored column j is ``firsts[j]``. Directions separate clusters; a single cluster is drawn by
    principal components.
    """
    kind: Literal["columns", "single", "pca", "clusters"] = "columns"
    axes, explained = list(columns), None
    if len(columns) == 1:
        kind, axes = "single", [columns[0], "score" if rule.words.has_outliers else "distance"]
        x, y = raw[:, 0], np.where(np.isfinite(scores), scores, 0.0)
    elif len(columns) == 2:
        x, y = raw.T
    elif (places := _apart(rule, X, labels, scores >= 0.0)) is not None:
        kind = "clusters"
        x, y = places.astype(np.float64).T
        axes = [
            _axis(name, X[:, firsts], of, columns) for name, of in (("first", x), ("second", y))
        ]
    else:
        kind, axes = "pca", ["first component", "second component"]
        shown = X if X.shape[1] == raw.shape[1] else rule.seen(X)
        x, y, explained = _components(shown[:MAX_DRAWN_ROWS], scores[:MAX_DRAWN_ROWS] >= 0.0)
    x, y, labels, scores = (a[:MAX_DRAWN_ROWS] for a in (x, y, labels, scores))
    far = _beyond(x, y, scores < 0.0)
    drawn = ~far
    return Sample(
        kind=kind,
        axes=axes,
        explained=explained,
        beyond=int(far.sum()),
        label=labels[drawn].tolist(),
        outlier=(scores[drawn] < 0.0).tolist(),
        x=_rounded(x[drawn]),
        y=_rounded(y[drawn]),
    )


def _apart(rule: Rule, X: np.ndarray, labels: np.ndarray, inside: np.ndarray) -> np.ndarray | None:
    """Return rows X (m, d) in the plane (m, 2) that separates clusters, if there are several.

    It is the plane of the rule, or that of the rows inside. Few directions are used: in many
    columns, any partition would look separated.
    """
    own = rule.plane(X)
    if own is not None:
        return own
    known, members = np.unique(labels[inside], return_inverse=True)
    if rule.n_clusters < 2 or len(known) < 2:
        return None
    seen = rule.seen(X)
    seen = components(seen) if seen.shape[1] > MAX_VECTOR_COMPONENTS else seen
    return seen @ telling_plane(seen[inside], members).T


def _axis(name: str, X: np.ndarray, along: np.ndarray, columns: Sequence[str]) -> str:
    """Return the name of a direction (m,), by columns of X (m, d) that correlate with it most."""
    deviations = X.std(axis=0, dtype=np.float64) * along.std()
    products = (X - X.mean(axis=0, dtype=np.float64)).T @ (along - along.mean()) / len(X)
    alike = np.divide(products, deviations, out=np.zeros_like(products), where=deviations > 0.0)
    most = np.argsort(-np.abs(alike), kind="stable")[:2]
    strong = [k for k in most if abs(alike[k]) >= 0.5]
    named = [f"{'−' if alike[k] < 0 else ''}{columns[k]}" for k in strong]
    return f"{name} direction: {', '.join(named)}" if named else f"{name} direction"


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(v), 6) for v in values]


def _components(X: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Project rows on principal components of the rows inside; return x, y, shares of variance."""
    base = X[inside] if inside.sum() > 2 else X
    base = base if len(base) > 1 else np.repeat(base, 2, axis=0)
    with threadpool_limits(1):  # threads wait for each other if processes share the cores
        _, spread, axes = np.linalg.svd(base - base.mean(axis=0), full_matrices=False)
    x, y = ((X - base.mean(axis=0)) @ axes[:2].T).T
    total = float((spread**2).sum())
    return x, y, [float(v) ** 2 / total if total > 0.0 else 0.0 for v in spread[:2]]


def _beyond(x: np.ndarray, y: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Return a mask of outliers so far out that all other rows would shrink to a spot."""
    far = np.zeros(len(x), bool)
    if outside.all():
        return far
    for v in (x, y):
        low, high = v[~outside].min(), v[~outside].max()
        margin = 0.5 * (high - low)
        far |= (v < low - margin) | (v > high + margin)
    return far & outside
