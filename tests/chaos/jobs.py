"""Small real jobs: every algorithm, every kind of input, both kinds of output, and `predict`."""

import io
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import tomli_w
import zarr
from sklearn.datasets import dump_svmlight_file

ROWS = 2000
SEEDS = {"new": 1, "old": 2, "other": 3}
"""``model.seed`` of the results that a job can have: one is there before an overwrite, one is asked
for where another was begun."""


def rows_of(content: int, n: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (n, 3) of three clusters and their classes (n,)."""
    random = np.random.default_rng(content)
    centres = np.array([[0.0, 0.0, 0.0], [5.0, 0.0, 1.0], [2.0, 4.0, 2.0]])
    y = random.integers(0, 3, n)
    return centres[y] + random.normal(0.0, 0.5, (n, 3)) + 9.0, y


def columns_of(X: np.ndarray) -> dict[str, np.ndarray]:
    return {f"x{k}": X[:, k] for k in range(X.shape[1])}


def write_parquet(folder: Path, X: np.ndarray, y: np.ndarray) -> None:
    ids = np.arange(len(X)) + 10_000
    for number, part in enumerate(np.array_split(np.arange(len(X)), 3)):
        named = {"row_id": ids[part], "kind": y[part], **columns_of(X[part])}
        pq.write_table(pa.table(named), folder / f"part-{number}.parquet", row_group_size=250)


def write_csv(folder: Path, X: np.ndarray, y: np.ndarray) -> None:
    for number, part in enumerate(np.array_split(np.arange(len(X)), 2)):
        table = pa.table({"row_id": part + 10_000, "kind": y[part], **columns_of(X[part].round(4))})
        pa.csv.write_csv(table, folder / f"part-{number}.csv")


def write_svmlight(folder: Path, X: np.ndarray, y: np.ndarray) -> None:
    stream = io.BytesIO()
    dump_svmlight_file(X.round(4), y, stream, zero_based=False)
    (folder / "rows.svm").write_bytes(stream.getvalue())


def write_zarr(folder: Path, X: np.ndarray, y: np.ndarray) -> None:
    group = zarr.open_group(folder, mode="w")
    for name, values in {"row_id": np.arange(len(X)), "kind": y, **columns_of(X)}.items():
        group.create_array(name, data=values, chunks=(500,))


@dataclass(frozen=True)
class Job:
    """A job, or the labelling of its table with its own published model.

    `write` writes a table into a folder. `model` is the section ``[model]``, but for the seed,
    and `sections` are others, as far as they differ from the rest.
    """

    name: str
    write: Callable[[Path, np.ndarray, np.ndarray], None]
    model: dict[str, Any]
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    predicts: bool = False

    @property
    def fitting(self) -> "Job":
        """The job that makes the model."""
        return JOBS[self.name.removeprefix("predict-")]

    def prepare(self, folder: Path, content: int = 0) -> None:
        """Write the job file and its table ``in`` into a folder."""
        plain = {
            "input": {"path": "in", "id": "row_id", "label": "kind"},
            "model": self.model,
            "cluster": {"workers": 0, "partition_rows": 500, "block_rows": 200},
            "output": {"path": "out"},
        }
        if self.write is write_svmlight:
            plain["input"] = {"path": "in", "label": "label"}
        names = plain.keys() | self.sections.keys()
        sections = {name: plain.get(name, {}) | self.sections.get(name, {}) for name in names}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job.toml").write_text(tomli_w.dumps(sections))
        if not (folder / "in").exists():
            self.write_table(folder / "in", content)

    def write_table(self, folder: Path, content: int, n: int = ROWS) -> None:
        """Write a table with some content into a new folder."""
        folder.mkdir(parents=True)
        self.write(folder, *rows_of(content + (100 if self.predicts else 0), n))

    def command(self, which: str, output: str = "out") -> list[str]:
        """Return the command line for one of the job's results, by its name in `SEEDS`."""
        if self.predicts:
            return ["predict", f"model-{which}", "in", output]
        sets = ["--set", f"model.seed={SEEDS[which]}", "--set", f"output.path={output}"]
        return ["run", "job.toml", *sets]


VECTORS = {"algorithm": "support-vector"}
AS_ZARR, FILLED = {"output": {"format": "zarr"}}, {"preprocess": {"missing": "median"}}
ALL = (
    Job("level-tree", write_parquet, VECTORS | {"effort": "fast", "max_iter": 600}),
    Job("boundary", write_csv, VECTORS | {"gamma": 1.0, "nu": 0.1, "max_iter": 3000, "budget": 20}),
    Job("imdh", write_zarr, {"algorithm": "imdh", "depth": 3, "n_init": 2}, AS_ZARR),
    Job("imdh-clusters", write_parquet, {"algorithm": "imdh", "n_clusters": 3, "n_init": 2}),
    Job(
        "linear-one-class",
        write_svmlight,
        {"algorithm": "linear-one-class", "nu": 0.1},
        {"preprocess": {"scale": "none"}, "output": {"reasons": 2}},
    ),
    Job("linear-svdd", write_parquet, {"algorithm": "linear-svdd", "nu": 0.1, "memory_rows": 1000}),
    Job("bico", write_csv, {"algorithm": "bico", "n_clusters": 3}),
    Job("fuzzy-c-means", write_zarr, {"algorithm": "fuzzy-c-means", "n_clusters": 3}, FILLED),
    Job("depddp", write_parquet, {"algorithm": "depddp"}, AS_ZARR),
    Job("spdc", write_parquet, {"algorithm": "spdc"}),
)
JOBS = {job.name: job for job in ALL}
JOBS |= {
    f"predict-{job.name}": Job(
        f"predict-{job.name}", job.write, job.model, job.sections, predicts=True
    )
    for job in ALL
}
CHANGES = ("replaced", "appended", "truncated", "removed")
"""What can happen to a table while it is read."""


def changed_table(job: Job, change: str, before: Path, after: Path, content: int) -> None:
    """Write to the folder `after` what a change makes of the table in the folder `before`."""
    if change == "replaced":
        job.write_table(after, content)
        return
    if change == "appended":
        job.write_table(after, 0, ROWS + 500)
        return
    shutil.copytree(before, after)
    largest = max((p for p in after.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    if change == "removed":
        largest.unlink()
    else:
        largest.write_bytes(largest.read_bytes()[: largest.stat().st_size // 2])
