"""The evaluation's page and its Markdown tables, from the Parquet files of the suites."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, pstdev

import pyarrow.parquet as pq

from benchmarks.harness.measure import stamp
from benchmarks.harness.rows import Row, only
from benchmarks.papers import figures, tables
from benchmarks.papers.linear import TARGET, summary
from benchmarks.papers.published import cited, title_of
from benchmarks.papers.report import (
    Cell,
    Drawing,
    PaperTable,
    SuiteSection,
    fixed,
    render_evaluation,
)
from benchmarks.papers.suites import BSGD_SETS, IMDH_SETS, IMDH_SYSTEMS
from benchmarks.papers.tables import PROTOCOLS
from distsvc.errors import InputNotFoundError
from distsvc.storage.places.arrays import write_content

PAPER_SYSTEMS = IMDH_SYSTEMS[:6]
Items = list[PaperTable | Drawing]


def write_report(out: Path, note: str = "") -> list[Path]:
    """Write ``report.html`` and ``<suite>.md`` beside the Parquet files of the suites in `out`.

    Parameters
    ----------
    out
        Folder of the Parquet files.
    note
        Last paragraph about each suite, none if empty.

    Raises
    ------
    InputNotFoundError
        No suite has been run there.

    """
    parts = {}
    for name, make in PARTS.items():
        path = out / f"{name}.parquet"
        if path.exists():
            parts[name] = make(pq.read_table(path).to_pylist())
            if note:
                parts[name].text.append(note)
    if not parts:
        raise InputNotFoundError(f"{out} has none of {', '.join(f'{n}.parquet' for n in PARTS)}")
    written = []
    for name, part in parts.items():
        written.append(out / f"{name}.md")
        write_content(written[-1], markdown(part))
    written.append(out / "report.html")
    write_content(written[-1], render_evaluation(parts, PROTOCOLS))
    return written


def bsgd_part(rows: Sequence[Row]) -> SuiteSection:
    """Return what the page says of the suite ``bsgd``."""
    speed = tables.speed_table(rows)
    repetitions = max(1, *(row["seed"] for row in rows))
    text = [
        f"Tables 2 to 8 of {cited('pham-2017')}, {title_of('pham-2017')}, and Table 1 of "
        f"{cited('pham-2016')}, {title_of('pham-2016')}. Repetitions: {repetitions}; "
        "systems without chance have one. Oracle: gamma and C from 2^-5, 2^-3, ... 2^5, chosen by "
        "the NMI of one fit each, with a seed that is not among the repetitions; for SGD and BSGD "
        "that is C times the number of rows. Systems 'as printed' "
        "are the paper's method alone (`SupportVectorClustering.published`). The others of BSGD "
        "are tried with its stopping rule and graph of equilibria and with ours, and have an "
        "epsilon of 0.1 that may be widened. For FSVC both radii are "
        "0.1, 0.2, ... 1.0. SVC and SGD-LMOC are searched on at most 2,000 rows of a set and FSVC "
        "on 1,000 (a quarter of that on musk); the chosen settings are then fit to all rows.",
        *tables.absent(rows, BSGD_SETS),
        *tables.failures(rows),
    ]
    items: Items = [*tables.bsgd_tables(rows), *([speed] if speed else [])]
    return _part("Support vector clustering", text, items, rows)


def imdh_part(rows: Sequence[Row]) -> SuiteSection:
    """Return what the page says of the suite ``imdh``."""
    items: Items = list(tables.imdh_tables(rows))
    panels = {
        title: tables.regrets(rows, index, systems)
        for title, index, systems in (
            ("NMI, the paper's systems", "nmi_geometric", PAPER_SYSTEMS),
            ("ARI, the paper's systems", "adjusted_rand_index", PAPER_SYSTEMS),
            ("NMI, with our defaults", "nmi_geometric", IMDH_SYSTEMS),
        )
    }
    if all(panels.values()):
        caption = "0 is the best system on a set, 1 the worst; systems by their mean."
        items.append(Drawing("Normalised regret (figure 2)", caption, figures.regret(panels)))
    times = _times(rows)
    caption = "Each mark is the mean of a set; lines are fits on the logarithmic scales."
    svg = figures.running_times(times, "rows × columns", "processor seconds")
    items.append(Drawing("Processor seconds against rows times columns (figure 3)", caption, svg))
    items += _sensitivities(rows)
    repetitions = 1 + max(row["seed"] for row in rows)
    text = [
        f"Table 2 and Figures 2 to 9 of {cited('hofmeyr-2021')}, {title_of('hofmeyr-2021')}. iMDH "
        "and iMDH_k have the published "
        f"settings, the last two ours. Orders of the rows: {repetitions}, at most 3 of the largest "
        "sets. "
        "Yale, isolet and smartphone, of which only other versions are public, are left out.",
        *tables.absent(rows, IMDH_SETS),
        *tables.failures(rows),
    ]
    return _part("Trees of hyperplanes", text, items, rows)


def linear_part(rows: Sequence[Row]) -> SuiteSection:
    """Return what the page says of the suite ``linear``."""
    traces = [figures.Trace(*(row[name] for name in figures.Trace._fields)) for row in rows]
    found = [summary(trace) for trace in traces]
    solvers = list(dict.fromkeys(one.solver for one in found))
    longest = max(row["seconds"][-1] for row in rows)
    items: Items = []
    for value, title in (
        ("cost", f"Operations, in units of the rows, until within {TARGET:g} of the optimum"),
        ("seconds", f"Processor seconds until within {TARGET:g} of the optimum"),
    ):
        lines = []
        for key in dict.fromkeys((one.set, one.problem) for one in found):
            by_solver = {f.solver: getattr(f, value) for f in found if f[:2] == key}
            lines.append((", ".join(key), _reached([by_solver.get(s) for s in solvers])))
        items.append(PaperTable(title, "Lower is better.", solvers, lines, 3))
    for x, title in (("cost", "operations / rows"), ("seconds", "processor seconds")):
        svg = figures.convergence(traces, x, title)
        items.append(Drawing(f"Convergence against {title} (figure 2)", "", svg))
    text = [
        "Figure 2 of Chou, Lin and Lin (2020), Dual Coordinate-Descent Methods for Linear "
        "One-Class SVM and SVDD: its solvers as printed (no shrinking; Algorithm 5, greedy-cyclic, "
        "with R = 0.1), and greedy-sweeps, which is ours, with shrinking. All begin at the same "
        f"start, and are stopped after {longest:.2g} s of the processor. No classes are used."
    ]
    return _part("Linear one-class models", text, items, rows)


def _reached(values: list[float | None]) -> list[Cell]:
    best = min((value for value in values if value is not None), default=None)
    return [
        Cell(text="not reached") if value is None else Cell(value, best_oracle=value == best)
        for value in values
    ]


def peers_part(rows: Sequence[Row]) -> SuiteSection:
    """Return what the page says of the suite ``peers``."""
    items: Items = [tables.growth_table(rows)]
    measured = {
        "NMI": "normalized_mutual_information",
        "seconds": "total_seconds",
        "memory, MB": "peak_mb",
    }
    for name in dict.fromkeys(row["set"] for row in rows):
        here = [row for row in rows if row["set"] == name and not row["note"]]
        panels = {title: _curves(here, "rows", value) for title, value in measured.items()}
        svg = figures.growth(panels, ("seconds", "memory, MB"))
        caption = "Means of the seeds. Memory is the peak of the process."
        items.append(Drawing(f"{name}: as the rows grow", caption, svg))
    text = [
        "Ours, k-means, mini-batch k-means and BIRCH (told the number of classes), HDBSCAN and "
        "fast_hdbscan (smallest cluster 5; noise is one cluster) on tables that are made up: "
        "twelve Gaussians in 8 columns, and a Gaussian within two rings in 2. Each fit is a "
        "process of its own and is ended after some time. Seconds are of the processor."
    ]
    return _part("Peers", text, items, rows)


PARTS = {"bsgd": bsgd_part, "imdh": imdh_part, "linear": linear_part, "peers": peers_part}


def _part(title: str, text: list[str], items: Items, rows: Sequence[Row]) -> SuiteSection:
    about = dict.fromkeys(
        f"{row['cpu']}, {row['cores']} cores, {row['versions']}, {row['day']}" for row in rows
    )
    measured = f"Measured {_measured(rows)}."
    stamped: Items = []
    for item in items:
        caption = f"{item.caption} {measured}".strip()
        drawn = isinstance(item, Drawing)
        stamped.append(item._replace(caption=caption) if drawn else replace(item, caption=caption))
    return SuiteSection(title, text, stamped, "; ".join(about))


def _measured(rows: Sequence[Row]) -> str:
    """Return the days of rows, and the versions with their commits."""
    return ", ".join(dict.fromkeys(map(stamp, rows)))


def _curves(rows: Sequence[Row], x: str, value: str) -> dict[str, list[figures.Mark]]:
    """Return by system the mean and the deviation of a column at every x, another column."""
    found: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row[value] is not None:
            found[row["system"]][row[x]].append(row[value])
    return {
        key: [(at, mean(v), pstdev(v)) for at, v in sorted(points.items())]
        for key, points in found.items()
    }


def _times(rows: Sequence[Row]) -> dict[str, list[figures.Mark]]:
    sized = [
        row | {"size": row["rows"] * row["d"]}
        for row in tables.of_experiments(rows, ("table 2",))
        if row["system"] in PAPER_SYSTEMS
    ]
    return _curves(sized, "size", "total_seconds")


FIGURES = (("depth", "depth"), ("bandwidth", "factor of the bandwidth"), ("alpha", "alpha"))
"""The parameters of Figures 4 to 9, and what their axes say."""


def _sensitivities(rows: Sequence[Row]) -> list[Drawing]:
    """Return Figures 4 to 9: NMI and the number of clusters against three parameters."""
    others = [
        row
        for row in tables.of_experiments(rows, ("table 2",))
        if row["system"] in PAPER_SYSTEMS[2:]
    ]
    drawings = []
    for number, (parameter, x) in enumerate(FIGURES):
        here = [
            row | {"x": json.loads(row["point"])[parameter]}
            for row in tables.of_experiments(rows, (parameter,))
        ]
        for value, title, place in (("nmi_geometric", "NMI", 4), ("n_clusters", "Clusters", 5)):
            panels = {
                name: _panel(only(here, set=name), only(others, set=name), value)
                for name in dict.fromkeys(row["set"] for row in here)
            }
            if panels:
                caption = "Means and one standard deviation to each side; other systems across."
                svg = figures.sensitivity(panels, x, title, whole=parameter == "depth")
                about = f"{title} against {x} (figure {place + 2 * number})"
                drawings.append(Drawing(about, caption, svg))
    return drawings


def _panel(mine: list[Row], others: list[Row], value: str) -> figures.Panel:
    """Return a panel of one set: NMI beside that of other systems, or iMDH's clusters."""
    if value == "n_clusters":
        levels = {"classes": float(mine[0]["classes"])}
        return figures.Panel(_curves(only(mine, system="iMDH"), "x", value), levels)
    levels = {
        system: mean(row[value] for row in only(others, system=system))
        for system in dict.fromkeys(row["system"] for row in others)
    }
    return figures.Panel(_curves(mine, "x", value), levels)


def markdown(part: SuiteSection) -> str:
    """Return the tables of a part as Markdown: oracle / blind, and (printed)."""
    lines = [f"# {part.title}", "", *(f"{text}\n" for text in part.text)]
    lines += [f"- {name}: {text}" for name, text in PROTOCOLS.items()]
    lines += ["", "A cell is: oracle / blind (printed in the paper; !: impossible)."]
    lines += [f"Machine: {part.machine}", ""]
    for table in part.items:
        if not isinstance(table, PaperTable):
            continue
        lines += [f"## {table.title}", "", table.caption, ""]
        lines += ["| | " + " | ".join(table.columns) + " |", "|---|" + "---|" * len(table.columns)]
        body = [*table.rows, ("**mean**", table.averages)] if table.averages else table.rows
        for name, cells in body:
            row = " | ".join(_markdown_cell(cell, table.digits) for cell in cells)
            lines.append(f"| {name} | {row} |")
        lines.append("")
    return "\n".join(lines)


def _markdown_cell(cell: Cell, digits: int) -> str:
    if cell.text:
        return cell.text.replace("\n", " · ")
    ours = [
        "–" if value is None else f"**{fixed(value, digits)}**" if best else fixed(value, digits)
        for value, best in ((cell.oracle, cell.best_oracle), (cell.blind, cell.best_blind))
    ]
    if cell.blind is None:
        ours.pop()
    printed = (
        "" if cell.paper is None else f" ({fixed(cell.paper, digits)}{'!' if cell.why else ''})"
    )
    return " / ".join(ours) + printed
