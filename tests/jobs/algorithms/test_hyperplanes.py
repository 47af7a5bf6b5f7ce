"""iMDH as a job: the same labels however it is done, and those of the estimator."""

import hashlib
import json
from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.preprocessing import StandardScaler

from distsvc import IncrementalMDH
from distsvc.errors import JobFileError
from distsvc.job.file import parse_job
from distsvc.published.predict import predict_table
from distsvc.report.content.report import Report
from distsvc.report.page import render_page
from distsvc.run.algorithms import hyperplanes
from distsvc.run.job import run_job
from distsvc.run.work import plan
from distsvc.run.work.start import ClusterAddress
from tests.clusters import loopback_cluster
from tests.jobs.lost_work import DoneTwice
from tests.published_files import nothing_left, published_file, read_labels

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
        "cluster": {"workers": workers, "partition_rows": 500} | (cluster or {}),
        "output": {"path": str(out)} | options.pop("output", {}),
    }
    return run_job(parse_job(content), **options)


def labels_of(out):
    return read_labels(out)


@pytest.fixture(scope="module")
def published(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "run"
    return out, run(table, out)


def test_a_job_gives_the_labels_of_the_estimator(digits, published):
    X, _ = digits
    model = IncrementalMDH(depth=6, n_init=3, random_state=1).fit(StandardScaler().fit_transform(X))
    found = labels_of(published[0])
    assert found["row"].to_pylist() == list(range(len(X)))
    assert (found["label"].to_numpy() == model.labels_).mean() > 0.999
    assert model.n_clusters_ == len(published[1].clusters)
    scores = model.score_samples(StandardScaler().fit_transform(X))
    np.testing.assert_allclose(found["score"].to_numpy(), scores, rtol=1e-3, atol=1e-4)


def test_the_digits_are_found(digits, published):
    report = published[1]
    nmi = normalized_mutual_info_score(digits[1], labels_of(published[0])["label"])
    assert nmi > 0.6
    assert report.indices["normalized_mutual_information"].value == pytest.approx(nmi)
    assert report.model.fitted["n_samples"] == len(digits[0])
    assert 0.0 <= report.model.fitted["agreement"] <= 1.0


CUTS = (64, 300), (700, 1000), (5000, 100_000)


@pytest.mark.parametrize(("workers", "cuts"), [(0, CUTS), (2, CUTS[:1])])
def test_workers_and_blocks_do_not_change_a_byte(table, published, tmp_path, workers, cuts):
    expected = labels_of(published[0])
    model = hashlib.sha256(published_file(published[0], "arrays.npz").read_bytes()).hexdigest()
    with loopback_cluster(workers) if workers else nullcontext() as cluster:
        address = cluster.scheduler_address if workers else None
        for block_rows, partition_rows in cuts:
            out = tmp_path / f"out-{block_rows}"
            cut = {"block_rows": block_rows, "partition_rows": partition_rows}
            run(table, out, cluster=cut, at=ClusterAddress(address))
            assert labels_of(out).equals(expected)
            again = hashlib.sha256(published_file(out, "arrays.npz").read_bytes()).hexdigest()
            assert again == model


def test_predict_gives_the_same_labels(table, published, tmp_path):
    manifest = predict_table(published[0], str(table), str(tmp_path / "out"))
    assert labels_of(tmp_path / "out").equals(labels_of(published[0]))
    assert "standard deviations" in manifest.columns["score"]
    assert "always false" in manifest.columns["outlier"]


def test_partitions_of_a_wide_table_are_small(table, tmp_path, monkeypatch):
    """A worker may have to hold a partition's part of the sample."""
    monkeypatch.setattr(plan, "PARTITION_BYTES", 8 * 64 * 250)
    run(table, tmp_path / "out", model={"n_init": 1})
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    rows = [f["rows"] for f in manifest["files"] if f["file"].startswith("labels/")]
    assert len(rows) == 9
    assert max(rows) == 200


def test_no_row_is_an_outlier(published):
    assert not any(labels_of(published[0])["outlier"].to_pylist())
    assert min(labels_of(published[0])["score"].to_pylist()) >= 0.0
    assert published[1].outliers.defined is False


def test_the_report_tells_the_tree(published):
    out, report = published
    tree, k = report.dumped()["tree"], len(report.clusters)
    leaves = [node for node in tree["nodes"] if "label" in node]
    inner = [node for node in tree["nodes"] if "label" not in node]
    assert sorted(node["label"] for node in leaves) == list(range(k))
    assert sorted(node["rank"] for node in inner) == list(range(1, k))
    assert sum(node["rows"] for node in leaves) == report.input.n_rows
    sizes = {row.label: row.rows for row in report.clusters}
    assert {node["label"]: node["rows"] for node in leaves} == sizes
    by_id = {node["id"]: node for node in tree["nodes"]}
    for node in inner:
        below, above = by_id[node["below"]], by_id[node["above"]]
        assert node["rows"] == below["rows"] + above["rows"]
        assert {below["parent"], above["parent"]} == {node["id"]}
        assert len(node["direction"]) == 5
        assert 0.0 <= node["valley"] <= 1.0
        x, labels = np.array(node["sample"]["x"]), node["sample"]["label"]
        assert {label for label, at in zip(labels, x, strict=True) if at < 0} <= under(by_id, below)
    assert tree["curve"]["chosen"] == k
    assert tree["curve"]["share"][0] == 1.0
    assert len(tree["rules"]) == k
    assert all("p" in c for rule in tree["rules"] for c in rule["conditions"])
    assert "<h2>Splits</h2>" in rendered(out)


def rendered(out):
    return render_page(Report.parsed(json.loads((out / "report.json").read_text()), "report.json"))


def under(by_id, node):
    if "label" in node:
        return {node["label"]}
    return under(by_id, by_id[node["below"]]) | under(by_id, by_id[node["above"]])


def test_a_rule_holds_for_its_rows(digits, published):
    X = StandardScaler().fit_transform(digits[0])
    with np.load(published_file(published[0], "arrays.npz")) as arrays:
        V, thresholds, origin = (arrays[name] for name in ("V", "thresholds", "origin"))
        children = arrays["children"]
    nodes = published[1].tree.nodes
    root = nodes[0]
    heaviest = np.argsort(-np.abs(V[0]))[0]
    assert root.direction[0].column == f"p{heaviest}"
    left = (X - origin) @ V[0] < thresholds[0]
    assert left.sum() == next(node.rows for node in nodes if node.id == root.below)
    assert children[0].tolist() != [-1, -1]


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
    found = labels_of(out)["label"].to_numpy()
    assert adjusted_rand_score(y[y < 3], found) > 0.5


def test_fewer_rows_learned_than_labelled(table, tmp_path):
    report = run(table, tmp_path / "out", model={"max_samples": 600, "n_init": 1})
    fitted = report.model.fitted
    assert fitted["agreement"] is None
    assert "NaN" not in (tmp_path / "out/report.json").read_text()
    assert 500 < fitted["n_samples"] < 700
    assert fitted["share_sampled"] == pytest.approx(fitted["n_samples"] / 1797)
    assert report.input.n_rows == 1797


def test_one_cluster(tmp_path):
    X = np.random.default_rng(0).normal(size=(2000, 3))
    path = tmp_path / "gauss.parquet"
    pq.write_table(pa.table({f"x{k}": X[:, k] for k in range(3)}), path)
    report = run(path, tmp_path / "out", input={"label": None})
    assert len(report.clusters) == 1
    assert any("the answer is one cluster" in note for note in report.warnings)
    assert np.isinf(labels_of(tmp_path / "out")["score"].to_numpy()).all()
    assert report.score_histogram.counts == []
    page = rendered(tmp_path / "out")
    assert "1 cluster" in page


def test_more_clusters_than_leaves(table, tmp_path):
    with pytest.raises(JobFileError, match="model: n_clusters must be at most 32, found 33"):
        run(table, tmp_path / "out", model={"n_clusters": 33})
    assert nothing_left(tmp_path / "out")


def test_a_tree_is_learned_again_alike(table, tmp_path, monkeypatch):
    """A restart done twice leaves the same file, as after a lost worker."""
    twice = DoneTwice.of(hyperplanes.LEARN)
    monkeypatch.setattr(hyperplanes, "LEARN", twice)
    run(table, tmp_path / "out")
    assert len(set(twice.seen)) == MODEL["n_init"]
