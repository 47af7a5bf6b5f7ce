"""Every algorithm as a job: the estimator's labels, the same bytes however the table is cut."""

import hashlib
from contextlib import nullcontext

import numpy as np
import pytest

from distsvc import IncrementalMDH, SupportVectorClustering
from distsvc.models.estimators import ESTIMATORS
from distsvc.models.hyperplanes import estimator
from distsvc.models.linear import working_set
from distsvc.models.support_vector.level_tree import ensemble
from distsvc.report.page import render_page
from distsvc.run.algorithms import linear
from distsvc.run.job import run_job
from distsvc.run.learning import stream
from distsvc.run.work import plan
from distsvc.run.work.start import ClusterAddress
from tests.clusters import loopback_cluster
from tests.jobs.blob_jobs import label_files
from tests.published_files import published_file, read_labels
from tests.quiet_fits import quietly
from tests.small_runs import small_job, table_of, three_clusters, write_table

pytestmark = pytest.mark.usefixtures("quick_page")

N, SEED = 1200, 3
CUTS = [(64, 250), (5000, 100_000)]
"""Rows of a block and of a partition."""

PAPER = {"algorithm": "support-vector", "settings": "published", "gamma": 1.0, "C": 32.0}
SVC, FSVC = {"gamma": 1.0, "nu": 0.05}, {"gamma": 0.5, "nu": 0.05, "ball_radius": 0.5}
LINEAR = {"nu": 0.05, "tol": 1e-8}
OTHERS = {
    "level tree": {"algorithm": "support-vector", "effort": "fast", "max_iter": 600},
    "boundary": {"algorithm": "support-vector", "gamma": 1.0, "max_iter": 3000, "budget": 20},
    "automatic": {"algorithm": "auto", "effort": "fast"},
    "imdh": {"algorithm": "imdh", "depth": 6, "n_init": 3},
    "mixture": {"algorithm": "mixture"},
    "bico": {"algorithm": "bico", "n_clusters": 4, "size": 60},
    "spdc": {"algorithm": "spdc", "window": 200},
    "depddp": {"algorithm": "depddp", "n_clusters": 4},
    "fuzzy c-means": {"algorithm": "fuzzy-c-means", "n_clusters": 4, "m": 1.5},
    "k-means": {"algorithm": "kmeans", "n_clusters": 4},
    "plane": {"algorithm": "linear-one-class"} | LINEAR,
    "ball": {"algorithm": "linear-svdd"} | LINEAR,
}


def published(**more):
    return SupportVectorClustering.published(gamma=1.0, C=32.0, **more)


def composed(labelling, **given):
    return SupportVectorClustering(solver="exact", labelling=labelling, **given)


def estimator_of(model):
    return ESTIMATORS[model["algorithm"]](**{k: v for k, v in model.items() if k != "algorithm"})


GIVEN = {
    "level tree, nearest": OTHERS["level tree"] | {"C": 30.0, "assignment": "nearest"},
    "level tree, nu": OTHERS["level tree"] | {"nu": 0.1},
    "level trees of given widths": OTHERS["level tree"] | {"gamma": [1e-4, 2.0]},
    "boundary, straight": OTHERS["boundary"] | {"C": 50.0, "bridging": False},
    "imdh of 7 clusters": OTHERS["imdh"] | {"n_clusters": 7},
}
ALGORITHMS = {
    **{
        name: (model, estimator_of(model))
        for name, model in (OTHERS | GIVEN).items()
        if name != "mixture"
    },
    **{
        name: (PAPER | own, published(**own))
        for name, own in {
            "BSGD-R": {},
            "BSGD-PNN": {"maintenance": "project-nearest"},
            "BSGD-PRN": {"maintenance": "project-random"},
            "SGD-LMOC": {"solver": "sgd"},
            "average": {"solver": "sgd", "iterate": "average"},
            "random": {"iterate": "random", "epsilon": 0.9},
        }.items()
    },
    "SVC": ({"algorithm": "svc"} | SVC, composed("complete-graph", **SVC)),
    "FSVC": ({"algorithm": "fsvc"} | FSVC, composed("balls", **FSVC)),
    **{
        f"{name}, published {own}": (
            {"algorithm": name, "settings": "published"} | own,
            ESTIMATORS[name].published(**own),
        )
        for name, own in [
            ("imdh", {}),
            ("imdh", {"n_clusters": 3}),
            ("linear-one-class", {"nu": 0.1}),
            ("linear-svdd", {"nu": 0.1}),
        ]
    },
}
"""A ``[model]`` and its estimator; the mixture scales columns itself, see test_mixture."""
FACTS = (
    "agreement", "C", "clearest_valley", "epsilon", "gamma", "inertia", "n_clusters", "n_samples",
    "objective",
)  # fmt: skip


table = table_of(three_clusters(N, 3), **{"class": np.arange(N) % 3}, place=np.arange(N))


def run(table, out, model, cut=CUTS[0], where=None, at=None):
    given = {"columns": ["x0", "x1", "x2"]} | ({"where": where} if where else {})
    job = small_job(
        table,
        {"seed": SEED} | model,
        input=given,
        preprocess={"scale": "none"},
        cluster={"block_rows": cut[0], "partition_rows": cut[1]},
        output={"path": str(out)},
    )
    return run_job(job, ClusterAddress(at))


def model_digest(out):
    return hashlib.sha256(published_file(out, "arrays.npz").read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_job_has_the_estimators_labels_however_it_is_cut(name, table, tmp_path):
    model, peer = ALGORITHMS[name]
    report = run(table, tmp_path / "a", model)
    again = run(table, tmp_path / "b", model, CUTS[1])
    X, found = three_clusters(N, 3), read_labels(tmp_path / "a")
    if "random_state" in peer.get_params():
        peer.set_params(random_state=SEED)
    quietly(peer, X)
    assert found["row"].to_pylist() == list(range(N))
    assert np.array_equal(found["label"], getattr(peer, "labels_", np.zeros(N)))
    assert len(report.clusters) == len(np.unique(found["label"]))
    if hasattr(peer, "decision_function"):
        scores = peer.decision_function(X)
        np.testing.assert_allclose(found["score"], scores, rtol=1e-3, atol=1e-3)
        clear = np.abs(scores) > 1e-3
        assert np.array_equal(found["outlier"].to_numpy()[clear], scores[clear] < 0.0)
    assert found.equals(read_labels(tmp_path / "b"))
    assert model_digest(tmp_path / "a") == model_digest(tmp_path / "b")
    assert (report.model.fitted, report.levels) == (again.model.fitted, again.levels)
    facts = {name: value for name, value in report.model.fitted.items() if value is not None}
    for name in FACTS:
        if name in facts and hasattr(peer, f"{name}_"):
            assert facts[name] == pytest.approx(getattr(peer, f"{name}_"), rel=1e-6)
    if "n_support_vectors" in facts and hasattr(peer, "dual_coef_"):
        assert facts["n_support_vectors"] == len(peer.dual_coef_)


@pytest.mark.parametrize("name", ["level tree", "boundary", "imdh", "plane", "ball"])
def test_workers_do_not_change_a_byte(name, table, tmp_path, monkeypatch):
    """Linear models take passes over the table, for which their working sets are made small."""
    for module in (working_set, linear):
        monkeypatch.setattr(module, "working_rows", lambda d: 200)
    model = OTHERS[name] | ({"memory_rows": 1000} if name in ("plane", "ball") else {})
    for workers in 0, 2:
        with loopback_cluster(workers) if workers else nullcontext() as cluster:
            at = cluster.scheduler_address if workers else None
            run(table, tmp_path / str(workers), model, at=at)
    assert label_files(tmp_path / "0") == label_files(tmp_path / "2")
    assert model_digest(tmp_path / "0") == model_digest(tmp_path / "2")


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    ("name", "most"), [("level tree", {"max_iter": 250}), ("imdh", {"max_samples": 300})]
)
def test_rows_left_out_by_where(name, most, again, table, tmp_path, monkeypatch):
    """A partition may have none left; a sample of the others takes another reading."""
    monkeypatch.setattr(ensemble, "SIGNIFICANCE_ROWS", 250)
    model = OTHERS[name] | (most if again else {"max_iter": 2000} if "max_iter" in most else {})
    found = []
    for cut in ((64, 100), (5000, 100_000)):
        out = tmp_path / str(cut[0])
        report = run(table, out, model, cut, where="class != 1 and place >= 200")
        assert ("sample" in [phase.name for phase in report.phases]) == again
        found.append(read_labels(out))
    kept = [k for k in range(200, N) if k % 3 != 1]
    assert found[0]["row"].to_pylist() == kept
    assert (report.input.n_rows, report.input.n_rows_read) == (len(kept), N)
    assert found[0].equals(found[1])


@pytest.mark.parametrize("held", [0, 2**27])
def test_a_sample_larger_than_the_pilot(table, tmp_path, monkeypatch, held):
    """Its columns are measured in a pass of its own."""
    for module in (plan, estimator):
        monkeypatch.setattr(module, "PILOT_ROWS", 500)
    monkeypatch.setattr(stream, "MAX_CACHED_BYTES", held)
    model = IncrementalMDH(depth=6, n_init=3, random_state=SEED).fit(three_clusters(N, 3))
    report = run(table, tmp_path / "out", OTHERS["imdh"])
    assert "scale" in [phase.name for phase in report.phases]
    assert read_labels(tmp_path / "out")["label"].to_pylist() == model.labels_.tolist()


@pytest.mark.parametrize("kind", ["equal", 2, 3, 9])
@pytest.mark.parametrize("name", ["level tree", "automatic", "imdh", "mixture", "plane"])
def test_a_table_of_equal_or_few_rows_is_clustered(name, kind, tmp_path):
    X = np.full((120, 3), 3.0) if kind == "equal" else three_clusters(kind, 3)
    path = write_table(tmp_path / "t.parquet", X)
    out = tmp_path / "out"
    report = run_job(small_job(path, OTHERS[name], preprocess={"scale": "none"}))
    assert sum(cluster.rows for cluster in report.clusters) == len(read_labels(out)) == len(X)
    assert kind != "equal" or len(report.clusters) == 1
    assert f"{len(X)} rows" in render_page(report)
