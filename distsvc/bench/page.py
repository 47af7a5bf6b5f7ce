"""The evaluation's page and its Markdown tables, from the Parquet files of the suites."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

import pyarrow.parquet as pq

from distsvc.bench import tables
from distsvc.bench.suites import IMDH_SYSTEMS
from distsvc.bench.tables import PROTOCOLS, Cell, Row, Table
from distsvc.errors import InputNotFoundError
from distsvc.report import evaluation_figures as figures
from distsvc.report.evaluation import fixed, render_evaluation
from distsvc.storage.arrays import write_whole

PAPER_SYSTEMS = IMDH_SYSTEMS[:6]
Part = dict[str, Any]


def write_report(out: Path) -> list[Path]:
    """Write ``report.html`` and ``<suite>.md`` beside the Parquet files of the suites in `out`.

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
    if not parts:
        raise InputNotFoundError(f"{out} has none of {', '.join(f'{n}.parquet' for n in PARTS)}")
    written = []
    for name, part in parts.items():
        written.append(out / f"{name}.md")
        _write_text(written[-1], markdown(part))
    machine = " — ".join(dict.fromkeys(part["machine"] for part in parts.values()))
    page = render_evaluation([part | {"name": n} for n, part in parts.items()], PROTOCOLS, machine)
    written.append(out / "report.html")
    _write_text(written[-1], page)
    return written


def _write_text(path: Path, text: str) -> None:
    write_whole(path, lambda stream: stream.write(text.encode()))


def bsgd_part(rows: Sequence[Row]) -> Part:
    """Return what the page says of the suite ``bsgd``."""
    speed = tables.speed_table(rows)
    seeds = 1 + max(row["seed"] for row in rows)
    text = [
        f"Tables 2 to 8 of Pham, Le and Dang, Scalable Support Vector Clustering Using Budget, and "
        f"Table 1 of Pham, Le, Le and Tran, Fast Support Vector Clustering. {seeds} repetitions; "
        "systems without chance have one. Oracle: gamma and C from 2^-5, 2^-3, ... 2^5, chosen by "
        "the mean NMI; for SGD and BSGD that is C times the number of rows, and BSGD is tried with "
        "the papers' stopping rule and graph of equilibria and with ours; for FSVC both radii are "
        "0.1, 0.2, ... 1.0. SVC and SGD-LMOC are searched on at most 2,000 rows of a set and FSVC "
        "on 1,000 (a quarter of that on musk); the chosen settings are then fit to all rows.",
        *tables.failures(rows),
    ]
    found = tables.bsgd_tables(rows)
    return _part("Support vector clustering", text, [*found, speed] if speed else found, rows)


def imdh_part(rows: Sequence[Row]) -> Part:
    """Return what the page says of the suite ``imdh``."""
    items: list[Any] = list(tables.imdh_tables(rows))
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
        items.append(_drawing("Normalised regret (figure 2)", caption, figures.regret(panels)))
    times = _times(rows)
    caption = "Each mark is the mean of a set; lines are fits on the logarithmic scales."
    svg = figures.running_times(times, "rows × columns", "seconds")
    items.append(_drawing("Seconds against rows times columns (figure 3)", caption, svg))
    items += _sensitivities(rows)
    repetitions = 1 + max(row["seed"] for row in rows)
    text = [
        "Table 2 and Figures 2 to 9 of Hofmeyr, Clustering Large Data Sets with Incremental "
        "Estimation of Low-density Separating Hyperplanes. iMDH and iMDH_k have the published "
        f"settings, the last two ours. {repetitions} orders of the rows, 3 of the largest sets. "
        "Yale, isolet and smartphone, of which only other versions are public, are left out.",
        *tables.failures(rows),
    ]
    return _part("Trees of hyperplanes", text, items, rows)


def linear_part(rows: Sequence[Row]) -> Part:
    """Return what the page says of the suite ``linear``."""
    from distsvc.bench.linear import TARGET, summary

    found = [summary(dict(row)) for row in rows]
    solvers = list(dict.fromkeys(row["solver"] for row in found))
    items: list[Any] = []
    for value, title in (
        ("cost", f"Operations, in units of the rows, until within {TARGET:g} of the optimum"),
        ("seconds", f"Seconds until within {TARGET:g} of the optimum"),
    ):
        lines = []
        for key in dict.fromkeys((row["set"], row["problem"]) for row in found):
            mine = {r["solver"]: r[value] for r in found if (r["set"], r["problem"]) == key}
            best = min((v for v in mine.values() if v is not None), default=None)
            cells = [
                Cell(mine.get(s), best_oracle=mine.get(s) is not None and mine[s] == best)
                if mine.get(s) is not None
                else Cell(text="not reached")
                for s in solvers
            ]
            lines.append((", ".join(key), cells))
        items.append(Table(title, "nu = 0.1; lower is better.", solvers, lines, 3))
    for x, title in (("cost", "operations / rows"), ("seconds", "seconds")):
        svg = figures.convergence(rows, x, title)
        items.append(_drawing(f"Convergence against {title} (figure 2)", "", svg))
    text = [
        "Figure 2 of Chou, Lin and Lin, Dual Coordinate-Descent Methods for Linear One-class SVM "
        "and SVDD: four solvers on the same problems, from the same start. No classes are used."
    ]
    return _part("Linear one-class models", text, items, rows)


def peers_part(rows: Sequence[Row]) -> Part:
    """Return what the page says of the suite ``peers``."""
    items: list[Any] = [tables.growth_table(rows)]
    measured = {
        "NMI": "normalized_mutual_information",
        "seconds": "total_seconds",
        "memory, MB": "peak_mb",
    }
    for name in dict.fromkeys(row["set"] for row in rows):
        here = [row for row in rows if row["set"] == name and not row["note"]]
        panels = {
            title: _curves(here, "rows", value, lambda row: row["system"])
            for title, value in measured.items()
        }
        svg = figures.growth(panels, ("seconds", "memory, MB"))
        caption = "Means of the seeds. Memory is the peak of the process."
        items.append(_drawing(f"{name}: as the rows grow", caption, svg))
    text = [
        "Ours, k-means, mini-batch k-means and BIRCH (told the number of classes), HDBSCAN and "
        "fast_hdbscan (smallest cluster 5; noise is one cluster) on tables that are made up: "
        "twelve Gaussians in 8 columns, and a Gaussian within two rings in 2. Each fit is a "
        "process of its own and is ended after 300 seconds."
    ]
    return _part("Peers", text, items, rows)


PARTS = {"bsgd": bsgd_part, "imdh": imdh_part, "linear": linear_part, "peers": peers_part}


def _part(title: str, text: list[str], items: list[Any], rows: Sequence[Row]) -> Part:
    about = dict.fromkeys(
        f"{row['cpu']}, {row['cores']} cores, {row['versions']}, {row['day']}" for row in rows
    )
    return {"title": title, "text": text, "items": items, "machine": "; ".join(about)}


def _drawing(title: str, caption: str, svg: str) -> dict[str, str]:
    return {"title": title, "caption": caption, "svg": svg}


def _curves(
    rows: Sequence[Row], x: str, value: str, name: Any
) -> dict[str, list[tuple[float, float, float]]]:
    """Return (x, mean, deviation) by name; x is a column, or a setting of the system."""
    found: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row[value] is not None:
            found[name(row)][row[x]].append(row[value])
    return {
        key: [(at, mean(v), pstdev(v)) for at, v in sorted(points.items())]
        for key, points in found.items()
    }


def _times(rows: Sequence[Row]) -> dict[str, list[tuple[float, float, float]]]:
    sized = [
        dict(row) | {"size": row["rows"] * row["d"]}
        for row in tables.of_experiments(rows, ("table 2",))
        if row["system"] in PAPER_SYSTEMS
    ]
    return _curves(sized, "size", "total_seconds", lambda row: row["system"])


def _sensitivities(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return Figures 4 to 9: NMI and the number of clusters against three parameters."""
    import json

    items = []
    titles = {"depth": "depth", "bandwidth": "factor of the bandwidth", "alpha": "alpha"}
    for number, (figure, x) in enumerate(titles.items()):
        here = [
            dict(row) | {"x": json.loads(row["point"])[figure]}
            for row in tables.of_experiments(rows, (figure,))
        ]
        sets = list(dict.fromkeys(row["set"] for row in here))
        others = [
            row
            for row in tables.of_experiments(rows, ("table 2",))
            if row["system"] in PAPER_SYSTEMS[2:]
        ]
        for value, title, figure_number in (
            ("nmi_geometric", "NMI", 4 + 2 * number),
            ("n_clusters", "Clusters", 5 + 2 * number),
        ):
            panels = {}
            for name in sets:
                mine = [row for row in here if row["set"] == name]
                levels = {
                    system: mean(
                        r[value] for r in others if (r["set"], r["system"]) == (name, system)
                    )
                    for system in dict.fromkeys(r["system"] for r in others if r["set"] == name)
                }
                if value == "n_clusters":
                    mine = [row for row in mine if row["system"] == "iMDH"]
                    levels = {"classes": float(mine[0]["classes"])}
                panels[name] = {
                    "curves": _curves(mine, "x", value, lambda row: row["system"]),
                    "levels": levels,
                }
            if panels:
                svg = figures.sensitivity(panels, x, title, whole=figure == "depth")
                caption = "Means and one standard deviation to each side; other systems across."
                items.append(
                    _drawing(f"{title} against {x} (figure {figure_number})", caption, svg)
                )
    return items


def markdown(part: Part) -> str:
    """Return the tables of a part as Markdown: oracle / blind, and (printed)."""
    lines = [f"# {part['title']}", "", *(f"{text}\n" for text in part["text"])]
    lines += [f"- {name}: {text}" for name, text in PROTOCOLS.items()]
    lines += ["", "A cell is: oracle / blind (printed in the paper; !: impossible)."]
    lines += [f"Machine: {part['machine']}", ""]
    for table in part["items"]:
        if not isinstance(table, Table):
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
