"""The figure of profiles: the columns that distinguish each cluster."""

from __future__ import annotations

from collections.abc import Sequence

from distsvc.report.content.parts import ProfileColumn, ProfilePart, ProfilesPart
from distsvc.report.content.report import ClusterRow
from distsvc.report.figures.drawing import (
    CARD,
    FIGURE_WIDTH,
    GREY,
    INK,
    MAX_NAMED_CLUSTERS,
    SOFT,
    cluster_colours,
    drawn,
)
from distsvc.report.figures.mpl import Axes, Figure
from distsvc.report.formats import measured, percent, short_name, things


@drawn
def profiles(part: ProfilesPart, clusters: Sequence[ClusterRow]) -> Figure:
    """Draw the quartiles of each cluster's best columns, and of all other rows below."""
    sizes, colours = {row.label: row for row in clusters}, cluster_colours(clusters)
    place = {label: rank for rank, label in enumerate(sizes)}
    ordered = sorted(part.clusters, key=lambda one: place.get(one.label, len(place)))
    shown = [one for one in ordered if one.columns][:MAX_NAMED_CLUSTERS]
    heading = 0.42
    heights = [heading + 0.42 * len(one.columns) for one in shown] or [heading]
    figure = Figure(figsize=(FIGURE_WIDTH, sum(heights)), layout="constrained")
    grid = figure.subplots(max(len(shown), 1), 1, squeeze=False, height_ratios=heights)
    for axes, one in zip(grid[:, 0], shown, strict=False):
        _cluster(axes, one, sizes.get(one.label), colours.get(one.label, GREY))
    return figure


def _cluster(axes: Axes, one: ProfilePart, size: ClusterRow | None, colour: str) -> None:
    """Draw one cluster's columns below each other, each on a scale of its own."""
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
    """Draw the bars of a column, and write their medians or shares."""
    inside, outside = column.inside, column.outside
    both = (inside, y + 0.17, colour), (outside, y - 0.2, GREY)
    if column.present is not None:  # a category: the share of the rows that have it
        for rows, at, shade in both:
            _bar(axes, 0.0, rows.share, None, at, shade)
        words = f"{percent(inside.share)} (others {percent(outside.share)})"
    else:
        low, high = min(inside.lower, outside.lower), max(inside.upper, outside.upper)
        for rows, at, shade in both:
            left, right, median = (
                place_in_range(v, low, high) for v in (rows.lower, rows.upper, rows.median)
            )
            _bar(axes, left, right, median, at, shade)
        words = " (".join(measured(rows.median, column.unit) for rows in (inside, outside)) + ")"
    axes.text(1.01, y, words, transform=axes.transData, va="center", fontsize=9, color=SOFT)


def _bar(
    axes: Axes, left: float, right: float, median: float | None, y: float, colour: str
) -> None:
    axes.barh(y, max(right - left, 0.004), 0.3, left, color=colour)
    if median is not None:
        axes.plot([median, median], [y - 0.15, y + 0.15], color=CARD, linewidth=2.4)
        axes.plot([median, median], [y - 0.15, y + 0.15], color=INK, linewidth=1.0)


def place_in_range(value: float, low: float, high: float) -> float:
    """Return the place of a value, from 0 to 1, in a drawing with a margin beside low and high."""
    margin = 0.12  # as a share of the range
    share = (value - low) / (high - low) if high > low else 0.5
    return (margin + share) / (1.0 + 2.0 * margin)
