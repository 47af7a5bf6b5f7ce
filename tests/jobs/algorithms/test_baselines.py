"""The baselines as jobs: the labels of the estimators, the same however the table is cut."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import StandardScaler

from distsvc.baselines import BICO, SPDC, DePDDP, FuzzyCMeans, KMeans
from distsvc.errors import JobFileError
from distsvc.job.file import parse_job
from distsvc.published.predict import predict_table
from distsvc.report.content.report import Report
from distsvc.report.page import render_page
from distsvc.run.algorithms import sampled
from distsvc.run.job import run_job
from distsvc.storage.places.arrays import read_json
from tests.published_files import listed, published_file

pytestmark = pytest.mark.usefixtures("quick_page")

SEED = 3
BASELINES = {
    "bico": (BICO, {"n_clusters": 4, "size": 60}),
    "spdc": (SPDC, {"window": 200}),
    "depddp": (DePDDP, {"n_clusters": 4}),
    "fuzzy-c-means": (FuzzyCMeans, {"n_clusters": 4, "m": 1.5}),
    "kmeans": (KMeans, {"n_clusters": 4}),
}
FORMS = {
    "bico": "centres", "spdc": "splits", "depddp": "splits", "fuzzy-c-means": "centres",
    "kmeans": "centres",
}  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    """Four clusters of different sizes, one after the other."""
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0, 0.0], [30.0, 0.0, 0.0], [30.0, 20.0, 0.0], [0.0, 0.0, 12.0]])
    return np.repeat(centres, [300, 900, 600, 1200], axis=0) + rng.normal(size=(3000, 3))


def write(X, path):
    columns = {f"f{k}": X[:, k] for k in range(X.shape[1])}
    pq.write_table(pa.table(columns), path, row_group_size=500)
    return path


@pytest.fixture(scope="module")
def table(rows, tmp_path_factory):
    return write(rows, tmp_path_factory.mktemp("data") / "rows.parquet")


def run(table, out, algorithm, cluster=None, model=None, **options):
    content = {
        "input": {"path": str(table)},
        "model": {"algorithm": algorithm, "seed": SEED} | BASELINES[algorithm][1] | (model or {}),
        "cluster": {"workers": 0} | (cluster or {}),
        "output": {"path": str(out)},
    }
    return run_job(parse_job(content), **options)


def labels_of(out):
    parts = [pq.read_table(path) for path in listed(out, "labels/")]
    return pa.concat_tables(parts), len(parts)


@pytest.fixture(scope="module", params=BASELINES)
def published(request, table, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "run"
    return request.param, out, run(table, out, request.param)


def fitted(algorithm, rows):
    """Return the estimator on the scaled rows, and these."""
    estimator, parameters = BASELINES[algorithm]
    seed = {} if algorithm == "depddp" else {"random_state": SEED}
    X = StandardScaler().fit_transform(rows)
    return estimator(**parameters, **seed).fit(X), X


def test_a_job_gives_the_labels_of_the_estimator(rows, published):
    algorithm, out, report = published
    model, X = fitted(algorithm, rows)
    found, n_parts = labels_of(out)
    labels = found["label"].to_numpy()
    assert n_parts == 1
    assert found["row"].to_pylist() == list(range(len(rows)))
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_array_equal(labels, model.predict(X))
    assert (np.diff(np.bincount(labels)) <= 0).all()
    assert len(report.clusters) == labels.max() + 1 >= 4


def test_a_score_is_the_distance_to_the_border(rows, published):
    """A row keeps its label on any step shorter than its score, and loses it on one just longer."""
    algorithm, out, _ = published
    model, X = fitted(algorithm, rows)
    scores = labels_of(out)[0]["score"].to_numpy()
    some = np.random.default_rng(1).permutation(len(X))[:40]
    steps = np.random.default_rng(2).normal(size=(len(some), 4000, 3))
    steps /= np.linalg.norm(steps, axis=2, keepdims=True)
    at, before = X[some][:, None], model.predict(X[some])[:, None]
    for factor, least, most in ((0.999, 0.0, 0.0), (1.05, 0.9, 1.0)):
        reach = at + factor * steps * scores[some][:, None, None]
        moved = model.predict(reach.reshape(-1, 3)).reshape(len(some), -1) != before
        assert least <= moved.any(axis=1).mean() <= most


def test_predict_gives_the_same_labels(table, published, tmp_path):
    algorithm, out, _ = published
    manifest = predict_table(out, str(table), str(tmp_path / "out"))
    assert labels_of(tmp_path / "out")[0].equals(labels_of(out)[0])
    assert manifest.clusters == read_json(out / "manifest.json")["clusters"]
    assert "nearest hyperplane" in manifest.columns["score"]
    assert "always false" in manifest.columns["outlier"]
    content = read_json(published_file(out, "model.json"))
    assert (content["algorithm"], content["form"]) == (algorithm, FORMS[algorithm])


def test_the_page(published):
    _, out, report = published
    page = (out / "report.html").read_text()
    assert render_page(Report.parsed(read_json(out / "report.json"), "report.json"))
    assert report.score_histogram.heading in page
    assert "divide" in page
    assert "<h2>Splits" not in page
    assert "Inside or outside" not in page
    assert {"n_clusters", "n_samples", "share_sampled"} <= set(report.model.fitted)
    assert sum(report.score_histogram.counts) == 3000


def test_a_large_table_is_sampled(rows, table, published, tmp_path, monkeypatch):
    algorithm, _, _ = published
    monkeypatch.setattr(sampled, "MAX_FITTED_ROWS", 2000)
    report = run(table, tmp_path / "whole", algorithm, cluster={"partition_rows": 1000})
    run(table, tmp_path / "cut", algorithm, cluster={"block_rows": 50})
    found, _ = labels_of(tmp_path / "whole")
    facts = report.model.fitted
    assert abs(facts["n_samples"] - 2000) < 150
    assert facts["share_sampled"] == facts["n_samples"] / len(rows)
    assert len(found) == len(rows)
    assert found.equals(labels_of(tmp_path / "cut")[0])


def test_what_the_estimator_warns_of_is_told(tmp_path):
    X = np.repeat(np.eye(3), 5, axis=0)
    report = run(write(X, tmp_path / "few.parquet"), tmp_path / "out", "bico")
    assert any("only 3 found" in note for note in report.warnings)


def test_what_the_estimator_refuses_is_the_jobs_fault(tmp_path):
    path = write(np.eye(3), tmp_path / "few.parquet")
    with pytest.raises(JobFileError, match=r"^model: n_samples=3 should be >= n_clusters=4"):
        run(path, tmp_path / "out", "fuzzy-c-means")
    assert not (tmp_path / "out/manifest.json").exists()
