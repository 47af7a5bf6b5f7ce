"""What the benchmarks of jobs share: running one, what its report says, tables to run it on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from benchmarks.harness.data import papers_rows
from benchmarks.harness.measure import alone
from benchmarks.harness.rows import Row
from distsvc.storage.places.arrays import read_json

WORKERS = 2
PEAKS = ("driver_peak_mb", "worker_peak_mb")
NOISE = 0.01
"""Standard deviation of the noise, in standard deviations of its column."""


@dataclass(frozen=True)
class JobReport:
    """What a job says at its end: its ``report.json``, and how long publishing took."""

    content: Row

    @property
    def phases(self) -> list[Row]:
        """Name, seconds, rows and peak memory of every phase, in their order."""
        return self.content["phases"]

    @property
    def rows(self) -> int:
        """Rows of the table that were clustered."""
        return self.content["input"]["n_rows"]

    def seconds(self, *names: str) -> float:
        """Return the seconds of phases, of all without a name; ``pass-00`` is one of ``pass``."""
        named = [(p["name"].partition("-")[0], p["seconds"]) for p in self.phases]
        return sum(seconds for name, seconds in named if not names or name in names)

    @property
    def warm_seconds(self) -> float:
        """Seconds from reading to publishing, without those of finding the cluster."""
        return self.seconds() - self.seconds("cluster")

    @property
    def quality(self) -> Row:
        """NMI and the number of clusters."""
        nmi = self.content["indices"]["normalized_mutual_information"]["value"]
        return {"nmi": nmi, "clusters": len(self.content["clusters"])}

    @property
    def peaks(self) -> Row:
        """Peak memory of the driver and of the largest worker, in MB."""
        return {name: max(phase[name] or 0.0 for phase in self.phases) for name in PEAKS}


def job_on(
    table: Path, out: Path, partition_rows: int, model: Row | None = None, **sections: Row
) -> Row:
    """Return a job on a table with labels, by `WORKERS` of this machine, and other sections."""
    return {
        "input": {"path": str(table.absolute()), "label": "label"},
        "model": model or {},
        "cluster": {"workers": WORKERS, "partition_rows": partition_rows},
        "output": {"path": str(out.absolute())},
    } | sections


def started(*words: str | Path) -> subprocess.Popen[str]:
    """Start a command of distsvc that prints JSON."""
    command = [sys.executable, "-m", "distsvc", *map(str, words), "--json"]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def answer(process: subprocess.Popen[str]) -> Row:
    """Return what a command printed; end with its message if it failed."""
    out, said = process.communicate()
    if process.returncode:
        command = " ".join(process.args)  # type: ignore[arg-type]
        sys.exit(f"{command} failed with code {process.returncode}:\n{said[-3000:]}")
    return json.loads(out)


def run_command(work: Path, job: Row, *more: str) -> JobReport:
    """Run a job as `distsvc run`, in place of what is published where it writes."""
    return JobReport(answer(started("run", write_job(work, job), "--overwrite", *more)))


def write_job(work: Path, job: Row) -> Path:
    """Write a job file of some sections and return its path."""
    path = work / "job.toml"
    path.write_text(tomli_w.dumps(job), encoding="utf-8")
    return path


def run_here(
    table: Path, output: Path, rows: Row, model: Row, cluster: Row, scheduler: str | None = None,
    more: Row | None = None,
) -> JobReport:  # fmt: skip
    """Run a job, with `more` sections, into an empty folder, in this process or on a cluster."""
    from distsvc.job.file import parse_job
    from distsvc.run.job import run_job
    from distsvc.run.work.start import ClusterAddress

    shutil.rmtree(output, ignore_errors=True)
    job = {
        "input": {"path": str(table)} | rows,
        "model": model,
        "cluster": cluster,
        "output": {"path": str(output)},
    } | (more or {})
    return JobReport(run_job(parse_job(job), ClusterAddress(scheduler)).model_dump())


def published(out: Path, column: str = "label") -> np.ndarray:
    """Return a column (n,) that a run has published, in the order of the table's rows."""
    import distsvc

    return distsvc.load(out).labels(column)[column].to_numpy()


def label_files(out: Path) -> list[Row]:
    """Return name, size and checksum of the files of labels that a run has published."""
    files = read_json(out / "manifest.json")["files"]
    return [one for one in files if one["file"].startswith("labels/")]


def write_columns(path: Path, X: np.ndarray, **settings: Any) -> None:
    """Write the rows X (n, d) as a Parquet file with the columns f0, f1, ..."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {f"f{k}": column for k, column in enumerate(X.T)}
    pq.write_table(pa.table(columns), path, **settings)


@contextmanager
def warm_cluster(**settings: Any) -> Iterator[str]:
    """Yield the address of a scheduler with workers of one thread."""
    from distributed import LocalCluster

    where = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "threads_per_worker": 1}
    with LocalCluster(n_workers=WORKERS, **where, **settings) as cluster:
        yield cluster.scheduler_address


@contextmanager
def work_folder(given: Path | None) -> Iterator[Path]:
    """Yield the folder for large files: the one given, which is kept, or one that is removed."""
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="distsvc-benchmark-") as folder:
        yield Path(folder)


def noisy_table(
    stem: Path, data: Path, name: str, n: int, group: int, in_order: bool = False
) -> Path:
    """Return the path of a noisy table with n rows of a set, made unless it is there."""
    order = "sorted" if in_order else "shuffled"
    table = stem.with_name(f"{stem.name}-{n}-{order}.parquet")
    if not table.exists():
        print(f"making {table}", file=sys.stderr, flush=True)
        alone(make_table, data, name, table, n, group, in_order)
    return table


def make_table(data: Path, name: str, path: Path, n: int, group: int, in_order: bool) -> None:
    """Write n noisy rows of a set in row groups of `group` rows; memory does not grow with n.

    A group's rows follow from its number alone, so the sorted table is made by going
    through all of them once per class.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = papers_rows(name, data)
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
