"""The page's sections on a tree of splits: the tree, its curve, and rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from distsvc.report.content.model_parts import Curve, TreeNode, TreePart
from distsvc.report.content.report import ClusterRow
from distsvc.report.figures import tree
from distsvc.report.formats import Caption, FoldedTable, count, folded, one_line

LONGEST_CONDITION, LONGEST_WHOLE = 400, 2_000
LONGEST_SEEN = 160
"""Characters of a condition that is not folded away."""


class SplitRow(NamedTuple):
    """A line of the table of splits; `others` columns are not in the direction."""

    rank: int
    rows: int
    gain: float
    valley: float
    direction: str
    others: int


class RuleRow(NamedTuple):
    """A line of the table of rules."""

    label: int
    share: float
    conditions: list[str]
    whole: list[str]


class SplitsSection(NamedTuple):
    """A tree of splits: the tree as SVG, `width` inches wide, and its splits in numbers."""

    drawing: str | None
    width: float
    caption: Caption
    splits: list[SplitRow]


class RulesSection(NamedTuple):
    """The rules, whether they are in the table's units, and whether that takes much room."""

    rules: FoldedTable
    has_units: bool
    is_long: bool


class CurveSection(NamedTuple):
    """The sums of squares by number of clusters, as SVG."""

    drawing: str
    caption: Caption


def section(found: TreePart, clusters: Sequence[ClusterRow]) -> SplitsSection:
    """Return the tree; clusters come largest first, and the text of `found` is untrusted."""
    nodes = found.nodes
    splits = [
        SplitRow(n.rank, n.rows, n.gain, n.valley, tree.direction(n.direction), n.others)
        for n in tree.splits(nodes)
    ]
    return SplitsSection(
        drawing=tree.tree(nodes, clusters) if splits else None,
        width=tree.width(nodes) if splits else 0,
        caption=_caption(nodes) if splits else Caption(),
        splits=splits,
    )


def curve(found: TreePart) -> CurveSection | None:
    """Return the curve that the number of clusters was chosen by, if there is one."""
    if not found.curve.clusters:
        return None
    return CurveSection(tree.curve(found.curve), _curve_caption(found.curve))


def rules(found: TreePart, clusters: Sequence[ClusterRow]) -> RulesSection | None:
    """Return the rule of each cluster, whose text is untrusted."""
    shares = {row.label: row.share for row in clusters}
    rows = [
        RuleRow(
            rule.label,
            shares.get(rule.label, 0.0),
            [one_line(text, LONGEST_CONDITION) for text in rule.conditions],
            [one_line(text, LONGEST_WHOLE) for text in rule.whole],
        )
        for rule in found.rules
    ]
    longest = max((len(text) for row in rows for text in row.whole), default=0)
    table = folded(rows, "more rules")
    return RulesSection(table, longest > 0, longest > LONGEST_SEEN) if rows else None


def _caption(nodes: Sequence[TreeNode]) -> Caption:
    """Say how to read the tree, and what is left out of the drawing."""
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


def _curve_caption(found: Curve) -> Caption:
    end, last = tree.shown_clusters(found), max(found.clusters)
    text = (
        "The sum of squares that remains within clusters, as a share of that of the whole sample, "
        "after the splits are made in their order."
    )
    return Caption(text + (f" The curve goes on to {count(last)} clusters." if end < last else ""))
