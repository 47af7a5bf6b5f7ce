"""Time of support vector clustering with all defaults, in memory and as a job.

In memory the estimator is fitted to standardised rows in one process, with effort "default" and
"fast": d31, birch1 and shuttle cut to 3,000 rows, drawn once, and shuttle's 43,500 rows. The job
runs on the latter, from reading the table to publishing: on two warm workers (all phases but that
of finding the cluster), and as `distsvc run` on two cold ones that it starts (all phases).
fast_hdbscan is fitted to the same rows in memory, on all cores, where it is installed. Compiled
code is warm in memory and on the disk. Every repeat has a seed of its own. `load` is the system's
load in the minute before the last repeat ended: above the cores in use, other work took its share
and times are upper bounds; `cpu_s`, the processor's time of the fit, suffers less.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from benchmarks import big, shuttle
from benchmarks.blind import sample, scored, warm_up
from benchmarks.measure import (
    Row,
    load,
    publish,
    show,
    standardised,
    table_path,
    work_folder,
)

SMALL = ("d31", "birch1", "shuttle")
EFFORTS = ("default", "fast")
BARS = {3_000: "bar <= 5 s", 43_500: "bar <= 15 s"}


def run(options: Namespace) -> None:
    repeats = options.repeats or 5
    rows = []
    tables = {name: sample(options.data, name)[:2] for name in SMALL}
    X, y = load(options.data, "shuttle")
    tables["shuttle, whole"] = standardised(X), y
    warm_up("ours", 2)
    for name, (X, y) in tables.items():
        for effort in EFFORTS:
            fits = repeated(lambda seed, X=X, y=y, e=effort: timed_fit(X, y, e, seed), repeats)
            rows.append({"what": f"fit, effort {effort}"} | about(name, X) | summed_up(fits))
    X, y = tables["shuttle, whole"]
    theirs = timed_peer(X, y)
    if theirs is not None:
        fits = repeated(theirs, repeats)
        what = f"fast_hdbscan, min_cluster_size = {shuttle.MIN_CLUSTER_SIZE}"
        rows.append({"what": what} | about("shuttle, whole", X) | summed_up(fits) | {"bar": None})
    phases = []
    with work_folder(options.work) as work:
        table = table_path(options.data, "shuttle")
        for kind, jobs in (
            ("warm", warm_jobs(table, work, repeats)),
            ("cold", repeated(lambda seed: cold_job(table, work, seed), repeats)),
        ):
            what = f"job, {shuttle.WORKERS} {kind} workers"
            rows.append({"what": what} | about("shuttle, whole", X) | summed_up(jobs))
            phases += phases_of(kind, [job["report"] for job in jobs])
    show("bars: 5 s for 3,000 rows, 15 s for 43,500, effort default", rows)
    publish(options.out, "levels_speed", rows)
    show("Phases of the job", phases)
    publish(options.out, "levels_speed_phases", phases)


def about(name: str, X: np.ndarray) -> Row:
    """Return a table's columns of the result."""
    bar = next(bar for n, bar in BARS.items() if len(X) <= 1.1 * n)
    return {"set": name, "n": len(X), "d": X.shape[1], "bar": bar}


def repeated(action: Callable[[int], Row], repeats: int) -> list[Row]:
    """Return what an action measures with the seeds 0, 1, ..."""
    found = []
    for seed in range(repeats):
        found.append(action(seed) | {"load": os.getloadavg()[0]})
        print(f"{found[-1]['seconds']:.2f} s", file=sys.stderr, flush=True)
    return found


def summed_up(found: list[Row]) -> Row:
    """Return the columns about the repeats of one action."""
    seconds = [row["seconds"] for row in found]
    return {
        "median_s": median(seconds),
        "best_s": min(seconds),
        "worst_s": max(seconds),
        "median_cpu_s": median(row["cpu_s"] for row in found) if "cpu_s" in found[0] else None,
        "repeats": len(found),
        "load": found[-1]["load"],
        "nmi": mean(row["nmi"] for row in found),
        "clusters": ", ".join(str(row["clusters"]) for row in found),
    }


def timed_fit(X: np.ndarray, y: np.ndarray, effort: str, seed: int) -> Row:
    """Fit the estimator and return seconds, those of the processor, NMI and clusters."""
    from distsvc import SupportVectorClustering

    return timed(SupportVectorClustering(effort=effort, random_state=seed), X, y)


def timed_peer(X: np.ndarray, y: np.ndarray) -> Callable[[int], Row] | None:
    """Return what fits fast_hdbscan, warm; None where it is not installed."""
    try:
        from fast_hdbscan import HDBSCAN
    except ModuleNotFoundError:
        print("without fast_hdbscan, which is not installed", file=sys.stderr)
        return None
    HDBSCAN(min_cluster_size=shuttle.MIN_CLUSTER_SIZE).fit(X[:5000])
    return lambda _: timed(HDBSCAN(min_cluster_size=shuttle.MIN_CLUSTER_SIZE), X, y)


def timed(model: Any, X: np.ndarray, y: np.ndarray) -> Row:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started, used = time.perf_counter(), time.process_time()
        model.fit(X)
        seconds, cpu = time.perf_counter() - started, time.process_time() - used
    labels = model.labels_
    clusters = len(np.unique(labels[labels >= 0]))
    nmi = scored(y, labels)["nmi"]
    return {"seconds": seconds, "cpu_s": cpu, "nmi": nmi, "clusters": clusters}


def warm_jobs(table: Path, work: Path, repeats: int) -> list[Row]:
    """Run the job on workers that have run it before."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=shuttle.WORKERS,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    ) as cluster:

        def job(seed: int) -> Row:
            address = cluster.scheduler_address
            model = {"seed": seed}
            report = shuttle.one_job(table, work / "shuttle", model, shuttle.CLUSTER, address)
            return of_job(report, shuttle.seconds(report))

        job(0)
        return repeated(job, repeats)


def cold_job(table: Path, work: Path, seed: int) -> Row:
    """Run the job in a process of its own, which starts workers."""
    report = big.run_job(work, table, shuttle.PARTITION_ROWS, {"seed": seed}, **shuttle.INPUT)
    return of_job(report, sum(phase["seconds"] for phase in report["phases"]))


def of_job(report: Row, seconds: float) -> Row:
    clusters = len(report["clusters"])
    return {"seconds": seconds, "nmi": big.nmi(report), "clusters": clusters, "report": report}


def phases_of(kind: str, reports: list[Row]) -> list[Row]:
    """Return the median seconds of every phase."""
    return [
        {
            "workers": kind,
            "phase": phase["name"],
            "median_s": median(report["phases"][i]["seconds"] for report in reports),
        }
        for i, phase in enumerate(reports[0]["phases"])
    ]
