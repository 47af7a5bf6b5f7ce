"""The page's words on a vote of level trees: the tree, the candidates and the granularities."""

from __future__ import annotations

import math
from collections.abc import Sequence

from distsvc.report.content.model_parts import CandidatePart, LevelsPart, LevelTreePart
from distsvc.report.figures import levels
from distsvc.report.formats import Caption, one_line, percent

MAX_LISTED = 20
"""Maximum number of candidates, and of granularities, in a table."""


def is_shown(found: LevelsPart) -> bool:
    """Return True if there is anything below the heading."""
    return bool(
        found.tree.branches
        or why(found)
        or found.candidates
        or found.models
        or len(found.granularity) > 1
    )


def why(found: LevelsPart) -> str:
    """Return the reasons for the answer, whose text is untrusted."""
    return " ".join(filter(None, (one_line(text, 600) for text in found.why[:12])))


def caption(tree: LevelTreePart) -> Caption:
    """Return how to read the hills, and which ones are left out."""
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
    return sorted(best[:MAX_LISTED], key=lambda row: row.n_clusters)


def unit_share(share: float | None) -> float:
    """Return a share between 0 and 1, 0 if it is unknown."""
    return 0.0 if share is None else min(1.0, max(0.0, share))


def share_text(share: float | None) -> str:
    """Format a share that may be unknown."""
    return "–" if share is None or math.isinf(share) else percent(unit_share(share))
