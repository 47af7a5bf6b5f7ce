"""The page's words on the choice among views, and on the best other answer."""

from __future__ import annotations

import numpy as np

from distsvc.report.content.model_parts import AlternativePart
from distsvc.report.formats import listed, percent, things

VIEWS = {
    "support-vector": "density of the columns",
    "graph": "graph of near rows",
    "mixture": "mixture of normals and categories",
    "centres": "nearest centres",
}
"""Words for the views, by the names in `Considered.algorithm`."""

MIN_PART = 0.15
"""Minimum share of a cluster's rows for a part of it to be named."""

MAX_CHANGES = 6
"""Maximum number of differences that are named."""


def alternative(other: AlternativePart, likeness: float | None) -> list[str]:
    """Return how the best other answer differs, and how likely it is, as sentences."""
    view = VIEWS.get(other.view, other.view)
    sentences = [f"The best other answer has {things(other.n_clusters, 'cluster')} ({view})."]
    if other.n_clusters > 1 and len(other.label) > 1:
        sentences += _changes(other)
    sentences.append(
        f"Another sample of the table would prefer the published clusters in about "
        f"{100 * other.chance:.0f} of 100 cases."
    )
    if likeness is not None:
        sentences.append(f"The adjusted Rand index of both answers is {likeness:.2f} (1 is equal).")
    return sentences


def _changes(other: AlternativePart) -> list[str]:
    """Return the clusters that the other answer divides or joins, as sentences."""
    rows = np.array(other.rows, np.float64)
    shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1.0)
    changes = []
    for label, own in zip(other.label, shares, strict=True):
        parts = np.sort(own[own >= MIN_PART])[::-1]
        if len(parts) > 1:
            sizes = listed([percent(float(part)) for part in parts])
            changes.append(f"It divides cluster {label} into parts of {sizes}.")
    homes = shares.argmax(axis=1)
    for home in np.unique(homes):
        joined = [str(label) for label, of in zip(other.label, homes, strict=True) if of == home]
        if len(joined) > 1:
            changes.append(f"It joins clusters {listed(joined)}.")
    if not changes:
        changes = ["It moves rows across the borders of clusters."]
    more = len(changes) - MAX_CHANGES
    return changes[:MAX_CHANGES] + ([f"It changes {more} more clusters."] if more > 0 else [])
