"""The papers' support vector systems as jobs: the labels of the estimators, to the byte."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import make_moons
from sklearn.preprocessing import StandardScaler

from distsvc import IncrementalMDH, LinearSVDD, SupportVectorClustering
from distsvc.errors import JobFileError
from distsvc.job.file import parse_job
from distsvc.run.algorithms import boundary
from distsvc.run.job import run_job
from tests.published_files import read_labels

pytestmark = pytest.mark.usefixtures("quick_page")

SEED = 3
PAPER = {"algorithm": "support-vector", "settings": "published", "gamma": 8.0, "C": 32.0}
ROWS = make_moons(700, noise=0.08, random_state=1)[0] * [1.0, 40.0]
X = StandardScaler().fit_transform(ROWS)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "moons.parquet"
    pq.write_table(pa.table({"x": ROWS[:, 0], "y": ROWS[:, 1]}), path, row_group_size=100)
    return path


def run(table, out, model, **cluster):
    content = {
        "input": {"path": str(table)},
        "model": {"seed": SEED} | model,
        "cluster": {"workers": 0, "block_rows": 100, "partition_rows": 300} | cluster,
        "output": {"path": str(out)},
    }
    return run_job(parse_job(content))


def published(**more):
    return SupportVectorClustering.published(gamma=8.0, C=32.0, random_state=SEED, **more)


def composed(labelling, **given):
    return SupportVectorClustering(solver="exact", labelling=labelling, random_state=SEED, **given)


SYSTEMS = {
    "BSGD-R": (PAPER, published()),
    "BSGD-PNN": (
        PAPER | {"maintenance": "project-nearest"},
        published(maintenance="project-nearest"),
    ),
    "BSGD-PRN": (
        PAPER | {"maintenance": "project-random"},
        published(maintenance="project-random"),
    ),
    "SGD-LMOC": (PAPER | {"solver": "sgd"}, published(solver="sgd")),
    "average": (
        PAPER | {"solver": "sgd", "iterate": "average"},
        published(solver="sgd", iterate="average"),
    ),
    "random": (
        PAPER | {"iterate": "random", "epsilon": 0.9},
        published(iterate="random", epsilon=0.9),
    ),
    "SVC": (
        {"algorithm": "svc", "gamma": 8.0, "nu": 0.05},
        composed("complete-graph", gamma=8.0, nu=0.05),
    ),
    "SVC by C": (
        {"algorithm": "svc", "gamma": 8.0, "C": 40},
        composed("complete-graph", gamma=8.0, C=40),
    ),
    "FSVC": (
        {"algorithm": "fsvc", "gamma": 4.0, "nu": 0.05, "ball_radius": 0.2},
        composed("balls", gamma=4.0, nu=0.05, ball_radius=0.2),
    ),
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_system_has_the_labels_of_its_estimator(system, table, tmp_path):
    model, estimator = SYSTEMS[system]
    report = run(table, tmp_path / "out", model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimator.fit(X)
    found = read_labels(tmp_path / "out")
    assert found["label"].to_pylist() == estimator.labels_.tolist()
    f = estimator.decision_function(X)
    np.testing.assert_array_equal(found["outlier"].to_numpy(), f < 0.0)
    assert len(report.clusters) == estimator.n_clusters_
    facts = report.model.fitted
    assert facts["n_support_vectors"] == len(estimator.dual_coef_)
    assert facts.get("epsilon") == getattr(estimator, "epsilon_", None)


def test_svc_looks_at_a_sample_of_a_large_table(table, tmp_path, monkeypatch):
    monkeypatch.setattr(boundary, "SYSTEM_ROWS", 200)
    report = run(table, tmp_path / "out", {"algorithm": "svc", "gamma": 4.0, "nu": 0.05})
    assert 100 < report.model.fitted["n_equilibria"] < 250
    assert len(read_labels(tmp_path / "out")) == 700
    assert 2 <= len(report.clusters) < 10


def test_an_empty_boundary_ends_the_job(table, tmp_path):
    with pytest.raises(
        JobFileError, match=r"model: epsilon = 1e-09 leaves the boundary without rows"
    ):
        run(table, tmp_path / "out", PAPER | {"epsilon": 1e-9})


def test_the_ascents_are_cut_for_a_cluster():
    assert boundary.climb_rows(2048) * 32 == 2048
    assert boundary.climb_rows(10**6) * boundary.MOST_CLIMBS >= 10**6


@pytest.mark.parametrize(
    ("model", "estimator"),
    [
        (
            {"algorithm": "imdh", "settings": "published"},
            IncrementalMDH.published(random_state=SEED),
        ),
        (
            {"algorithm": "linear-svdd", "settings": "published", "nu": 0.1},
            LinearSVDD.published(nu=0.1),
        ),
    ],
)
def test_published_settings_of_other_papers(model, estimator, table, tmp_path):
    run(table, tmp_path / "out", model)
    found = read_labels(tmp_path / "out")
    estimator.fit(X)
    if model["algorithm"] == "imdh":
        assert found["label"].to_pylist() == estimator.labels_.tolist()
    else:
        f = estimator.decision_function(X)
        clear = np.abs(f) > 1e-3
        np.testing.assert_array_equal(found["outlier"].to_numpy()[clear], f[clear] < 0.0)
