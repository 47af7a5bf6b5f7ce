"""The content of a report."""

import html
import json
import logging
import re

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import adjusted_rand_score

import distsvc
from distsvc.cli.main import main
from distsvc.job.file import parse_job
from distsvc.models.support_vector.level_tree import proposals
from distsvc.models.support_vector.level_tree.rule import LevelRule
from distsvc.published.status import status
from distsvc.report.page import render_page
from distsvc.run.job import run_job
from distsvc.run.reporting.files import _title
from tests.jobs.blob_jobs import N, blobs
from tests.published_files import read_labels
from tests.small_runs import MODELS, small_job, three_clusters, write_table


def test_the_report_agrees_with_the_labels(blob_run):
    out, report = blob_run
    read = json.loads((out / "report.json").read_text())
    assert report.with_phases(report.phases[:-1]).model_dump() == read
    assert report.phases[-1].name == "publish"
    assert report.input.n_rows == report.input.n_rows_read == N
    assert report.input.columns == ["x", "y"]
    assert report.command == "distsvc run x"
    assert sum(cluster.rows for cluster in report.clusters) == N
    found = read_labels(out)
    for cluster in report.clusters:
        inside = found["label"].to_numpy() == cluster.label
        assert cluster.rows == inside.sum()
        assert cluster.outliers == found["outlier"].to_numpy()[inside].sum()
    assert report.outliers.rows == found["outlier"].to_numpy().sum()
    assert sum(report.score_histogram.counts) == N
    expected = adjusted_rand_score(blobs()["class"].to_pylist(), found["label"])
    assert report.indices["adjusted_rand_index"].value == pytest.approx(expected)
    assert [phase.name for phase in report.phases][:3] == ["open", "cluster", "survey"]


@pytest.fixture
def outvoted(monkeypatch):
    """Let a level tree's last cluster have no rows, as if others had larger kernel sums."""
    voted = LevelRule._voted

    def others(rule, view):
        found = voted(rule, view)
        return np.where(found == rule.n_clusters - 1, np.int32(0), found)

    monkeypatch.setattr(LevelRule, "_voted", others)


def test_clusters_without_rows_are_not_counted(tmp_path, outvoted, quick_page):
    table = write_table(tmp_path / "t.parquet", three_clusters(900))
    job = small_job(table, MODELS["level tree"])
    checks = type(job.checks).model_validate({"clusters": {"limit": [3, 40], "level": "warn"}})
    report = run_job(job.model_copy(update={"checks": checks}))
    assert [cluster.label for cluster in report.clusters] == [0, 1]
    assert sum(cluster.rows for cluster in report.clusters) == 900
    assert report.model.fitted["n_clusters"] == 2
    assert [check.found for check in report.checks] == [2]
    assert "clusters: 2 clusters, 3 to 40 expected" in report.warnings
    assert "2 clusters in 900 rows" in render_page(report)
    found = status(job.output.path)["published"]
    assert found["clusters"] == 2
    run = distsvc.load(job.output.path)
    assert (run.model.n_clusters, run.model.ids.tolist()) == (2, [0, 1, 2])
    assert run.manifest["clusters"] == 2
    assert all("2 clusters" in text for text in (repr(run), repr(run.model)))


def with_rows(*rows):
    """Return rows that end with the given ones."""
    return np.vstack([three_clusters(600), rows])


LEVELS = MODELS["level tree"]
WARNED = {
    "weak evidence": (
        np.random.default_rng(0).normal(size=(600, 6)),
        {"algorithm": "support-vector", **LEVELS, "n_clusters": 4},
        {},
        "Weak evidence: only",
    ),
    "an extreme row": (with_rows([1e6, 0.0]), LEVELS, {}, "extreme rows: row "),
    "a check": (
        three_clusters(600),
        LEVELS,
        {"checks": {"max_outlier_share": {"limit": 0.0, "level": "warn"}}},
        "max_outlier_share: ",
    ),
}
"""Rows, model and sections of a job with a warning, and a part of its text."""


@pytest.mark.parametrize("case", WARNED)
def test_every_warning_is_in_log_report_and_page_once(
    tmp_path, case, monkeypatch, caplog, quick_page
):
    monkeypatch.setattr(proposals, "SAME_ANSWER", 0.99)
    caplog.set_level(logging.INFO, logger="distsvc")
    X, model, sections, words = WARNED[case]
    report = run_job(small_job(write_table(tmp_path / "t.parquet", X), model, **sections))
    assert any(words in warning for warning in report.warnings), report.warnings
    assert len(set(report.warnings)) == len(report.warnings)
    logged = [record.fields["because"] for record in caplog.records if record.msg == "warning"]
    assert logged == report.warnings
    content = json.loads((tmp_path / "out/report.json").read_text())
    assert content["warnings"] == report.warnings
    lines = re.findall(r"<li>(?:<details><summary>.*?</summary>)?(.*?)<", render_page(report))
    told = [html.unescape(text).strip() for text in lines]
    assert all(told.count(warning) == 1 for warning in report.warnings)
    assert set(report.levels.doubts if report.levels else ()) <= set(report.warnings)


def test_a_command_prints_the_warnings_of_the_report(tmp_path, no_signals, quick_page):
    X = np.column_stack([three_clusters(600), np.ones(600)])
    table, out = write_table(tmp_path / "t.parquet", X), tmp_path / "out"
    given = [f"output.path={out}", "cluster.workers=0", "model.effort=fast"]
    said = CliRunner().invoke(main, ["run", str(table), *(f"--set={one}" for one in given)])
    assert said.exit_code == 0, said.output
    lines = [line for line in said.stdout.splitlines() if line.startswith("warning: ")]
    assert lines == [f"warning: {text}" for text in distsvc.load(out).report.warnings] != []


@pytest.mark.parametrize(
    ("name", "out", "title"),
    [
        ("shop", "out/2026-11-21", "shop, 2026-11-21"),
        ("shop", "out/shop", "shop"),
        ("shop", "out/shop-2", "shop-2"),
        ("job", "out/shop", "shop"),
        ("job", "/", "distsvc"),
    ],
)
def test_the_title_names_the_job_and_its_output(name, out, title):
    job = parse_job({"job": {"name": name}, "input": {"path": "a"}, "output": {"path": out}})
    assert _title(job) == title
