"""Jobs with more extreme rows than learning leaves out: the note and its advice."""

import numpy as np
import pytest

from distsvc.published.predict import predict_table
from distsvc.run.job import run_job
from tests.published_files import labels_of
from tests.small_runs import small_job, three_clusters, write_table

QUICK = pytest.mark.usefixtures("quick_page")

N = 400
LEVELS = {"effort": "fast", "max_iter": 600}
TREES = {"algorithm": "imdh", "depth": 3, "n_init": 2}
SIZES = np.random.default_rng(1).lognormal(6.0, 2.5, N)
FAR = 9
"""Number of extreme rows, more than learning leaves out."""


def done(folder, X, model, name="t", **sections):
    """Run a job on rows; return its report and the labels."""
    path = write_table(folder / f"{name}.parquet", X)
    output = {"path": str(folder / name)} | sections.pop("output", {})
    job = small_job(path, model, output=output, **sections)
    return run_job(job), labels_of(folder / name)


def far(X, columns=slice(None), count=FAR):
    rows = X[:count].copy()
    rows[:, columns] = 1e9
    return np.concatenate([X, rows])


def notes(report):
    return [text for text in report.warnings if "extreme values" in text]


def test_the_page_names_columns_with_extreme_values(tmp_path):
    report, _ = done(tmp_path, far(three_clusters(N), 1), TREES)
    (note,) = notes(report)
    assert note.startswith("extreme values decide the scale of 'x1' (95 % of the rows between ")
    assert note.endswith(", the farthest 1e+09): use preprocess.scale = 'robust'")
    assert "extreme values decide" in (tmp_path / "t" / "report.html").read_text()


@QUICK
def test_a_logarithm_is_advised_and_helps(tmp_path):
    X = np.column_stack([three_clusters(N), np.append(SIZES[FAR:], np.full(FAR, 7e8))])
    (note,) = notes(done(tmp_path, X, TREES)[0])
    assert note.endswith(": use preprocess.log = ['x2'], or preprocess.scale = 'robust'")
    report, found = done(tmp_path, X, TREES, "log", preprocess={"log": ["x2"]})
    assert not notes(report)
    assert report.input.columns == ["x0", "x1", "log(x2)"]
    predict_table(tmp_path / "log", str(tmp_path / "t.parquet"), str(tmp_path / "again"))
    assert np.array_equal(labels_of(tmp_path / "again"), found)


@QUICK
def test_many_columns_are_counted_and_only_numbers_get_logarithms(tmp_path):
    sizes = np.append(SIZES[FAR:], np.full(FAR, 7e8))
    X = np.column_stack(
        [*[k * sizes + k for k in range(1, 8)], far(three_clusters(N - FAR), 0)[:, 0]]
    )
    (note,) = notes(done(tmp_path, X, TREES, preprocess={"log": ["x0"]})[0])
    assert "'x5' (95 % of the rows between " in note
    assert "'x6' (" not in note
    assert " and 2 more: use preprocess.scale = 'robust', or for some columns " in note
    assert note.endswith("preprocess.log = ['x1', 'x2', 'x3', 'x4', 'x5', ...]")
