"""The mixture as a job: labels, a saved model, keys of the job file."""

import numpy as np
import pytest

import distsvc
from distsvc import MixtureClustering
from distsvc.errors import JobFileError
from tests.models.mixture_clustering.test_estimator import four_segments

pytestmark = pytest.mark.usefixtures("quick_page")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    frame, _ = four_segments(2000)
    path = tmp_path_factory.mktemp("mixture") / "table.parquet"
    frame.to_parquet(path, row_group_size=300)
    return frame, path


def job(path, out, **model):
    return {
        "input": {"path": str(path)},
        "model": {"algorithm": "mixture"} | model,
        "cluster": {"workers": 0},
        "output": {"path": str(path.parent / out), "reasons": 2, "membership": True},
    }


def test_a_job_has_the_labels_of_the_estimator(table):
    frame, path = table
    run = distsvc.run(job(path, "out"))
    labels = run.labels()
    model = MixtureClustering(random_state=0).fit(frame)
    assert np.array_equal(labels["label"], model.labels_)
    assert labels["score"].to_numpy() == pytest.approx(model.decision_function(frame))
    assert labels["membership"].to_numpy() == pytest.approx(model.probabilities_)
    assert run.report.model.fitted["covariances"] == model.covariance_type_


@pytest.mark.parametrize("key", ["n_clusters", "n_components"])
def test_either_key_gives_the_number(table, key):
    _, path = table
    run = distsvc.run(job(path, key, **{key: 3}))
    assert len(np.unique(run.labels()["label"])) == 3


def test_both_keys_are_refused(table):
    _, path = table
    with pytest.raises(JobFileError, match="n_clusters or n_components, not both"):
        distsvc.run(job(path, "both", n_clusters=3, n_components=3))
