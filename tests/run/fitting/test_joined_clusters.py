"""Limits on the number and the size of clusters, by which small ones are merged."""

import numpy as np
import pytest

import distsvc
from distsvc.errors import JobFileError
from distsvc.job.file import parse_job
from distsvc.run.job import run_job
from tests.published_files import labels_of
from tests.small_runs import small_job, write_table

pytestmark = pytest.mark.usefixtures("quick_page")

CENTRES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [2.5, 0.0], [10.0, 2.5]])
SIZES = (300, 200, 150, 40, 30)


def table():
    random = np.random.default_rng(0)
    y = random.permutation(np.repeat(np.arange(5), SIZES))
    return CENTRES[y] + random.normal(0.0, 0.15, (len(y), 2)), y


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ({"algorithm": "bico", "n_clusters": 5, "min_cluster_rows": 50}, 3),
        ({"algorithm": "imdh", "max_clusters": 2}, 2),
        ({"effort": "fast", "max_clusters": 4}, 4),
        ({"effort": "fast", "max_clusters": 3, "min_cluster_rows": 20}, 3),
    ],
)
def test_small_clusters_are_merged_into_the_nearest(tmp_path, model, wanted):
    X, y = table()
    job = small_job(write_table(tmp_path / "t.parquet", X), model)
    report = run_job(job)
    assert len(report.clusters) == wanted
    assert min(cluster.rows for cluster in report.clusters) >= 40
    assert any("merged into the nearest, since model." in w for w in report.warnings)
    labels = labels_of(tmp_path / "out")
    if wanted == 3:
        assert (labels == np.array([0, 1, 2, 0, 1])[y]).mean() > 0.99
    model = distsvc.load(tmp_path / "out").model
    assert (model.predict(X) == labels).all()
    assert model.n_clusters == wanted


def test_keys_that_contradict_each_other_are_refused():
    job = {"input": {"path": "a"}, "output": {"path": "b"}}
    with pytest.raises(JobFileError, match="n_clusters and max_clusters are both given"):
        parse_job(job | {"model": {"n_clusters": 3, "max_clusters": 4}})
    with pytest.raises(JobFileError, match="algorithm = 'linear-svdd' finds only outliers"):
        parse_job(job | {"model": {"algorithm": "linear-svdd", "min_cluster_rows": 4}})
