"""Jobs from 2 to 200 million rows: passes, memory, a model of the time, and what a kill costs.

Jobs run as `distsvc run` with two workers, in processes of their own, on noisy rows of shuttle with
its nine columns and in partitions of a million rows.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import time
from argparse import Namespace
from pathlib import Path

import numpy as np

from benchmarks.harness.measure import publish
from benchmarks.harness.rows import Row, show
from benchmarks.harness.runs import (
    JobReport,
    answer,
    job_on,
    noisy_table,
    started,
    warm_cluster,
    work_folder,
    write_job,
)

GROUP = 250_000
PARTITION_ROWS = 1_000_000
FITTED = (2_000_000, 20_000_000, 200_000_000)
UNSEEN = 60_000_000
PASSES = ("survey", "label")
PHASE = ("name", "seconds", "driver_peak_mb", "worker_peak_mb")
MEMORY_LIMIT = "3GB"
"""Of each worker, which Dask pauses near it and kills above it."""


def scale(options: Namespace) -> None:
    """Rows per second of every pass and memory at 2, 20 and 200 million rows, and a model of time.

    The largest job is killed twice, and goes on. The model has for every pass seconds per row and
    for the rest a constant, fitted to the three runs; it is checked on a run that it has not seen.
    """
    with work_folder(options.work) as work:
        figures, passes = [], []
        for n in (*FITTED, UNSEEN):
            table = noisy_table(work / "scale", options.data, "shuttle", n, GROUP)
            kills = 2 if n == max(FITTED) else 0
            read_once(table)
            with warm_cluster(memory_limit=MEMORY_LIMIT) as address:
                report = _uninterrupted(work, table, "--scheduler", address)
            figures.append(_figures(report, n))
            passes += [{"rows": n} | {key: one[key] for key in PHASE} for one in report.phases]
            if kills:
                with warm_cluster(memory_limit=MEMORY_LIMIT) as address:
                    seconds = report.content["wall"]
                    report = _killed(work, table, seconds, kills, "--scheduler", address)
                figures.append(_figures(report, n) | {"kills": kills})
            show("Jobs", figures[-1:])
    show("Passes", passes)
    show("bars: memory within 10 %, rows/s within 5 % of 20 million's", figures)
    publish(options.out, "scale_passes", passes)
    publish(options.out, "scale", figures)
    publish(options.out, "scale_model", [_modelled(figures)])


def kills(options: Namespace) -> None:
    """Work that is done again after SIGKILLs of the driver at random moments."""
    with work_folder(options.work) as work:
        table = noisy_table(work / "scale", options.data, "shuttle", options.rows, GROUP)
        read_once(table)
        whole = _uninterrupted(work, table)
        figures = []
        for number in range(options.seeds):
            moment = random.Random(number).uniform(0.0, whole.content["wall"])
            figures.append(_one_kill(work, table, moment) | {"kill": number})
            show("Kills", figures[-1:])
    show("bar: 60 s of work done again", figures)
    print(f"  undisturbed: {whole.content['wall']:.1f} s, of which tasks {_busy(whole):.1f} s")
    publish(options.out, "kills", figures)


def _one_kill(work: Path, table: Path, moment: float) -> Row:
    """Kill a driver once and let the next start go on; return what both did."""
    first = _start(work, table)
    time.sleep(moment)
    killed = first.poll() is None
    if killed:
        first.send_signal(signal.SIGKILL)
    first.communicate()
    kept = json.loads(started("status", work / "run").communicate()[0] or "{}")
    before = time.perf_counter()
    report = JobReport(answer(_start(work, table, fresh=False)))
    again = time.perf_counter() - before
    runs = kept.get("interrupted") or [{"kept": {}}]
    return {
        "killed_after_s": moment,
        "killed": killed,
        "kept": " ".join(f"{name}:{n}" for name, n in runs[0]["kept"].items()),
        "second_start_s": again,
        "both_s": moment + again,
        "passes_of_second_s": _busy(report),
    }


def _killed(work: Path, table: Path, seconds: float, kills: int, *more: str) -> JobReport:
    """Run a job whose driver is killed so many times, at even moments; return the last report."""
    for number in range(kills):
        run = _start(work, table, *more, fresh=number == 0)
        time.sleep(seconds / (kills + 1))
        run.send_signal(signal.SIGKILL)
        run.communicate()
    return JobReport(answer(_start(work, table, *more, fresh=False)))


def _uninterrupted(work: Path, table: Path, *more: str) -> JobReport:
    before = time.perf_counter()
    report = JobReport(answer(_start(work, table, *more)))
    report.content["wall"] = time.perf_counter() - before
    return report


def _start(work: Path, table: Path, *more: str, fresh: bool = True) -> subprocess.Popen:
    """Start a job; a `fresh` one finds nothing of an earlier one."""
    if fresh:
        shutil.rmtree(work / "run", ignore_errors=True)
    return started("run", write_job(work, job_on(table, work / "run", PARTITION_ROWS)), *more)


def read_once(table: Path) -> None:
    """Read a file once, so that all runs find as much of it in memory."""
    with open(table, "rb") as stream:
        while stream.read(2**24):
            pass


def _busy(report: JobReport) -> float:
    return report.seconds() - report.seconds("cluster")


def _figures(report: JobReport, n: int) -> Row:
    return {
        "rows": n,
        "kills": 0,
        "seconds": report.seconds(),
        "wall_s": report.content.get("wall"),
        **{f"{name}_rows_per_s": n / report.seconds(name) for name in PASSES},
        **report.peaks,
        **report.quality,
    }


def _modelled(figures: list[Row]) -> Row:
    """Fit seconds = constant + rows / speed to the undisturbed runs, and check the unseen one."""
    known = [one for one in figures if not one["kills"] and one["rows"] in FITTED]
    [unseen] = [one for one in figures if one["rows"] == UNSEEN]
    A = np.array([[1.0, one["rows"]] for one in known])
    seconds = np.array([one["wall_s"] for one in known])
    weights = 1.0 / seconds
    constant, per_row = np.linalg.lstsq(A * weights[:, None], seconds * weights, rcond=None)[0]
    forecast = constant + per_row * UNSEEN
    error = forecast / unseen["wall_s"] - 1.0
    print(f"  model: {constant:.1f} s + {1e6 * per_row:.3f} s per million rows")
    print(f"  {UNSEEN:,} rows: {forecast:.1f} s forecast, {unseen['wall_s']:.1f} s ({error:+.1%})")
    return {
        "constant_s": constant,
        "s_per_million_rows": 1e6 * per_row,
        "unseen_rows": UNSEEN,
        "forecast_s": forecast,
        "took_s": unseen["wall_s"],
    }
