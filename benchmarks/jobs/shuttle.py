"""The job and the estimator on shuttle's 43,500 rows: time, a peer, and what labels depend on.

On warm workers, the cluster is there and has run the job before, and the phase of finding it is
left out. fast_hdbscan, where it is installed, gets the standardised rows in memory and is timed for
its fit alone, on all cores.
"""

from __future__ import annotations

import hashlib
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from benchmarks.datasets.catalogue import find
from benchmarks.harness.data import scaled
from benchmarks.harness.measure import agreement, n_clusters, publish, timed
from benchmarks.harness.rows import Row, show
from benchmarks.harness.runs import (
    WORKERS,
    JobReport,
    job_on,
    label_files,
    run_command,
    run_here,
    warm_cluster,
    work_folder,
)
from benchmarks.harness.systems import Facts, made, warm_up
from benchmarks.quality.without_labels import sample

INPUT: Row = {"columns": [f"f{k}" for k in range(9)], "label": "label", "where": "split == 0"}
PAPERS = {"budget": 100, "labelling": "equilibria"}
PARTITION_ROWS = 29_000
"""Half of the table's 58,000 rows, so that both workers have something to do."""

FIFTH_ROWS = 11_600
JOBS_PER_FIT = 3
MIN_CLUSTER_SIZE = 100
PEER = f"fast_hdbscan, min_cluster_size = {MIN_CLUSTER_SIZE}"
SMALL = ("d31", "birch1", "shuttle")
EFFORTS = ("default", "fast")
NOTHING = Facts(0, 0, 0)
"""Is what the systems are told of the rows."""

BARS = {3_000: "bar <= 5 s", 43_500: "bar <= 15 s"}


def shuttle(options: Namespace) -> None:
    """Time of the job by the papers' method, from reading to publishing, beside fast_hdbscan."""
    X, y = scaled("shuttle", options.data, 0)
    peer = warm_peer(X)
    jobs: list[JobReport] = []
    fits: list[Row] = []
    with work_folder(options.work) as work, warm_cluster() as address:

        def job() -> JobReport:
            return one_job(options, work / "shuttle", PAPERS, {}, address)

        job()
        for _ in range(options.repeats or 3):
            jobs += [job() for _ in range(JOBS_PER_FIT)]
            print(f"job {jobs[-1].warm_seconds:.2f} s", file=sys.stderr, flush=True)
            fits += [] if peer is None else [timed_fit(peer(0), X, y)]
    rows: list[Row] = [
        {"what": f"job, B = {PAPERS['budget']}, {WORKERS} workers"}
        | _times([report.warm_seconds for report in jobs])
        | jobs[-1].quality
        | {"note": "bar <= 4 s"}
    ]
    if fits:
        times, last = _times([fit["seconds"] for fit in fits]), fits[-1]
        quality = {"nmi": last["nmi"], "clusters": last["clusters"]}
        rows.append({"what": PEER} | times | quality | {"note": "noise counts as one cluster"})
    show(f"shuttle, {len(X)} rows", rows)
    if fits:
        print(f"  {rows[1]['median_s'] / rows[0]['median_s']:.1f} times faster; bar >= 10\n")
    publish(options.out, "shuttle", rows)
    _publish_phases(options.out, "shuttle_phases", {"warm": jobs})


def levels_speed(options: Namespace) -> None:
    """Time of support vector clustering with all defaults, in memory and as a job.

    In memory the estimator is fitted to standardised rows in one process, with effort "default" and
    "fast": d31, birch1 and shuttle cut to 3,000 rows, drawn once, and all of shuttle's. The job
    runs on the latter, from reading the table to publishing: on two warm workers, and as `distsvc
    run` on two cold ones that it starts (all phases). Compiled code is warm in memory and on the
    disk. Every repeat has a seed of its own. `load` is the system's load in the minute before the
    last repeat ended: above the cores in use, other work took its share and times are upper bounds;
    `cpu_s`, the processor's time of the fit, suffers less.
    """
    repeats = options.repeats or 5
    tables = {name: sample(options.data, name)[:2] for name in SMALL}
    whole = tables["shuttle, whole"] = scaled("shuttle", options.data, 0)
    rows = []

    def measure(what: str, name: str, action: Callable[[int], Row], barred: bool = True) -> None:
        X = tables[name][0]
        bar = next(bar for n, bar in BARS.items() if len(X) <= 1.1 * n) if barred else None
        about = {"set": name, "n": len(X), "d": X.shape[1], "bar": bar}
        rows.append({"what": what} | about | _repeated(action, repeats))

    warm_up("level tree", 2)
    for (name, (X, y)), effort in product(tables.items(), EFFORTS):

        def fit(seed: int, X: np.ndarray = X, y: np.ndarray = y, effort: str = effort) -> Row:
            return timed_fit(made("level tree", NOTHING, seed, effort=effort), X, y)

        measure(f"fit, effort {effort}", name, fit)
    peer = warm_peer(whole[0])
    if peer is not None:
        measure(PEER, "shuttle, whole", lambda seed: timed_fit(peer(seed), *whole), barred=False)
    reports: dict[str, list[JobReport]] = {"warm": [], "cold": []}
    with work_folder(options.work) as work:

        def cold_job(seed: int) -> Row:
            table = options.data / find("shuttle").file
            job = job_on(table, work / "run", PARTITION_ROWS, {"seed": seed})
            job["input"] |= INPUT
            report = run_command(work, job)
            reports["cold"].append(report)
            return {"seconds": report.seconds()} | report.quality

        with warm_cluster() as address:

            def warm_job(seed: int) -> Row:
                report = one_job(options, work / "shuttle", {"seed": seed}, {}, address)
                reports["warm"].append(report)
                return {"seconds": report.warm_seconds} | report.quality

            warm_job(0)
            reports["warm"].clear()
            measure(f"job, {WORKERS} warm workers", "shuttle, whole", warm_job)
        measure(f"job, {WORKERS} cold workers", "shuttle, whole", cold_job)
    show("bars: 5 s for 3,000 rows, 15 s for 43,500, effort default", rows)
    publish(options.out, "levels_speed", rows)
    _publish_phases(options.out, "levels_speed_phases", reports)


def levels_workers(options: Namespace) -> None:
    """Whether labels and model depend on workers or blocks where gamma is found without labels.

    The job, cut into 5 partitions, runs with 0, 1 and 2 workers and with blocks of 3,000 and of
    65,536 rows. Compared are SHA-256 sums: of the labels, of all columns that are written beside
    them, and of the file with the model's arrays.
    """
    rows: list[Row] = []
    with work_folder(options.work) as work:
        for workers, block_rows in product((0, 1, 2), (3_000, 65_536)):
            print(f"{workers} workers, blocks of {block_rows} rows", file=sys.stderr, flush=True)
            cut = {"partition_rows": FIFTH_ROWS, "block_rows": block_rows, "workers": workers}
            one_job(options, work / "shuttle", {"gamma": "auto"}, cut)
            sums = sums_of(work / "shuttle")
            rows.append({"workers": workers, "block_rows": block_rows} | sums)
    names = [name for name in rows[0] if name.endswith("sha256")]
    shortened = [row | {name: row[name][:16] for name in names} for row in rows]
    show("SHA-256, beginning of", shortened)
    for name in names:
        n = len({row[name] for row in rows})
        print(f"  {name}: {'all are equal' if n == 1 else f'{n} DIFFERENT ONES'}")
    publish(options.out, "levels_workers", rows)


def sums_of(output: Path) -> Row:
    """Return partitions, rows, clusters and SHA-256 sums of what was published in a folder."""
    import pyarrow.parquet as pq

    from distsvc.storage.publishing.publication import Output

    model = Output(output).file("arrays.npz")
    parts = [output / file["file"] for file in label_files(output)]
    table = pq.read_table(parts)
    values = {name: table[name].to_numpy().tobytes() for name in table.column_names}
    others = b"".join(value for name, value in values.items() if name != "label")
    return {
        "partitions": len(parts),
        "rows": table.num_rows,
        "clusters": len(set(table["label"].to_pylist())),
        "label_sha256": hashlib.sha256(values["label"]).hexdigest(),
        "others_sha256": hashlib.sha256(others).hexdigest(),
        "model_sha256": hashlib.sha256(model.read_bytes()).hexdigest(),
    }


def one_job(
    options: Namespace, output: Path, model: Row, cluster: Row, scheduler: str | None = None
) -> JobReport:
    """Run a job on shuttle's training rows into an empty folder, here or on a cluster."""
    table, cut = options.data / find("shuttle").file, {"partition_rows": PARTITION_ROWS}
    return run_here(table, output, INPUT, model, cut | cluster, scheduler)


def warm_peer(X: np.ndarray) -> Callable[[int], Any] | None:
    """Return what makes fast_hdbscan, compiled; None where it is not installed."""

    def peer(seed: int) -> Any:
        return made("fast_hdbscan", NOTHING, seed, min_cluster_size=MIN_CLUSTER_SIZE)

    try:
        peer(0).fit(X[:5000])
    except ModuleNotFoundError:
        print("without fast_hdbscan: pip install 'distsvc[bench]'", file=sys.stderr)
        return None
    return peer


def timed_fit(model: Any, X: np.ndarray, y: np.ndarray) -> Row:
    """Fit a model and return seconds, those of the processor, NMI and clusters."""
    fit = timed(model.fit, X)
    nmi, clusters = agreement(y, model.labels_)["nmi"], n_clusters(model.labels_)
    return {"seconds": fit.seconds, "cpu_s": fit.cpu_seconds, "nmi": nmi, "clusters": clusters}


def _times(seconds: list[float]) -> Row:
    return {"median_s": median(seconds), "best_s": min(seconds), "repeats": len(seconds)}


def _repeated(action: Callable[[int], Row], repeats: int) -> Row:
    """Return the columns about an action that is done with the seeds 0, 1, ..."""
    found = []
    for seed in range(repeats):
        found.append(action(seed))
        print(f"{found[-1]['seconds']:.2f} s", file=sys.stderr, flush=True)
    seconds = [row["seconds"] for row in found]
    return {
        "median_s": median(seconds),
        "best_s": min(seconds),
        "worst_s": max(seconds),
        "median_cpu_s": median(row["cpu_s"] for row in found) if "cpu_s" in found[0] else None,
        "repeats": repeats,
        "load": os.getloadavg()[0],
        "nmi": mean(row["nmi"] for row in found),
        "clusters": ", ".join(str(row["clusters"]) for row in found),
    }


def _publish_phases(out: Path, name: str, reports: dict[str, list[JobReport]]) -> None:
    """Print the median seconds of every phase and write ``<name>.csv``."""
    rows = [
        {
            "workers": kind,
            "phase": phase["name"],
            "median_s": median(report.phases[i]["seconds"] for report in alike),
        }
        for kind, alike in reports.items()
        for i, phase in enumerate(alike[0].phases)
    ]
    show("Phases of the job", rows)
    publish(out, name, rows)
