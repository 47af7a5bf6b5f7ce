"""Names of matplotlib that figures use; matplotlib comes with the extra ``report``.

Without matplotlib, the names are placeholders (see `distsvc.report.figures.drawing.drawn`).
"""

from typing import TYPE_CHECKING, Any

from distsvc.errors.extras import is_installed

HAS_MATPLOTLIB = is_installed("matplotlib")

if TYPE_CHECKING or HAS_MATPLOTLIB:
    import matplotlib as mpl
    from matplotlib import dates as mdates
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, Patch, PathPatch
    from matplotlib.path import Path
    from matplotlib.ticker import FuncFormatter, MaxNLocator
    from matplotlib.transforms import Bbox, TransformedBbox
else:

    class Absent:
        """A placeholder for matplotlib's names if it is not installed."""

    def __getattr__(name: str) -> Any:
        return Absent


__all__ = [
    "HAS_MATPLOTLIB", "Artist", "Axes", "Axis", "Bbox", "Circle", "Figure", "FigureCanvasSVG",
    "FuncFormatter", "Line2D", "MaxNLocator", "Patch", "Path", "PathPatch", "TransformedBbox",
    "mdates", "mpl",
]  # fmt: skip
