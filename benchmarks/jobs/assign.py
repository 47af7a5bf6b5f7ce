"""Labelling a table with the model of a run before, beside the labelling pass of a refit."""

from __future__ import annotations

import shutil
from argparse import Namespace
from pathlib import Path
from statistics import median

from benchmarks.harness.measure import publish
from benchmarks.harness.rows import Row, only, show
from benchmarks.harness.runs import (
    JobReport,
    job_on,
    label_files,
    noisy_table,
    run_command,
    warm_cluster,
    work_folder,
)
from benchmarks.jobs.scale import GROUP, PARTITION_ROWS, read_once

PASSES = {"refit": "label", "assign": "assign"}
"""The pass that labels every row, by the mode."""


def assign(options: Namespace) -> None:
    """Rows per second and memory of `mode = "assign"`, beside the labelling pass of a refit.

    The table has `--rows` noisy rows of shuttle. Both modes run in turns, `--repeats` times (3) on
    one warm cluster, and once each on a cluster of its own for the memory. The refit has the seed
    of the run whose model labels, so that labels must be the same bytes.
    """
    repeats, seconds = options.repeats or 3, []
    with work_folder(options.work) as work:
        table = noisy_table(work / "scale", options.data, "shuttle", options.rows, GROUP)
        read_once(table)
        with warm_cluster() as address:
            _job(work, table, "before", address)
            _job(work, table, "assign", address)  # to warm up
            for number in range(repeats):
                for mode in PASSES:
                    report = _job(work, table, mode, address)
                    seconds.append(_figures(report, mode, options.rows) | {"repeat": number})
                    show(mode, seconds[-1:])
                same = _sums(work / "refit") == _sums(work / "assign")
                print(f"  labels, scores and flags byte-identical: {same}", flush=True)
                seconds[-2]["identical"] = seconds[-1]["identical"] = same
        memory = {}
        for mode in PASSES:
            with warm_cluster() as address:
                memory[mode] = _figures(_job(work, table, mode, address), mode, options.rows)
    figures = [_summary(mode, seconds, memory[mode]) for mode in PASSES]
    show("bars: ratio within 5 % of 1, byte-identical", figures)
    ratio = figures[1]["median_s"] / figures[0]["median_s"]
    print(f"  assign takes {ratio:.3f} of the refit's labelling pass")
    publish(options.out, "assign", seconds)
    publish(options.out, "assign_summary", [row | {"ratio": ratio} for row in figures])


def _job(work: Path, table: Path, mode: str, address: str) -> JobReport:
    """Run a job into a folder of that name, on a cluster; it finds nothing of an earlier one."""
    out = work / mode
    shutil.rmtree(out, ignore_errors=True)
    job = job_on(table, out, PARTITION_ROWS)
    if mode == "assign":
        job["model"] = {"mode": "assign"}
        job["continuity"] = {"previous": str((work / "before").absolute())}
    return run_command(work, job, "--scheduler", address)


def _figures(report: JobReport, mode: str, rows: int) -> Row:
    took = report.seconds(PASSES[mode])
    return {
        "mode": mode,
        "rows": rows,
        "pass_s": took,
        "rows_per_s": rows / took,
        "whole_s": report.warm_seconds,
        **report.peaks,
    }


def _summary(mode: str, seconds: list[Row], alone: Row) -> Row:
    rows = only(seconds, mode=mode)
    took = [row["pass_s"] for row in rows]
    return {
        "mode": mode,
        "rows": rows[0]["rows"],
        "median_s": median(took),
        "least_s": min(took),
        "most_s": max(took),
        "rows_per_s": rows[0]["rows"] / median(took),
        "whole_s": median(row["whole_s"] for row in rows),
        "driver_peak_mb": alone["driver_peak_mb"],
        "worker_peak_mb": alone["worker_peak_mb"],
        "identical": all(row["identical"] for row in rows),
    }


def _sums(out: Path) -> list[tuple[int, str]]:
    """Return size and SHA-256 of the files of labels that a run has published."""
    return [(one["bytes"], one["sha256"]) for one in label_files(out)]
