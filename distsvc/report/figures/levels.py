"""The figure of a level tree as hills of density. Lengths are inches.

Each branch of the tree is drawn as a hill. At each level, a hill's width is its share of the rows.
A hill stands to the right of its parent, the hill with which it merges. Below the valley between
them, both are one area. So each hill has a horizontal range for itself, and texts don't overlap.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from distsvc.report.content.model_parts import Branch, LevelTreePart
from distsvc.report.figures import drawing
from distsvc.report.figures.drawing import GREY, INK, JOINED, PHONE_WIDTH, WEAK
from distsvc.report.figures.mpl import Axes, Figure, Patch
from distsvc.report.formats import one_line

Array = NDArray[np.float64]


MAX_CLUSTERS, MAX_WEAK = 36, 6
"""Maximum number of clusters in the figure, and of branches that are too weak to be clusters."""

AXIS_WIDTH, MARGIN, HEIGHT, HEAD, GROUND, LEGEND = 0.9, 0.06, 3.1, 0.22, 0.36, 0.56
"""Sizes of the figure's parts.

`AXIS_WIDTH` and `MARGIN` are the widths of the vertical axis and of a margin. `HEIGHT` is the
height of the axis. `HEAD` and `GROUND` are the room for numbers above and below it. `LEGEND` is the
height of the legend.
"""

GAP, NARROWEST, ROOMY = 0.04, 0.16, 0.36
"""Distance between neighbouring hills, and minimum widths of a hill.

The minimum is `ROOMY`, or as low as `NARROWEST` if there are too many hills for the figure.
"""

DIGIT = 0.66
"""Width of a digit in units of the font size."""


class Slot(NamedTuple):
    """The horizontal range of a hill in the figure, and the slots of its children."""

    hill: Branch
    children: tuple["Slot", ...]  # of hills that merge with it, the highest valley first
    levels: Array  # falling, as shares of the tree's highest level
    own: Array  # share of `width` at each level; rows in drawn children don't count
    left: float
    width: float
    end: float  # right end of the hill and its children

    def each(self) -> Iterator["Slot"]:
        """Yield this slot and its descendants, from left to right."""
        yield self
        for child in self.children:
            yield from child.each()

    def edges(self, level: float, merged: int) -> tuple[float, float]:
        """Return the left and right end of the hill's outline at a level.

        `merged` is the number of children that have merged with the hill above this level.
        """
        half = self.width / 2 * float(np.interp(level, self.levels[::-1], self.own[::-1]))
        middle = self.left + self.width / 2
        return middle - half, self.children[merged - 1].end if merged else middle + half


@drawing.drawn
def level_tree(tree: LevelTreePart, colours: Mapping[int, str]) -> Figure:
    """Draw the tree of level sets as hills that merge at their valleys."""
    shown = drawn_hills(tree.branches)
    wide, high = _width(shown), HEAD + HEIGHT + GROUND + LEGEND
    room = wide - AXIS_WIDTH - 2 * MARGIN
    figure = Figure(figsize=(wide, high))
    left, bottom = AXIS_WIDTH / wide, LEGEND / high
    axes = figure.add_axes((left, bottom, (room + MARGIN) / wide, 1 - bottom))
    scale = Scale(shown)
    joins = _joins(tree.branches)
    slots = list(_layout(shown, room).each())
    inks: dict[int, str] = {}
    for slot in slots:
        label = slot.hill.label
        shade = GREY if label is None else colours.get(label, GREY)
        shade = shade if slot.hill.is_cluster else WEAK
        _draw_hill(axes, slot, shade, joins[slot.hill.id], scale)
        inks |= {
            child.hill.id: INK if child.hill.death <= joins[slot.hill.id] else drawing.ink_on(shade)
            for child in slot.children
        }
    _draw_valleys(axes, slots, inks, scale)
    _write_labels(axes, slots, scale)
    _frame(axes, room, scale)
    legend = []
    if max(joins.values()) >= 0:
        legend.append(Patch(color=JOINED, label="clusters run together"))
    if any(not hill.is_cluster for hill in shown):
        legend.append(Patch(color=WEAK, label="too weak for a cluster"))
    if legend:
        figure.legend(
            handles=legend, loc="lower center", ncols=2, fontsize=9, borderaxespad=0.1,
            columnspacing=1.2, handlelength=1.4,
        )  # fmt: skip
    return figure


def drawn_hills(found: Sequence[Branch]) -> list[Branch]:
    """Return the branches to draw: the largest clusters with their ancestors, and some others.

    The others have the highest z among branches whose parent is drawn.
    """
    by_id = {hill.id: hill for hill in found}
    chosen = {hill.id for hill in found[:1]}
    clusters = sorted((hill for hill in found if hill.is_cluster), key=lambda hill: -hill.mass)
    for hill in clusters[:MAX_CLUSTERS]:
        on_the_way, way = hill, set()
        while on_the_way.parent is not None and on_the_way.id not in chosen:
            way.add(on_the_way.id)
            on_the_way = by_id[on_the_way.parent]
        # At most 200 hills are drawn: some clusters stand on long chains of other hills.
        chosen |= way if len(chosen) + len(way) <= 200 else set()
    weak = [hill for hill in found if not hill.is_cluster]
    room = min(MAX_WEAK, 40 - len(chosen))
    for hill in sorted(weak, key=lambda hill: (-(hill.z or 0.0), -hill.mass)):
        if room > 0 and hill.id not in chosen and hill.parent in chosen:
            chosen.add(hill.id)
            room -= 1
    return [hill for hill in found if hill.id in chosen]


class Scale:
    """Vertical axis of the figure: logarithmic, but nearly linear at low levels.

    `fine` is the level below which the axis is nearly linear.
    """

    def __init__(self, shown: Sequence[Branch]) -> None:
        lowest_top = min(hill.birth for hill in shown if hill.is_cluster)
        lowest_valley = min((hill.death for hill in shown[1:]), default=0.0)
        self.fine = max(lowest_top / 8, 2 * lowest_valley, 1e-12)

    def __call__(self, level: ArrayLike) -> Array:
        """Return the vertical position in the drawing of a level, or of an array of levels."""
        return HEIGHT * np.log1p(np.asarray(level) / self.fine) / np.log1p(1 / self.fine)

    def ticks(self) -> dict[float, str]:
        """Return the text of each tick on the axis, such as "1/10", by the tick's height."""
        named = {1.0: "highest", 0.0: "none"}
        named |= {10.0**-k: f"1/{10**k:,}" for k in (1, 2, 3, 4)}
        named |= {10.0**-k: f"1/{10 ** (k - 6):,} M" for k in (6, 8, 10, 12)}
        named |= {0.5: "half", 0.2: "1/5"}
        taken: dict[float, str] = {}
        for level, name in named.items():
            height = float(self(level))
            if all(abs(height - other) > 0.2 for other in taken):
                taken[height] = name
        return taken


def _outline(hill: Branch) -> tuple[Array, Array]:
    """Return levels from a hill's peak down to its valley, and the share of rows above each."""
    inside = [point for point in hill.profile if hill.death < point[0] < hill.birth]
    first = inside[0][1] if inside else hill.mass
    if hill.profile and hill.profile[0][0] >= hill.birth:
        first = min(first, hill.profile[0][1])
    levels, shares = np.array([[hill.birth, first], *inside, [hill.death, hill.mass]]).T
    return levels, np.maximum.accumulate(np.minimum(shares, hill.mass))


def _joins(found: Sequence[Branch]) -> dict[int, float]:
    """Return the highest level at which a cluster merges with each hill, by hill id; -1 if none."""
    by_id = {hill.id: hill for hill in found}
    joins = dict.fromkeys(by_id, -1.0)
    for hill in found:
        here = hill
        while hill.is_cluster and here.parent is not None:
            joins[here.parent] = max(joins[here.parent], here.death)
            here = by_id[here.parent]
    return joins


def _label(hill: Branch) -> str:
    return "" if hill.label is None else one_line(hill.label, 6)


def _narrowest(shown: Sequence[Branch]) -> float:
    longest = max(len(_label(hill)) for hill in shown)
    return max(NARROWEST, (7 * DIGIT * longest + 2) / 72)


def _width(shown: Sequence[Branch]) -> float:
    beside, n_hills = AXIS_WIDTH + 2 * MARGIN, len(shown)
    # A screen shows 7.4 inches without scrolling.
    comfortable = min(7.4, max(PHONE_WIDTH, beside + (ROOMY + GAP) * n_hills))
    return max(comfortable, beside + 1.08 * (_narrowest(shown) + GAP) * n_hills)


def _layout(shown: Sequence[Branch], room: float) -> Slot:
    """Return the slot of the tree's root, with the slots of all other hills below it.

    The width of a slot is proportional to the hill's share of rows, but not below a minimum.
    """
    below: dict[int, list[Branch]] = {hill.id: [] for hill in shown}
    for hill in shown:
        if hill.parent is not None:
            below[hill.parent].append(hill)
    for children in below.values():
        children.sort(key=lambda hill: -hill.death)
    levels, own = {}, {}
    for hill in shown:
        levels[hill.id], shares = _outline(hill)
        alone = shares - sum(
            np.where(levels[hill.id] <= child.death, child.mass, 0) for child in below[hill.id]
        )
        own[hill.id] = np.maximum.accumulate(np.maximum(alone, 0))
    narrowest = max(_narrowest(shown), min(ROOMY, 0.6 * room / len(shown) - GAP))
    bottoms = sorted(float(values[-1]) for values in own.values())
    unit = _unit_length(bottoms, room - GAP * (len(shown) - 1), narrowest)

    def place(hill: Branch, left: float) -> Slot:
        most = float(own[hill.id][-1])
        width, children = max(narrowest, unit * most), list[Slot]()
        end = left + width
        for child in below[hill.id]:
            children.append(place(child, end + GAP))
            end = children[-1].end
        part = own[hill.id] / most if most > 0 else np.ones_like(own[hill.id])
        return Slot(hill, tuple(children), levels[hill.id], part, left, width, end)

    return place(shown[0], 0.0)


def _unit_length(shares: Sequence[float], room: float, narrowest: float) -> float:
    """Return the width of a hill that would have all rows.

    Hills with the ascending `shares` then fill `room`, where each is at least `narrowest` wide.
    """
    for n_narrow in range(len(shares) + 1):
        rest = sum(shares[n_narrow:])
        unit = max(0.0, room - n_narrow * narrowest) / rest if rest > 0 else 0.0
        if n_narrow == len(shares) or unit * shares[n_narrow] >= narrowest:
            break
    return unit


def _draw_hill(axes: Axes, slot: Slot, shade: str, joined: float, scale: Scale) -> None:
    """Fill the area of a hill: in `shade`, or in `JOINED` below the level where clusters merge."""
    hill, merged, high = slot.hill, 0, slot.hill.birth
    outlines: dict[str, list[tuple[float, float, float]]] = {shade: [], JOINED: []}
    ends = [(child.hill.death, 1) for child in slot.children]
    ends += [(joined, 0)] if joined > hill.death else []
    for low, joins in [*sorted(ends, reverse=True), (hill.death, 0)]:
        within = slot.levels[(slot.levels < high) & (slot.levels > low)]
        outlines[JOINED if high <= joined else shade] += [
            (float(scale(level)), *slot.edges(level, merged)) for level in (high, *within, low)
        ]
        high, merged = low, merged + joins
    if hill.parent is None:
        outlines[JOINED if joined >= 0 else shade].append((-GROUND, *slot.edges(0.0, merged)))
    for colour, outline in outlines.items():
        axes.fill_betweenx(*np.reshape(outline, (-1, 3)).T, color=colour, linewidth=0.4)


def _draw_valleys(axes: Axes, slots: Sequence[Slot], inks: Mapping[int, str], scale: Scale) -> None:
    """Draw a line where a hill merges with its parent, and write the hill's z below the line."""
    valleys = [
        (slot.edges(child.hill.death, merged)[1], child)
        for slot in slots
        for merged, child in enumerate(slot.children)
    ]
    texts = {
        child.hill.id: z_text(child.hill.z) for _, child in valleys if child.hill.z is not None
    }
    room = 72 * min([child.width for _, child in valleys if child.hill.id in texts], default=0)
    longest = DIGIT * max((len(z) - 0.4 * z.count(".") for z in texts.values()), default=0)
    prefix = "z = " if 9 * (longest + 4 * DIGIT) < room else ""
    size, turn = (9, 0) if 9 * longest < room else (8, 0) if 8 * longest < room else (7.5, 90)
    for start, child in valleys:
        height, ink = float(scale(child.hill.death)), inks[child.hill.id]
        thick = 1.3 if child.hill.is_cluster else 0.8
        end = child.left + child.width
        axes.plot(
            [start, end], [height] * 2, color=ink, linewidth=thick, solid_capstyle="butt", zorder=3
        )
        if child.hill.id in texts:
            axes.annotate(
                prefix + texts[child.hill.id], (child.left + child.width / 2, height),
                xytext=(0, -3), textcoords="offset points", ha="center", va="top", color=ink,
                fontsize=size, rotation=turn, zorder=4,
            )  # fmt: skip


def _write_labels(axes: Axes, slots: Sequence[Slot], scale: Scale) -> None:
    narrowest = 72 * min(slot.width for slot in slots)
    longest = max(len(_label(slot.hill)) for slot in slots)
    size = min(10.5, narrowest / DIGIT / max(1, longest))
    for slot in slots:
        if slot.hill.is_cluster:
            axes.annotate(
                _label(slot.hill), (slot.left + slot.width / 2, float(scale(slot.hill.birth))),
                xytext=(0, 2.5), textcoords="offset points", ha="center", va="bottom",
                fontsize=size, fontweight="bold",
            )  # fmt: skip


def z_text(z: float) -> str:
    """Format a z in at most five characters."""
    if abs(z) >= 999.5:
        return ">999" if z > 0 else "<−999"
    return f"{z:.1f}".replace("-", "−") if abs(z) < 99.95 else f"{z:.0f}".replace("-", "−")


def _frame(axes: Axes, room: float, scale: Scale) -> None:
    axes.set(xlim=(-MARGIN, room), ylim=(-GROUND, HEIGHT + HEAD), xticks=[])
    ticks = scale.ticks()
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.tick_params(axis="y", labelsize=9)
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_bounds(0, HEIGHT)
    axes.set_ylabel("density, relative to the highest", fontsize=9.5)
    axes.yaxis.set_label_coords(-0.7 / room, (GROUND + HEIGHT / 2) / (GROUND + HEIGHT + HEAD))
    axes.set_xlabel("width: share of the rows", fontsize=9.5, labelpad=3)
