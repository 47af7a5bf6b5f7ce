"""The iMDH job as a table grows: memory, and time against reading the table twice.

Tables are made from kddcup with small noise: rows drawn with replacement, 41 float32 columns and
the label. Jobs run as `distsvc run` with two workers and our default parameters, in processes of
their own; the small table has a quarter of the `--rows` rows of the large one. Beside each job two
processes read the table's blocks once and do nothing else with them.
"""

from __future__ import annotations

import multiprocessing
import time
from argparse import Namespace
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.big import ROW_GROUPS, WORKERS, nmi, noisy_table, peaks, print_growth, run_job
from benchmarks.measure import Row, publish, show, work_folder

if TYPE_CHECKING:
    from distsvc.config import Job
    from distsvc.storage.tables import Table


def run(options: Namespace) -> None:
    group = max(options.rows // ROW_GROUPS, 1)
    figures, phases = [], []
    with work_folder(options.work) as work:
        for name, n in (("small", options.rows // 4), ("large", options.rows)):
            table = noisy_table(work / "kddcup", options.data, "kddcup", n, group)
            reading = read_once(table, group)
            report = run_job(work, table, group, {"algorithm": "imdh"})
            rows: list[Row] = [{"table": name, "table_rows": n} | p for p in report["phases"]]
            phases += rows
            seconds = {row["name"]: row["seconds"] for row in rows}
            passes = seconds["survey"] + seconds["learn"] + seconds["label"]
            total = sum(seconds.values()) - seconds["cluster"]
            figures.append(
                {
                    "table": name,
                    "rows": n,
                    "seconds": total,
                    "cold_start_s": seconds["cluster"],
                    "passes_s": passes,
                    "over_passes": total / passes,
                    "bare_reading_s": reading,
                    "over_two_bare_readings": total / (2.0 * reading),
                    **peaks(report),
                    "nmi": nmi(report),
                    "clusters": len(report["clusters"]),
                }
            )
    show("Phases", phases)
    show("bars: over_passes <= 1.3; memory flat within 10 %", figures)
    print_growth(*figures)
    publish(options.out, "mdh_big", figures)
    publish(options.out, "mdh_big_phases", phases)


def read_once(table: Path, partition_rows: int) -> float:
    """Return the seconds that WORKERS processes need to read all blocks of a table."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=context) as pool:
        starts = list(pool.map(n_partitions, [str(table)] * WORKERS, [partition_rows] * WORKERS))
        started = time.perf_counter()
        list(
            pool.map(read, [str(table)] * starts[0], [partition_rows] * starts[0], range(starts[0]))
        )
        return time.perf_counter() - started


def n_partitions(table: str, partition_rows: int) -> int:
    from distsvc.run.job import make_plan

    return len(make_plan(*job_and_table(table, partition_rows)).partitions)


def read(table: str, partition_rows: int, number: int) -> int:
    from distsvc.run.job import make_plan

    plan = make_plan(*job_and_table(table, partition_rows))
    return sum(len(block.rows) for block in plan.blocks(number))


def job_and_table(path: str, partition_rows: int) -> tuple[Job, Table]:
    from distsvc.config import parse_job
    from distsvc.storage.tables import open_table

    job = parse_job(
        {
            "input": {"path": path, "label": "label"},
            "cluster": {"partition_rows": partition_rows},
            "output": {"path": "unused"},
        }
    )
    return job, open_table(job.input, Path(path).parent)
