"""The figures of the nights of a job: measures by date, and the shares of clusters by date."""

import datetime
from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np

from distsvc.report.content.night import Night
from distsvc.report.figures.drawing import (
    CARD,
    COLOURS,
    FIGURE_WIDTH,
    GREY,
    MAX_NAMED_CLUSTERS,
    drawn,
)
from distsvc.report.figures.mpl import Axes, Figure, FuncFormatter, MaxNLocator, mdates
from distsvc.report.formats import compact, one_line, percent

Measure = tuple[str, Callable[[Night], float | None], Callable[[float], str]]

MEASURES: tuple[Measure, ...] = (
    ("rows", lambda night: night.rows, compact),
    ("clusters", lambda night: night.clusters, lambda value: f"{value:.0f}"),
    ("rows outside every cluster", lambda night: night.outside, percent),
    ("rows moved to another cluster", lambda night: night.moved, percent),
    ("largest drift of a column", lambda night: night.drift, lambda value: f"{value:g}"),
    ("seconds of the run", lambda night: night.seconds, compact),
)


MAX_WRITTEN_DATES = 4
"""Maximum number of dates for which an axis shows every date."""


@drawn
def trends(nights: Sequence[Night]) -> Figure:
    """Draw each measure by date; nights with failed checks or warnings have a ring."""
    days = _days(nights)
    found = [
        (name, shown, np.array([measured(night) for night in nights], float))
        for name, measured, shown in MEASURES
    ]
    found = [each for each in found if np.isfinite(each[2]).any()]
    height = 0.35 + 0.95 * len(found)  # inches: the dates, and the measures
    figure = Figure(figsize=(FIGURE_WIDTH, height), layout="constrained")
    panels = figure.subplots(len(found), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, shown, values) in zip(panels, found, strict=True):
        _line(axes, days, values, nights)
        axes.set_title(name, loc="left", fontsize=10, pad=3)
        axes.yaxis.set_major_locator(MaxNLocator(2, integer=name in ("rows", "clusters")))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _, shown=shown: shown(value)))
        axes.tick_params(labelsize=8.5, length=0)
        axes.grid(axis="y")
        low, high = min(0.0, float(np.nanmin(values))), float(np.nanmax(values))
        axes.set_ylim(low, 1.15 * high if high > 0 else 1.0)
        if low == high == 0.0:
            axes.set_yticks([0.0])
    _dates(panels[-1], days)
    return figure


def _line(axes: Axes, days: np.ndarray, values: np.ndarray, nights: Sequence[Night]) -> None:
    axes.plot(days, values, color=COLOURS[0], linewidth=1.2)
    known = np.isfinite(values)
    neighbours = np.append(False, known[:-1]) | np.append(known[1:], False)
    alone = known & ~neighbours
    dots = known if len(nights) <= 60 else alone  # many dots would hide the line
    axes.plot(days[dots], values[dots], "o", color=COLOURS[0], markersize=2.6)
    for colour, marked in (
        ("#d97706", [bool(night.warned) and not night.failed for night in nights]),
        ("#c92a2a", [bool(night.failed) for night in nights]),
    ):
        at = np.array(marked, bool) & known
        axes.plot(days[at], values[at], "o", markersize=6, markerfacecolor="none",
                  markeredgecolor=colour, markeredgewidth=1.2)  # fmt: skip


@drawn
def river(nights: Sequence[Night]) -> Figure:
    """Draw the shares of the clusters by date, with a band for each of the largest clusters."""
    figure = Figure(figsize=(FIGURE_WIDTH, 3.2), layout="constrained")
    axes = figure.add_subplot()
    sized = [night for night in nights if night.sizes]
    days, ids, names = _days(sized), bands(sized), page_names(sized)
    shares = np.array([[n.sizes.get(i, 0) / sum(n.sizes.values()) for n in sized] for i in ids])
    shares = np.vstack([shares, np.maximum(1.0 - shares.sum(axis=0), 0.0)])
    labels = [one_line(f"{label} {names.get(label, '')}".strip(), 24) for label in ids]
    several = len(days) > 1
    areas = axes.stackplot(
        days if several else days + np.array([-0.5, 0.5]),
        shares if several else np.repeat(shares, 2, axis=1),
        labels=[*labels, "others"], colors=[*COLOURS[: len(ids)], GREY],
        linewidth=0.4, edgecolor=CARD,
    )  # fmt: skip
    shown = areas if shares[-1].any() else areas[:-1]
    figure.legend(handles=shown[::-1], loc="outside right upper", fontsize=9, handlelength=1.0)
    axes.set_ylim(0.0, 1.0)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    axes.tick_params(labelsize=8.5, length=0)
    _dates(axes, days)
    return figure


def page_names(nights: Sequence[Night]) -> dict[int, str]:
    """Return the latest name of each cluster on the nights' pages, by id."""
    return {label: name for one in nights for label, name in one.page_names.items()}


def bands(nights: Sequence[Night]) -> list[int]:
    """Return the ids of the clusters to draw, at most `MAX_NAMED_CLUSTERS`.

    Half of them are the largest clusters of the last night. The others are the largest over all
    nights.
    """
    total: dict[int, float] = {}
    for night in nights:
        rows = max(sum(night.sizes.values()), 1)
        for one, n in night.sizes.items():
            total[one] = total.get(one, 0.0) + n / rows
    last = nights[-1].sizes if nights else {}
    now = sorted(last, key=lambda one: (-last[one], one))[: MAX_NAMED_CLUSTERS // 2]
    others = sorted(total.keys() - set(now), key=lambda one: (-total[one], one))
    return sorted([*now, *others[: MAX_NAMED_CLUSTERS - len(now)]])


def _days(nights: Sequence[Night]) -> np.ndarray:
    """Return the date (n,) float64 of each night, as a number of days.

    Several nights with the same date are spread evenly over the day.
    """
    days: list[float] = []
    for date, several in groupby(nights, key=lambda night: night.date):
        n = len(list(several))
        first = float(mdates.date2num(datetime.date.fromisoformat(date)))
        days += [first + i / n for i in range(n)]
    return np.array(days)


def _dates(axes: Axes, days: np.ndarray) -> None:
    axes.set_xlim(days[0] - 0.5, days[-1] + 0.5)
    whole = np.unique(np.floor(days))
    if len(whole) <= MAX_WRITTEN_DATES:
        axes.set_xticks(whole)
        axes.xaxis.set_major_formatter(mdates.DateFormatter("%Y-%m-%d"))
    else:
        locator = mdates.AutoDateLocator(minticks=2, maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))
    axes.xaxis.get_offset_text().set_fontsize(8.5)
