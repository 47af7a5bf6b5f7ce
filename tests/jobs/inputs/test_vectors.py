"""Jobs on vectors, whose direction is what counts."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc import load
from distsvc.job.file import parse_job
from distsvc.run.job import run_job
from tests.published_files import labels_of, read_labels

QUICK = pytest.mark.usefixtures("quick_page")

N, D = 600, 24
UNIT = {"scale": "unit"}


@pytest.fixture(scope="module")
def embeddings() -> np.ndarray:
    """Rows of three directions, whose lengths say nothing."""
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.normal(size=(D, 3)))[0].T
    X = np.repeat(directions, N // 3, axis=0) + rng.normal(scale=0.05, size=(N, D))
    return (X * rng.lognormal(sigma=1.0, size=(N, 1))).astype(np.float32)


def write(path, X, row_group_size=100, **columns):
    v = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    pq.write_table(pa.table({"v": v} | columns), path, row_group_size=row_group_size)
    return str(path)


def run(path, out, preprocess=UNIT, **cluster):
    job = {"input": {"path": path}, "preprocess": preprocess, "cluster": cluster}
    job |= {"model": {"algorithm": "imdh", "n_init": 2}}
    return run_job(parse_job(job | {"output": {"path": str(out), "reasons": 1}}))


@QUICK
def test_the_scale_that_shows_directions_is_chosen_and_saved(embeddings, tmp_path):
    path = write(tmp_path / "t.parquet", embeddings)
    labels = []
    for scale, cluster in [("unit", {}), ("auto", {}), ("auto", {"partition_rows": 70})]:
        out = tmp_path / str(len(labels))
        report = run(path, out, {"scale": scale}, **cluster)
        labels.append(labels_of(out))
        told = [one for one in report.warnings if "preprocess.scale = 'auto' chose 'unit'" in one]
        assert len(told) == (scale == "auto")
    assert np.array_equal(labels[0], labels[1])
    assert np.array_equal(labels[0], labels[2])
    with pytest.warns(UserWarning, match="are about 2 times the values of the model's table"):
        doubled = load(tmp_path / "2").model.predict(2.0 * embeddings.astype(np.float64))
    assert np.array_equal(labels[0], doubled)


def test_a_vector_is_told_of_as_one(embeddings, tmp_path):
    X = embeddings.copy()
    X[[5, 300]] = np.random.default_rng(1).normal(size=(2, D))
    path = write(tmp_path / "t.parquet", X, x=pa.array(np.zeros(N)))
    report = run(path, tmp_path / "out")
    row = next(row for row in report.reasons.farthest if row.row in (5, 300))
    assert [(reason.column, reason.width) for reason in row.reasons] == [("v", D)]
    named = {one.column for cluster in report.profiles.clusters for one in cluster.columns}
    assert named
    assert named <= {f"v: component {k}" for k in range(1, 21)}
    texts = read_labels(tmp_path / "out")["reasons"].drop_null().to_pylist()
    assert set(texts) == {"v (100%)"}
    html = (tmp_path / "out" / "report.html").read_text()
    assert f"({D} numbers, " in html
