"""The page's section on the choice among the views' answers, and on the best other answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distsvc.report.content.model_parts import AlternativePart
from distsvc.report.content.report import Report
from distsvc.report.formats import listed, percent, things

VIEWS = {
    "support-vector": "density of the columns",
    "graph": "graph of near rows",
    "mixture": "mixture of normals and categories",
    "centres": "nearest centres",
}
"""Words for the views, by the names in `Considered.algorithm`."""

MIN_PART = 0.15
"""Share of a cluster's rows from which a part of it is named."""

MAX_CHANGES = 6
"""Maximum number of differences that are named."""


class ChoiceSection(NamedTuple):
    """Why the answer was chosen, the views, and the best other answer in sentences."""

    why: str
    likeness: float | None
    views: list[tuple[str, int, bool]]
    alternative: list[str]


def section(report: Report) -> ChoiceSection | None:
    """Return the section on the choice, if there was one."""
    found = report.choice
    if found is None:
        return None
    views = [
        (VIEWS.get(v.algorithm, v.algorithm), v.n_clusters, v.chosen) for v in found.considered
    ]
    other = found.alternative
    return ChoiceSection(
        found.why,
        found.likeness if other is None else None,
        views if len(views) > 1 else [],
        alternative(other, found.likeness) if other else [],
    )


def alternative(other: AlternativePart, likeness: float | None) -> list[str]:
    """Return how the best other answer differs, and how likely it is, as sentences."""
    view = VIEWS.get(other.view, other.view)
    told = [f"The best other answer has {things(other.n_clusters, 'cluster')} ({view})."]
    if other.n_clusters > 1 and len(other.label) > 1:
        told += _changes(other)
    told.append(
        f"Another sample of the table would prefer the published clusters in about "
        f"{100 * other.chance:.0f} of 100 cases."
    )
    if likeness is not None:
        told.append(f"The adjusted Rand index of both answers is {likeness:.2f} (1 is equal).")
    return told


def _changes(other: AlternativePart) -> list[str]:
    """Return which clusters the other answer divides, and which it joins."""
    rows = np.array(other.rows, np.float64)
    shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1.0)
    changes = []
    for label, own in zip(other.label, shares, strict=True):
        parts = np.sort(own[own >= MIN_PART])[::-1]
        if len(parts) > 1:
            told = listed([percent(float(part)) for part in parts])
            changes.append(f"It divides cluster {label} into parts of {told}.")
    homes = shares.argmax(axis=1)
    for home in np.unique(homes):
        joined = [str(label) for label, of in zip(other.label, homes, strict=True) if of == home]
        if len(joined) > 1:
            changes.append(f"It joins clusters {listed(joined)}.")
    if not changes:
        changes = ["It moves rows across the borders of clusters."]
    more = len(changes) - MAX_CHANGES
    return changes[:MAX_CHANGES] + ([f"It changes {more} more clusters."] if more > 0 else [])
