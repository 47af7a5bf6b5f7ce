"""Linear one-class models as jobs: the estimator's answer, however the table is cut and read."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc import LinearOneClassSVM, LinearSVDD
from distsvc.errors import JobFileError
from distsvc.job.file import parse_job
from distsvc.models.linear import working_set
from distsvc.run.algorithms import linear
from distsvc.run.job import run_job
from distsvc.run.work.start import ClusterAddress
from tests.clusters import loopback_cluster
from tests.published_files import listed, read_labels

QUICK = pytest.mark.usefixtures("quick_page")

N, D = 6000, 4
SVDD = {"algorithm": "linear-svdd", "nu": 0.05, "tol": 1e-8}
PLANE = {"algorithm": "linear-one-class", "nu": 0.05, "tol": 1e-8}
BOTH = pytest.mark.parametrize("model", [SVDD, PLANE], ids=["svdd", "one-class"])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.gamma(4.0, size=(N, D)) * [1.0, 2.0, 0.5, 1.0] + 1.0
    X[:60] *= rng.choice([0.05, 4.0], size=(60, 1))
    return X


@pytest.fixture(scope="module")
def table(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "rows.parquet"
    columns = {f"f{k}": rows[:, k] for k in range(D)} | {"odd": (np.arange(N) < 60).astype(int)}
    pq.write_table(pa.table(columns), path, row_group_size=500)
    return path


@pytest.fixture
def few_candidates(monkeypatch):
    """Make working sets small, so that several passes are needed."""
    for module in (working_set, linear):
        monkeypatch.setattr(module, "working_rows", lambda d: 200)


def run(table, out, model, cluster=None, output=None, scale="none", missing="error", **options):
    content = {
        "input": {"path": str(table), "label": "odd"},
        "preprocess": {"scale": scale, "missing": missing},
        "model": model,
        "cluster": {"workers": 0, "partition_rows": 1500} | (cluster or {}),
        "output": {"path": str(out)} | (output or {}),
    }
    return run_job(parse_job(content), **options)


def digest(out):
    names = listed(out, "labels/")
    content = b"".join(pq.read_table(n)[c].to_numpy().tobytes() for n in names for c in ("score",))
    return hashlib.sha256(content).hexdigest()


def estimator(model):
    make = LinearSVDD if model is SVDD else LinearOneClassSVM
    return make(nu=model["nu"], tol=model["tol"])


@QUICK
@BOTH
def test_a_job_gives_the_answer_of_the_estimator(rows, table, tmp_path, model):
    report = run(table, tmp_path / "out", model)
    peer = estimator(model).fit(rows)
    fitted = report.model.fitted
    assert fitted["objective"] == pytest.approx(peer.objective_, rel=1e-7)
    found = read_labels(tmp_path / "out")
    scores = peer.decision_function(rows)
    np.testing.assert_allclose(found["score"].to_numpy(), scores, rtol=1e-4, atol=1e-4)
    clear = np.abs(scores) > 1e-3
    outlier = found["outlier"].to_numpy(zero_copy_only=False)
    np.testing.assert_array_equal(outlier[clear], scores[clear] < 0.0)
    assert not found["label"].to_numpy().any()
    assert len(report.clusters) == 1


@QUICK
@BOTH
def test_a_table_that_does_not_fit_gives_the_same_optimum(
    rows, table, tmp_path, model, few_candidates
):
    report = run(table, tmp_path / "out", model | {"memory_rows": 1000})
    fitted = report.model.fitted
    peer = estimator(model).fit(rows)
    assert fitted["objective"] == pytest.approx(peer.objective_, rel=1e-7)
    assert 2 <= fitted["n_passes"] <= 20
    scores = read_labels(tmp_path / "out")["score"].to_numpy()
    np.testing.assert_allclose(scores, peer.decision_function(rows), rtol=1e-3, atol=1e-3)
    assert not report.warnings


@QUICK
@BOTH
def test_scores_of_passes_do_not_depend_on_the_cut_or_on_workers(table, tmp_path, model):
    model = model | {"memory_rows": 1000}
    run(table, tmp_path / "a", model)
    run(table, tmp_path / "b", model, cluster={"partition_rows": 700, "block_rows": 333})
    with loopback_cluster(2) as cluster:
        run(table, tmp_path / "c", model, at=ClusterAddress(cluster.scheduler_address))
    assert digest(tmp_path / "a") == digest(tmp_path / "b") == digest(tmp_path / "c")


@QUICK
def test_a_job_that_centres_a_one_class_svm_is_refused(table, tmp_path):
    message = "'standard'.*separates rows from the origin.*'none' or 'minmax'.*linear-svdd"
    with pytest.raises(JobFileError, match=message):
        run(table, tmp_path / "out", PLANE, scale="standard")
