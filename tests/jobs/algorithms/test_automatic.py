"""A job that names no algorithm: two families are learned, one has the answer."""

import json

import numpy as np
import pytest

from distsvc import AutoClustering
from distsvc.published.predict import predict_table
from distsvc.run.job import run_job
from tests.models.automatic.choosing import FAMILIES, let
from tests.published_files import read_labels
from tests.quiet_fits import quietly
from tests.small_runs import small_job, write_table

CENTRES = np.array([[0.0] * 5, [6.0, 0, 0, 0, 0], [0, 6.0, 0, 0, 0], [0, 0, 6.0, 6.0, 0]])


@pytest.fixture(params=[*FAMILIES, "centres"])
def chosen(request, monkeypatch):
    """Return the family that is made to have the answer; k-means is asked for 5 clusters."""
    let(monkeypatch, request.param)
    return request.param


@pytest.fixture
def parameters(chosen):
    return {"effort": "fast"} | ({"n_clusters": 5} if chosen == "centres" else {})


def rows(n=700):
    random = np.random.default_rng(0)
    return CENTRES[random.integers(0, 4, n)] + random.normal(0.0, 0.6, (n, 5))


def test_a_job_has_the_answer_of_the_estimator(tmp_path, chosen, parameters):
    X = rows()
    job = small_job(write_table(tmp_path / "in.parquet", X), parameters)
    job = job.model_copy(update={"preprocess": job.preprocess.model_copy(update={"scale": "none"})})
    report = run_job(job)
    model = quietly(AutoClustering(**parameters, random_state=0), X)
    found = read_labels(tmp_path / "out")
    assert model.algorithm_ == chosen
    assert report.model.algorithm == (chosen if chosen == "support-vector" else "auto")
    assert (found["label"].to_numpy() == model.labels_).all()
    scores = found["score"].to_numpy()
    assert (scores == model.decision_function(X).astype(np.float32)).all()
    assert (found["outlier"].to_numpy() == (scores < 0)).all()
    assert report.choice.why == model.why_
    assert report.choice.likeness == pytest.approx(model.likeness_)
    assert [row.chosen for row in report.choice.considered].count(True) == 1
    if chosen == "centres":
        assert report.levels is None
    else:
        assert len(report.levels.models) == len(model._engine.answer.levels.trees)
    assert report.model.fitted["chosen"] == chosen
    assert "Why this answer" in (tmp_path / "out" / "report.html").read_text()
    content = json.loads(next((tmp_path / "out").rglob("model.json")).read_text())
    assert content["algorithm"] == (chosen if chosen == "support-vector" else "auto")
    assert content["form"] == ("level-tree" if chosen == "support-vector" else "landmarks")
    predict_table(tmp_path / "out", str(tmp_path / "in.parquet"), str(tmp_path / "again"))
    assert read_labels(tmp_path / "again").equals(found)
