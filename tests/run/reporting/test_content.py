"""What jobs of every algorithm report is what the report's models say, no more and no less."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.job.file import parse_job
from distsvc.report.content.report import Report
from distsvc.run.job import run_job
from distsvc.run.reporting import files as report_files

COMMON = {"title", "input", "model", "clusters", "outliers", "score_histogram", "warnings"}
COMMON |= {"checks", "forecast", "sample", "phases", "distsvc_version", "command", "job_file"}
COMMON |= {"finished", "reasons", "rows", "columns"}
VOTES = {"algorithm": "support-vector", "effort": "fast"}
JOBS = {
    "auto": ({"effort": "fast"}, 3, {"choice", "levels", "indices", "profiles"}),
    "votes": (VOTES, 3, {"levels", "indices", "profiles"}),
    "boundary": (
        {"gamma": 4.0, "nu": 0.1, "max_iter": 2000},
        2,
        {"picture", "indices", "profiles"},
    ),
    "imdh": ({"algorithm": "imdh"}, 3, {"tree", "indices", "profiles"}),
    "linear-svdd": ({"algorithm": "linear-svdd", "nu": 0.1}, 2, set()),
    "bico": ({"algorithm": "bico", "n_clusters": 3}, 3, {"indices", "profiles"}),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    y = np.arange(600) % 3
    X = np.random.default_rng(0).normal(size=(600, 3))
    X[:, 0] += 9.0 * y
    path = tmp_path_factory.mktemp("data") / "t.parquet"
    pq.write_table(pa.table({"x0": X[:, 0], "x1": X[:, 1], "x2": X[:, 2], "y": y}), path)
    return path


@pytest.mark.parametrize("name", JOBS)
def test_the_report_comes_back(name, table, tmp_path, monkeypatch):
    monkeypatch.setattr(report_files, "page_of", lambda _: "a page")
    model, d, parts = JOBS[name]
    run_job(
        parse_job(
            {
                "input": {"path": str(table), "columns": ["x0", "x1", "x2"][:d], "label": "y"},
                "preprocess": {"scale": "standard"},
                "model": model,
                "output": {"path": str(tmp_path / "out")},
            }
        )
    )
    text = (tmp_path / "out/report.json").read_text()
    report = Report.parsed(json.loads(text), "report.json")
    assert set(report.dumped()) == COMMON | parts
    assert json.dumps(report.dumped(), indent=1) + "\n" == text
