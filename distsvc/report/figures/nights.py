"""The figures of a history: measures from night to night, and the clusters as a river of ids."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from distsvc.report.content.night import Night
from distsvc.report.figures.drawing import (
    CARD,
    COLOURS,
    FIGURE_WIDTH,
    GREY,
    INK,
    MAX_NAMED_CLUSTERS,
    drawn,
    ink_on,
)
from distsvc.report.figures.mpl import Axes, Figure, FuncFormatter, MaxNLocator, mdates
from distsvc.report.formats import compact, percent

Measure = tuple[str, Callable[[Night], float | None], Callable[[float], str]]

MEASURES: tuple[Measure, ...] = (
    ("rows", lambda night: night.rows, compact),
    ("clusters", lambda night: night.clusters, lambda value: f"{value:.0f}"),
    ("outside", lambda night: night.outside, percent),
    ("moved", lambda night: night.moved, percent),
    ("largest drift", lambda night: night.drift, lambda value: f"{value:g}"),
    ("seconds", lambda night: night.seconds, compact),
)


@dataclass(frozen=True)
class NightsLayout:
    """Lengths in inches; gaps are shares of the width."""

    measure: float = 0.95  # height of a measure
    dates: float = 0.35  # height of the dates below all measures
    river: float = 3.2  # height of the river
    left: float = 0.62
    right: float = 0.12
    edge_gap: float = 0.02  # minimum distance of an id from the sides
    id_gap: float = 0.04  # minimum distance of an id from other ids
    max_dates: int = 4  # maximum number of dates that are all written out


NIGHTS = NightsLayout()


@drawn
def trends(nights: Sequence[Night]) -> Figure:
    """Draw one measure in each row by date; nights whose checks failed or warned have a ring."""
    height = 0.1 + NIGHTS.measure * len(MEASURES) + NIGHTS.dates
    figure = Figure(figsize=(FIGURE_WIDTH, height))
    days = _days(nights)
    width = (FIGURE_WIDTH - NIGHTS.left - NIGHTS.right) / FIGURE_WIDTH
    for i, (name, measured, shown) in enumerate(MEASURES):
        bottom = (NIGHTS.dates + NIGHTS.measure * (len(MEASURES) - 1 - i) + 0.12) / height
        axes = figure.add_axes(
            (NIGHTS.left / FIGURE_WIDTH, bottom, width, (NIGHTS.measure - 0.36) / height)
        )
        values = np.array([np.nan if (v := measured(n)) is None else v for n in nights], float)
        _line(axes, days, values, nights)
        axes.set_title(name, loc="left", fontsize=10, pad=3)
        axes.yaxis.set_major_locator(MaxNLocator(2, integer=name in ("rows", "clusters")))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _, shown=shown: shown(value)))
        axes.tick_params(labelsize=8.5, length=0)
        axes.grid(axis="y")
        _dates(axes, days, last=i == len(MEASURES) - 1)
        if np.isfinite(values).any():
            low, high = min(0.0, float(np.nanmin(values))), float(np.nanmax(values))
            axes.set_ylim(low, 1.15 * high if high > 0 else 1.0)
        else:
            axes.set_yticks([])
            axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center",
                      va="center", fontsize=9, color=GREY)  # fmt: skip
    return figure


def _line(axes: Axes, days: np.ndarray, values: np.ndarray, nights: Sequence[Night]) -> None:
    """Draw a line with gaps where values are unknown."""
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
    """Draw the shares of the clusters by date, with a band for each of the largest."""
    figure = Figure(figsize=(FIGURE_WIDTH, NIGHTS.river))
    bottom = NIGHTS.dates / NIGHTS.river
    width = (FIGURE_WIDTH - NIGHTS.left - NIGHTS.right) / FIGURE_WIDTH
    axes = figure.add_axes(
        (NIGHTS.left / FIGURE_WIDTH, bottom, width, 1 - bottom - 0.12 / NIGHTS.river)
    )
    told = [night for night in nights if night.sizes]
    days, ids = _days(told), bands(told)
    shares = np.array([[n.sizes.get(i, 0) / sum(n.sizes.values()) for i in ids] for n in told])
    rest = np.maximum(1.0 - shares.sum(axis=1), 0.0)
    edges = np.column_stack([np.zeros(len(told)), np.cumsum(np.column_stack([shares, rest]), 1)])
    if len(days) == 1:
        days, edges = days[0] + np.array([-0.5, 0.5]), np.repeat(edges, 2, axis=0)
    taken: list[tuple[float, float]] = []
    for k in range(edges.shape[1] - 1):
        colour = COLOURS[k % len(COLOURS)] if k < len(ids) else GREY
        axes.fill_between(days, edges[:, k], edges[:, k + 1], color=colour, linewidth=0.4,
                          edgecolor=CARD)  # fmt: skip
        if k < len(ids) and (at := _place(days, edges[:, k], edges[:, k + 1], taken)) is not None:
            taken.append(at)
            axes.text(*at, str(ids[k]), ha="center", va="center", fontsize=9,
                      color=ink_on(colour))  # fmt: skip
    axes.set_ylim(0.0, 1.0)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    axes.tick_params(labelsize=8.5, length=0)
    _dates(axes, _days(told), last=True)
    return figure


def _place(
    days: np.ndarray, low: np.ndarray, high: np.ndarray, taken: Sequence[tuple[float, float]]
) -> tuple[float, float] | None:
    """Return the position (day, y) of a band's id, None if there is no room.

    The band is widest there, at a distance from the edges of the figure and the ids in `taken`.
    """
    if len(days) == 2:  # between the two
        low, high = low.mean(keepdims=True), high.mean(keepdims=True)
        days, first, span = days.mean(keepdims=True), days[0], np.ptp(days)
    else:
        first, span = days[0], np.ptp(days)
    if len(days) > NIGHTS.max_dates:  # the band is as wide all along the text
        reach = max(1, round(NIGHTS.edge_gap * len(days)))
        low, high = _over(low, reach, np.max), _over(high, reach, np.min)
    width = high - low
    for i in np.argsort(-width, kind="stable"):
        x, y = (days[i] - first) / span, (low[i] + high[i]) / 2
        if width[i] < 0.05:  # too narrow for a number
            break
        near = any(abs((other - first) / span - x) < NIGHTS.id_gap and abs(at - y) < 0.06
                   for other, at in taken)  # fmt: skip
        if NIGHTS.edge_gap <= x <= 1 - NIGHTS.edge_gap and not near:
            return float(days[i]), float(y)
    return None


def _over(values: np.ndarray, reach: int, extreme: Callable[..., np.ndarray]) -> np.ndarray:
    """Return the extreme (n,) of values (n,) in a window of `reach` nights on either side."""
    windows = sliding_window_view(np.pad(values, reach, mode="edge"), 2 * reach + 1)
    return extreme(windows, axis=1)


def bands(nights: Sequence[Night]) -> list[int]:
    """Return the ids to draw: half are the largest last night, half the largest of all nights."""
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
    """Return the day (n,) float64 of every night; several of one day follow each other closely."""
    days: list[float] = []
    for date, several in groupby(nights, key=lambda night: night.date):
        n = len(list(several))
        day = datetime.date.fromisoformat(date).toordinal()
        first = float(mdates.date2num(datetime.date.fromordinal(day)))
        days += [first + i / n for i in range(n)]
    return np.array(days)


def _dates(axes: Axes, days: np.ndarray, last: bool) -> None:
    """Write dates below the last axes only."""
    axes.set_xlim(days[0] - 0.5, days[-1] + 0.5)
    whole = np.unique(np.floor(days))
    if len(whole) <= NIGHTS.max_dates:
        axes.set_xticks(whole)
        axes.xaxis.set_major_formatter(mdates.DateFormatter("%Y-%m-%d"))
    else:
        locator = mdates.AutoDateLocator(minticks=2, maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))
    axes.tick_params(axis="x", labelbottom=last, colors=INK)
    axes.xaxis.get_offset_text().set(fontsize=8.5, visible=last)
