"""Baselines as jobs: their fit on a sample, and its restoration."""

import json

import numpy as np
import pytest

from distsvc.baselines import BICO, SPDC, DePDDP, FuzzyCMeans
from distsvc.errors import JobFileError
from distsvc.run.algorithms import sampled
from distsvc.run.algorithms.sampled import SampledEngine
from distsvc.run.job import run_job
from tests.published_files import read_labels
from tests.small_runs import small_job, write_table

pytestmark = pytest.mark.usefixtures("quick_page")

MODELS = {
    "bico": lambda: BICO(4, size=60, random_state=3),
    "spdc": lambda: SPDC(200, random_state=3),
    "depddp": lambda: DePDDP(4),
    "fuzzy": lambda: FuzzyCMeans(4, random_state=3),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0, 0.0], [30.0, 0.0, 0.0], [30.0, 20.0, 0.0], [0.0, 0.0, 12.0]])
    return np.repeat(centres, [300, 900, 600, 1200], axis=0) + rng.normal(size=(3000, 3))


def fitted(make, rows, n_rows=6000):
    engine = SampledEngine(make())
    engine.set_pilot(rows[:50], n_rows)
    engine.fit_sample(rows[np.random.default_rng(1).permutation(len(rows))])
    return engine


@pytest.mark.parametrize("name", MODELS)
def test_facts_of_a_fit(rows, name):
    engine = fitted(MODELS[name], rows)
    facts = engine.fitted_facts()
    more = {"bico": {"inertia"}, "fuzzy": {"objective", "n_iter"}}.get(name, set())
    assert facts.keys() == {"n_clusters", "n_samples", "share_sampled"} | more
    assert (facts["n_samples"], facts["share_sampled"]) == (3000, 0.5)
    assert facts["n_clusters"] == engine.rule.n_clusters
    for key in more:
        assert facts[key] == getattr(engine.estimator, f"{key}_")


@pytest.mark.parametrize("name", MODELS)
def test_a_restored_engine_does_not_fit_again(rows, name):
    first, later = fitted(MODELS[name], rows), SampledEngine(MODELS[name]())
    first.notes.append("constant columns, which do not change the result: f7")
    later.set_pilot(rows[:50], 6000)
    facts, arrays = first.solved()
    later.restore(json.loads(json.dumps(facts)), arrays)
    assert not hasattr(later.estimator, "labels_")
    assert type(later.rule) is type(first.rule)
    assert list(later.fitted_facts().items()) == list(first.fitted_facts().items())
    assert later.notes == first.notes
    for column, values in first.rule.label(rows).items():
        assert later.rule.label(rows)[column].tobytes() == values.tobytes()


def test_warnings_become_notes():
    X = np.repeat([[0.0, 1.0], [5.0, 5.0]], 30, axis=0)
    engine = fitted(MODELS["bico"], X, n_rows=60)
    assert [note[:44] for note in engine.notes] == ["4 clusters were asked for, but only 2 found:"]
    assert engine.rule.n_clusters == 2


def test_a_job_samples_a_large_table(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(sampled, "MAX_FITTED_ROWS", 2000)
    path, model = write_table(tmp_path / "t.parquet", rows), {"algorithm": "bico", "n_clusters": 4}
    found = []
    for block_rows in 70, 1000:
        out = str(tmp_path / str(block_rows))
        cut = {"block_rows": block_rows}
        facts = run_job(small_job(path, model, cluster=cut, output={"path": out})).model.fitted
        assert abs(facts["n_samples"] - 2000) < 150
        assert facts["share_sampled"] == facts["n_samples"] / len(rows)
        found.append(read_labels(out))
    assert len(found[0]) == len(rows)
    assert found[0].equals(found[1])


def test_an_error_of_the_estimator_is_a_job_file_error(tmp_path):
    path = write_table(tmp_path / "few.parquet", np.eye(3))
    with pytest.raises(JobFileError, match=r"^model: n_samples=3 should be >= n_clusters=4"):
        run_job(small_job(path, {"algorithm": "fuzzy-c-means", "n_clusters": 4}))
    assert not (tmp_path / "out/manifest.json").exists()
