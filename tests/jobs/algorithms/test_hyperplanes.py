"""iMDH as a job: the same labels however it is done, and those of the estimator."""

import hashlib
from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.preprocessing import StandardScaler

from distsvc import IncrementalMDH
from distsvc.job.file import parse_job
from distsvc.models.hyperplanes import estimator
from distsvc.published.predict import predict_table
from distsvc.run.job import run_job
from distsvc.run.learning import stream
from distsvc.run.work import plan
from distsvc.run.work.start import ClusterAddress
from tests.clusters import loopback_cluster
from tests.published_files import published_file, read_labels

pytestmark = pytest.mark.usefixtures("quick_page")

MODEL = {"algorithm": "imdh", "depth": 6, "n_init": 3, "seed": 1}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X, y


@pytest.fixture(scope="module")
def table(digits, tmp_path_factory):
    """The digits as Parquet, in row groups of 200."""
    X, y = digits
    columns = {f"p{k}": X[:, k] for k in range(X.shape[1])}
    path = tmp_path_factory.mktemp("data") / "digits.parquet"
    pq.write_table(pa.table(columns | {"class": y}), path, row_group_size=200)
    return path


def run(table, out, workers=0, cluster=None, model=None, **options):
    content = {
        "input": {"path": str(table), "label": "class"} | options.pop("input", {}),
        "model": MODEL | (model or {}),
        "preprocess": options.pop("preprocess", {}),
        "cluster": {"workers": workers, "partition_rows": 500} | (cluster or {}),
        "output": {"path": str(out)} | options.pop("output", {}),
    }
    return run_job(parse_job(content), **options)


@pytest.fixture(scope="module")
def published(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "run"
    return out, run(table, out)


def test_a_job_gives_the_labels_of_the_estimator(digits, published):
    X, _ = digits
    model = IncrementalMDH(depth=6, n_init=3, random_state=1).fit(StandardScaler().fit_transform(X))
    found = read_labels(published[0])
    assert found["row"].to_pylist() == list(range(len(X)))
    assert (found["label"].to_numpy() == model.labels_).mean() > 0.999
    assert model.n_clusters_ == len(published[1].clusters)
    scores = model.score_samples(StandardScaler().fit_transform(X))
    np.testing.assert_allclose(found["score"].to_numpy(), scores, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("held", [0, 2**27])
def test_a_sample_larger_than_the_pilot(digits, table, tmp_path, monkeypatch, held):
    """Its columns are measured in a pass of its own."""
    for module in (plan, estimator):
        monkeypatch.setattr(module, "PILOT_ROWS", 500)
    monkeypatch.setattr(stream, "HELD_BYTES", held)
    X, _ = digits
    model = IncrementalMDH(depth=6, n_init=3, random_state=1).fit(X)
    report = run(table, tmp_path / "out", preprocess={"scale": "none"})
    assert "scale" in [phase.name for phase in report.phases]
    assert read_labels(tmp_path / "out")["label"].to_numpy().tolist() == model.labels_.tolist()


def test_the_digits_are_found(digits, published):
    report = published[1]
    nmi = normalized_mutual_info_score(digits[1], read_labels(published[0])["label"])
    assert nmi > 0.6
    assert report.indices["normalized_mutual_information"].value == pytest.approx(nmi)
    assert report.model.fitted["n_samples"] == len(digits[0])
    assert 0.0 <= report.model.fitted["agreement"] <= 1.0


CUTS = (64, 300), (700, 1000), (5000, 100_000)


@pytest.mark.parametrize(("workers", "cuts"), [(0, CUTS), (2, CUTS[:1])])
def test_workers_and_blocks_do_not_change_a_byte(table, published, tmp_path, workers, cuts):
    expected = read_labels(published[0])
    model = hashlib.sha256(published_file(published[0], "arrays.npz").read_bytes()).hexdigest()
    with loopback_cluster(workers) if workers else nullcontext() as cluster:
        address = cluster.scheduler_address if workers else None
        for block_rows, partition_rows in cuts:
            out = tmp_path / f"out-{block_rows}"
            cut = {"block_rows": block_rows, "partition_rows": partition_rows}
            run(table, out, cluster=cut, at=ClusterAddress(address))
            assert read_labels(out).equals(expected)
            again = hashlib.sha256(published_file(out, "arrays.npz").read_bytes()).hexdigest()
            assert again == model


def test_predict_gives_the_same_labels(table, published, tmp_path):
    manifest = predict_table(published[0], str(table), str(tmp_path / "out"))
    assert read_labels(tmp_path / "out").equals(read_labels(published[0]))
    assert "standard deviations" in manifest.columns["score"]
    assert "always false" in manifest.columns["outlier"]


def test_a_table_with_rows_left_out(digits, table, tmp_path):
    """Which rows a sample has is known after the survey; it is then read again."""
    _, y = digits
    n = int((y < 3).sum())
    for most, again in ((1_000_000, False), (n // 2, True)):
        out = tmp_path / f"out-{most}"
        report = run(table, out, input={"where": "class < 3"}, model={"max_samples": most})
        assert ("sample" in [phase.name for phase in report.phases]) == again
        assert report.input.n_rows == n
        assert abs(report.model.fitted["n_samples"] - min(most, n)) < 60
    found = read_labels(out)["label"].to_numpy()
    assert adjusted_rand_score(y[y < 3], found) > 0.5
