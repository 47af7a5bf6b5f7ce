"""Time of the job on shuttle's 43,500 rows, beside fast_hdbscan on the same rows.

Both are warm: the cluster of two workers is there, code is compiled, the job's first run is left
out. The job is timed from reading the table to publishing, all phases but that of finding the
cluster. fast_hdbscan gets the standardised rows in memory and is timed for its fit alone, on all
cores.
"""

from __future__ import annotations

import shutil
import sys
import time
from argparse import Namespace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import Row, load, publish, show, standardised, table_path, work_folder

MODEL = {"budget": 100, "labelling": "equilibria"}
INPUT = {"columns": [f"f{k}" for k in range(9)], "label": "label", "where": "split == 0"}
WORKERS = 2
PARTITION_ROWS = 29_000
"""Half of the table's 58,000 rows, so that both workers have something to do."""

CLUSTER = {"partition_rows": PARTITION_ROWS}

JOBS_PER_FIT = 3
MIN_CLUSTER_SIZE = 100


def run(options: Namespace) -> None:
    try:
        from fast_hdbscan import HDBSCAN
    except ModuleNotFoundError:
        sys.exit("shuttle needs the package fast-hdbscan: pip install 'distsvc[bench]'")
    from distributed import LocalCluster

    from distsvc.metrics import contingency_table, indices_from_contingency

    X, y = load(options.data, "shuttle")
    X = standardised(X)
    HDBSCAN(min_cluster_size=MIN_CLUSTER_SIZE).fit(X[:5000])
    reports: list[dict[str, Any]] = []
    fits: list[float] = []
    with (
        work_folder(options.work) as work,
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
    ):
        table, output = table_path(options.data, "shuttle"), work / "shuttle"

        def job() -> dict[str, Any]:
            return one_job(table, output, MODEL, CLUSTER, cluster.scheduler_address)

        job()
        for _ in range(options.repeats or 3):
            reports += [job() for _ in range(JOBS_PER_FIT)]
            started = time.perf_counter()
            machine = HDBSCAN(min_cluster_size=MIN_CLUSTER_SIZE).fit(X)
            fits.append(time.perf_counter() - started)
            print(f"job {seconds(reports[-1]):.2f} s, peer {fits[-1]:.2f} s", file=sys.stderr)
    table = contingency_table(machine.labels_, y)
    theirs = indices_from_contingency(table)["normalized_mutual_information"]
    ours = reports[-1]
    jobs = [seconds(report) for report in reports]
    rows = [
        {
            "what": f"job, B = {MODEL['budget']}, {WORKERS} workers",
            "median_s": median(jobs),
            "best_s": min(jobs),
            "repeats": len(jobs),
            "nmi": ours["indices"]["normalized_mutual_information"]["value"],
            "clusters": len(ours["clusters"]),
            "note": "bar <= 4 s",
        },
        {
            "what": f"fast_hdbscan, min_cluster_size = {MIN_CLUSTER_SIZE}",
            "median_s": median(fits),
            "best_s": min(fits),
            "repeats": len(fits),
            "nmi": theirs,
            "clusters": len(set(machine.labels_.tolist()) - {-1}),
            "note": "noise counts as one cluster",
        },
    ]
    show(f"shuttle, {len(X)} rows", rows)
    print(f"  {median(fits) / median(jobs):.1f} times faster; bar >= 10\n")
    publish(options.out, "shuttle", rows)
    phases = [
        {"phase": phase["name"], "median_s": median(r["phases"][i]["seconds"] for r in reports)}
        for i, phase in enumerate(ours["phases"])
    ]
    show("Phases of the job", phases)
    publish(options.out, "shuttle_phases", phases)


def one_job(
    table: Path, output: Path, model: Row, cluster: Row, scheduler: str | None = None
) -> dict[str, Any]:
    """Run the job into an empty folder, in this process or on a cluster, and return its report."""
    from distsvc.config import parse_job
    from distsvc.run.job import run_job

    shutil.rmtree(output, ignore_errors=True)
    job = parse_job(
        {
            "input": {"path": str(table)} | INPUT,
            "model": model,
            "cluster": cluster,
            "output": {"path": str(output)},
        }
    )
    return run_job(job, scheduler=scheduler)


def seconds(report: dict[str, Any]) -> float:
    """Return the time from reading to publishing."""
    return sum(p["seconds"] for p in report["phases"] if p["name"] != "cluster")
