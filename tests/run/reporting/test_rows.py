"""The page leads to the rows of a cluster: a query, a small table's labels, names of one's own."""

import base64
import csv
import io
import re

import duckdb
import numpy as np
import pytest

from distsvc.errors import JobFileError
from distsvc.job.file import load_job, parse_job
from distsvc.run.job import run_job
from distsvc.run.reporting import files
from distsvc.run.work.start import Start
from tests.jobs.shop import FIRST, SECOND, Shop, rows
from tests.published_files import listed, read_labels


@pytest.fixture
def shop(tmp_path):
    shop = Shop(tmp_path)
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


def test_without_ids_or_with_zarr_there_is_a_query_of_the_labels(shop):
    report = shop.run(FIRST, input={"columns": ["x0", "x1"]})
    assert len(duckdb.sql(report.rows.query)) == report.clusters[0].rows
    report = shop.run(SECOND, output={"format": "zarr"}, input={"columns": ["x0", "x1"]})
    import distsvc

    code = report.rows.query.partition("  #")[0]
    assert eval(code, {"distsvc": distsvc}).num_rows == report.clusters[0].rows


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
    monkeypatch.setattr(files, "MAX_LISTED_ROWS", 599)
    report = shop.run(SECOND, input={"id": "customer"})
    assert report.rows.csv == ""
    assert "data:text/csv" not in (shop.out(SECOND) / "report.html").read_text()


def test_the_stated_size_is_that_of_the_code():
    from distsvc.report.formats import TEMPLATES

    text = (TEMPLATES / "parts/rows.html").read_text()
    assert f"at most {files.MAX_LISTED_ROWS:,} rows" in text


def test_names_of_ones_own_go_on_and_can_be_changed(shop):
    names = {"0": "regulars", "9": "unknown"}
    shop.run(FIRST, names=names)
    shop.run(SECOND, names=names)
    page = (shop.out(SECOND) / "report.html").read_text()
    assert page.count("regulars") >= 2
    assert "unknown</span>" not in page
    labels = [path.read_bytes() for path in listed(shop.out(SECOND), "labels/")]
    job = load_job(shop.job_file(names={"0": "friends"}), (), SECOND)
    report = run_job(job, start=Start())
    assert report.was_there
    assert report.names == {"0": "friends"}
    page = (shop.out(SECOND) / "report.html").read_text()
    assert "friends" in page
    assert "regulars" not in page
    assert labels == [path.read_bytes() for path in listed(shop.out(SECOND), "labels/")]


def test_a_name_needs_the_id_of_a_cluster():
    job = {"input": {"path": "a"}, "output": {"path": "b"}}
    for key in ("a", "-1", "01", "1.5"):
        with pytest.raises(JobFileError, match="must be the id of a cluster, such as '3', found"):
            parse_job(job | {"names": {key: "x"}})
