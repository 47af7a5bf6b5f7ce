"""Jobs as a table grows: memory, speed, and what the order of rows or the passes change.

Jobs run as `distsvc run` with two workers, in processes of their own. The large table has `--rows`
rows, the small one a quarter of that. Tables are made from a set with small noise: rows drawn with
replacement, float32 columns and the label; those of `linear_big` are positive and correlated.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import numpy as np

from benchmarks.harness.measure import alone, in_processes, publish
from benchmarks.harness.rows import Row, only, show
from benchmarks.harness.runs import (
    WORKERS,
    JobReport,
    job_on,
    noisy_table,
    run_command,
    work_folder,
)

ROW_GROUPS = 20
SMALL_ROW_GROUPS = 10
"""Of the large table, and of the one for the seeds of `big`."""

ORDERS = ("shuffled", "sorted")
SETTINGS: tuple[Row, ...] = (
    {"gamma": 1.0, "bridging": True},
    {"gamma": 2.0, "bridging": True},
    {"gamma": 2.0, "bridging": False},
)
"""Near gamma 2 two classes of shuttle are barely joined, and a seed decides."""

COLUMNS = 20
GROUP = 500_000
COMPARED = 1_000_000
SMALL_MEMORY = 100_000
LINEAR = {"nu": 0.05, "tol": 1e-7}
SCALES = {"linear-one-class": "none", "linear-svdd": "standard"}


def big(options: Namespace) -> None:
    """Memory and speed as a table grows, and quality when it is sorted by class.

    The sorted table of shuttle's rows holds the same rows as the shuffled one, class by class; the
    one for the seeds has a tenth of the rows. gamma is given, because that found from the data
    differs so much between seeds on these columns with long tails that it would hide what the order
    of rows does.
    """
    rows = options.rows
    with work_folder(options.work) as work:

        def job(stem: str, n: int, group: int, order: str, seed: int, **model: object) -> JobReport:
            table = noisy_table(work / stem, options.data, "shuttle", n, group, order == "sorted")
            print(f"clustering {table.name}, seed {seed}", file=sys.stderr, flush=True)
            settings = {"gamma": options.gamma, "seed": seed} | model
            return run_command(work, job_on(table, work / "run", group, settings))

        group, small = max(rows // ROW_GROUPS, 1), max(rows // 10 // SMALL_ROW_GROUPS, 1)
        reports = {
            "small": job("scale", rows // 4, group, "shuffled", 0),
            "large": job("scale", rows, group, "shuffled", 0),
            "large, sorted": job("scale", rows, group, "sorted", 0),
        }
        orders = []
        for setting in SETTINGS:
            for seed in range(options.seeds):
                for order in ORDERS:
                    report = job("order", rows // 10, small, order, seed, **setting)
                    about = {"rows": report.rows} | setting | {"seed": seed, "order": order}
                    orders.append(about | report.quality)
    _publish_phases(options.out, "big_phases", reports)
    figures = [
        {
            "table": name,
            "rows": report.rows,
            "seconds": report.seconds(),
            "label_rows_per_s": report.rows / report.seconds("label"),
            **report.peaks,
            **report.quality,
        }
        for name, report in reports.items()
    ]
    show("bars: label pass >= 1e6 rows/s; driver < 1000 MB, worker < 1500 MB", figures)
    _print_growth(*figures[:2])
    publish(options.out, "big", figures)
    show("NMI by order of rows", orders)
    for setting in SETTINGS:
        shuffled, by_class = (
            mean(row["nmi"] for row in only(orders, order=order, **setting)) for order in ORDERS
        )
        print(
            f"  {setting}: shuffled {shuffled:.4f}, sorted {by_class:.4f}, "
            f"difference {by_class - shuffled:+.4f}; bar within 0.02"
        )
    publish(options.out, "big_order", orders)


def levels_big(options: Namespace) -> None:
    """Memory and seconds of the job as a table grows, where gamma is found without labels.

    Tables are those of `big`, parameters our defaults.
    """
    reports, figures = {}, []
    for name, _, report in _small_and_large(options, "scale", "shuttle", {"gamma": "auto"}):
        reports[name] = report
        figures.append(
            {
                "table": name,
                "rows": report.rows,
                "seconds": report.warm_seconds,
                "cold_start_s": report.seconds("cluster"),
                **{f"{p}_s": report.seconds(p) for p in ("survey", "learn", "label")},
                **report.peaks,
                **report.quality,
            }
        )
    _publish_phases(options.out, "levels_big_phases", reports)
    show("bar: memory flat within 10 %", figures)
    _print_growth(*figures)
    publish(options.out, "levels_big", figures)


def mdh_big(options: Namespace) -> None:
    """Memory of the iMDH job as a table grows, and time against reading the table twice.

    Tables are made from kddcup, 41 columns, parameters our defaults. Beside each job two processes
    read the table's row groups once, as float32 rows, and do nothing else with them.
    """
    phases: list[Row] = []
    figures = []
    for name, table, report in _small_and_large(options, "kddcup", "kddcup", {"algorithm": "imdh"}):
        reading = read_once(table)
        phases += [{"table": name, "table_rows": report.rows} | phase for phase in report.phases]
        passes = report.seconds("survey", "learn", "label")
        figures.append(
            {
                "table": name,
                "rows": report.rows,
                "seconds": report.warm_seconds,
                "cold_start_s": report.seconds("cluster"),
                "passes_s": passes,
                "over_passes": report.warm_seconds / passes,
                "bare_reading_s": reading,
                "over_two_bare_readings": report.warm_seconds / (2.0 * reading),
                **report.peaks,
                **report.quality,
            }
        )
    show("Phases", phases)
    show("bars: over_passes <= 1.3; memory flat within 10 %", figures)
    _print_growth(*figures)
    publish(options.out, "mdh_big", figures)
    publish(options.out, "mdh_big_phases", phases)


def linear_big(options: Namespace) -> None:
    """Linear one-class models on a table that does not fit: the optimum, passes, memory, time.

    20 columns with three common factors, and one row in a hundred elsewhere. On a million rows the
    answer of outer steps, which begin with 100,000 rows in memory, is compared with the answer in
    memory; the tables of a quarter of `--rows` and of `--rows` do not fit into what a job takes for
    rows in memory by default.
    """
    figures = []
    with work_folder(options.work) as work:
        tables = {}
        for n in (COMPARED, options.rows // 4, options.rows):
            tables[n] = work / f"factors-{n}.parquet"
            if not tables[n].exists():
                print(f"making {tables[n]}", file=sys.stderr, flush=True)
                alone(make_factors, tables[n], n)
        sizes = ((COMPARED, None), (COMPARED, SMALL_MEMORY), (options.rows // 4, None))
        for algorithm in SCALES:
            for n, memory in (*sizes, (options.rows, None)):
                figures.append(_linear_job(work, tables[n], n, algorithm, memory))
    show("Jobs", figures)
    for algorithm in SCALES:
        inside, outer, small, large = only(figures, algorithm=algorithm)
        gap = abs(outer["objective"] - inside["objective"]) / abs(inside["objective"])
        print(f"  {algorithm}: objective in passes and in memory differ by {gap:.2g}; bar 1e-6")
        _print_growth(small, large)
    publish(options.out, "linear_big", figures)


def _linear_job(work: Path, table: Path, n: int, algorithm: str, memory: int | None) -> Row:
    model = {"algorithm": algorithm} | LINEAR
    model |= {} if memory is None else {"memory_rows": memory}
    preprocess = {"scale": SCALES[algorithm]}
    job = job_on(table, work / "run", GROUP, model, preprocess=preprocess)
    report = run_command(work, job)
    fitted = report.content["model"]["fitted"]
    return {
        "algorithm": algorithm,
        "rows": n,
        "memory_rows": memory,
        "objective": fitted["objective"],
        "violation": fitted["violation"],
        "passes": fitted.get("n_passes", 0),
        "outside": report.content["outliers"]["share"],
        "seconds": report.warm_seconds,
        "in_memory_s": report.seconds("train"),
        "passes_s": report.seconds("begin", "pass"),
        "working_set_s": report.seconds("descend"),
        **report.peaks,
    }


def _small_and_large(
    options: Namespace, stem: str, name: str, model: Row
) -> Iterator[tuple[str, Path, JobReport]]:
    """Yield a name, the table and the report of a job on the small table and on the large one."""
    group = max(options.rows // ROW_GROUPS, 1)
    with work_folder(options.work) as work:
        for size, n in (("small", options.rows // 4), ("large", options.rows)):
            table = noisy_table(work / stem, options.data, name, n, group)
            print(f"clustering {table.name}", file=sys.stderr, flush=True)
            yield size, table, run_command(work, job_on(table, work / "run", group, model))


def _publish_phases(out: Path, name: str, reports: dict[str, JobReport]) -> None:
    """Print the phases of every table's job and write ``<name>.csv``."""
    rows = [
        {
            "table": table,
            "table_rows": report.rows,
            "phase": phase["name"],
            "seconds": phase["seconds"],
            "rows_per_s": phase["rows"] / phase["seconds"] if phase["rows"] else None,
            "driver_peak_mb": phase["driver_peak_mb"],
            "worker_peak_mb": phase["worker_peak_mb"],
        }
        for table, report in reports.items()
        for phase in report.phases
    ]
    show("Phases", rows)
    publish(out, name, rows)


def _print_growth(small: Row, large: Row) -> None:
    """Print by how much the peaks of the large table's job are above those of the small one's."""
    for who in ("driver", "worker"):
        ratio = large[f"{who}_peak_mb"] / small[f"{who}_peak_mb"]
        print(f"  {who}, large over small: {ratio:.3f}; bar 0.9 to 1.1")


def read_once(table: Path) -> float:
    """Return the seconds that WORKERS processes need to read all row groups of a table."""
    import pyarrow.parquet as pq

    numbers = range(pq.ParquetFile(table).num_row_groups)
    seconds = in_processes(
        read_groups, [(table, numbers[k::WORKERS]) for k in range(WORKERS)], WORKERS
    )
    return max(seconds)


def read_groups(table: Path, numbers: range) -> float:
    """Return the seconds that this process needs to read row groups of a table."""
    import pyarrow.parquet as pq

    began = time.perf_counter()
    file = pq.ParquetFile(table)
    for number in numbers:
        group = file.read_row_group(number)
        np.column_stack([group[name].to_numpy() for name in group.column_names if name != "label"])
    return time.perf_counter() - began


def make_factors(path: Path, n: int) -> None:
    """Write a table of n rows; the first rows are the same whatever n is."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    loadings = np.random.default_rng(1).random((3, COLUMNS))
    names = [f"f{k}" for k in range(COLUMNS)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("label", pa.int8())])
    with pq.ParquetWriter(path, schema) as writer:
        for number in range(-(-n // GROUP)):
            rng = np.random.default_rng([0, number])
            odd = rng.random(GROUP) < 0.01
            X = rng.gamma(4.0, size=(GROUP, 3)) @ loadings
            X += rng.gamma(2.0, 0.5, size=(GROUP, COLUMNS))
            X[odd] *= rng.choice([0.2, 2.0], size=(int(odd.sum()), 1))
            rows = min(GROUP, n - number * GROUP)
            arrays = [pa.array(X[:rows, k].astype(np.float32)) for k in range(COLUMNS)]
            arrays.append(pa.array(odd[:rows].astype(np.int8)))
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=GROUP)
