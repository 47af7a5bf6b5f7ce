"""The page's section on a choice made without labels: the number of clusters, and doubts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from distsvc.report.content.model_parts import (
    CandidatePart,
    Granularity,
    LevelModel,
    LevelsPart,
    LevelTreePart,
)
from distsvc.report.figures import levels
from distsvc.report.formats import Caption, one_line, percent, things

LONGEST_SENTENCE, MAX_SENTENCES, MAX_ROWS, MAX_MODELS = 600, 12, 20, 100


class CandidateRow(NamedTuple):
    """A line of the table of candidates; `standing` is the length of its bar, 1 the winner's."""

    clusters: int
    standing: float
    votes: str
    separated: str
    support: str
    z: str
    winner: bool


class AnswerRow(NamedTuple):
    """A line of the table of granularities."""

    name: str
    clusters: int
    support: str
    rows: int
    chosen: bool


class VoteSection(NamedTuple):
    """A vote: its tree as SVG, `width` inches wide, and three tables; absent parts are empty.

    `agreed` is one sentence instead of `answers`, where they are all alike.
    """

    why: str
    drawing: str | None
    width: float
    caption: Caption
    candidates: list[CandidateRow]
    models: list[LevelModel]
    answers: list[AnswerRow]
    agreed: str


def section(found: LevelsPart, colours: Mapping[int, str]) -> VoteSection | None:
    """Return the section, or None if there is nothing below its heading.

    The text of `found` is untrusted; `colours` are those of the labels of the run's clusters.
    """
    drawn = bool(found.tree.branches)
    answers = [_answer(row) for row in found.granularity[:MAX_ROWS]]
    differ = len({answer.clusters for answer in answers}) > 1
    shown = VoteSection(
        why=" ".join(_sentences(found.why)),
        drawing=levels.level_tree(found.tree, colours) if drawn else None,
        width=levels.width(found.tree) if drawn else 0,
        caption=_caption(found.tree) if drawn else Caption(),
        candidates=_candidates(found.candidates),
        models=found.models[:MAX_MODELS],
        answers=answers if differ else [],
        agreed=_agreed(answers) if len(answers) > 1 and not differ else "",
    )
    parts = (shown.why, drawn, shown.candidates, shown.models, shown.answers, shown.agreed)
    return shown if any(parts) else None


def _sentences(texts: Sequence[str]) -> list[str]:
    lines = [one_line(text, LONGEST_SENTENCE) for text in texts[:MAX_SENTENCES]]
    return [line for line in lines if line]


def _caption(tree: LevelTreePart) -> Caption:
    """Say how to read the hills, and which are left out."""
    found = levels.hills(tree)
    shown = levels.drawn_hills(found)
    clusters, shown_clusters = (sum(hill.kept for hill in some) for some in (found, shown))
    n_weak = len(shown) - shown_clusters
    if clusters > 1:
        sentences = [f"Each of the {clusters:,} coloured hills is a cluster, its label on top."]
    else:
        sentences = ["There is one cluster: no valley divides the rows clearly."]
    if shown_clusters < clusters:
        sentences.append(f"The {shown_clusters:,} with most rows are drawn.")
    if n_weak:
        sentences.append("Grey hills are too weak and belong to the hill below them.")
    hidden = len(found) - clusters - n_weak + max(0, tree.n_hidden)
    if hidden:
        sentences.append(f"{hidden:,} weaker hill{' is' if hidden == 1 else 's are'} not drawn.")
    more = [
        "A hill is a region where rows are denser than around it. Its width at each height is the "
        "share of the rows that are at least that dense"
        + (" (narrow hills are widened)." if len(shown) > 1 else ".")
    ]
    if len(shown) > 1:
        more.append(
            "Going down, hills widen until a valley, drawn as a line, joins a hill to its left "
            "neighbour. The number under the line is the valley's z: how many standard errors the "
            "top of the hill lies above the valley."
        )
    more.append("Heights are logarithmic, except for the lowest ones.")
    return Caption(" ".join(sentences), " ".join(more))


def _candidates(rows: Sequence[CandidatePart]) -> list[CandidateRow]:
    """Return the answers considered, by number of clusters; the winner is never left out."""
    first = sorted(rows, key=lambda row: (not row.winner, -_part(row.standing)))
    return [
        CandidateRow(
            clusters=row.n_clusters,
            standing=_part(row.standing),
            votes=_percent(row.votes),
            separated=_percent(row.separated),
            support=_percent(row.support),
            z="–" if row.z is None else levels.z_text(row.z),
            winner=row.winner,
        )
        for row in sorted(first[:MAX_ROWS], key=lambda row: row.n_clusters)
    ]


def _answer(row: Granularity) -> AnswerRow:
    name = one_line(row.name or "–", 30)
    return AnswerRow(name, row.n_clusters, _percent(row.support), row.rows, row.chosen)


def _agreed(answers: Sequence[AnswerRow]) -> str:
    *names, last = (answer.name for answer in answers)
    found = things(answers[0].clusters, "cluster")
    return f"The granularities {', '.join(names)} and {last} all give {found}."


def _part(share: float | None) -> float:
    return 0.0 if share is None else min(1.0, max(0.0, share))


def _percent(share: float | None) -> str:
    return "–" if share is None or math.isinf(share) else percent(_part(share))
