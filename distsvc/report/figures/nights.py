"""The figures of the nights of a job.

They are the measures from night to night, the clusters as a river of ids, and the rows that moved
between the clusters of two nights.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from distsvc.report.content.night import Night
from distsvc.report.content.parts import LineagePart, Moves
from distsvc.report.figures.drawing import (
    CARD,
    COLOURS,
    FIGURE_WIDTH,
    GREY,
    MAX_NAMED_CLUSTERS,
    SOFT,
    drawn,
    ink_on,
)
from distsvc.report.figures.levels import unit_length
from distsvc.report.figures.mpl import (
    Axes,
    Figure,
    FuncFormatter,
    MaxNLocator,
    Path,
    PathPatch,
    Rectangle,
    mdates,
)
from distsvc.report.formats import compact, one_line, percent, things

Array = NDArray[np.float64]

Measure = tuple[str, Callable[[Night], float | None], Callable[[float], str]]

MEASURES: tuple[Measure, ...] = (
    ("rows", lambda night: night.rows, compact),
    ("clusters", lambda night: night.clusters, lambda value: f"{value:.0f}"),
    ("rows outside every cluster", lambda night: night.outside, percent),
    ("rows moved to another cluster", lambda night: night.moved, percent),
    ("largest drift of a column", lambda night: night.drift, lambda value: f"{value:g}"),
    ("seconds of the run", lambda night: night.seconds, compact),
)


@dataclass(frozen=True)
class NightsLayout:
    """Lengths in inches; gaps are shares of the width."""

    measure: float = 0.95  # height of a measure
    dates: float = 0.35  # height of the dates below all measures
    river: float = 3.2  # height of the river
    edge_gap: float = 0.02  # minimum distance of an id from the sides
    id_gap: float = 0.04  # minimum distance of an id from other ids
    max_dates: int = 4  # maximum number of dates that are all written out
    font: float = 9  # of ids and names in the river, in points
    letter: float = 0.09  # mean width of a letter of this font


NIGHTS = NightsLayout()


@drawn
def trends(nights: Sequence[Night]) -> Figure:
    """Draw one measure in each row by date; nights whose checks failed or warned have a ring."""
    days = _days(nights)
    found = [
        (name, shown, np.array([measured(night) for night in nights], float))
        for name, measured, shown in MEASURES
    ]
    found = [each for each in found if np.isfinite(each[2]).any()]
    height = NIGHTS.dates + NIGHTS.measure * len(found)
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
    """Draw the shares of the clusters by date, with a named band for each of the largest."""
    figure = Figure(figsize=(FIGURE_WIDTH, NIGHTS.river), layout="constrained")
    axes = figure.add_subplot()
    sized = [night for night in nights if night.sizes]
    days, ids = _days(sized), bands(sized)
    shares = np.array([[n.sizes.get(i, 0) / sum(n.sizes.values()) for i in ids] for n in sized])
    rest = np.maximum(1.0 - shares.sum(axis=1), 0.0)
    edges = np.column_stack([np.zeros(len(sized)), np.cumsum(np.column_stack([shares, rest]), 1)])
    if len(days) == 1:
        days, edges = days[0] + np.array([-0.5, 0.5]), np.repeat(edges, 2, axis=0)
    taken: list[tuple[float, float]] = []
    names = cluster_names(sized)
    stretch = (np.ptp(_days(sized)) + 1.0) / np.ptp(days) / FIGURE_WIDTH  # from inches to a share
    for k in range(edges.shape[1] - 1):
        colour = COLOURS[k % len(COLOURS)] if k < len(ids) else GREY
        axes.fill_between(days, edges[:, k], edges[:, k + 1], color=colour, linewidth=0.4,
                          edgecolor=CARD)  # fmt: skip
        for text in _band_texts(ids[k], names) if k < len(ids) else ():
            half = NIGHTS.edge_gap if text.isdigit() else 0.5 * NIGHTS.letter * len(text) * stretch
            at = _place(days, edges[:, k], edges[:, k + 1], taken, half)
            if at is not None:
                taken.append(at)
                axes.text(*at, text, ha="center", va="center", fontsize=NIGHTS.font,
                          color=ink_on(colour))  # fmt: skip
                break
    axes.set_ylim(0.0, 1.0)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    axes.tick_params(labelsize=8.5, length=0)
    _dates(axes, _days(sized))
    return figure


def cluster_names(nights: Sequence[Night]) -> dict[int, str]:
    """Return the names that jobs give to clusters, by id; the latest night decides."""
    return {label: one_line(name, 60) for one in nights for label, name in one.names.items()}


def page_names(nights: Sequence[Night]) -> dict[int, str]:
    """Return the names of the drawn clusters on the nights' pages; the latest night decides."""
    found = {label: name for one in nights for label, name in one.page_names.items()}
    return {label: one_line(found[label], 60) for label in bands(nights) if label in found}


def _band_texts(label: int, names: Mapping[int, str]) -> list[str]:
    """Return the texts for a band in the order of preference: id and name, then the id alone."""
    named = [f"{label} {one_line(names[label], 20)}"] if label in names else []
    return [*named, str(label)]


def _place(
    days: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    taken: Sequence[tuple[float, float]],
    half: float = NIGHTS.edge_gap,
) -> tuple[float, float] | None:
    """Return the position (day, y) of a band's text, where it is widest, if there is room."""
    if half > NIGHTS.edge_gap:  # a name may be centred between nights
        grid = np.linspace(days[0], days[-1], max(101, len(days)))
        low, high, days = np.interp(grid, days, low), np.interp(grid, days, high), grid
    if len(days) == 2:  # centre it between the two nights
        low, high = low.mean(keepdims=True), high.mean(keepdims=True)
        days, first, span = days.mean(keepdims=True), days[0], np.ptp(days)
    else:
        first, span = days[0], np.ptp(days)
    if len(days) > NIGHTS.max_dates:  # the band must be wide along the whole text
        reach = max(1, round(half * len(days)))
        low, high = _over(low, reach, np.max), _over(high, reach, np.min)
    width = high - low
    for i in np.argsort(-width, kind="stable"):
        x, y = (days[i] - first) / span, (low[i] + high[i]) / 2
        if width[i] < 0.05:  # too narrow for a number
            break
        near = any(abs((other - first) / span - x) < NIGHTS.id_gap and abs(at - y) < 0.06
                   for other, at in taken)  # fmt: skip
        if half <= x <= 1 - half and not near:
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
        first = float(mdates.date2num(datetime.date.fromisoformat(date)))
        days += [first + i / n for i in range(n)]
    return np.array(days)


def _dates(axes: Axes, days: np.ndarray) -> None:
    """Write dates below axes."""
    axes.set_xlim(days[0] - 0.5, days[-1] + 0.5)
    whole = np.unique(np.floor(days))
    if len(whole) <= NIGHTS.max_dates:
        axes.set_xticks(whole)
        axes.xaxis.set_major_formatter(mdates.DateFormatter("%Y-%m-%d"))
    else:
        locator = mdates.AutoDateLocator(minticks=2, maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))
    axes.xaxis.get_offset_text().set_fontsize(8.5)


@dataclass(frozen=True)
class FlowLayout:
    """Lengths of the figure of moves in inches, its font, and its maximum number of clusters."""

    max_clusters: int = 20  # of each run; one more is drawn, not joined into "others"
    head: float = 0.3  # above the bars
    foot: float = 0.04  # below the bars
    narrowest: float = 0.165  # minimum height of a bar's slot
    bar: float = 0.13  # width of a bar
    font: float = 9.5


FLOWS = FlowLayout()

Id = int | None
"""A cluster's id; None for all others together."""


class Flow(NamedTuple):
    """Counts of rows by drawn clusters before and after.

    `others` are the numbers of clusters that are joined into "others", before and after.
    """

    before: list[Id]
    after: list[Id]
    rows: Array
    others: tuple[int, int]


def flow(moves: Moves) -> Flow:
    """Return the rows of the clusters to draw; all other clusters are joined, and come last."""
    pairs = [one for one in zip(moves.before, moves.after, moves.rows, strict=True) if one[2] > 0]
    sizes, moved = (Counter[int](), Counter[int]()), Counter[int]()
    for *ids, n in pairs:
        for side, one in zip(sizes, ids, strict=True):
            side[one] += n
            moved[one] += n if ids[0] != ids[1] else 0
    shown = _shown(sizes, moved)
    before, after = (
        [*sorted(side.keys() & shown), *([None] if side.keys() - shown else [])] for side in sizes
    )
    rows = np.zeros((len(before), len(after)))
    for one, other, n in pairs:
        i = before.index(one if one in shown else None)
        rows[i, after.index(other if other in shown else None)] += n
    # The left side is sorted by size, the right one by the mean place of its rows on the left.
    left = sorted(range(len(before)), key=lambda i: (before[i] is None, -rows[i].sum(), i))
    rows = rows[left]
    sums = rows.sum(axis=1)
    means = (np.cumsum(sums) - sums / 2) @ rows / np.maximum(rows.sum(axis=0), 1)
    right = sorted(range(len(after)), key=lambda j: (after[j] is None, means[j], j))
    n_before, n_after = (len(side.keys() - shown) for side in sizes)
    return Flow(
        [before[i] for i in left], [after[j] for j in right], rows[:, right], (n_before, n_after)
    )


def _shown(sizes: tuple[Counter[int], Counter[int]], moved: Counter[int]) -> set[int]:
    """Return the ids that are drawn: half by moved rows, then the largest."""
    size = sizes[0] | sizes[1]
    if max(map(len, sizes)) <= FLOWS.max_clusters + 1:
        return set(size)
    by_size = sorted(size, key=lambda one: (-size[one], one))
    by_moves = sorted(size, key=lambda one: (-moved[one], one))[: FLOWS.max_clusters // 2]
    shown: set[int] = set()
    for one in [*by_moves, *by_size]:
        if all(len((shown | {one}) & side.keys()) <= FLOWS.max_clusters for side in sizes):
            shown.add(one)
    return shown


def moved_rows(found: LineagePart) -> Flow | None:
    """Return the rows to draw; None without a new model, or if there is only one cluster."""
    if found.moves is None or found.mode == "assign" or not found.rows:
        return None
    moved = flow(found.moves)
    several = max(len(moved.before), len(moved.after)) > 1
    return moved if several and moved.rows.sum() > 0 else None


def draw_moves(found: LineagePart, colours: Mapping[int, str]) -> str | None:
    """Draw the rows that moved, in the colours of this run's clusters by id."""
    moved = moved_rows(found)
    if moved is None:
        return None
    words = {"split": "split", "absorbed": "absorbed", "disappeared": "gone"}
    before = {s.id: words[s.event] for s in found.clusters if s.has_ended}
    after = {s.id: "new" for s in found.clusters if s.is_new}
    return alluvial(moved, (before, after), colours)


class Bar(NamedTuple):
    """A cluster's bar: its slot's middle, its top, and its length."""

    middle: float
    top: float
    length: float


@drawn
def alluvial(found: Flow, notes: Sequence[Mapping[int, str]], colours: Mapping[int, str]) -> Figure:
    """Draw clusters as bars, joined by bands as wide as the number of rows that they share."""
    ids, shares = (found.before, found.after), found.rows / found.rows.sum()
    sides = shares.sum(axis=1), shares.sum(axis=0)
    height = min(6.6, max(1.8, 0.34 * max(map(len, ids)) + 0.9))
    texts = [_texts(*side) for side in zip(ids, sides, found.others, notes, strict=True)]
    longest = 0.56 * max(len(text) for side in texts for text in side)  # digits, in font sizes
    size = max(7.0, min(FLOWS.font, 72 * 1.75 / longest))
    room = size * longest / 72 + 0.08
    figure = Figure(figsize=(FIGURE_WIDTH, height + FLOWS.head))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, FIGURE_WIDTH), ylim=(height + FLOWS.foot, FLOWS.foot - FLOWS.head))
    axes.set_axis_off()
    rooms = [height - 0.05 * (len(side) - 1) for side in sides]
    unit = min(map(lambda side, rest: unit_length(side, 0.0, rest, FLOWS.narrowest), sides, rooms))
    bars = [_bars(side, unit, height) for side in sides]
    ends = room + FLOWS.bar, FIGURE_WIDTH - room - FLOWS.bar
    _draw_bands(axes, found, shares * unit, bars, ends, colours)
    for k, (edge, way, side) in enumerate(((ends[0], -1, "right"), (ends[1], 1, "left"))):
        for bar, one, text in zip(bars[k], ids[k], texts[k], strict=True):
            colour = _colour(one, colours)
            axes.add_patch(Rectangle((edge, bar.top), way * FLOWS.bar, bar.length, color=colour))
            at = edge + way * (FLOWS.bar + 0.06), bar.middle
            axes.text(*at, text, fontsize=size, ha=side, va="center_baseline")
        title = ("the run before", "this run")[k]
        at = edge + way * FLOWS.bar, FLOWS.foot - FLOWS.head / 2
        axes.text(*at, title, fontsize=FLOWS.font, ha=("left", "right")[k], va="center", color=SOFT)
    return figure


def _colour(one: Id, colours: Mapping[int, str]) -> str:
    return GREY if one is None else colours.get(one, GREY)


def _texts(ids: Sequence[Id], shares: Array, n_others: int, notes: Mapping[int, str]) -> list[str]:
    """Return the texts beside the bars of one side."""
    texts = []
    for one, share in zip(ids, shares, strict=True):
        name = things(n_others, "other") if one is None else one_line(one, 20)
        note = "" if one is None else notes.get(one, "")
        texts.append(f"{name} ({percent(share)})" + (f", {note}" if note else ""))
    return texts


def _bars(shares: Array, unit: float, height: float) -> list[Bar]:
    """Lay the bars of one side out from top to bottom."""
    slots = np.maximum(FLOWS.narrowest, unit * shares)
    n_gaps = max(1, len(slots) - 1)
    spare = height - slots.sum()
    gap = min(0.35, spare / n_gaps)
    top, found = (spare - gap * (len(slots) - 1)) / 2, []
    for slot, share in zip(slots, shares, strict=True):
        found.append(Bar(top + slot / 2, top + (slot - unit * share) / 2, unit * share))
        top += slot + gap
    return found


def _draw_bands(
    axes: Axes,
    found: Flow,
    widths: Array,
    bars: Sequence[Sequence[Bar]],
    ends: tuple[float, float],
    colours: Mapping[int, str],
) -> None:
    """Draw a band for every pair of clusters, in the order of the bars on both sides."""
    starts = np.cumsum(widths, axis=1) - widths + np.array([[bar.top] for bar in bars[0]])
    stops = np.cumsum(widths, axis=0) - widths + np.array([bar.top for bar in bars[1]])
    (left, right), middle = ends, sum(ends) / 2
    largest = (widths == widths.max(axis=1)[:, None]) | (widths == widths.max(axis=0))
    # Invisible bands are left out, except the widest one of each bar.
    for i, j in np.argwhere((widths > 0.002) | (largest & (widths > 0))):
        top, bottom, wide = starts[i, j], stops[i, j], max(widths[i, j], 0.007)
        points = [
            (left, top), (middle, top), (middle, bottom), (right, bottom),
            (right, bottom + wide), (middle, bottom + wide), (middle, top + wide),
            (left, top + wide), (left, top),
        ]  # fmt: skip
        curve = [Path.CURVE4] * 3
        band = Path(points, [Path.MOVETO, *curve, Path.LINETO, *curve, Path.CLOSEPOLY])
        colour = _colour(found.after[j], colours)
        axes.add_patch(PathPatch(band, facecolor=colour, alpha=0.45, linewidth=0))
