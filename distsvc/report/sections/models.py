"""The page's words on a model: its tree of hills or splits, and the choice of the answer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.model_parts import (
    AlternativePart,
    CandidatePart,
    ChoicePart,
    Curve,
    LevelsPart,
    LevelTreePart,
    TreeNode,
)
from distsvc.report.figures import levels, tree
from distsvc.report.formats import Caption, count, listed, one_line, percent, things


def is_shown(found: LevelsPart) -> bool:
    """Return True if the page's part on level trees has any content."""
    return bool(
        found.tree.branches
        or reasons(found)
        or found.candidates
        or found.models
        or len(found.granularity) > 1
    )


def reasons(found: LevelsPart) -> str:
    """Return the reasons for the answer, whose text is untrusted."""
    return " ".join(filter(None, (one_line(text, 600) for text in found.why[:12])))


def hills_caption(tree: LevelTreePart) -> Caption:
    """Return a caption: how to read the hills, and which hills are not drawn."""
    found = levels.hills(tree)
    drawn = levels.drawn_hills(found)
    clusters, drawn_clusters = (sum(hill.kept for hill in some) for some in (found, drawn))
    n_weak = len(drawn) - drawn_clusters
    if clusters > 1:
        sentences = [f"Each of the {clusters:,} coloured hills is a cluster, its label on top."]
    else:
        sentences = ["There is one cluster: no valley divides the rows clearly."]
    if drawn_clusters < clusters:
        sentences.append(f"The {drawn_clusters:,} with most rows are drawn.")
    if n_weak:
        sentences.append("Grey hills are too weak and belong to the hill below them.")
    hidden = len(found) - clusters - n_weak + max(0, tree.n_hidden)
    if hidden:
        sentences.append(f"{hidden:,} weaker hill{' is' if hidden == 1 else 's are'} not drawn.")
    more = [
        "A hill is a region where rows are denser than around it. Its width at each height is the "
        "share of the rows that are at least that dense"
        + (" (narrow hills are widened)." if len(drawn) > 1 else ".")
    ]
    if len(drawn) > 1:
        more.append(
            "Going down, hills widen until a valley, drawn as a line, joins a hill to its left "
            "neighbour. The number under the line is the valley's z: how many standard errors the "
            "top of the hill lies above the valley."
        )
    more.append("Heights are logarithmic, except for the lowest ones.")
    return Caption(" ".join(sentences), " ".join(more))


def candidates(found: Sequence[CandidatePart]) -> list[CandidatePart]:
    """Return the best candidates, the winner among them, by number of clusters."""
    best = sorted(found, key=lambda row: (not row.winner, -unit_share(row.standing)))
    return sorted(best[: PAGE_LIMITS.rows], key=lambda row: row.n_clusters)


def unit_share(share: float | None) -> float:
    """Return a share between 0 and 1, 0 if it is unknown."""
    return 0.0 if share is None else min(1.0, max(0.0, share))


def share_text(share: float | None) -> str:
    """Format a share that may be unknown."""
    return "–" if share is None or math.isinf(share) else percent(unit_share(share))


def splits_caption(nodes: Sequence[TreeNode]) -> Caption:
    """Return a caption: how to read the tree, and which splits are not drawn."""
    n_splits, drawn = len(tree.splits(nodes)), tree.shown_splits(nodes)
    sentences = [
        "Rows left of a panel's line go down the left branch, all others down the right one. A "
        "coloured box is a cluster."
    ]
    if drawn < n_splits:
        sentences.append(
            f"The first {drawn} of {count(n_splits)} splits are drawn; a white box stands for the "
            "clusters of later splits, with their colours below it."
        )
    more = [
        "Each panel shows the rows that reach a split, projected on a direction whose heaviest "
        "columns are written above it: the density of the rows, and sampled rows in the colours of "
        "their clusters, at random heights."
    ]
    if n_splits > 1:
        more.append(
            "The circles order the splits by importance: split 1 alone makes two clusters, 1 and 2 "
            "make three."
        )
    more.append(f"Numbers of rows and shares are of a sample of {count(nodes[0].rows)}.")
    return Caption(" ".join(sentences), " ".join(more))


def curve_caption(found: Curve) -> Caption:
    """Return a caption: how to read the curve, and its end if that is not drawn."""
    end, last = tree.shown_clusters(found), max(found.clusters)
    text = (
        "The sum of squares that remains within clusters, as a share of that of the whole sample, "
        "after the splits are made in their order."
    )
    return Caption(text + (f" The curve goes on to {count(last)} clusters." if end < last else ""))


VIEW_NAMES = {
    "support-vector": "density of the columns",
    "graph": "graph of near rows",
    "mixture": "mixture of normals and categories",
    "centres": "nearest centres",
}
"""Words for the views, by the names in `Considered.algorithm`."""

CLEARLY_BETTER = 0.9
"""Probability from which the run's answer is clearly better than another."""


def alternative(other: AlternativePart, likeness: float | None) -> list[str]:
    """Return sentences on the second-best answer: its differences and its probability."""
    view = VIEW_NAMES.get(other.view, other.view)
    sentences = [f"The best other answer has {things(other.n_clusters, 'cluster')} ({view})."]
    sentences += _differences(other)
    if likeness is not None:
        sentences.append(f"The adjusted Rand index of both answers is {likeness:.2f} (1 is equal).")
    return sentences


def rival(part: ChoicePart) -> list[str]:
    """Return sentences on an answer with another number of clusters that is nearly as good.

    The list is empty if there is none, or if it is the best other answer.
    """
    other = part.rival
    if other is None or other == part.alternative or other.chance >= CLEARLY_BETTER:
        return []
    view = VIEW_NAMES.get(other.view, other.view)
    verb = "describes" if other.n_clusters == 1 else "describe"
    found = f"{things(other.n_clusters, 'cluster')} ({view}) {verb} the rows nearly as well."
    sentences = [found, *_differences(other)]
    if other.rejected:
        sentences.append(
            "This answer was not taken, because its clusters overlap, and its mixture is not "
            "better than one cluster by more than chance."
        )
    return sentences


def _differences(other: AlternativePart) -> list[str]:
    """Return sentences on the clusters that another answer changes, and on its probability."""
    several = other.n_clusters > 1 and len(other.label) > 1
    return [
        *(_changes(other) if several else ()),
        f"Another sample of the table would prefer the published clusters in about "
        f"{100 * other.chance:.0f} of 100 cases.",
    ]


def _changes(other: AlternativePart) -> list[str]:
    """Return the clusters that the other answer divides or joins, as sentences."""
    rows = np.array(other.rows, np.float64)
    shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1.0)
    changes = []
    for label, own in zip(other.label, shares, strict=True):
        parts = np.sort(own[own >= 0.15])[::-1]
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
    more = len(changes) - PAGE_LIMITS.changes
    return changes[: PAGE_LIMITS.changes] + (
        [f"It changes {more} more clusters."] if more > 0 else []
    )
