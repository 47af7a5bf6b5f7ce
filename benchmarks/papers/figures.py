"""Figures of the evaluation's page; each function takes plain numbers and returns one SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from distsvc.report.figures.drawing import COLOURS, GREY, INK, drawn
from distsvc.report.formats import compact

MARKERS = "os^Dv<>P*Xhd"
LOWEST = 1e-9
WIDE = 9.6
"""Inches; the page is wide, too."""

Mark = tuple[float, float, float]
"""x, mean, standard deviation."""

Curves = Mapping[str, Sequence[Mark]]
"""The marks of each system, x ascending."""


class Panel(NamedTuple):
    """One panel of `sensitivity`."""

    curves: Curves
    """One deviation to each side is shaded."""
    levels: Mapping[str, float]
    """Lines across, by name."""


class Trace(NamedTuple):
    """How one solver came near the optimum of one problem, step by step."""

    set: str
    problem: str
    solver: str
    cost: list[float]
    """Operations, in units of the rows."""
    seconds: list[float]
    distance: list[float]
    """To the optimum, relative to it."""


@drawn
def regret(panels: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Draw box plots of the normalised regret, one panel for each index.

    Parameters
    ----------
    panels
        Index -> system -> regrets over the data sets, 0 for the best system of a set and 1 for the
        worst.

    """
    figure = Figure((WIDE, 3.9), layout="constrained")
    for axes, (title, by_system) in zip(
        figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels.items(), strict=True
    ):
        order = sorted(by_system, key=lambda name: float(np.mean(by_system[name])))
        places = np.arange(len(order))
        axes.boxplot(
            [list(by_system[name]) for name in order],
            positions=places,
            orientation="vertical",
            widths=0.55,
            medianprops={"color": INK, "lw": 1.6},
            boxprops={"color": GREY},
            whiskerprops={"color": GREY},
            capprops={"color": GREY},
            flierprops={"marker": ".", "ms": 5, "mec": GREY},
        )
        means = [float(np.mean(by_system[name])) for name in order]
        axes.plot(places, means, "D", color=COLOURS[1], ms=5, label="mean")
        axes.set_xticks(places, order, rotation=32, ha="right", rotation_mode="anchor")
        axes.set_title(title, fontsize=11)
        axes.grid(True, axis="y")
    figure.axes[0].set_ylabel("normalised regret")
    figure.legend(figure.axes[0].lines[-1:], ["mean"], loc="outside upper right", fontsize=9)
    return figure


def _label_powers(*axes: Axis, between: bool = True) -> None:
    """Label the powers of ten of logarithmic axes, and a place between them, as plain numbers."""
    for axis in axes:
        axis.set_major_locator(LogLocator(subs=(1.0, 3.0) if between else (1.0,), numticks=7))
        axis.set_major_formatter(FuncFormatter(lambda x, _: compact(x) if x >= 1000 else f"{x:g}"))
        axis.set_minor_formatter(NullFormatter())


@drawn
def running_times(curves: Curves, x: str, y: str) -> Figure:
    """Draw one value against another on two logarithmic axes, a marker for each set.

    Parameters
    ----------
    curves
        System -> (x, mean, deviation) of every set; the deviation is not drawn.
    x, y
        What the axes show.

    """
    figure = Figure((WIDE, 4.6), layout="constrained")
    axes = figure.subplots()
    for number, (name, points) in enumerate(curves.items()):
        across, up = [p[0] for p in points], [p[1] for p in points]
        marker = MARKERS[number % len(MARKERS)]
        axes.plot(across, up, marker, ms=5, alpha=0.75, label=name, color=COLOURS[number])
        if len(points) > 2:
            fit = np.polyfit(np.log(across), np.log(up), 1)
            ends = np.array([min(across), max(across)])
            axes.plot(ends, np.exp(np.polyval(fit, np.log(ends))), color=COLOURS[number], lw=1.2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _label_powers(axes.xaxis, axes.yaxis)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(True)
    figure.legend(loc="outside right center", fontsize=9.5)
    return figure


@drawn
def sensitivity(panels: Mapping[str, Panel], x: str, y: str, whole: bool = False) -> Figure:
    """Draw a value against a parameter, one panel for each set.

    Parameters
    ----------
    panels
        By the name of the set.
    x, y
        The parameter, and what is measured.
    whole
        The parameter takes whole numbers.

    """
    figure = Figure((WIDE, 3.1), layout="constrained")
    row = figure.subplots(1, len(panels), squeeze=False)[0]
    names: dict[str, Line2D] = {}
    for axes, (title, panel) in zip(row, panels.items(), strict=True):
        _panel(axes, panel, names)
        axes.set_title(title, fontsize=11)
        axes.set_xlabel(x)
        axes.grid(True)
        axes.set_ylim(0.0, None)
        if whole:
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    row[0].set_ylabel(y)
    _name_systems(figure, names)
    return figure


def _panel(axes: Axes, panel: Panel, names: dict[str, Line2D]) -> None:
    for number, (name, points) in enumerate(panel.curves.items()):
        at, mean, deviation = (np.array(column) for column in zip(*points, strict=True))
        (line,) = axes.plot(at, mean, color=COLOURS[number], marker=MARKERS[number], ms=4, lw=1.6)
        axes.fill_between(at, mean - deviation, mean + deviation, color=COLOURS[number], alpha=0.15)
        names.setdefault(name, line)
    dashes = ("--", ":", "-.", (0, (5, 1)), (0, (1, 1)))
    for number, (name, level) in enumerate(panel.levels.items()):
        dash = dashes[number % len(dashes)]
        line = axes.axhline(level, color=COLOURS[number + 2], ls=dash, lw=1.4)
        names.setdefault(name, line)


@drawn
def growth(panels: Mapping[str, Curves], logarithmic: Sequence[str]) -> Figure:
    """Draw quality, seconds and memory against the number of rows, side by side.

    Parameters
    ----------
    panels
        What is measured -> system -> points.
    logarithmic
        Those of the panels whose axis upwards is logarithmic.

    """
    figure = Figure((WIDE, 3.5), layout="constrained")
    row = figure.subplots(1, len(panels), squeeze=False)[0]
    systems = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    names: dict[str, Line2D] = {}
    for axes, (title, curves) in zip(row, panels.items(), strict=True):
        for name, points in curves.items():
            number = systems.index(name)
            across, up = [p[0] for p in points], [p[1] for p in points]
            marker = f"{MARKERS[number]}-"
            (line,) = axes.plot(across, up, marker, color=COLOURS[number], ms=5, lw=1.5)
            names.setdefault(name, line)
        axes.set_xscale("log")
        _label_powers(axes.xaxis, between=False)
        if title in logarithmic:
            axes.set_yscale("log")
            _label_powers(axes.yaxis)
        else:
            axes.set_ylim(0.0, 1.03)
        axes.set_title(title, fontsize=11)
        axes.set_xlabel("rows")
        axes.grid(True)
    _name_systems(figure, names)
    return figure


@drawn
def clusters(panels: Mapping[tuple[str, str], tuple[np.ndarray, np.ndarray]]) -> Figure:
    """Draw the clusters of tables in the plane, a row for each table and a column for each system.

    Parameters
    ----------
    panels
        (table, system) -> rows (n, 2) and labels (n,). Small clusters may share a colour.

    """
    tables = list(dict.fromkeys(table for table, _ in panels))
    systems = list(dict.fromkeys(system for _, system in panels))
    figure = Figure((WIDE, 2.4 * len(tables)), layout="constrained")
    grid = figure.subplots(len(tables), len(systems), squeeze=False)
    for row, table in zip(grid, tables, strict=True):
        for axes, system in zip(row, systems, strict=True):
            axes.set_axis_off()
            if (table, system) not in panels:
                continue
            X, labels = panels[table, system]
            colours = [COLOURS[label % len(COLOURS)] for label in labels.tolist()]
            axes.scatter(X[:, 0], X[:, 1], s=2.0, c=colours, rasterized=True)
            n = len(np.unique(labels))
            axes.set_title(f"{table}, {system}: {n} cluster{'s' * (n != 1)}", fontsize=8.5)
            axes.set_aspect("equal")
    return figure


def _name_systems(figure: Figure, names: Mapping[str, Line2D]) -> None:
    figure.legend(
        list(names.values()), list(names), loc="outside upper center", ncols=7, fontsize=9.5
    )


@drawn
def convergence(traces: Sequence[Trace], x: str, title: str) -> Figure:
    """Draw relative distances to the optimum against `x`, as Figure 2 of Chou, Lin and Lin (2020).

    Parameters
    ----------
    traces
        Of every set, problem and solver.
    x
        What is drawn to the right: "cost" or "seconds".
    title
        What that is, in words.

    """
    sets = list(dict.fromkeys(trace.set for trace in traces))
    problems = list(dict.fromkeys(trace.problem for trace in traces))
    solvers = list(dict.fromkeys(trace.solver for trace in traces))
    size = (max(WIDE, 2.2 * len(sets)), 2.7 * len(problems) + 0.6)
    figure = Figure(size, layout="constrained")
    panels = figure.subplots(len(problems), len(sets), squeeze=False)
    for row, problem in zip(panels, problems, strict=True):
        for panel, name in zip(row, sets, strict=True):
            shown = [t for t in traces if t.set == name and t.problem == problem]
            _converging(panel, shown, solvers, x, labelled=panel is panels[0][0])
            panel.set_title(f"{name}\n{problem}", fontsize=9)
    figure.supxlabel(title, fontsize=10)
    figure.supylabel("relative distance to the optimum", fontsize=10)
    figure.legend(loc="outside upper center", ncols=len(solvers), fontsize=9.5)
    return figure


def _converging(
    panel: Axes,
    shown: Sequence[Trace],
    solvers: Sequence[str],
    x: str,
    labelled: bool,
) -> None:
    panel.set_yscale("log")
    _label_powers(panel.yaxis, between=False)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    panel.xaxis.set_major_locator(MaxNLocator(3))
    panel.grid(True)
    for trace in shown:
        heights = [max(value, LOWEST) for value in trace.distance]
        label = trace.solver if labelled else None
        colour = COLOURS[solvers.index(trace.solver)]
        panel.plot(getattr(trace, x), heights, color=colour, lw=1.6, label=label)
    slow = [max(getattr(t, x), default=0.0) for t in shown if t.solver != "greedy-2cd"]
    panel.set_xlim(0.0, 1.05 * max(slow, default=1.0) or 1.0)
    panel.set_ylim(LOWEST, None)
