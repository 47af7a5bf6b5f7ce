"""The page of a published run can be written again from what its report holds."""

import json
import threading

import pytest

from distsvc.errors import DataError, InputNotFoundError, TemporaryError
from distsvc.report.content.report import Report
from distsvc.report.page import render_page
from distsvc.run.reporting.files import rewrite_page
from distsvc.storage.publishing.publication import Output, collect
from tests.jobs.blob_jobs import check_manifest, copied
from tests.published_files import published_file
from tests.small_runs import listed_again


def test_the_page_can_be_written_again(blob_run, tmp_path):
    copy = copied(blob_run[0], tmp_path)
    old = published_file(copy, "report.html", "stored")
    (copy / "report.html").write_text("lost")
    assert rewrite_page(str(copy)) == str(copy / "report.html")
    report = json.loads((copy / "report.json").read_text())
    page = render_page(Report.parsed(report, "report.json"))
    assert (copy / "report.html").read_text() == published_file(copy, "report.html").read_text()
    assert (copy / "report.html").read_text() == page
    assert old.exists(), "who read the old manifest has lost the page"
    assert collect(copy) == [old.relative_to(copy).as_posix()]
    check_manifest(copy)
    with pytest.raises(InputNotFoundError, match="no run is published in"):
        rewrite_page(str(tmp_path))


def test_the_page_is_not_written_while_a_run_goes_on(blob_run, tmp_path):
    """It would be the old one's, beside the new manifest."""
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


def test_a_damaged_report_is_named(blob_run, tmp_path):
    copy = copied(blob_run[0], tmp_path)
    page = (copy / "report.html").read_bytes()
    report = json.loads((copy / "report.json").read_text())
    report["input"]["n_rows"] = "many"
    published_file(copy, "report.json").write_text(json.dumps(report))
    with pytest.raises(DataError, match=r"report\.json: expected .* bytes, as manifest.json says"):
        rewrite_page(str(copy))
    listed_again(copy)
    expected = "report.json: input.n_rows: expected a valid integer, found 'many'"
    with pytest.raises(DataError, match=expected):
        rewrite_page(str(copy))
    assert (copy / "report.html").read_bytes() == page
