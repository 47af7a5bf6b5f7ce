"""A column in another unit is named, and its night is held back."""

import re

import numpy as np
import pytest
from click.testing import CliRunner

from distsvc.cli.main import main
from distsvc.errors import CheckFailedError
from distsvc.models.nights.drift import ColumnCounts, decile_edges
from distsvc.published.republish import publish_held, withdraw
from distsvc.published.status import status, status_lines
from distsvc.report.content.parts import ColumnDrift
from distsvc.run.nights.comparison import _changes
from distsvc.storage.publishing.publication import Output
from distsvc.storage.rows.blocks import Table
from distsvc.storage.rows.features import Codes, Numeric
from tests.jobs.shop import FIRST, SECOND, THIRD, rows
from tests.published_files import read_labels

pytestmark = pytest.mark.usefixtures("quick_page")

OFF = {"max_drift": False, "max_outlier_share": False}


@pytest.fixture
def three_nights(shop):
    """Three nights, the second with a column in another unit; the first is published."""
    for seed, date in enumerate([FIRST, SECOND, THIRD]):
        X = rows(300, 200, 100, seed=seed)[0] + 12.0
        X[:, 1] *= 100.0 if date == SECOND else 1.0
        shop.table(date, X)
    shop.run(FIRST, checks=OFF)
    return shop


def test_a_column_in_another_unit_holds_the_night_back_by_default(three_nights):
    shop = three_nights
    with pytest.raises(CheckFailedError) as caught:
        shop.run(SECOND, checks=OFF)
    said = str(caught.value)
    change = "'x1' is about 100 times the values of the previous run"
    words = f"same_units: 1 column in another unit ({change}), none"
    assert words in said
    assert "Nothing is published in " in said
    assert said.index("mend it") < said.index("distsvc publish")
    [check] = caught.value.report.failed
    assert (check.name, check.found) == ("same_units", 1)
    drifted = {one.column: one.factor for one in caught.value.report.drift.columns}
    assert drifted["x0"] is None
    assert drifted["x1"] == pytest.approx(100.0, rel=0.1)
    report = shop.run(SECOND, checks=OFF | {"same_units": False})
    assert not report.checks or all(one.state != "failed" for one in report.checks)
    assert shop.run(FIRST, overwrite=True, checks=OFF, model={"seed": 1}).failed == []


@pytest.mark.parametrize(("factor", "offset", "share", "words"), [
    (100.0, 0.0, 0.4, "about 100 times the values of the previous run where kind=b"),
    (1.8, 32.0, 0.4, "in Fahrenheit (previous run: Celsius) where kind=b"),
    (1.8, 32.0, 0.9, "in Fahrenheit (previous run: Celsius) where kind=b"),
    (1 / 1.8, -32.0 / 1.8, 0.4, "in Celsius (previous run: Fahrenheit) where kind=b"),
])  # fmt: skip
def test_another_unit_in_the_rows_of_a_category_holds_the_night_back(
    shop, factor, offset, share, words
):
    encoded = {"preprocess": {"encode": {"kind": "onehot"}}, "checks": OFF}
    for seed, date in enumerate([FIRST, SECOND]):
        X = rows(1500, 1000, 500, seed=seed)[0] + 12.0
        kind = np.where(np.random.default_rng(seed).random(len(X)) < share, "b", "a")
        if date == SECOND:
            X[kind == "b", 1] = factor * X[kind == "b", 1] + offset
        shop.table(date, X, kind=kind)
    shop.run(FIRST, **encoded)
    with pytest.raises(CheckFailedError) as caught:
        shop.run(SECOND, **encoded)
    assert f"same_units: 1 column in another unit ('x1' is {words}), none" in str(caught.value)


def test_another_temperature_scale_holds_the_night_back(shop):
    for seed, date in enumerate([FIRST, SECOND]):
        X = np.round(rows(1500, 1000, 500, seed=seed)[0] + 12.0, 1)
        if date == SECOND:
            X[:, 1] = np.round(1.8 * X[:, 1] + 32.0, 1)
        shop.table(date, X, kind=np.resize(["a", "b"], len(X)))
    shop.run(FIRST, checks=OFF)
    with pytest.raises(CheckFailedError) as caught:
        shop.run(SECOND, checks=OFF)
    words = "same_units: 1 column in another unit ('x1' is in Fahrenheit (previous run: Celsius)), "
    assert words in str(caught.value)


@pytest.mark.parametrize(("factor", "words"), [
    (98.3, "about 100 times"), (1047.0, "about 1,000 times"), (1 / 1012.0, "about 1/1,000 of"),
    (59.6, "about 60 times"), (1 / 24.2, "about 1/24 of"),
])  # fmt: skip
def test_a_factor_in_words(factor, words):
    given = {"column": "x", "index": 9.0, "missing_before": 0.0, "missing_after": 0.0}
    assert ColumnDrift(**given, factor=factor).times == f"{words} the values of the previous run"


def test_the_largest_change_of_a_column_in_words():
    features = [
        Numeric("flag"),
        Numeric("x"),
        *(
            Codes(column=name, known=("a", "b"), rest=rest)
            for name, rest in [("plan", 0.1), ("pay", 0)]
        ),
    ]
    new = {"plan": "'c'", "pay": "'d'"}
    table = Table([], tuple(features), ("bool", "double", "string", "string"), new_values=new)
    before = np.array([[0, 5, 0, 0], [0, 6, 1, 1], [1, 7, 1, 1], [1, 8, 2, 0], [1, 9, 2, 0]])
    before = np.repeat(before * 1.0, 20, axis=0)
    for now, found in (
        (
            [0, 1, 0, 0],
            ["false in 100 % of the rows, 40 % in the earlier run", "below 5 in", "a in", "a in"],
        ),
        (
            [1, 99, 2, 1],
            [
                "true in 100 % of the rows, 60 % in the earlier run",
                "9 or more in",
                "new or rare values, such as 'c', in 100 % of the rows",
                "b in",
            ],
        ),
        (
            [np.nan, 6, 1, 1],
            ["missing in 100 % of the rows, 0 % in the earlier run", "6 to 7 in", "b in", "b"],
        ),
        (
            [0, 1, np.nan, np.nan],
            [
                "false",
                "below",
                "missing in 100 % of the rows",
                "new, rare or missing values, such as 'd', in 100 %",
            ],
        ),
    ):
        old = ColumnCounts.empty(decile_edges(before))
        counted = ColumnCounts.empty(old.edges)
        old.add(before)
        counted.add(np.tile(np.array(now, float), (50, 1)))
        words = list(_changes(table, ["flag", "x", "plan", "pay"], old, counted))
        assert len(words) == len(found)
        assert all(map(str.startswith, words, found))


def test_a_withdrawn_night_is_skipped(three_nights):
    shop = three_nights
    with pytest.raises(CheckFailedError):
        shop.run(SECOND, checks=OFF)
    out = str(shop.out(SECOND))
    [run_id] = Output(out).candidates()
    publish_held(out, run_id)
    labels = read_labels(out)
    with pytest.raises(CheckFailedError, match=rf"rollback {out} --withdraw, then run this night"):
        shop.run(THIRD, checks=OFF)
    manifest, later = withdraw(out)
    assert manifest.run_id == run_id
    assert later == [(THIRD, str(shop.out(THIRD)), True)]
    [held] = Output(shop.out(THIRD)).candidates()
    words = f"this run continues run {run_id}, which is no longer published at {out}: cluster ids"
    assert words in status_lines(status(shop.out(THIRD)))[1]
    said = CliRunner().invoke(main, ["publish", str(shop.out(THIRD)), "--held", held]).stdout
    assert f"warning: {words}" in said
    withdraw(str(shop.out(THIRD)))
    left = sorted(path.name for path in shop.out(SECOND).iterdir())
    assert left == [".runs"], "no reader finds anything of it"
    report = shop.run(THIRD, checks=OFF)
    assert report.lineage.path == str(shop.out(FIRST))
    assert report.lineage.moved < 0.01
    said = CliRunner().invoke(main, ["publish", out, "--held", run_id]).stdout
    assert re.match("run .* is published: 3 clusters in 600 rows, .*\n.* ids 0, 1.* end here", said)
    assert f"these nights continue an earlier run, not this run: {THIRD} (" in said
    assert f"backfill JOB.toml --from {THIRD} --to {THIRD} --reprocess completed" in said
    assert read_labels(out).equals(labels), "it can be published again"
    assert withdraw(out)[1] == []


def test_nights_that_continue_a_withdrawn_one_are_named(shop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for night, seed in ((FIRST, 0), (SECOND, 1)):
        shop.table(night, rows(150, 100, 50, seed=seed)[0])
        shop.run(night, checks=OFF)
    found = CliRunner().invoke(main, ["rollback", str(shop.out(FIRST)), "--withdraw"])
    assert f"these nights continue the withdrawn run: {SECOND} (out/{SECOND})" in found.stdout
    assert f"backfill JOB.toml --from {SECOND} --to {SECOND} --reprocess" in found.stdout


def test_rows_before_are_those_of_the_previous_table(shop):
    shop.table(FIRST, rows(150, 100, 50)[0])
    shop.table(SECOND, rows(300, 200, 100, seed=1)[0])
    first = shop.run(FIRST)
    second = shop.run(SECOND, checks={"rows_against_last": False})
    told = {one.id: (one.rows_before, one.rows_after) for one in second.lineage.clusters}
    before = {one.label: one.rows for one in first.clusters}
    now = {one.label: one.rows for one in second.clusters}
    assert told == {i: (before[i], now[i]) for i in before}
