"""The report's page: one self-contained HTML file made from the content of ``report.json``."""

from __future__ import annotations

import datetime
import math
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from distsvc.metrics import INDICES, Index
from distsvc.report import consensus, figures, levels, tree
from distsvc.report.templates import template

FIGURES = ("plane", "levels", "sizes", "scores", "phases", "tree", "curve")
LISTED_COLUMNS = 12  # more column names than this are folded away
LONGEST_CONDITION = 400


def write_page(report: Mapping[str, Any], path: str | Path) -> None:
    """Write the page of one run, whole or not at all.

    Parameters
    ----------
    report
        The content of ``report.json``. Its text is untrusted and is escaped.
    path
        The HTML file; replaced when it exists.

    Raises
    ------
    OSError
        The folder does not exist or can't be written; an earlier page stays as it was.

    """
    path = Path(path)
    content = render_page(report).encode("utf-8", errors="replace")
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def render_page(report: Mapping[str, Any]) -> str:
    """Return the page of one run as HTML."""
    filters: dict[str, Any] = {
        "count": count,
        "percent": figures.percent,
        "value": value,
        "seconds": seconds,
        "megabytes": megabytes,
        "moment": moment,
    }
    clusters = report["clusters"]
    return template("page.html", **filters).render(
        report=report,
        answer=answer(report),
        caption=_caption(report),
        clusters=clusters[: figures.MAX_SHOWN],
        more=_more(clusters[figures.MAX_SHOWN :]),
        colours=figures.cluster_colours(clusters),
        grey=figures.GREY,
        has_outside=_has_outside(report),
        levels=consensus.section(report["levels"], len(clusters)) if "levels" in report else None,
        tree=_tree(report),
        indices=_indices(report.get("indices") or {}),
        total=_total(report["phases"]),
        listed_columns=LISTED_COLUMNS,
        figures=_figures(report),
    )


def answer(report: Mapping[str, Any]) -> str:
    """Return the run's result as one plain sentence."""
    n_clusters, n_rows = len(report["clusters"]), report["input"]["n_rows"]
    outside, share = report["outliers"]["rows"], report["outliers"]["share"]
    found = f"{count(n_clusters)} cluster{'' if n_clusters == 1 else 's'}"
    rows = f"{count(n_rows)} row{'' if n_rows == 1 else 's'}"
    if not _has_outside(report):
        return f"{found} in {rows}."
    if "reasons" in report:
        outliers = f"{count(outside)} outlier{'' if outside == 1 else 's'}"
        return f"{outliers} ({figures.percent(share)}) in {rows}."
    where = "the cluster" if n_clusters == 1 else "every cluster"
    if outside == 0:
        return f"{found} in {rows}; no row lies outside {where}."
    if outside == n_rows:
        return f"{found} in {rows}; all of the rows lie outside {where}."
    return f"{found} in {rows}; {figures.percent(share)} of the rows lie outside {where}."


def count(number: float | None) -> str:
    """Format a number of things with thousands separators."""
    return "–" if _missing(number) else f"{number:,.0f}"


def seconds(duration: float) -> str:
    """Format a duration at a precision that suits its length."""
    if duration < 59.95:
        return f"{duration:.2f}\u00a0s" if duration < 10 else f"{duration:.1f}\u00a0s"
    minutes, rest = divmod(round(duration), 60)
    if minutes < 60:
        return f"{minutes}\u00a0min\u00a0{rest:02d}\u00a0s"
    return f"{minutes // 60:,}\u00a0h\u00a0{minutes % 60:02d}\u00a0min"


def megabytes(size: float | None) -> str:
    """Format an amount of memory given in MB."""
    if _missing(size):
        return "–"
    return f"{size:,.0f}\u00a0MB" if size < 1000 else f"{size / 1000:,.2f}\u00a0GB"  # type: ignore[operator]


def value(content: Any) -> str:
    """Format any parameter or fitted value."""
    if content is None:
        return "not set"
    if isinstance(content, bool):
        return str(content).lower()
    if isinstance(content, int):
        return f"{content:,}"
    if isinstance(content, float):
        return "not defined" if math.isnan(content) else f"{content:,.6g}"
    if isinstance(content, Sequence) and not isinstance(content, str):
        return ", ".join(value(item) for item in content)
    return str(content)


def moment(text: str) -> str:
    """Format an ISO time to the minute; return what is not a time unchanged."""
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        return text
    zone = time.tzname()
    return f"{time:%Y-%m-%d %H:%M}" + (f" {zone}" if zone else "")


def _missing(number: float | None) -> bool:
    return number is None or math.isnan(number)


def _has_outside(report: Mapping[str, Any]) -> bool:
    """Return whether the algorithm tells rows inside from rows outside."""
    return report["outliers"].get("defined", True)


def _figures(report: Mapping[str, Any]) -> dict[str, str | None]:
    """Draw every figure that has something to show."""
    sample, histogram, clusters = report["sample"], report["score_histogram"], report["clusters"]
    drawn: dict[str, str | None] = dict.fromkeys(FIGURES)
    boundary = histogram.get("boundary", 0.0)
    if len(sample["x"]):
        drawn["plane"] = figures.plane(sample, clusters, report.get("picture"), boundary)
    level_tree = report.get("levels", {}).get("tree") or {}
    if level_tree.get("branches"):
        drawn["levels"] = levels.level_tree(level_tree, figures.cluster_colours(clusters))
    if clusters:
        drawn["sizes"] = figures.cluster_sizes(clusters, _has_outside(report))
    if len(histogram["counts"]):
        drawn["scores"] = figures.score_histogram(
            histogram["edges"], histogram["counts"], boundary, histogram.get("title")
        )
    if report["phases"]:
        drawn["phases"] = figures.phase_costs(report["phases"])
    if "tree" in report:
        nodes, curve = report["tree"]["nodes"], report["tree"]["curve"]
        if tree.splits(nodes):
            drawn["tree"] = tree.tree(nodes, clusters)
        if len(curve["clusters"]):
            drawn["curve"] = tree.curve(
                curve["clusters"], curve["share"], curve["chosen"], curve["by"]
            )
    return drawn


def _caption(report: Mapping[str, Any]) -> str:
    """Say which rows the picture shows, in which plane, and what it leaves out."""
    sample, n_rows, clusters = report["sample"], report["input"]["n_rows"], report["clusters"]
    has_outside = _has_outside(report)
    upwards = "the decision value" if has_outside else figures.one_line(sample["axes"][1], 80)
    drawn = len(sample["x"])
    rows = f"All {count(drawn)}" if drawn >= n_rows else f"{count(drawn)} of {count(n_rows)}"
    n_features = count(report["input"]["n_features"])
    plane = {
        "pca": f"on the first two principal components of the {n_features} columns",
        "single": f"with the column's value to the right and {upwards} upwards",
    }.get(sample["kind"], "in the plane of the two columns")
    sentences = [f"{rows} rows, {plane}."]
    if sample["kind"] == "pca" and sample.get("explained"):
        first, second = sample["explained"]
        apart = "; clusters that overlap here may be apart in the others"
        sentences.append(
            f"The two hold {figures.percent(first + second)} of the variance"
            f"{' of the rows inside' if has_outside else ''} "
            f"({figures.percent(first)} and {figures.percent(second)})"
            f"{apart if len(clusters) > 1 else ''}."
        )
    if sample.get("beyond"):
        sentences.append(
            f"{count(sample['beyond'])} more lie "
            f"{'outside and ' if has_outside else ''}beyond the frame."
        )
    if len(clusters) > figures.MAX_SHOWN:
        sentences.append(
            f"The {figures.MAX_SHOWN} largest clusters are numbered; the colours repeat after them."
        )
    elif len(clusters) > 1:
        sentences.append("Numbers are labels; the colours are those of the sizes below.")
    unseen = len({row["label"] for row in clusters} - set(sample["label"]))
    if unseen:
        sentences.append(
            f"{count(unseen)} cluster{' has' if unseen == 1 else 's have'} no row here."
        )
    return " ".join(sentences)


def _tree(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the page says of the splits, where the algorithm makes any."""
    if "tree" not in report:
        return None
    nodes, curve = report["tree"]["nodes"], report["tree"]["curve"]
    rules = [_rule(rule, report["clusters"]) for rule in report["tree"]["rules"]]
    splits = [
        {**node, "direction": tree.direction({**node, "others": 0})} for node in tree.splits(nodes)
    ]
    return {
        "width": tree.width(nodes) if splits else 0,
        "caption": _tree_caption(nodes) if splits else "",
        "curve_caption": _curve_caption(curve) if len(curve["clusters"]) else "",
        "splits": splits,
        "rules": rules[: figures.MAX_SHOWN],
        "more_rules": rules[figures.MAX_SHOWN :],
    }


def _rule(rule: Mapping[str, Any], clusters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add the share of a rule's cluster, and cut its conditions to a length."""
    return {
        "label": rule["label"],
        "share": next((row["share"] for row in clusters if row["label"] == rule["label"]), 0),
        "conditions": [figures.one_line(text, LONGEST_CONDITION) for text in rule["conditions"]],
    }


def _tree_caption(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Say how to read the tree, and what is left out of the drawing."""
    n_splits, drawn = len(tree.splits(nodes)), tree.shown_splits(nodes)
    sentences = [
        "Each panel shows the rows that reach a split, projected on the direction whose "
        "heaviest columns are written above it: how dense they are there, and sampled rows in the "
        "colours of their clusters, whose height means nothing.",
        "Rows left of the line go down the left branch, the others down the right one. A coloured "
        "box with a number is a cluster.",
    ]
    if n_splits > 1:
        sentences.append(
            "The circles order the splits by how much they matter: 1 alone makes two clusters, 1 "
            "and 2 make three."
        )
    if drawn < n_splits:
        sentences.append(
            f"The first {drawn} of {count(n_splits)} splits are drawn; a white box stands for the "
            "clusters that later ones make, with their colours below it."
        )
    sentences.append(f"Numbers of rows and shares are of a sample of {count(nodes[0]['rows'])}.")
    return " ".join(sentences)


def _curve_caption(curve: Mapping[str, Any]) -> str:
    end, last = tree.shown_clusters(curve["clusters"], curve["chosen"]), max(curve["clusters"])
    text = (
        "What remains of the sum of squares of the whole sample within clusters, when splits are "
        "made in the order of how much they matter."
    )
    return text + (f" The curve goes on to {count(last)} clusters." if end < last else "")


def _more(rest: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not rest:
        return None
    keys = ("rows", "share", "outliers")
    sums = {key: sum(row.get(key, 0) for row in rest) for key in keys}
    return {"clusters": len(rest), **sums}


def _indices(found: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Join the computed indices with their descriptions, known ones first and in their order."""
    names = [name for name in INDICES if name in found]
    names += [name for name in found if name not in INDICES]
    table = []
    for name in names:
        index = INDICES.get(name, Index(name, "", ""))
        entry = found[name]
        shown = "not defined" if _missing(entry["value"]) else f"{entry['value']:,.4g}"
        error = entry.get("error")
        if error and not _missing(entry["value"]) and not _missing(error):
            shown += f" ± {error:.1g}"
        table.append({**index._asdict(), "value": shown, "rows": entry.get("rows")})
    return table


def _total(phases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def peak(key: str) -> float | None:
        sizes = [phase[key] for phase in phases if not _missing(phase.get(key))]
        return max(sizes, default=None)

    return {
        "seconds": sum(phase["seconds"] for phase in phases),
        "driver_peak_mb": peak("driver_peak_mb"),
        "worker_peak_mb": peak("worker_peak_mb"),
    }
