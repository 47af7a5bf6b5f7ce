"""Jobs that learn from all rows of a table: memory, time a row, and the answer after a kill."""

from __future__ import annotations

import shutil
import signal
import time
from argparse import Namespace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.measure import publish
from benchmarks.harness.rows import Row, show
from benchmarks.harness.runs import (
    JobReport,
    answer,
    label_files,
    started,
    work_folder,
    write_job,
)

COLUMNS, CLASSES, SEED = 9, 5, 0
GROUP = 250_000
"""Rows of a row group, and of a partition."""

MODELS: dict[str, Row] = {
    "support-vector": {
        "gamma": 0.5, "nu": 0.1, "budget": 50, "labelling": "equilibria", "stopping": "step-norm",
        "theta": 1e-12,
    },
    "imdh": {"n_init": 1, "passes": 1},
}  # fmt: skip
LEARNS = {"support-vector": "train", "imdh": "learn"}
WHOLE = {"support-vector": "max_iter", "imdh": "max_samples"}
"""The key that, at the number of rows, makes a job learn from all of them."""


def stream(options: Namespace) -> None:
    """Peak memory and time a row of learning from all rows, and the labels after a kill.

    The table has `--rows` rows and 9 columns of float32, sorted by class. The job runs in one
    process. Beside it the same job, which writes elsewhere, is killed in the middle of learning,
    and run again.
    """
    rows = []
    with work_folder(options.work) as work:
        table = _table(work / f"stream-{options.rows}.parquet", options.rows)
        for algorithm in options.methods or MODELS:
            model = {"algorithm": algorithm, "seed": SEED, WHOLE[algorithm]: options.rows}
            job = {
                "input": {"path": str(table.absolute())},
                "model": model | MODELS[algorithm],
                "cluster": {"workers": 0, "partition_rows": GROUP},
            }
            out, again = work / f"{algorithm}-whole", work / f"{algorithm}-killed"
            for folder in (out, again):  # what is done already would be used
                shutil.rmtree(folder, ignore_errors=True)
            path = write_job(work, job | {"output": {"path": str(out.absolute())}})
            report = JobReport(answer(started("run", path)))
            learning = report.seconds(LEARNS[algorithm])
            before = sum(p["seconds"] for p in _until(report, LEARNS[algorithm]))
            path = write_job(work, job | {"output": {"path": str(again.absolute())}})
            killed = started("run", path)
            time.sleep(before + 0.5 * learning)
            killed.kill()
            killed.communicate()
            began = time.perf_counter()
            answer(started("run", path))
            rest = time.perf_counter() - began
            rows.append(
                {
                    "algorithm": algorithm,
                    "rows": options.rows,
                    "peak_mb": report.peaks["driver_peak_mb"],
                    "microseconds_a_row": 1e6 * learning / options.rows,
                    "seconds": report.seconds(),
                    "killed": killed.returncode == -signal.SIGKILL,
                    "seconds_after_kill": rest,
                    "same_after_kill": _checksums(again) == _checksums(out),
                }
            )
    show("bar: peak_mb at most 500", rows)
    publish(options.out, "stream", rows)


def _checksums(out: Path) -> list[str]:
    """Return the checksums of the published label files, in the order of their partitions."""
    return [one["sha256"] for one in label_files(out)]


def _table(path: Path, n: int) -> Path:
    """Write a mixture of normals, one class after the other, unless it is there."""
    if path.exists():
        return path
    random = np.random.default_rng(SEED)
    centres = random.normal(0.0, 3.0, (CLASSES, COLUMNS))
    names = [f"x{k}" for k in range(COLUMNS)]
    schema = pa.schema([(name, pa.float32()) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, n, GROUP):
            classes = np.arange(first, min(first + GROUP, n)) * CLASSES // n
            X = centres[classes] + random.normal(size=(len(classes), COLUMNS))
            writer.write_table(pa.table(dict(zip(names, X.T.astype(np.float32), strict=True))))
    return path


def _until(report: JobReport, name: str) -> list[Row]:
    names = [phase["name"] for phase in report.phases]
    return report.phases[: names.index(name)]
