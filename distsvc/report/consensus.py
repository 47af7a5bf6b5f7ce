"""What the report's page says of a choice made without labels: why so many clusters, and doubts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from distsvc.report import figures, levels

Row = dict[str, Any]

LONGEST_SENTENCE, MAX_SENTENCES, MAX_ROWS, MAX_MODELS = 600, 12, 20, 100


def section(found: Mapping[str, Any], n_clusters: int) -> dict[str, Any]:
    """Return what the page shows of ``report["levels"]``; what has nothing to show is empty.

    Parameters
    ----------
    found
        ``tree``, ``models``, ``candidates``, ``granularity``, ``why`` and ``doubts``, each
        optional. Its text is untrusted.
    n_clusters
        Clusters of the run.

    """
    tree = found.get("tree") or {}
    branches = tree.get("branches") or []
    content: dict[str, Any] = {
        "doubts": _sentences(found.get("doubts")),
        "why": " ".join(_sentences(found.get("why"))),
        "width": levels.width(tree) if branches else 0,
        "caption": _caption(tree) if branches else "",
        "candidates": _candidates(found.get("candidates") or []),
        "models": [_model(row) for row in (found.get("models") or [])[:MAX_MODELS]],
    }
    answers = [_answer(row) for row in (found.get("granularity") or [])[:MAX_ROWS]]
    differ = len({answer["clusters"] for answer in answers}) > 1
    content["answers"] = answers if differ else []
    content["agreed"] = _agreed(answers) if len(answers) > 1 and not differ else ""
    shown = ("why", "width", "candidates", "models", "answers", "agreed")
    content["shown"] = any(content[key] for key in shown)
    content["heading"] = f"Why {_clusters(n_clusters)}"
    return content


def _sentences(texts: Sequence[object] | None) -> list[str]:
    lines = [figures.one_line(text, LONGEST_SENTENCE) for text in (texts or [])[:MAX_SENTENCES]]
    return [line for line in lines if line]


def _clusters(n_clusters: int) -> str:
    return f"{n_clusters:,} cluster{'' if n_clusters == 1 else 's'}"


def _caption(tree: Mapping[str, Any]) -> str:
    """Say how to read the hills, and which are left out."""
    found = levels.hills(tree)
    shown = levels.drawn_hills(found)
    clusters, shown_clusters = (sum(hill.kept for hill in some) for some in (found, shown))
    n_weak = len(shown) - shown_clusters
    sentences = [
        "Each hill is a place where rows lie denser than around it; its width at each height is "
        "the share of rows that are there and at least that dense"
        + (" (narrow hills are widened)." if len(shown) > 1 else "."),
    ]
    if len(shown) > 1:
        sentences.append(
            "Reading down, hills widen until a valley, drawn as a line, joins one to what stands "
            "left of it. The number under the line is the valley's z: how many standard errors "
            "the top of the hill lies above it."
        )
    if clusters > 1:
        sentences.append(f"Each of the {clusters:,} coloured hills is a cluster, its label on top.")
    else:
        sentences.append("There is one cluster: no valley parts the rows clearly.")
    if shown_clusters < clusters:
        sentences.append(f"The {shown_clusters:,} with most rows are drawn.")
    if n_weak:
        sentences.append("Grey hills are too weak and belong to what they stand on.")
    hidden = len(found) - clusters - n_weak + max(0, int(tree.get("n_hidden") or 0))
    if hidden:
        sentences.append(f"{hidden:,} weaker hill{' is' if hidden == 1 else 's are'} not drawn.")
    sentences.append("The scale of heights is logarithmic, but for the lowest, so that 0 is on it.")
    return " ".join(sentences)


def _candidates(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the answers considered, by number of clusters; the winner is never left out."""
    first = sorted(rows, key=lambda row: (not row.get("winner"), -_part(row.get("votes"))))
    return [
        {
            "clusters": row["n_clusters"],
            "votes": _part(row.get("votes")),
            "support": _percent(row.get("support")),
            "z": _z(row.get("z")),
            "winner": bool(row.get("winner")),
        }
        for row in sorted(first[:MAX_ROWS], key=lambda row: row["n_clusters"])
    ]


def _model(row: Mapping[str, Any]) -> Row:
    return {
        "gamma": _figure(row.get("gamma")),
        "C": _figure(row.get("C")),
        "vectors": row.get("n_support_vectors"),
        "splits": row.get("n_splits"),
        "components": row.get("n_components"),
        "supports": bool(row.get("supports")),
        "chosen": bool(row.get("chosen")),
    }


def _answer(row: Mapping[str, Any]) -> Row:
    return {
        "name": figures.one_line(row.get("name") or "–", 30),
        "clusters": row["n_clusters"],
        "support": _percent(row.get("support")),
        "rows": row.get("rows"),
        "chosen": bool(row.get("chosen")),
    }


def _agreed(answers: Sequence[Row]) -> str:
    *names, last = (answer["name"] for answer in answers)
    found = _clusters(answers[0]["clusters"])
    return f"The granularities {', '.join(names)} and {last} all give {found}."


def _missing(number: float | None) -> bool:
    return number is None or not math.isfinite(number)


def _part(share: float | None) -> float:
    return 0.0 if share is None or math.isnan(share) else min(1.0, max(0.0, share))


def _percent(share: float | None) -> str:
    return "–" if _missing(share) else figures.percent(_part(share))


def _z(z: float | None) -> str:
    return "–" if z is None or math.isnan(z) else levels.z_text(z)


def _figure(number: float | None) -> str:
    return "–" if number is None or math.isnan(number) else f"{number:,.4g}"
