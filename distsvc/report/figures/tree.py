"""The figures of a tree of splits, and of its number of clusters.

Lengths are inches, and y points down.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distsvc.errors import things
from distsvc.report.content.model_parts import Curve, LeafNode, SplitNode, Term, TreeNode
from distsvc.report.content.report import ClusterRow
from distsvc.report.figures import drawing
from distsvc.report.figures.mpl import (
    Axes,
    Bbox,
    Circle,
    Figure,
    FuncFormatter,
    MaxNLocator,
    TransformedBbox,
)
from distsvc.report.formats import compact, one_line, percent, short_name

CURVE_WORDS = {
    "elbow": "at the elbow",
    "agreement": "on which trees agree",
    "n_clusters": "as asked for",
}
"""Words in the figure for the reason of the chosen number of clusters (`Curve.by`)."""


PANEL, CIRCLE, LINE, CHIP, FONT = 0.85, 0.11, 0.17, 0.27, 9
"""Height of a split's panel, radius of its circle, height of a line, and height of a cluster's box.

`FONT` is the size of the font in points.
"""

HEADING = 2 * CIRCLE + 2 * LINE + 0.07
"""Height of the room above a panel, for its number and text."""

MAX_SPLITS = drawing.MAX_NAMED_CLUSTERS - 1
"""Maximum number of splits that are drawn; they are the most important ones."""


class DrawnNode(NamedTuple):
    """A node and its place in the figure."""

    node: TreeNode
    level: int  # number of splits above the node
    left: float  # index of the node's first drawn leaf, counted from the left
    right: float  # index after the node's last drawn leaf
    panel: SplitNode | None  # the node, if it is drawn as a panel with two branches


def splits(nodes: Sequence[TreeNode]) -> list[SplitNode]:
    """Return the nodes that are split, the most important first."""
    found = [node for node in nodes if isinstance(node, SplitNode)]
    return sorted(found, key=lambda node: node.rank)


def direction(heaviest: Sequence[Term], others: int = 0, columns: int = 5) -> str:
    """Return a normal vector as text, such as "0.81 age − 0.42 income + …"."""
    text = ""
    for term in heaviest[:columns]:
        minus = "− " if term.weight < 0 else "+ "
        sign = (" " + minus) if text else minus.strip("+ ")
        weight = abs(term.weight)
        digits = ".2f" if weight >= 0.01 else ".1g"
        text += f"{sign}{weight:{digits}} {short_name(term.column, 80)}"
    return text + (" …" if len(heaviest) > columns or others else "")


@drawing.drawn
def tree(nodes: Sequence[TreeNode], clusters: Sequence[ClusterRow]) -> Figure:
    """Draw the splits as panels above their clusters, the root at the top."""
    places = _places(nodes)
    n_leaves, tops = places[0].right, _tops(places)
    unit = min(1.8, max(0.76, drawing.PHONE_WIDTH / n_leaves))  # width of a leaf
    colours = drawing.cluster_colours(clusters)
    figure = Figure(figsize=(unit * n_leaves, tops[-1]))
    canvas = figure.add_axes((0, 0, 1, 1))
    canvas.set(xlim=(0, figure.get_figwidth()), ylim=(tops[-1], 0))
    canvas.set_axis_off()
    middles = {place.node.id: unit * (place.left + place.right) / 2 for place in places}
    by_id = {node.id: node for node in nodes}
    for place in places:
        middle, top, node = middles[place.node.id], tops[place.level], place.panel
        if node is None:
            n_clusters = _count_leaves(place.node, by_id)
            _chip(canvas, place.node, n_clusters, colours, middle, top)
            continue
        # A panel is narrower if few leaves are below it.
        across = min(3.0, unit * (place.right - place.left) - 0.14)
        _head(canvas, node, middle, top, across)
        box = Bbox.from_bounds(middle - across / 2, top + HEADING, across, PANEL)
        _panel(figure, node, colours, box)
        for child, side in ((node.below, -0.25), (node.above, 0.25)):
            start, end = middle + side * across, middles[child]
            low, high = box.y1, tops[place.level + 1]
            between = (low + high) / 2
            canvas.plot(
                [start, start, end, end], [low, between, between, high],
                color=drawing.AXIS, linewidth=1.1, zorder=1, solid_joinstyle="round",
            )  # fmt: skip
    return figure


@drawing.drawn
def curve(found: Curve) -> Figure:
    """Draw the sum of squares within clusters by number of clusters, and the chosen number."""
    figure = Figure(figsize=(drawing.FIGURE_WIDTH, 3.2), layout="constrained")
    axes = figure.add_subplot()
    end, chosen = shown_clusters(found), found.chosen
    x, y = np.asarray(found.clusters, float), np.asarray(found.share, float)
    x, y = x[x <= end], y[x <= end]
    few = len(x) <= 40
    axes.plot(
        x, y, color=drawing.COLOURS[0], linewidth=1.6, marker="o" if few else "", markersize=3.2
    )
    axes.set_xlim(1 - 0.02 * (end - 1), max(end, 2) * 1.02)
    at = x == chosen
    if at.any():
        left = float(y[at][0])
        reason = one_line(CURVE_WORDS.get(found.by, found.by), 40)
        text = f"{things(chosen, 'cluster')}, {reason}: {percent(left)} left"
        axes.plot(chosen, left, "o", color=drawing.EDGE, markersize=8, zorder=3)
        drawing.mark(axes, chosen, textwrap.fill(text, 50))
    axes.set_ylim(0, max(float(y.max()), 1e-12) * 1.18)
    axes.set_xlabel("clusters")
    axes.set_ylabel("sum of squares within clusters")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=drawing.TICK_STEPS))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=drawing.TICK_STEPS))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))
    axes.grid(axis="y")
    return figure


def shown_clusters(found: Curve) -> int:
    """Return the number of clusters at which the drawn curve ends."""
    return min(max(found.clusters), max(30, 3 * found.chosen))


def _places(nodes: Sequence[TreeNode]) -> list[DrawnNode]:
    """Return the drawn nodes with their places, the root first."""
    by_id = {node.id: node for node in nodes}
    opened: set[int] = set()
    fringe = splits(nodes[:1])
    while fringe and len(opened) < MAX_SPLITS:
        most = min(fringe, key=lambda node: node.rank)
        fringe.remove(most)
        opened.add(most.id)
        fringe += splits([by_id[most.below], by_id[most.above]])
    places: list[DrawnNode] = []

    def place(node: TreeNode, level: int, left: float) -> float:
        panel = node if isinstance(node, SplitNode) and node.id in opened else None
        at, right = len(places), left + 1
        places.append(DrawnNode(node, level, left, right, panel))
        if panel is not None:
            right = place(by_id[panel.below], level + 1, left)
            right = place(by_id[panel.above], level + 1, right)
            places[at] = places[at]._replace(right=right)
        return right

    place(nodes[0], 0, 0)
    return places


def _tops(places: Sequence[DrawnNode]) -> list[float]:
    """Return y at the top of each level of the tree, and at the bottom of the figure."""
    tops = [0.04]
    for level in range(max(place.level for place in places) + 1):
        split = any(place.panel for place in places if place.level == level)
        chip = CHIP + 1.4 * LINE
        height = HEADING + PANEL + 0.3 if split else chip
        tops.append(tops[-1] + height)
    return tops


def _count_leaves(node: TreeNode, by_id: Mapping[int, TreeNode]) -> int:
    if isinstance(node, LeafNode):
        return 1
    return sum(_count_leaves(by_id[child], by_id) for child in (node.above, node.below))


def _head(canvas: Axes, node: SplitNode, middle: float, top: float, across: float) -> None:
    """Write a split's number, its rows and its direction above its panel."""
    centre = middle, top + CIRCLE
    canvas.add_patch(Circle(centre, CIRCLE, color="#5a6775", linewidth=0, zorder=2))
    canvas.text(
        *centre, str(node.rank), color="white", fontsize=FONT, fontweight="bold",
        ha="center", va="center_baseline", zorder=3,
    )  # fmt: skip
    room = int(across / (0.55 * FONT / 72))  # characters
    lines = (
        f"n = {compact(node.rows)}, {percent(node.share)}",
        one_line(direction(node.direction, node.others, 2), room),
    )
    for i, text in enumerate(lines):
        low = top + 2 * CIRCLE + i * LINE
        box = Bbox.from_bounds(middle - across / 2, low, across, 1.35 * LINE)
        canvas.text(
            middle, low + 0.8 * LINE + 0.03, text, fontsize=FONT, ha="center", va="baseline",
            clip_on=True, clip_box=TransformedBbox(box, canvas.transData),
        )  # fmt: skip


def _panel(figure: Figure, node: SplitNode, colours: Mapping[int, str], box: Bbox) -> None:
    """Draw the projected rows of a node below their density, and the split."""
    wide, high = figure.get_size_inches()
    axes = figure.add_axes((box.x0 / wide, 1 - box.y1 / high, box.width / wide, box.height / high))
    grid, density = np.asarray(node.density.x, float), np.asarray(node.density.y, float)
    x, labels = np.asarray(node.sample.x, float), np.asarray(node.sample.label, int)
    peak = float(density.max(initial=0.0))
    if peak > 0:
        density = density / peak
        axes.fill_between(grid, density, color=drawing.PAPER, linewidth=0)
        axes.plot(grid, density, color=drawing.SOFT, linewidth=1, zorder=3)
        heights: NDArray[np.float64] = np.maximum(np.interp(x, grid, density), 0.1)
    else:
        heights = np.full(len(x), 0.9)
    golden = 0.6180339887498949  # its multiples modulo 1 are spread evenly
    heights = heights * (0.06 + 0.9 * (golden * np.arange(1, len(x) + 1) % 1))
    size = float(np.clip(30 * (box.width / max(1, len(x))) ** 0.5, 1.8, 3.6))
    for label in sorted(set(labels.tolist())):
        own = labels == label
        drawing.dots(axes, x[own], heights[own], colours.get(label, drawing.GREY), size)
    axes.axvline(node.split, color=drawing.EDGE, linewidth=1.8, zorder=4)
    ends = np.concatenate([grid, x, [node.split]])
    margin = 0.03 * float(np.ptp(ends)) or 1.0
    axes.set(xlim=(ends.min() - margin, ends.max() + margin), ylim=(0, 1.08), xticks=[], yticks=[])
    axes.spines["left"].set_visible(False)


def _chip(
    canvas: Axes,
    node: TreeNode,
    n_clusters: int,
    colours: Mapping[int, str],
    middle: float,
    top: float,
) -> None:
    """Draw a box for a cluster or for several clusters, and write the share of rows below it."""
    shade, text = drawing.CARD, f"{n_clusters} clusters"
    if isinstance(node, LeafNode):
        shade, text = colours.get(node.label, drawing.GREY), str(node.label)
    edge = drawing.INK if shade == drawing.CARD else shade
    canvas.text(
        middle, top + CHIP / 2, text, color=drawing.ink_on(shade),
        fontsize=FONT + 1, fontweight="bold", ha="center", va="center_baseline",
        bbox={"boxstyle": "round,pad=0.4", "facecolor": shade, "edgecolor": edge, "linewidth": 0.8},
    )  # fmt: skip
    canvas.text(
        middle, top + CHIP + LINE, percent(node.share),
        fontsize=FONT, ha="center", va="baseline",
    )  # fmt: skip
