"""Memory and speed as a table grows, and quality when it is sorted by class.

Tables are made from shuttle with small noise: rows drawn with replacement, 9 float32 columns and
the label. The sorted table holds the same rows as the shuffled one, class by class. Jobs run as
`distsvc run` with two workers, in processes of their own. The large table has `--rows` rows, the
one it is compared with a quarter of that, and the one for the seeds a tenth.

gamma is given, because that found from the data differs so much between seeds on these columns with
long tails that it would hide what the order of rows does.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.measure import Row, load, publish, show, table_path, work_folder

WORKERS = 2
ROW_GROUPS = 20
SMALL_ROW_GROUPS = 10
"""Of the large table, and of the one for the seeds."""

NOISE = 0.01
"""Standard deviation of the noise, in standard deviations of its column."""


def run(options: Namespace) -> None:
    table_path(options.data, "shuttle")
    rows = options.rows
    with work_folder(options.work) as work:

        def job(
            name: str, n: int, group: int, in_order: bool, seed: int = 0, **model: Any
        ) -> dict[str, Any]:
            table = noisy_table(work / name, options.data, "shuttle", n, group, in_order)
            print(f"clustering {table.name}, seed {seed}", file=sys.stderr, flush=True)
            model = {"gamma": options.gamma, "seed": seed} | model
            return run_job(work, table, group, model)

        group = max(rows // ROW_GROUPS, 1)
        reports = {
            "small": job("scale", rows // 4, group, False),
            "large": job("scale", rows, group, False),
            "large, sorted": job("scale", rows, group, True),
        }
        small = max(rows // 10 // SMALL_ROW_GROUPS, 1)
        pairs = [
            (
                setting,
                seed,
                name,
                job("order", rows // 10, small, name == "sorted", seed, **setting),
            )
            for setting in SETTINGS
            for seed in range(options.seeds)
            for name in ORDERS
        ]
    report_phases(options.out, "big_phases", reports)
    report_figures(options.out, reports)
    report_order(options.out, pairs)


ORDERS = ("shuffled", "sorted")
SETTINGS: list[dict[str, Any]] = [
    {"gamma": 1.0, "bridging": True},
    {"gamma": 2.0, "bridging": True},
    {"gamma": 2.0, "bridging": False},
]
"""Near gamma 2 two classes are barely joined, and a seed decides."""


def report_phases(out: Path, name: str, reports: dict[str, dict[str, Any]]) -> None:
    """Print the phases of every table's job and write ``<name>.csv``."""
    rows = [
        {
            "table": table,
            "table_rows": report["input"]["n_rows"],
            "phase": phase["name"],
            "seconds": phase["seconds"],
            "rows_per_s": phase["rows"] / phase["seconds"] if phase["rows"] else None,
            "driver_peak_mb": phase["driver_peak_mb"],
            "worker_peak_mb": phase["worker_peak_mb"],
        }
        for table, report in reports.items()
        for phase in report["phases"]
    ]
    show("Phases", rows)
    publish(out, name, rows)


def report_figures(out: Path, reports: dict[str, dict[str, Any]]) -> None:
    rows = []
    for name, report in reports.items():
        phases = {phase["name"]: phase for phase in report["phases"]}
        rows.append(
            {
                "table": name,
                "rows": report["input"]["n_rows"],
                "seconds": sum(p["seconds"] for p in phases.values()),
                "label_rows_per_s": phases["label"]["rows"] / phases["label"]["seconds"],
                **peaks(report),
                "nmi": nmi(report),
                "clusters": len(report["clusters"]),
            }
        )
    show("bars: label pass >= 1e6 rows/s; driver < 1000 MB, worker < 1500 MB", rows)
    print_growth(*rows[:2])
    publish(out, "big", rows)


def peaks(report: dict[str, Any]) -> Row:
    """Return the peak memory of the driver and of the largest worker, in MB."""
    phases = report["phases"]
    return {
        "driver_peak_mb": max(phase["driver_peak_mb"] for phase in phases),
        "worker_peak_mb": max(phase["worker_peak_mb"] or 0.0 for phase in phases),
    }


def print_growth(small: Row, large: Row) -> None:
    """Print by how much the peaks of the large table's job are above those of the small one's."""
    for who in ("driver", "worker"):
        ratio = large[f"{who}_peak_mb"] / small[f"{who}_peak_mb"]
        print(f"  {who}, large over small: {ratio:.3f}; bar 0.9 to 1.1")


def report_order(out: Path, runs: list[tuple[dict[str, Any], int, str, dict[str, Any]]]) -> None:
    rows: list[Row] = [
        {
            "rows": report["input"]["n_rows"],
            "gamma": setting["gamma"],
            "bridging": setting["bridging"],
            "seed": seed,
            "order": order,
            "nmi": nmi(report),
            "clusters": len(report["clusters"]),
        }
        for setting, seed, order, report in runs
    ]
    show("NMI by order of rows", rows)
    for setting in SETTINGS:
        alike = [row for row in rows if all(row[key] == setting[key] for key in setting)]
        averages = {o: mean(r["nmi"] for r in alike if r["order"] == o) for o in ORDERS}
        print(
            f"  {setting}: shuffled {averages['shuffled']:.4f}, sorted {averages['sorted']:.4f}, "
            f"difference {averages['sorted'] - averages['shuffled']:+.4f}; bar within 0.02"
        )
    publish(out, "big_order", rows)


def nmi(report: dict[str, Any]) -> float:
    return report["indices"]["normalized_mutual_information"]["value"]


def run_job(
    work: Path,
    table: Path,
    partition_rows: int,
    model: Row,
    preprocess: Row | None = None,
    **rows: Any,
) -> dict[str, Any]:
    """Run `distsvc run` on a table, of which `rows` selects rows and columns; return the report."""
    job = {
        "input": {"path": str(table.absolute()), "label": "label"} | rows,
        "model": model,
        "preprocess": preprocess or {},
        "cluster": {"workers": WORKERS, "partition_rows": partition_rows},
        "output": {"path": str((work / "run").absolute())},
    }
    path = work / "job.toml"
    sections = [f"[{section}]\n{toml(content)}\n" for section, content in job.items()]
    path.write_text("\n".join(sections), encoding="utf-8")
    command = [sys.executable, "-m", "distsvc", "run", str(path), "--overwrite", "--json"]
    done = subprocess.run(command, check=False, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed with code {done.returncode}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)


def toml(content: dict[str, Any]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in content.items())


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a process of its own, so that this one stays small."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def noisy_table(
    stem: Path, data: Path, name: str, n: int, group: int, in_order: bool = False
) -> Path:
    """Return the path of a noisy table with n rows of a set, made unless it is there."""
    order = "sorted" if in_order else "shuffled"
    table = stem.with_name(f"{stem.name}-{n}-{order}.parquet")
    if not table.exists():
        print(f"making {table}", file=sys.stderr, flush=True)
        apart(make_table, data, name, table, n, group, in_order)
    return table


def make_table(data: Path, name: str, path: Path, n: int, group: int, in_order: bool) -> None:
    """Write n noisy rows of a set in row groups of `group` rows; memory does not grow with n.

    A group's rows follow from its number alone, so the sorted table is made by going
    through all of them once per class.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = load(data, name)
    X, spread = X.astype(np.float32), (NOISE * X.std(axis=0)).astype(np.float32)
    fields = [(f"f{k}", pa.float32()) for k in range(X.shape[1])]
    schema = pa.schema([*fields, ("label", pa.int32())])
    unfinished = path.with_suffix(".unfinished")

    def rows_of(number: int) -> tuple[np.ndarray, np.ndarray]:
        size = min(group, n - number * group)
        random = np.random.default_rng([number, n])
        rows = random.integers(len(X), size=size)
        noise = random.standard_normal((size, X.shape[1]), np.float32)
        return X[rows] + noise * spread, y[rows].astype(np.int32)

    with pq.ParquetWriter(unfinished, schema) as writer:

        def write(rows: np.ndarray, labels: np.ndarray) -> None:
            columns = [*np.ascontiguousarray(rows.T), labels]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=group)

        held: list[tuple[np.ndarray, np.ndarray]] = []
        for wanted in np.unique(y) if in_order else [None]:
            for number in range(-(-n // group)):
                rows, labels = rows_of(number)
                chosen = slice(None) if wanted is None else labels == wanted
                held.append((rows[chosen], labels[chosen]))
                if sum(len(part) for _, part in held) >= group:
                    rows, labels = (np.concatenate(parts) for parts in zip(*held, strict=True))
                    write(rows[:group], labels[:group])
                    held = [(rows[group:], labels[group:])]
        rows, labels = (np.concatenate(parts) for parts in zip(*held, strict=True))
        if len(rows):
            write(rows, labels)
    os.replace(unfinished, path)
