"""Colours and style of all figures of the report, and their conversion to SVG strings.

The same input gives the same bytes. Text is stored as text, not as paths, so that the page's font
applies and a reader can search it. Mathematical markup is not parsed.
"""

import functools
import inspect
import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from distsvc.errors.extras import check_extra
from distsvc.report.content.report import ClusterRow
from distsvc.report.figures.mpl import (
    HAS_MATPLOTLIB,
    Axes,
    Axis,
    Figure,
    FigureCanvasSVG,
    FuncFormatter,
    MaxNLocator,
    Path,
    PathPatch,
    mpl,
)
from distsvc.report.formats import compact

Arguments = ParamSpec("Arguments")

# These colours differ under normal, deuteranopic and protanopic vision. They also differ from the
# outliers' grey and the region's orange. Beyond twenty clusters the colours repeat.
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#332288", "#56b4e9", "#882255", "#999933",
    "#e1c300", "#6969ff", "#780000", "#78c378", "#0000ff", "#d20f4b", "#6996ff", "#1e00b4",
    "#f0a5b4", "#780f69", "#a52d00", "#2d5ac3",
)  # fmt: skip
# Just light enough to stand out on a dark page, and dark enough for white text.
DARK_COLOURS = (
    "#0076b9", "#d55e00", "#009e73", "#cc79a7", "#8156c9", "#56b4e9", "#cb337f", "#999933",
    "#e1c300", "#6969ff", "#e50000", "#78c378", "#3f6bff", "#df104f", "#6996ff", "#9147f5",
    "#f0a5b4", "#cb19b1", "#d13900", "#406cd3",
)  # fmt: skip
INK, SOFT, GREY, AXIS, GRID_LINE = "#1f2933", "#52606d", "#7a7f87", "#9aa3ad", "#e6e9ed"
CARD, PAPER, WEAK, JOINED = "#fefefe", "#eef1f4", "#a9afb7", "#e3e7ec"
REGION, EDGE, BOUNDARY_INK = "#ffe3bf", "#e08a1e", "#8a4b00"
THEME = {
    INK: ("ink", "#e6e9ed"),
    SOFT: ("soft", "#a3aebb"),
    GREY: ("grey", "#969ca5"),
    AXIS: ("axis", "#6b7683"),
    GRID_LINE: ("grid", "#343c46"),
    CARD: ("card", "#1d2228"),
    PAPER: ("paper", "#2a323b"),
    WEAK: ("weak", "#8b949e"),
    JOINED: ("joined", "#3a434e"),
    REGION: ("region", "#4a3a22"),
    EDGE: ("edge", "#f0a53a"),
    BOUNDARY_INK: ("boundary", "#f5c07a"),
} | {
    light: (f"c{k}", dark)
    for k, (light, dark) in enumerate(zip(COLOURS, DARK_COLOURS, strict=True))
}
"""CSS variable for each colour, such as "ink", and the variable's value in the dark theme."""
MAX_NAMED_CLUSTERS = 12
"""Maximum number of clusters that a figure distinguishes.

Further clusters are grey, or share one box, or are omitted.
"""

TICK_STEPS = [1, 2, 2.5, 5, 10]  # between ticks
FIGURE_WIDTH = 5.6  # inches; small, so that the text stays legible on a phone
PHONE_WIDTH = 4.05  # inches that a phone shows without scrolling
NOT_DRAWN = (
    "<p>This figure is not drawn: it needs matplotlib, which comes with distsvc[report].</p>"
)
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": AXIS,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.size": 10.5,
    "grid.color": GRID_LINE,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


def cluster_colours(clusters: Sequence[ClusterRow]) -> dict[int, str]:
    """Return the colour of each cluster, by label.

    A label has the same colour every night. If two clusters would get the same colour, colours
    follow the order of the clusters instead.
    """
    places = [row.label % len(COLOURS) for row in clusters]
    if len(set(places)) < len(places):
        places = [rank % len(COLOURS) for rank in range(len(clusters))]
    return {row.label: COLOURS[place] for row, place in zip(clusters, places, strict=True)}


def ink_on(colour: str) -> str:
    """Return white or ink, whichever is easier to read on a colour."""
    if colour == CARD:
        return INK
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    luminance = float(parts**2.2 @ (0.2126, 0.7152, 0.0722))
    return "white" if luminance < 0.25 else "#1f2934"  # on a dark page too


def drawn(draw: Callable[Arguments, Figure]) -> Callable[Arguments, str]:
    """Decorate a function that draws a figure, so that it returns SVG in the report's style.

    Without matplotlib, the decorated function returns the text `NOT_DRAWN`.
    """

    @functools.wraps(draw)
    def figure_as_svg(*args: Arguments.args, **kwargs: Arguments.kwargs) -> str:
        if not HAS_MATPLOTLIB:
            return NOT_DRAWN
        name = draw.__name__.replace("_", "-")
        with mpl.rc_context(), warnings.catch_warnings():
            mpl.rcdefaults()
            mpl.rcParams.update(STYLE | {"svg.hashsalt": name})
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            svg = io.StringIO()
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            figure = draw(*args, **kwargs)
            figure.set_dpi(200)
            FigureCanvasSVG(figure).print_svg(svg, metadata=nothing)  # `savefig` draws twice
        return _inline(svg.getvalue(), name)

    return figure_as_svg


def as_figure(
    draw: Callable[Arguments, str], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Figure:
    """Call a function decorated by `drawn`, but return a matplotlib figure instead of SVG.

    The figure has the background colour of the page.
    """
    check_extra("matplotlib", "report", "a figure")
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        figure: Figure = inspect.unwrap(draw)(*args, **kwargs)
    figure.set_facecolor(CARD)
    for patch in figure.findobj(Dots):
        patch.lengthen()
    # IPython asks an object for this method, so no backend has to be chosen by a magic command.
    figure._repr_png_ = functools.partial(_png, figure)  # type: ignore[attr-defined]
    return figure


def _png(figure: Figure) -> bytes:  # a function of the module, so that figures can be pickled
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=144, bbox_inches="tight")
    return stream.getvalue()


def variable(colour: str) -> str:
    """Return a colour as a CSS variable of the page, so that the dark theme can change it."""
    name, _ = THEME.get(colour, ("", ""))
    return f"var(--{name})" if name else colour


def themed(svg: str) -> str:
    """Return an SVG in which CSS variables of the page replace the colours (`variable`)."""
    return re.sub(r"(?<=: )#[0-9a-f]{6}\b", lambda found: variable(found.group()), svg)


def _inline(svg: str, name: str) -> str:
    """Return an SVG file as an element that can be scaled, with unique ids and few decimals."""
    svg = svg[svg.index("<svg") :]
    head, end, body = svg.partition(">")
    head = re.sub(r' (width|height)="[^"]*"', "", head)

    def own(tag: re.Match[str]) -> str:
        text = re.sub(r"(\d\.\d\d)\d+(?=[ )\"])", r"\1", tag.group())  # hundredths of a point
        text = re.sub(r"M (\S+\.\d)\d* (\S+\.\d)\d* \nL \1\d* \2\d* \n?", r"M\1 \2h0", text)
        text = re.sub(r' id="(?=[^"]*")', f' id="{name}-', text)
        return re.sub(r'href="#|url\(#', lambda m: f"{m.group()}{name}-", text)

    return head + end + re.sub(r"<[^<>]*>", own, body)


def count_axis(axis: Axis) -> None:
    """Put a few ticks on an axis, at whole numbers."""
    axis.set_major_locator(MaxNLocator(4, integer=True, steps=TICK_STEPS))
    axis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))


def mark(axes: Axes, at: float, text: str) -> None:
    """Draw a vertical line, with a text beside its top on the side with more room."""
    axes.axvline(at, color=EDGE, linewidth=1.4, zorder=1)
    right = 2 * at <= sum(axes.get_xlim())
    axes.annotate(
        text, (at, 1), xycoords=("data", "axes fraction"),
        xytext=(6 if right else -6, -2), textcoords="offset points",
        ha="left" if right else "right", va="top", color=BOUNDARY_INK, fontsize=9.5,
    )  # fmt: skip


class Dots(PathPatch):
    """Points, stored as lines of length zero.

    SVG shows each line as a dot, because the ends of lines are round.
    """

    def lengthen(self) -> None:
        """Give the lines an invisible length; formats other than SVG omit lines of length zero."""
        path = self.get_path()
        vertices = np.array(path.vertices, np.float64)
        if self.axes is not None:
            vertices[1::2] += 1e-3 * np.asarray(self.axes.viewLim.size)
        path = Path(vertices, path.codes)
        path.should_simplify = False
        self.set_path(path)


def dots(
    axes: Axes,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    colour: str,
    size: float,
) -> None:
    """Draw points as one path with round line ends, which needs far fewer bytes than markers."""
    path = Path(np.repeat(np.column_stack([x, y]), 2, axis=0), [Path.MOVETO, Path.LINETO] * len(x))
    path.should_simplify = False
    patch = Dots(
        path, fill=False, edgecolor=colour, linewidth=size, capstyle="round", alpha=0.85,
        clip_on=False, zorder=2,
    )  # fmt: skip
    patch.set_in_layout(False)
    axes.add_artist(patch)
    axes.update_datalim(np.column_stack([x, y]))  # `add_patch` takes longer: it expects curves
