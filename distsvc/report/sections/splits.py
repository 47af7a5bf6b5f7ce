"""The page's section on a tree of splits: a caption, its splits in numbers, and rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from distsvc.report.content.model_parts import Curve, TreeNode, TreePart
from distsvc.report.content.report import ClusterRow
from distsvc.report.figures import clusters as figures
from distsvc.report.figures import tree
from distsvc.report.formats import count, one_line

LONGEST_CONDITION = 400


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


class SplitsSection(NamedTuple):
    """A tree of splits: the tree as SVG, `width` inches wide, its curve, and two tables.

    `curve` is an SVG of the sums of squares by number of clusters; `more_rules` are folded away.
    """

    drawing: str | None
    width: float
    caption: str
    curve: str | None
    curve_caption: str
    splits: list[SplitRow]
    rules: list[RuleRow]
    more_rules: list[RuleRow]


def section(found: TreePart, clusters: Sequence[ClusterRow]) -> SplitsSection:
    """Return the section; clusters come largest first, and the text of `found` is untrusted."""
    nodes, has_curve = found.nodes, bool(found.curve.clusters)
    splits = [
        SplitRow(n.rank, n.rows, n.gain, n.valley, tree.direction(n.direction), n.others)
        for n in tree.splits(nodes)
    ]
    shares = {row.label: row.share for row in clusters}
    rules = [
        RuleRow(
            rule.label,
            shares.get(rule.label, 0.0),
            [one_line(text, LONGEST_CONDITION) for text in rule.conditions],
        )
        for rule in found.rules
    ]
    return SplitsSection(
        drawing=tree.tree(nodes, clusters) if splits else None,
        width=tree.width(nodes) if splits else 0,
        caption=_caption(nodes) if splits else "",
        curve=tree.curve(found.curve) if has_curve else None,
        curve_caption=_curve_caption(found.curve) if has_curve else "",
        splits=splits,
        rules=rules[: figures.MAX_SHOWN],
        more_rules=rules[figures.MAX_SHOWN :],
    )


def _caption(nodes: Sequence[TreeNode]) -> str:
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
    sentences.append(f"Numbers of rows and shares are of a sample of {count(nodes[0].rows)}.")
    return " ".join(sentences)


def _curve_caption(found: Curve) -> str:
    end, last = tree.shown_clusters(found), max(found.clusters)
    text = (
        "What remains of the sum of squares of the whole sample within clusters, when splits are "
        "made in the order of how much they matter."
    )
    return text + (f" The curve goes on to {count(last)} clusters." if end < last else "")
