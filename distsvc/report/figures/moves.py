"""The figure of rows that moved between clusters of the previous run and of this run.

Clusters are bars, and a band is as wide as the number of rows that two clusters share. Lengths are
inches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distsvc.report.content.parts import Moves
from distsvc.report.figures import drawing
from distsvc.report.figures.drawing import GREY, SOFT
from distsvc.report.figures.levels import unit_length
from distsvc.report.figures.mpl import Axes, Figure, Path, PathPatch, Rectangle
from distsvc.report.formats import one_line, percent, things

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FlowLayout:
    """Lengths of the figure, its font, and the largest number of clusters."""

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
    """Keep the clusters with most moved rows; join all others into "others", which comes last.

    Clusters without rows are left out.
    """
    sizes = _sums(moves.before, moves.rows), _sums(moves.after, moves.rows)
    shown = _shown(sizes, moves)
    before, after = (_kept(side, shown) for side in sizes)
    rows = np.zeros((len(before), len(after)))
    for one, other, n in zip(moves.before, moves.after, moves.rows, strict=True):
        if n > 0:
            i = before.index(one if one in shown else None)
            rows[i, after.index(other if other in shown else None)] += n
    others = tuple(len(side.keys() - shown) for side in sizes)
    return _untangled(Flow(before, after, rows, (others[0], others[1])))


def _sums(ids: Sequence[int], rows: Iterable[float]) -> dict[int, float]:
    """Return the sum of rows of each id that has any."""
    found: dict[int, float] = {}
    for one, n in zip(ids, rows, strict=True):
        if n > 0:
            found[one] = found.get(one, 0.0) + n
    return found


def _shown(sizes: tuple[dict[int, float], dict[int, float]], moves: Moves) -> set[int]:
    """Return the ids that are drawn: half by moved rows, then the largest."""
    if max(map(len, sizes)) <= FLOWS.max_clusters + 1:
        return {one for side in sizes for one in side}
    pairs = zip(moves.before, moves.after, moves.rows, strict=True)
    away = [0.0 if one == other else float(n) for one, other, n in pairs]
    moved = _sums([*moves.before, *moves.after], away * 2)
    size = {one: max(side.get(one, 0.0) for side in sizes) for one in sizes[0].keys() | sizes[1]}
    by_size = sorted(size, key=lambda one: (-size[one], one))
    by_moves = sorted(size, key=lambda one: (-moved.get(one, 0.0), one))[: FLOWS.max_clusters // 2]
    shown: set[int] = set()
    for one in [*by_moves, *by_size]:
        if all(len((shown | {one}) & side.keys()) <= FLOWS.max_clusters for side in sizes):
            shown.add(one)
    return shown


def _kept(side: Mapping[int, float], shown: set[int]) -> list[Id]:
    """Return the drawn ids of one side, followed by None if other ids exist."""
    kept: list[Id] = [*sorted(side.keys() & shown)]
    return [*kept, None] if side.keys() - shown else kept


def _untangled(found: Flow) -> Flow:
    """Sort the left side by size, and the right side by the mean place of its rows on the left."""
    before = sorted(
        range(len(found.before)),
        key=lambda i: (found.before[i] is None, -found.rows[i].sum(), i),
    )
    rows = found.rows[before]
    ends = np.cumsum(rows.sum(axis=1))
    middles = ends - rows.sum(axis=1) / 2
    means = middles @ rows / np.maximum(rows.sum(axis=0), 1)
    after = sorted(range(len(found.after)), key=lambda j: (found.after[j] is None, means[j], j))
    return Flow(
        [found.before[i] for i in before],
        [found.after[j] for j in after],
        rows[:, after],
        found.others,
    )


class Bar(NamedTuple):
    """A cluster's bar: its slot's middle, its top, and its length."""

    middle: float
    top: float
    length: float


@drawing.drawn
def alluvial(found: Flow, notes: Sequence[Mapping[int, str]], colours: Mapping[int, str]) -> Figure:
    """Draw the moves of at least one row.

    `notes` are texts by id for each side, and `colours` are this run's colours by cluster id.
    """
    ids, shares = (found.before, found.after), found.rows / found.rows.sum()
    sides = shares.sum(axis=1), shares.sum(axis=0)
    height = min(6.6, max(1.8, 0.34 * max(map(len, ids)) + 0.9))
    texts = [_texts(*side) for side in zip(ids, sides, found.others, notes, strict=True)]
    longest = 0.56 * max(len(text) for side in texts for text in side)  # digits, in font sizes
    size = max(7.0, min(FLOWS.font, 72 * 1.75 / longest))
    room = size * longest / 72 + 0.08
    figure = Figure(figsize=(drawing.FIGURE_WIDTH, height + FLOWS.head))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, drawing.FIGURE_WIDTH), ylim=(height + FLOWS.foot, FLOWS.foot - FLOWS.head))
    axes.set_axis_off()
    rooms = [height - 0.05 * (len(side) - 1) for side in sides]
    unit = min(map(lambda side, rest: unit_length(side, 0.0, rest, FLOWS.narrowest), sides, rooms))
    bars = [_bars(side, unit, height) for side in sides]
    ends = room + FLOWS.bar, drawing.FIGURE_WIDTH - room - FLOWS.bar
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
    largest = (widths == widths.max(axis=1)[:, None]) | (widths == widths.max(axis=0))
    # Invisible bands are left out, except the widest one of each bar.
    for i, j in np.argwhere((widths > 0.002) | (largest & (widths > 0))):
        band = _band(ends, starts[i, j], stops[i, j], max(widths[i, j], 0.007))
        colour = _colour(found.after[j], colours)
        axes.add_patch(PathPatch(band, facecolor=colour, alpha=0.45, linewidth=0))


def _band(ends: tuple[float, float], start: float, stop: float, wide: float) -> Path:
    left, right = ends
    middle = (left + right) / 2
    points = [
        (left, start), (middle, start), (middle, stop), (right, stop),
        (right, stop + wide), (middle, stop + wide), (middle, start + wide), (left, start + wide),
        (left, start),
    ]  # fmt: skip
    curve = [Path.CURVE4] * 3
    return Path(points, [Path.MOVETO, *curve, Path.LINETO, *curve, Path.CLOSEPOLY])
