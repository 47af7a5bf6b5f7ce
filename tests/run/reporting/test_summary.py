"""What a report tells of a run."""

import json

import pytest
from sklearn.metrics import adjusted_rand_score

from distsvc.run.job import run_job
from tests.jobs.blob_jobs import N, blobs, config, labels


def test_the_report(blob_run):
    out, report = blob_run
    read = json.loads((out / "report.json").read_text())
    assert report.with_phases(report.phases[:-1]).dumped() == read
    assert report.phases[-1].name == "publish"
    assert report.input.n_rows == report.input.n_rows_read == N
    assert report.input.columns == ["x", "y"]
    assert report.command == "distsvc run x"
    assert sum(cluster.rows for cluster in report.clusters) == N
    found = labels(out)
    for cluster in report.clusters:
        inside = found["label"].to_numpy() == cluster.label
        assert cluster.rows == inside.sum()
        assert cluster.outliers == found["outlier"].to_numpy()[inside].sum()
    assert report.outliers.rows == found["outlier"].to_numpy().sum()
    assert sum(report.score_histogram.counts) == N
    expected = adjusted_rand_score(blobs()["class"].to_pylist(), found["label"])
    assert report.indices["adjusted_rand_index"].value == pytest.approx(expected)
    assert [phase.name for phase in report.phases][:3] == ["open", "cluster", "survey"]


def test_without_classes_there_are_no_indices(blob_table, tmp_path, quick_page):
    report = run_job(config(blob_table, tmp_path / "out"))
    assert report.indices is None
    assert "indices" not in report.dumped()
