"""Nights whose tables have other columns than the night before."""

import numpy as np
import pytest

from tests.jobs.shop import FIRST, SECOND, invoked, rows
from tests.published_files import published_file

pytestmark = pytest.mark.usefixtures("quick_page")

COLUMNS = {"columns": ["x0", "x1"]}
IGNORED = (
    "columns ignored, because the previous model lacks them: more; to use these, name all "
    "features in input.columns, and set model.mode = 'refit'"
)


def test_missing_columns_are_named(shop, monkeypatch):
    X, _ = rows(300, 200, 100)
    shop.table(FIRST, np.column_stack([X, X[:, 0], X[:, 1]])[:, :3], y=X[:, 0], z=X[:, 1])
    shop.run(FIRST)
    shop.table(SECOND, X)
    model = {"algorithm": "bico", "n_clusters": 3}
    for mode in ("assign", "auto", "refit"):
        result = invoked(shop, SECOND, monkeypatch=monkeypatch, model=model | {"mode": mode})
        assert result.exit_code == 65, result.output
        assert all(f"'{name}'" in result.stderr for name in ("x2", "y", "z"))
        assert "Traceback" not in result.stderr
        assert not (shop.out(SECOND) / "manifest.json").exists()


@pytest.mark.parametrize("mode", ["assign", "auto"])
def test_a_job_must_name_the_columns_of_the_model(shop, mode, monkeypatch):
    X, y = rows(300, 200, 100)
    for date in FIRST, SECOND:
        shop.table(date, X, more=np.arange(600.0), other=np.arange(600.0))
    shop.run(FIRST, input=COLUMNS)
    model = {"algorithm": "bico", "n_clusters": 3, "mode": mode}
    fewer = {"columns": ["x1", "more"]}
    said = invoked(shop, SECOND, monkeypatch=monkeypatch, model=model, input=fewer)
    assert said.exit_code == 78, said.output
    assert "input.columns: expected all columns of the model of " in said.stderr
    assert "missing: 'x0'" in said.stderr
    report = shop.run(SECOND, model=model, input={"columns": ["more", "x1", "x0"]})
    ignored = [text for text in report.warnings if "ignored" in text]
    assert ignored == [IGNORED]
    assert shop.ids(SECOND, y) == {0: 0, 1: 1, 2: 2}


def test_dates_that_are_no_features_are_no_ignored_columns(shop):
    for day in FIRST, SECOND:
        shop.table(day, rows(300, 200, 100)[0], since=np.arange(600).astype("M8[s]"))
    model = {"algorithm": "bico", "n_clusters": 3}
    shop.run(FIRST, model=model)
    report = shop.run(SECOND, model=model | {"mode": "assign"})
    assert not [text for text in report.warnings if "ignored" in text]


def test_a_newly_encoded_column_becomes_a_feature(shop):
    (X, _), (Y, _) = rows(300, 200, 100), rows(300, 200, 100, seed=1)
    kind = np.where(np.arange(600) % 2, "a", "b")
    shop.table(FIRST, X, kind=kind)
    shop.table(SECOND, Y, kind=kind)
    shop.run(FIRST)
    report = shop.run(SECOND, preprocess={"encode": {"kind": "onehot"}})
    assert not [text for text in report.warnings if "ignored" in text]
    x0, x1, encoded = shop.said(SECOND, "model.json")["features"]
    assert (x0, x1, encoded["column"]) == ("x0", "x1", "kind")


def test_the_order_of_columns_changes_nothing(shop):
    (X, _), found = rows(300, 200, 100), []
    more = np.random.default_rng(0).poisson(2.0, (2, 600)).astype(float)
    shop.table(FIRST, X, visits=more[0])
    shop.run(FIRST, model={"algorithm": "auto"})
    columns = {"x0": X[:, 0], "x1": X[:, 1], "visits": more[1]}
    for names in (list(columns), list(columns)[::-1]):
        shop.table(SECOND, X[:, :0], **{name: columns[name] for name in names})
        shop.run(SECOND, overwrite=True, model={"algorithm": "auto"})
        found.append(published_file(shop.out(SECOND), "arrays.npz").read_bytes())
    assert found[0] == found[1]
