"""Curves of convergence, one panel for each set and problem, as in Figure 2 of paper 002."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from distsvc.report.figures import COLOURS, STYLE

LOWEST = 1e-9


def draw_convergence(
    traces: Sequence[Mapping[str, Any]], path: str | Path, x: str, title: str
) -> None:
    """Draw relative distances to the optimum against `x`, and write a picture.

    Parameters
    ----------
    traces
        Each has ``set``, ``problem``, ``solver``, ``distance`` and a list under the name `x`.
    path
        The picture; its ending is the format.
    x
        The key of what is drawn to the right.
    title
        What that is, in words.

    """
    sets = list(dict.fromkeys(trace["set"] for trace in traces))
    problems = list(dict.fromkeys(trace["problem"] for trace in traces))
    solvers = list(dict.fromkeys(trace["solver"] for trace in traces))
    style = STYLE | {"font.size": 9, "text.parse_math": True}
    with mpl.rc_context(style):
        figure = Figure((3.1 * len(sets), 2.7 * len(problems) + 0.6), layout="constrained")
        panels = figure.subplots(len(problems), len(sets), squeeze=False)
        for row, problem in zip(panels, problems, strict=True):
            for panel, name in zip(row, sets, strict=True):
                panel.set_title(f"{name}, {problem}", fontsize=9.5)
                panel.set_yscale("log")
                panel.grid(True)
                shown = [t for t in traces if t["set"] == name and t["problem"] == problem]
                for trace in shown:
                    number = solvers.index(trace["solver"])
                    heights = [max(value, LOWEST) for value in trace["distance"]]
                    label = trace["solver"] if panel is panels[0][0] else None
                    panel.plot(trace[x], heights, color=COLOURS[number], lw=1.6, label=label)
                slow = [max(t[x], default=0.0) for t in shown if t["solver"] != "greedy-2cd"]
                panel.set_xlim(0.0, 1.05 * max(slow, default=1.0) or 1.0)
                panel.set_ylim(LOWEST, None)
        figure.supxlabel(title, fontsize=10)
        figure.supylabel("relative distance to the optimum", fontsize=10)
        figure.legend(loc="outside upper center", ncols=len(solvers))
        figure.savefig(path, dpi=110)
