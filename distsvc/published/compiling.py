"""Compilation of kernels ahead of time, by small jobs that together call all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from distsvc.errors import OutputPermissionError
from distsvc.job.config import Section, Sections
from distsvc.job.file import parse_job
from distsvc.kernels.jit import cache_folder
from distsvc.run.job import run_job
from distsvc.run.work.progress import Progress
from distsvc.storage.places.arrays import write_text, write_whole
from distsvc.storage.places.process import scratch

N_ROWS = 1_200
"""Number of rows of the table."""

KERNEL_MODELS: dict[str, Section] = {
    "auto": {"effort": "fast"},
    "auto-columns": {"effort": "fast"},
    "auto-k": {"effort": "fast", "n_clusters": 3},
    "wide": {"effort": "fast"},
    "boundary": {"gamma": 0.5, "nu": 0.1, "max_iter": 2_000},
    "projected": {"gamma": 0.5, "nu": 0.1, "max_iter": 2_000, "maintenance": "project-nearest"},
    "exact": {"gamma": 0.5, "C": 10.0, "solver": "exact"},
    "svc": {"algorithm": "svc", "gamma": 0.5, "nu": 0.1},
    "fsvc": {"algorithm": "fsvc", "gamma": 0.5, "nu": 0.1},
    "mixture": {"algorithm": "mixture"},
    "imdh": {"algorithm": "imdh", "depth": 3, "n_init": 2},
    "ball": {"algorithm": "linear-svdd", "nu": 0.1, "memory_rows": 1_000},
    "plane": {"algorithm": "linear-one-class", "nu": 0.1},
    "sparse": {"algorithm": "linear-svdd", "nu": 0.1},
    "bico": {"algorithm": "bico", "n_clusters": 3, "n_init": 1},
    "fuzzy-c-means": {"algorithm": "fuzzy-c-means", "n_clusters": 3, "n_init": 1},
    "depddp": {"algorithm": "depddp"},
    "spdc": {"algorithm": "spdc"},
}
"""A ``[model]`` for each way to learn, by job name."""

KERNEL_SCALES = {"plane": "minmax", "sparse": "none", "imdh": "unit", "wide": "robust"}
"""Scales other than the default, so that each has a job."""


def compile_kernels(progress: Progress) -> Path:
    """Run small jobs that fill the cache of compiled kernels; return its folder.

    Raises `OutputPermissionError` if there is no writable folder.
    """
    cache = cache_folder()
    if cache is None or not os.access(cache, os.W_OK):
        raise OutputPermissionError(
            f"compiled code can't be kept in {cache or 'the folder for temporary files'}; set "
            "NUMBA_CACHE_DIR to a folder that may be written"
        )
    with scratch("compile") as folder, progress.phase("compile") as meter:
        jobs = list(_jobs(folder))
        meter.begin(len(jobs))
        for sections in jobs:
            run_job(parse_job(sections))
            meter.finished(N_ROWS)
    return cache


def _jobs(folder: Path) -> Iterator[Sections]:
    """Write the tables, and yield the jobs; one continues another."""
    table, lines = folder / "table.parquet", folder / "table.svm"
    _write(table, lines)
    for name, model in KERNEL_MODELS.items():
        clusters = "algorithm" not in model or not str(model["algorithm"]).startswith("linear")
        sections: Sections = {
            "input": {"path": str(lines if name == "sparse" else table)},
            "preprocess": {"scale": KERNEL_SCALES.get(name, "standard")},
            "model": model,
            "cluster": {"workers": 0},
            "output": {"path": str(folder / name), "reasons": 1, "top": int(clusters)},
        }
        if name != "sparse":
            columns = ["v"] if name == "wide" else ["a", "b", "c", "d"]
            sections["input"] |= {"id": "name", "label": "group", "columns": columns}
            sections["preprocess"]["missing"] = "median"
        if name in ("auto-columns", "mixture"):
            del sections["preprocess"]
            sections["input"]["columns"] = ["a", "b", "c", "d", "flag"]
        yield sections
        if name == "auto":
            later = {"previous": str(folder / name)}
            output = {"output": sections["output"] | {"path": str(folder / "later")}}
            yield sections | {"continuity": later} | output


def _write(table: Path, lines: Path) -> None:
    """Write three groups of rows with text ids, as Parquet and as svmlight text."""
    random, width = np.random.default_rng(0), 32
    group = random.integers(0, 3, N_ROWS)
    X = 9.0 + 6.0 * np.eye(4)[group] + random.normal(0.0, 1.0, (N_ROWS, 4))
    columns = dict(zip("abcd", X.T, strict=True)) | {"group": group}
    columns |= {"name": pa.array([f"row {k}" for k in range(N_ROWS)])}
    columns |= {"flag": pa.array(np.where(random.random(N_ROWS) < 0.3, "yes", "no"))}
    wide = np.repeat(X, width // 4, axis=1) + random.normal(0.0, 1.0, (N_ROWS, width))
    columns |= {"v": pa.FixedSizeListArray.from_arrays(pa.array(wide.ravel()), width)}
    write_whole(table, lambda stream: pq.write_table(pa.table(columns), stream))
    rows = (" ".join(f"{k}:{x:.4f}" for k, x in enumerate(row, 1)) for row in X)
    write_text(lines, "".join(f"1 {row}\n" for row in rows))
