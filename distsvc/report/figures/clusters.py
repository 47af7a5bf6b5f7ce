"""The figures of every run, drawn from parts of the report as SVG strings."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from distsvc.errors import things
from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.content.model_parts import DomainPart
from distsvc.report.content.parts import ProfileColumn, ProfilePart
from distsvc.report.content.report import ClusterRow, Sample, ScoreHistogram
from distsvc.report.figures import drawing
from distsvc.report.figures.mpl import Artist, Axes, Figure, Line2D, MaxNLocator, Patch
from distsvc.report.formats import measured, one_line, percent, short_name

BADGE = 7.5  # half the side of the box around a label, in points


@drawing.drawn
def plane(
    sample: Sample,
    clusters: Sequence[ClusterRow],
    picture: DomainPart | None = None,
    boundary: float | None = 0.0,
) -> Figure:
    """Draw sampled rows in two dimensions, coloured by cluster, the largest cluster first."""
    # `picture` adds the domain of novelty {f >= 0} and the model's vectors, as in figures 1 to 3 of
    # Pham, Le and Dang. If y is the score, rows below `boundary` are outliers.
    figure = Figure(figsize=(drawing.FIGURE_WIDTH, 5.0), layout="constrained")
    axes = figure.add_subplot()
    x, y = np.asarray(sample.x, float), np.asarray(sample.y, float)
    labels, outlier = np.asarray(sample.label, int), np.asarray(sample.outlier, bool)
    legend: list[Artist] = []
    if picture is not None:
        legend += _domain(axes, picture)
    if sample.kind == "single" and boundary is not None:
        name = f"boundary, {boundary:.4g}"
        legend.append(axes.axhline(boundary, color=drawing.EDGE, linewidth=1.2, label=name))

    colours = drawing.cluster_colours(clusters)
    size = float(np.clip(12_000 / max(1, len(x)), 5, 26))
    inside = ~outlier
    for label in dict.fromkeys([*colours, *labels.tolist()]):
        own = inside & (labels == label)
        if own.any():
            drawing.dots(axes, x[own], y[own], colours.get(label, drawing.GREY), size**0.5)
    axes.autoscale_view()
    axes.scatter(
        x[outlier], y[outlier], size * 1.3, drawing.GREY,
        marker="x", linewidths=0.8, rasterized=True, zorder=2.1,
    )  # fmt: skip
    if outlier.any():
        cross = Line2D([], [], linestyle="", marker="x", color=drawing.GREY, label="row outside")
        legend.append(cross)
    if picture is not None:
        legend += _vectors(axes, picture)

    if sample.kind != "single" and len(x):
        spans = np.ptp(x), np.ptp(y)
        if 0 < max(spans) < 2 * min(spans):  # similar ranges have equal units
            axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel(short_name(sample.axes[0], 50))
    axes.set_ylabel(short_name(sample.axes[1], 50))
    if legend:
        figure.legend(handles=legend, loc="outside lower center", ncols=2)
    layout = figure.get_layout_engine()
    if layout and len(clusters) > 1:
        layout.execute(figure)  # fixes the positions of rows
        axes.apply_aspect()
        shown = [row.label for row in clusters[: PAGE_LIMITS.numbered]]
        _number_clusters(axes, np.column_stack([x, y]), labels, inside, shown)
    return figure


@drawing.drawn
def score_histogram(scores: ScoreHistogram) -> Figure:
    """Draw the histogram of scores. A line marks the boundary below which rows are outliers."""
    figure = Figure(figsize=(drawing.FIGURE_WIDTH, 3.0), layout="constrained")
    axes = figure.add_subplot()
    cuts, heights = np.asarray(scores.edges, float), np.asarray(scores.counts, float)
    boundary = scores.boundary
    low, high = cuts[0], cuts[-1]
    if boundary is not None:
        low, high = min(low, boundary), max(high, boundary)
        cut_bin = int(np.searchsorted(cuts, boundary, side="right")) - 1
        if 0 <= cut_bin < len(heights) and cuts[cut_bin] < boundary:  # its halves differ in colour
            cuts = np.insert(cuts, cut_bin + 1, boundary)
            heights = np.insert(heights, cut_bin, heights[cut_bin])
    below = cuts[:-1] < (-np.inf if boundary is None else boundary)
    for side, colour in ((below, drawing.GREY), (~below, drawing.COLOURS[0])):
        if side.any():
            part = np.append(cuts[:-1][side], cuts[1:][side][-1])
            axes.stairs(heights[side], part, fill=True, color=colour, alpha=0.85)
    margin = 0.02 * (high - low) or 1.0
    axes.set_xlim(low - margin, high + margin)
    axes.set_ylim(0, max(heights.max(), 1) * 1.16)
    if boundary is not None:
        drawing.mark(axes, boundary, f"boundary, {'' if scores.title else 'f = '}{boundary:.4g}")
    title = scores.title or "decision value f(x); negative is outside every cluster"
    axes.set_xlabel(textwrap.fill(one_line(title, 120), 60))
    axes.set_ylabel("rows")
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=drawing.TICK_STEPS))
    drawing.count_axis(axes.yaxis)
    axes.grid(axis="y")
    return figure


@drawing.drawn
def membership(counts: Sequence[int]) -> Figure:
    """Draw the histogram of memberships from 0 to 1."""
    figure = Figure(figsize=(drawing.FIGURE_WIDTH, 2.6), layout="constrained")
    axes = figure.add_subplot()
    heights = np.asarray(counts, float)
    edges = np.linspace(0.0, 1.0, len(heights) + 1)
    axes.stairs(heights, edges, fill=True, color=drawing.COLOURS[0], alpha=0.85)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(0, max(heights.max(), 1) * 1.1)
    axes.set_xlabel("share of the row's own cluster; 1 is sure")
    axes.set_ylabel("rows")
    drawing.count_axis(axes.yaxis)
    axes.grid(axis="y")
    return figure


def _domain(axes: Axes, picture: DomainPart) -> list[Artist]:
    f = np.asarray(picture.f, float)
    if not (f >= 0).any():
        return []
    grid = (picture.grid_x, picture.grid_y, f)
    axes.contourf(*grid, levels=[0, max(float(f.max()), 1e-12)], colors=[drawing.REGION], zorder=1)
    if (f < 0).any():
        axes.contour(*grid, levels=[0], colors=[drawing.EDGE], linewidths=0.9, zorder=1.1)
    return [
        Patch(
            facecolor=drawing.REGION, edgecolor=drawing.EDGE, label="inside the boundary, score ≥ 0"
        )
    ]


def _vectors(axes: Axes, picture: DomainPart) -> list[Artist]:
    few = len(picture.equilibria) <= 40
    kinds = (
        (picture.support_vectors, "support vector", "o", 5, "none", drawing.INK),
        (picture.equilibria, "equilibrium", "*", 12 if few else 8, "#fff200", "black"),
    )
    legend: list[Artist] = []
    for vectors, name, marker, size, face, edge in kinds:
        points = np.asarray(vectors, float).reshape(-1, 2)
        if len(points):
            legend += axes.plot(
                points[:, 0], points[:, 1], linestyle="", marker=marker, markersize=size,
                markerfacecolor=face, markeredgecolor=edge, markeredgewidth=0.8,
                zorder=3, label=name, rasterized=len(points) > 2000,
            )  # fmt: skip
    return legend


class Badge(NamedTuple):
    """A cluster's label and its position; positions are in points from the lower left corner."""

    label: int
    at: tuple[float, float]
    row: tuple[float, float]  # position of a row near the middle of the cluster


def badges(
    places: NDArray[np.float64],
    labels: NDArray[np.int_],
    shown: Sequence[int],
    room: tuple[float, float],
) -> list[Badge]:
    """Place the labels of clusters where they cover few rows and don't overlap each other."""
    # The rows' positions, `places` (n, 2), and the size of the figure, `room`, are in points
    # (1/72 inch). Possible positions of a label lie on rings around the row nearest to the
    # cluster's median. A label without a free position is omitted.
    tree, found = cKDTree(places), list[Badge]()
    turns = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)
    rings = (0.0, 14.0, 20.0, 28.0, 38.0, 50.0, 64.0)
    ways = np.array([(r * np.cos(t), r * np.sin(t)) for r in rings for t in turns])
    far = np.linalg.norm(ways, axis=1) / 4.0  # four points count as much as a covered row
    for label in shown:
        members = places[labels == label]
        if len(members) == 0:
            continue
        row = members[np.linalg.norm(members - np.median(members, axis=0), axis=1).argmin()]
        free = row + ways
        taken = np.array([one.at for one in found]).reshape(-1, 2)
        apart = (np.abs(free[:, None] - taken).max(axis=2) >= 2.0 * BADGE).all(axis=1)
        fits = apart & (free >= BADGE).all(axis=1) & (free <= np.array(room) - BADGE).all(axis=1)
        if fits.any():
            covered = tree.query_ball_point(free, BADGE, return_length=True)
            at = free[np.where(fits, covered + far, np.inf).argmin()]
            found.append(Badge(label, (at[0], at[1]), (row[0], row[1])))
    return found


def _number_clusters(
    axes: Axes,
    points: NDArray[np.float64],
    labels: NDArray[np.int_],
    inside: NDArray[np.bool_],
    shown: Sequence[int],
) -> None:
    """Write each label beside its cluster, with a line to a row near its middle."""
    box, to_points = axes.get_window_extent(), 72.0 / axes.figure.dpi
    room = box.width * to_points, box.height * to_points
    places = (axes.transData.transform(points) - (box.x0, box.y0)) * to_points
    kept = inside | ~np.isin(labels, labels[inside])  # clusters without rows inside keep all rows
    for badge in badges(places[kept], labels[kept], shown, room):
        row = axes.transAxes.transform(np.divide(badge.row, room))
        axes.annotate(
            str(badge.label), tuple(axes.transData.inverted().transform(row)),
            xytext=tuple(np.divide(badge.at, room)), textcoords="axes fraction",
            ha="center", va="center", fontsize=9, fontweight="bold", zorder=4,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": drawing.CARD,
                  "edgecolor": drawing.AXIS, "linewidth": 0.6, "alpha": 0.9},
            arrowprops={"arrowstyle": "-", "color": drawing.INK, "linewidth": 0.7, "shrinkA": 4,
                        "shrinkB": 0},
        )  # fmt: skip


@drawing.drawn
def profiles(found: Sequence[ProfilePart], clusters: Sequence[ClusterRow]) -> Figure:
    """Draw each cluster's quartiles in its best columns above the quartiles of all other rows."""
    sizes, colours = {row.label: row for row in clusters}, drawing.cluster_colours(clusters)
    shown = [one for one in found if one.columns][: drawing.MAX_NAMED_CLUSTERS]
    heading = 0.42
    heights = [heading + 0.42 * len(one.columns) for one in shown] or [heading]
    figure = Figure(figsize=(drawing.FIGURE_WIDTH, sum(heights)), layout="constrained")
    grid = figure.subplots(max(len(shown), 1), 1, squeeze=False, height_ratios=heights)
    for axes, one in zip(grid[:, 0], shown, strict=False):
        _cluster(axes, one, sizes.get(one.label), colours.get(one.label, drawing.GREY))
    return figure


def _cluster(axes: Axes, one: ProfilePart, size: ClusterRow | None, colour: str) -> None:
    """Draw a cluster's columns below each other, each on its own scale."""
    many = f": {things(size.rows, 'row')} ({percent(size.share)})" if size else ""
    axes.set_title(f"Cluster {one.label}{many}", loc="left", fontsize=10.5, fontweight="bold")
    for line, column in enumerate(one.columns):
        _column(axes, column, -float(line), colour)
    axes.set(xlim=(0.0, 1.0), ylim=(0.5 - len(one.columns), 0.5), xticks=[])
    names = [short_name(column.column, 24) for column in one.columns]
    axes.set_yticks([-float(line) for line in range(len(one.columns))], names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _column(axes: Axes, column: ProfileColumn, y: float, colour: str) -> None:
    """Draw the bars of a column, and write the medians or shares beside them."""
    inside, outside, is_level = column.inside, column.outside, column.present is not None
    low, high = min(inside.lower, outside.lower), max(inside.upper, outside.upper)
    for rows, at, shade in (inside, y + 0.17, colour), (outside, y - 0.2, drawing.GREY):
        places = (place_in_range(v, low, high) for v in (rows.lower, rows.upper, rows.median))
        left, right, median = (0.0, rows.share, 0.0) if is_level else places
        axes.barh(at, max(right - left, 0.004), 0.3, left, color=shade)
        for ink, width in () if is_level else ((drawing.CARD, 2.4), (drawing.INK, 1.0)):
            axes.plot([median] * 2, [at - 0.15, at + 0.15], color=ink, linewidth=width)
    words = f"{percent(inside.share)} (others {percent(outside.share)})"
    if not is_level:
        words = " (".join(measured(rows.median, column.unit) for rows in (inside, outside)) + ")"
    axes.text(1.01, y, words, transform=axes.transData, va="center", fontsize=9, color=drawing.SOFT)


def place_in_range(value: float, low: float, high: float) -> float:
    """Return a value's position on an axis, from 0 to 1.

    The axis shows the range from `low` to `high`, and a margin at both ends.
    """
    margin = 0.12  # as a share of the range
    share = (value - low) / (high - low) if high > low else 0.5
    return (margin + share) / (1.0 + 2.0 * margin)
