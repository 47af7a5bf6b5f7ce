"""The page's words on a tree of splits, and on its curve."""

from __future__ import annotations

from collections.abc import Sequence

from distsvc.report.content.model_parts import Curve, TreeNode
from distsvc.report.figures import tree
from distsvc.report.formats import Caption, count


def caption(nodes: Sequence[TreeNode]) -> Caption:
    """Return how to read the tree, and which splits are not drawn."""
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
    """Return how to read the curve, and where it ends if that is not drawn."""
    end, last = tree.shown_clusters(found), max(found.clusters)
    text = (
        "The sum of squares that remains within clusters, as a share of that of the whole sample, "
        "after the splits are made in their order."
    )
    return Caption(text + (f" The curve goes on to {count(last)} clusters." if end < last else ""))
