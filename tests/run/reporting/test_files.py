"""The files of a report: the page, queries for rows, names of clusters."""

import base64
import csv
import datetime
import io
import json
import re
import threading
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from distsvc.errors import InputNotFoundError, TemporaryError
from distsvc.job.file import load_job
from distsvc.report.content.limits import PageLimits
from distsvc.report.content.report import Report
from distsvc.report.page import render_page
from distsvc.report.sections.headline import outcome
from distsvc.report.sections.names import cluster_names
from distsvc.run.job import run_job
from distsvc.run.reporting import files
from distsvc.run.reporting.files import notes_of_outside, rewrite_page
from distsvc.run.work.start import Start
from distsvc.storage.publishing.publication import Output, collect
from tests.jobs.blob_jobs import check_manifest, copied
from tests.jobs.shop import FIRST, SECOND, rows
from tests.published_files import listed, published_file, read_labels


def test_the_page_can_be_written_again(blob_run, tmp_path):
    copy = copied(blob_run[0], tmp_path)
    old = published_file(copy, "report.html", "stored")
    (copy / "report.html").write_text("lost")
    assert rewrite_page(str(copy)) == str(copy / "report.html")
    report = json.loads((copy / "report.json").read_text())
    page = render_page(Report.parsed(report, "report.json"))
    assert (copy / "report.html").read_text() == published_file(copy, "report.html").read_text()
    assert (copy / "report.html").read_text() == page
    assert old.exists(), "readers of the old manifest have lost the page"
    assert collect(copy) == [old.relative_to(copy).as_posix()]
    check_manifest(copy)
    with pytest.raises(InputNotFoundError, match="no run is published in"):
        rewrite_page(str(tmp_path))


def test_a_warning_names_a_cluster_that_is_mostly_outliers():
    sizes = np.array([[4000, 9], [3, 161], [80, 80], [0, 0]])
    assert notes_of_outside(sizes, np.array([0, 7, 8, 9])) == [
        "161 of the 164 rows of cluster 7 are outliers: if you remove outliers, you remove this "
        "cluster"
    ]
    assert not notes_of_outside(sizes[:, ::-1], np.arange(4)), "nearly all rows are outside"


def test_the_page_is_not_written_during_a_run(blob_run, tmp_path):
    """The page of the old run would stand beside the new manifest."""
    copy = copied(blob_run[0], tmp_path)
    before = (copy / "manifest.json").read_bytes()
    errors = []

    def rewrite():
        try:
            rewrite_page(str(copy))
        except TemporaryError as error:
            errors.append(str(error))

    with Output(copy).locked():
        thread = threading.Thread(target=rewrite)
        thread.start()
        thread.join()
    assert "another run is writing to" in errors[0]
    assert (copy / "manifest.json").read_bytes() == before


ROOT = Path(__file__).parents[3]


@pytest.fixture
def shop(shop):
    for seed, date in enumerate([FIRST, SECOND]):
        shop.table(date, rows(300, 200, 100, seed=seed)[0], customer=np.arange(600) + 5000)
    return shop


def test_the_query_has_the_rows_of_the_cluster_with_their_columns(shop):
    report = shop.run(FIRST, input={"id": "customer"})
    assert 'USING ("customer")' in report.rows.query
    found = duckdb.sql(report.rows.query).to_arrow_table()
    labels = read_labels(shop.out(FIRST))
    largest = report.clusters[0]
    assert len(found) == largest.rows
    assert set(found["label"].to_pylist()) == {largest.label}
    assert {"customer", "x0", "x1", "score", "outlier"} <= set(found.column_names)
    wanted = labels.filter(labels["label"].to_numpy() == largest.label)
    assert sorted(found["customer"].to_pylist()) == sorted(wanted["customer"].to_pylist())


def test_a_small_table_has_its_labels_in_the_page(shop, monkeypatch):
    report = shop.run(FIRST, input={"id": "customer"})
    found = list(csv.DictReader(io.StringIO(report.rows.csv)))
    labels = read_labels(shop.out(FIRST)).to_pylist()
    assert [(int(f["customer"]), int(f["label"]), f["outlier"]) for f in found] == [
        (row["customer"], row["label"], str(row["outlier"]).lower()) for row in labels
    ]
    page = (shop.out(FIRST) / "report.html").read_text()
    [encoded] = re.findall(r'href="data:text/csv;base64,([^"]*)"', page)
    assert base64.b64decode(encoded).decode() == report.rows.csv
    monkeypatch.setattr(files, "PAGE_LIMITS", PageLimits(listed_rows=599))
    report = shop.run(SECOND, input={"id": "customer"}, checks={"max_ids_moved": False})
    assert report.rows.csv == ""
    assert "data:text/csv" not in (shop.out(SECOND) / "report.html").read_text()


def clusters_of(out):
    """Return the columns of the only table of clusters."""
    [file] = out.glob("report/*/clusters.parquet")
    return pq.read_table(file).to_pydict()


def test_given_names_continue_and_can_be_changed(shop):
    names = {"0": "regulars", "9": "unknown"}
    shop.run(FIRST, names=names)
    shop.run(SECOND, names=names)
    page = (shop.out(SECOND) / "report.html").read_text()
    assert page.count("regulars") >= 2
    assert "unknown</span>" not in page
    assert clusters_of(shop.out(SECOND))["name"][0] == "regulars"
    labels = [path.read_bytes() for path in listed(shop.out(SECOND), "labels/")]
    job = load_job(shop.job_file(names={"0": "friends"}), (), SECOND)
    report = run_job(job, start=Start())
    assert report.was_there
    assert outcome(report)[-1].startswith("names changed: report.html, report.json and clusters.")
    assert outcome(run_job(job, start=Start()))[-1].startswith("4 checks passed")
    assert report.names == {"0": "friends"}
    page = (shop.out(SECOND) / "report.html").read_text()
    assert "friends" in page
    assert "regulars" not in page
    clusters = clusters_of(shop.out(SECOND))
    assert clusters["night"] == [datetime.date.fromisoformat(SECOND)] * len(clusters["cluster"])
    assert clusters["cluster"] == [row.label for row in report.clusters]
    assert clusters["rows"] == [row.rows for row in report.clusters]
    assert clusters["name"][0] == "friends"
    assert all(clusters["name"][1:])
    assert labels == [path.read_bytes() for path in listed(shop.out(SECOND), "labels/")]


def test_a_name_that_is_no_longer_true_is_a_line_of_the_log(shop, caplog):
    caplog.set_level("INFO", "distsvc")
    X, y = rows(300, 200, 100, seed=1)
    X[y == 1, 0] -= 12.0  # to the other side of the first cluster
    shop.table(SECOND, X)
    before, now = (cluster_names(shop.run(date))[0] for date in (FIRST, SECOND))
    [event] = [record for record in caplog.records if record.message == "new names"]
    assert f"0 was {before!r}, is {now!r}" in event.fields["clusters"]


def test_new_names_add_the_table_of_clusters_to_a_run_without_it(shop):
    shop.run(FIRST)
    path = shop.out(FIRST) / "manifest.json"
    manifest = json.loads(path.read_text())
    files = [one for one in manifest["files"] if not one["file"].endswith("clusters.parquet")]
    assert len(files) == len(manifest["files"]) - 1
    path.write_text(json.dumps(manifest | {"files": files}))
    job = load_job(shop.job_file(names={"0": "friends"}), (), FIRST)
    run_job(job, start=Start())
    assert clusters_of(shop.out(FIRST))["name"][0] == "friends"
    assert published_file(shop.out(FIRST), "clusters.parquet").exists()


def test_the_sql_of_the_pages_joins_names_and_labels(shop, monkeypatch):
    given = {"input": {"id": "customer"}, "checks": {"max_ids_moved": False}}
    for night in (FIRST, SECOND):
        shop.run(night, names={"0": "regulars"}, **given)
    monkeypatch.chdir(shop.folder)
    pages = [ROOT / "docs/reference/published.md", ROOT / "docs/nights/export.md"]
    code = [re.findall(r"```sql\n(.*?)```", page.read_text(), re.DOTALL) for page in pages]
    queries = [query for found in code for query in found if "clusters.parquet" in query]
    joined, sizes = (duckdb.sql(query).to_arrow_table().to_pylist() for query in queries)
    assert len(joined) == 1200
    nights = [datetime.date.fromisoformat(night) for night in (FIRST, SECOND)]
    assert all(row["name"] == "regulars" for row in joined if row["label"] == 0)
    for row in sizes:
        same = [r for r in joined if (r["night"], r["label"]) == (row["night"], row["cluster"])]
        assert {one["name"] for one in same} == {row["name"]}
        assert len(same) == row["rows"]
    assert sorted({row["night"] for row in sizes}) == nights
