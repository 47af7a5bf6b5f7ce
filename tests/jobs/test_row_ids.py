"""The page names rows by their ids, if the table has ids."""

import re

import numpy as np
import pandas as pd
import pytest

import distsvc

N = 1500
SCALED = {"preprocess.scale": "standard"}  # extreme rows are ignored while learning


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Write two clusters in two files with ids, an extreme row and rows that are filtered out."""
    random = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("table")
    y = random.integers(0, 2, N)
    frame = pd.DataFrame(random.normal(size=(N, 3)) + 8.0 * y[:, None], columns=["a", "b", "c"])
    frame["number"] = np.round(frame.pop("c"), 1)
    frame.loc[7, "a"] = 1e7
    frame.loc[20:25, "b"] = [30.0, -20.0, 31.0, -21.0, 32.0, -22.0]
    frame["used"] = random.random(N) < 0.8
    frame.loc[7:30, "used"] = True
    frame["key"] = [f"k-{i * 37 % N}" for i in range(N)]
    frame.loc[9, "key"] = None
    for number in range(2):
        frame[number::2].to_parquet(folder / f"part{number}.parquet")
    return folder, pd.concat([frame[0::2], frame[1::2]], ignore_index=True)


@pytest.mark.parametrize("where", [None, "used == true"])
def test_rows_have_their_ids(table, tmp_path, where):
    folder, frame = table
    keys = {
        "input.id": "key",
        "input.exclude": ["used"],
        "output.path": str(tmp_path / "out"),
    } | SCALED
    run = distsvc.run(folder, overrides=keys | ({"input.where": where} if where else {}))
    report = run.report
    assert report.input.id == "key"
    typical = [row for one in report.profiles.clusters for row in one.typical]
    far = report.reasons.farthest
    assert len(typical) == 5 * len(report.clusters)
    assert len(far) >= 6
    for row in (*typical, *far):
        assert row.id == frame["key"][row.row]
    extreme = frame["key"][frame["a"] > 1e6].item()
    assert any(f"extreme rows: key {extreme} (a = 1e+07)" in text for text in report.warnings)
    page = re.sub("<[^>]+>", " ", (tmp_path / "out" / "report.html").read_text())
    assert f" {far[0].id} " in page
    assert "Rows are numbered from 0" not in page


def test_rows_without_ids_have_numbers(table, tmp_path):
    folder, _ = table
    keys = {"input.exclude": ["used", "key"], "output.path": str(tmp_path / "out")} | SCALED
    report = distsvc.run(folder, overrides=keys).report
    assert report.input.id is None
    assert all(row.id is None for row in report.reasons.farthest)
    assert any("extreme rows: row 753 (a = 1e+07)" in text for text in report.warnings)
    assert "Rows are numbered from 0" in (tmp_path / "out" / "report.html").read_text()


def test_the_page_shows_dates_and_booleans_as_the_table_has_them(tmp_path):
    random = np.random.default_rng(0)
    y = random.integers(0, 2, N)
    y[0] = 0
    day = np.round(400 * y + random.normal(0, 30, N)).astype(int)
    frame = pd.DataFrame(random.normal(size=(N, 2)) + 6.0 * y[:, None], columns=["a", "b"])
    frame["express"] = random.random(N) < np.where(y, 0.03, 0.97)
    frame["opened"] = np.datetime64("2020-01-01") + day.astype("timedelta64[D]")
    frame.loc[0, "opened"], frame.loc[0, "express"] = pd.Timestamp("2009-05-01"), False
    keys = {
        "input.columns": list(frame), "output.reasons": 4, "output.path": str(tmp_path / "out"),
    }  # fmt: skip
    run = distsvc.run(frame, overrides=keys)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "early opened" in page
    assert "opened = 2009-05-01" in page
    assert "(opened = 2009-05-01)" in str(run.report.warnings)
    labels = run.labels().to_pydict()
    assert "express=false" in labels["reasons"][0]
    assert run.model.label(frame)["reasons"].to_pylist() == labels["reasons"]
