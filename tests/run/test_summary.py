"""The report of a run: what it tells, and the page that is written of it."""

import json

import pytest
from sklearn.metrics import adjusted_rand_score

from distsvc.errors import DataError, InputNotFoundError
from distsvc.report.content import Report
from distsvc.report.page import render_page
from distsvc.run.job import run_job
from distsvc.run.summary import rewrite_page
from tests.run.blob_jobs import N, blobs, check_manifest, config, copied, labels


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


def test_the_page_can_be_written_again(blob_run, tmp_path):
    copy = copied(blob_run[0], tmp_path)
    (copy / "report.html").write_text("lost")
    assert rewrite_page(copy) == copy / "report.html"
    report = json.loads((copy / "report.json").read_text())
    assert (copy / "report.html").read_text() == render_page(Report.parsed(report, "report.json"))
    check_manifest(copy)
    with pytest.raises(InputNotFoundError, match="no run is published in"):
        rewrite_page(tmp_path)


def test_a_damaged_report_is_named(blob_run, tmp_path):
    copy = copied(blob_run[0], tmp_path)
    page = (copy / "report.html").read_bytes()
    report = json.loads((copy / "report.json").read_text())
    report["input"]["n_rows"] = "many"
    (copy / "report.json").write_text(json.dumps(report))
    expected = "report.json: input.n_rows: expected a valid integer, found 'many'"
    with pytest.raises(DataError, match=expected):
        rewrite_page(copy)
    assert (copy / "report.html").read_bytes() == page
