"""Checks on what has changed since the night before, and runs that they hold back."""

import json
import re

import pytest

from distsvc.errors import CheckFailedError
from distsvc.published.republish import publish_held
from distsvc.storage.publishing.publication import Output, collect
from tests.jobs.shop import FIRST, SECOND, THIRD, invoked, rows
from tests.published_files import listed

pytestmark = pytest.mark.usefixtures("quick_page")

LIMITS = {
    "min_rows": 600,
    "max_outlier_share": 0.9,
    "clusters": [2, 5],
    "max_rows_moved": 0.5,
    "max_drift": 1.0,
    "min_agreement": 0.1,
}


def test_checks_that_pass_or_are_not_measured(shop):
    for date, seed in ((FIRST, 0), (SECOND, 1)):
        shop.table(date, rows(300, 200, 100, seed=seed)[0])
        report = shop.run(date, checks=LIMITS)
    states = {check.name: check.state for check in report.checks}
    measured = {"min_rows", "clusters", "max_rows_moved", "max_drift"}
    usual = {"rows_against_last", "same_units"}
    measured |= usual
    wanted = LIMITS.keys() | usual  # which every job with a run before has
    assert states == {name: "passed" if name in measured else "not measured" for name in wanted}
    assert not report.held
    told = shop.manifest(SECOND)["checks"]
    assert [check["name"] for check in told] == [check.name for check in report.checks]


WRONG = {"max_rows_moved": (0.1, "max_rows_moved: 33.3 % of the rows have another id than before")}


@pytest.mark.parametrize("level", ["error", "warn"])
@pytest.mark.parametrize("name", WRONG)
def test_a_check_that_fails_holds_the_run_or_warns(shop, name, level):
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(300, 100, 0, 200, seed=1)[0])
    shop.run(FIRST)
    limit, words = WRONG[name]
    checks = {name: {"limit": limit, "level": level}}
    if level == "error":
        with pytest.raises(CheckFailedError, match=r"^run .* is held back: ") as caught:
            shop.run(SECOND, checks=checks)
        assert words in str(caught.value)
        assert not (shop.out(SECOND) / "manifest.json").exists()
        return
    report = shop.run(SECOND, checks=checks)
    assert [check.state for check in report.checks if check.name == name] == ["warned"]
    assert any(text.startswith(words) for text in report.warnings)
    assert not report.held


def test_a_night_after_one_that_was_published_all_the_same_is_told_the_way_back(shop):
    """Only where a check fails again."""
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(100, 100, 500, seed=1)[0])
    shop.table(THIRD, rows(300, 200, 100, seed=2)[0])
    shop.run(FIRST)
    checks = {"max_drift": 0.3}
    with pytest.raises(CheckFailedError) as caught:
        shop.run(SECOND, checks=checks)
    assert "rollback" not in str(caught.value)
    [run_id] = Output(shop.out(SECOND)).candidates()
    publish_held(str(shop.out(SECOND)), run_id)
    with pytest.raises(CheckFailedError) as caught:
        shop.run(THIRD, checks=checks)
    ways = (
        f"to leave it behind: distsvc rollback {shop.out(SECOND)} --withdraw, then run this night"
    )
    assert re.search(ways, str(caught.value))
    assert any(re.search(ways, text) for text in caught.value.report.warnings), "the page says so"
    assert not any("rollback" in text for text in shop.run(THIRD).warnings)


def test_a_held_run_is_kept_beside_what_is_published(shop, monkeypatch):
    """The output is one folder, replaced every night."""
    given = {"output": {"path": f"{shop.folder}/out/now"}}
    given["continuity"] = {"previous": f"{shop.folder}/out/now"}
    X, _ = rows(300, 200, 100)
    shop.table(FIRST, X)
    shop.run(FIRST, **given)
    before = {str(path): path.read_bytes() for path in listed(shop.out("now"))}
    manifest = (shop.out("now") / "manifest.json").read_bytes()
    copies = {
        name: (shop.out("now") / name).read_bytes() for name in ("report.html", "report.json")
    }
    shop.table(SECOND, X[:500])
    again = ("--overwrite",)
    given["checks"] = {"min_rows": 550}
    result = invoked(shop, SECOND, *again, monkeypatch=monkeypatch, **given)
    assert result.exit_code == 76, result.output
    (run_id,) = Output(shop.out("now")).candidates()
    assert "min_rows: 500 rows, at least 550 expected" in result.stderr
    assert f"distsvc publish {shop.out('now')} --held {run_id}" in result.stderr
    assert "Traceback" not in result.stderr
    assert (shop.out("now") / "manifest.json").read_bytes() == manifest
    assert {str(path): path.read_bytes() for path in listed(shop.out("now"))} == before
    assert {name: (shop.out("now") / name).read_bytes() for name in copies} == copies
    held = Output(shop.out("now")).candidates()[run_id]
    assert held.rows == 500
    assert [check.name for check in held.checks if check.state == "failed"] == ["min_rows"]
    for file in held.files:
        assert (shop.out("now") / file.lasting).stat().st_size == file.bytes
    report = next(file.lasting for file in held.files if file.name == "report.json")
    assert json.loads((shop.out("now") / report).read_text())["held"] is True
    assert collect(shop.out("now")) == [], "what is held is kept"

    shop.table(THIRD, rows(100, 300, 200, seed=1)[0])
    result = invoked(shop, THIRD, *again, monkeypatch=monkeypatch, **given)
    assert result.exit_code == 0, result.output
    assert Output(shop.out("now")).candidates() == {}
    collect(shop.out("now"))
    assert not [one for one in held.files if (shop.out("now") / one.lasting).exists()]
    assert shop.ids("now", rows(100, 300, 200, seed=1)[1]) == {0: 0, 1: 1, 2: 2}
