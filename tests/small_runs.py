"""Small runs, taken step by step in this process."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.job.config import Job
from distsvc.job.file import parse_job
from distsvc.models.rows.scaling import ColumnSums
from distsvc.models.rules.rule import Rule
from distsvc.run import algorithms
from distsvc.run.algorithms.algorithm import AlgorithmJob
from distsvc.run.job import run_job
from distsvc.run.labelling.labeller import Labeller
from distsvc.run.labelling.phase import Labelled, fill_output, label_table
from distsvc.run.learning.survey import Survey, survey_table
from distsvc.run.nights.continuity import ids_of
from distsvc.run.preparing import prepare
from distsvc.run.work import directory
from distsvc.run.work.directory import RunDirectory
from distsvc.run.work.phases import Phase, Steps
from distsvc.run.work.plan import Plan
from distsvc.run.work.progress import Progress
from distsvc.storage.places.arrays import file_facts
from distsvc.storage.tables.opening import open_table

MODELS: dict[str, dict[str, Any]] = {
    "level tree": {"effort": "fast", "max_iter": 600},
    "boundary": {"gamma": 1.0, "nu": 0.1, "max_iter": 3000, "budget": 20},
    "hyperplanes": {"algorithm": "imdh", "depth": 3, "n_init": 2},
    "linear": {"algorithm": "linear-svdd", "nu": 0.1, "memory_rows": 1000},
    "sampled": {"algorithm": "depddp"},
}
"""A ``[model]`` for each algorithm; the linear one takes passes over more than 1000 rows."""

FORMS: dict[str, dict[str, Any]] = {
    "level-tree": MODELS["level tree"],
    "support-vector": MODELS["boundary"],
    "imdh": MODELS["hyperplanes"],
    "linear-one-class": {"algorithm": "linear-one-class", "nu": 0.1},
    "linear-svdd": {"algorithm": "linear-svdd", "nu": 0.1},
    "centres": {"algorithm": "bico", "n_clusters": 3},
    "splits": MODELS["sampled"],
    "components": {"algorithm": "mixture"},
}
"""A ``[model]`` for each form of rule."""

CENTRES = np.array([[0.0, 0.0, 0.0], [5.0, 0.0, 1.0], [2.0, 4.0, 2.0]])


def three_clusters(n: int, d: int = 2, seed: int = 0) -> np.ndarray:
    """Rows (n, d), d at most 3, in random order."""
    random = np.random.default_rng(seed)
    return CENTRES[random.integers(0, 3, n), :d] + random.normal(0.0, 0.5, (n, d)) + 9.0


def write_table(path: Path, X: np.ndarray, **columns: Any) -> Path:
    """Write rows as Parquet, the features x0, x1 and so on, in row groups of 100."""
    named = {f"x{k}": X[:, k] for k in range(X.shape[1])}
    pq.write_table(pa.table(named | columns), path, row_group_size=100)
    return path


def surveyed(X: np.ndarray, pilot: int | None = None) -> Survey:
    """Return the survey of rows in memory, the first of which are the pilot; by default all."""
    sums = ColumnSums.empty(np.nanmedian(np.where(np.isnan(X), 0.0, X), axis=0))
    assert sums.add(X) is None
    return Survey(len(X), sums, SimpleNamespace(X=X[:pilot]))


def table_of(X: np.ndarray, **columns: Any) -> Any:
    """Return a fixture `table`: rows X (n, d) in a file that is written once for a module."""

    @pytest.fixture(scope="module")
    def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
        return write_table(tmp_path_factory.mktemp("data") / "t.parquet", X, **columns)

    return table


def zeroed(path: Path) -> None:
    """Set the second half of a file to zero, as a loss of power may do."""
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2] + bytes(size - size // 2))


def small_job(path: Path | str, model: dict[str, Any], **sections: dict[str, Any]) -> Job:
    """Return a job that cuts a table into partitions of 300 rows and blocks of 70."""
    plane = model.get("algorithm") == "linear-one-class"
    content = {
        "input": {"path": str(path)},
        "preprocess": {"scale": "minmax" if plane else "standard"},
        "model": model,
        "cluster": {"workers": 0, "partition_rows": 300, "block_rows": 70},
        "output": {"path": str(Path(path).parent / "out")},
    }
    names = {**content, **sections}
    return parse_job({name: content.get(name, {}) | sections.get(name, {}) for name in names})


@dataclass(frozen=True)
class Begun:
    """A run whose plan is written, and whose next step is the survey."""

    job: Job
    algorithm: AlgorithmJob
    steps: Steps

    @property
    def run(self) -> RunDirectory:
        return self.steps.run


def begin(job: Job, folder: Path) -> Begun:
    """Open a job's table, as a new process would, and write the plan into a folder."""
    forget()
    folder.mkdir(exist_ok=True)
    table = open_table(job.input, folder / "staging")
    run = RunDirectory(folder)
    run.write_plan(Plan.of(job, table))
    return Begun(job, algorithms.begin(job, table), Steps(run, None, Progress(quiet=True)))


@dataclass(frozen=True)
class Fitted(Begun):
    """A run whose rule is written."""

    survey: Survey
    pilot: np.ndarray
    rule: Rule

    def label(self) -> Labelled:
        """Take the last steps on the table."""
        labelled = label_table(self.steps, surveyed=self.survey.lowest)
        fill_output(self.steps, labelled.counts)
        return labelled


def fit(job: Job, folder: Path) -> Fitted:
    """Take all steps of a job up to its rule."""
    begun = begin(job, folder)
    survey = survey_table(begun.steps, begun.algorithm.engine.key_ranges)
    pilot = prepare(begun.steps, job.preprocess, begun.algorithm, survey)
    rule = begun.algorithm.fit(begun.steps, survey)
    ids = ids_of(begun.steps, rule, survey, job.continuity)
    columns = begun.run.plan.table.columns
    Labeller.of(rule, ids, columns, survey.pilot, pilot).write(begun.run)
    return Fitted(begun.job, begun.algorithm, begun.steps, survey, pilot, rule)


class Killed(BaseException):
    """Stands for the end of the process."""


@contextmanager
def killed(monkeypatch: pytest.MonkeyPatch, at: str = "label/00001") -> Iterator[None]:
    """Let the process end before a task."""
    do = Phase.do

    def stopped(self: Phase, run: str, number: int) -> Any:
        if self.result(number) == at:
            raise Killed
        return do(self, run, number)

    with monkeypatch.context() as patch, pytest.raises(Killed):  # noqa: PT012
        patch.setattr(Phase, "do", stopped)
        yield


class Tasks(list[str]):
    """The results of tasks that are done; the one after `most` of them raises `error`."""

    most: int | None = None
    error: BaseException = Killed()

    def interrupt(
        self, job: Job, most: int, error: BaseException | None = None, **options: Any
    ) -> None:
        """Begin a run and end it before a task."""
        self.clear()
        self.most, self.error = most, error or Killed()
        with pytest.raises(type(self.error)):
            run_job(job, **options)
        self.most = None
        self.clear()
        forget()


def forget() -> None:
    """Drop what this process keeps of runs, as if it were a new one."""
    directory._result.cache_clear()
    directory._plan.cache_clear()
    directory._large.cache_clear()
    directory._compare.cache_clear()


def listed_again(folder: Path) -> None:
    """Bring the sizes and checksums of a manifest up to date, after files have been changed."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for file in manifest["files"]:
        if (folder / file["file"]).is_file():
            file |= file_facts(folder / file["file"])
    (folder / "manifest.json").write_text(json.dumps(manifest))


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder, by its name there."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
