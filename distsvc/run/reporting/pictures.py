"""The picture of every run: the labelled pilot in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from distsvc.models.rules.rule import Rule
from distsvc.report.content.report import Sample
from distsvc.run.algorithms.algorithm import PilotRows
from distsvc.run.learning.aside import numbers_of
from distsvc.run.learning.preparation import Preparation
from distsvc.run.learning.survey import Pilot
from distsvc.run.work.directory import RunDirectory

SHOWN_ROWS = 3000


def labelled_pilot(run: RunDirectory, rule: Rule, pilot: Pilot) -> PilotRows:
    """Return the pilot, labelled and with what is drawn of it."""
    preparation = Preparation.read(run)
    X, numbers = preparation(pilot.X), numbers_of(run, pilot.keys)
    labelled = rule.label(X)
    labels, scores = labelled["label"], labelled["score"]
    raw = np.where(np.isnan(pilot.X), preparation.scaling.fill, pilot.X)
    sample = plane(rule, run.plan.table.columns, raw, X, labels, scores)
    return PilotRows(numbers, pilot.X, X, labels, scores, sample)


def plane(
    rule: Rule,
    columns: Sequence[str],
    raw: np.ndarray,
    X: np.ndarray,
    labels: np.ndarray,
    scores: np.ndarray,
) -> Sample:
    """Return the points to draw: two columns, or the column and the score, or two directions.

    Rows come raw (m, d), prepared (m, d) and with labels (m,) and scores (m,).
    """
    raw, X, labels, scores = (a[:SHOWN_ROWS] for a in (raw, X, labels, scores))
    kind: Literal["columns", "single", "pca", "clusters"] = "columns"
    axes, explained = list(columns), None
    if len(columns) == 1:
        kind, axes = "single", [columns[0], "score" if rule.words.has_outliers else "distance"]
        x, y = raw[:, 0], np.where(np.isfinite(scores), scores, 0.0)
    elif len(columns) == 2:
        x, y = raw.T
    elif (places := rule.plane(X)) is not None:
        kind, axes = "clusters", ["first direction", "second direction"]
        x, y = places.astype(np.float64).T
    else:
        kind, axes = "pca", ["first component", "second component"]
        x, y, explained = _components(X, scores >= 0.0)
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


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(v), 6) for v in values]


def _components(X: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Project rows on the principal components of those inside; return x, y, shares of variance."""
    base = X[inside] if inside.sum() > 2 else X
    base = base if len(base) > 1 else np.repeat(base, 2, axis=0)
    with threadpool_limits(1):  # several wait for each other where processes share the cores
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
