"""Checks on a result: their words, and runs that they hold back."""

import re
from dataclasses import replace
from types import SimpleNamespace as Stand

import numpy as np
import pytest

from distsvc.errors import CheckFailedError
from distsvc.job.config import ChecksConfig
from distsvc.published.republish import publish_held
from distsvc.report.content.parts import StoryPart
from distsvc.run.job import run_job
from distsvc.run.labelling.counts import IdReport
from distsvc.run.nights.checks import CHECKS, RunMetrics, run_checks
from distsvc.run.nights.comparison import outlier_notes
from distsvc.storage.publishing.publication import Output
from tests.jobs.shop import FIRST, SECOND, THIRD, rows
from tests.small_runs import small_job, three_clusters, write_table

pytestmark = pytest.mark.usefixtures("quick_page")

LIMITS = {
    "min_rows": 600, "max_outlier_share": 0.9, "clusters": [2, 5], "max_rows_moved": 0.5,
    "max_drift": 1.0, "min_agreement": 0.1,
}  # fmt: skip


def test_checks_that_pass_or_are_not_measured(shop):
    for date, seed in ((FIRST, 0), (SECOND, 1)):
        shop.table(date, rows(300, 200, 100, seed=seed)[0])
        report = shop.run(date, checks=LIMITS)
    states = {check.name: check.state for check in report.checks}
    usual = {"rows_against_last", "same_units"}
    measured = {"min_rows", "clusters", "max_rows_moved", "max_drift", *usual}
    wanted = LIMITS.keys() | usual  # which every job with a run before has
    assert states == {name: "passed" if name in measured else "not measured" for name in wanted}
    assert not report.held
    told = shop.manifest(SECOND)["checks"]
    assert [check["name"] for check in told] == [check.name for check in report.checks]


@pytest.mark.parametrize("level", ["error", "warn"])
def test_a_check_that_fails_holds_the_run_or_warns(shop, level):
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(300, 100, 0, 200, seed=1)[0])
    shop.run(FIRST)
    name = "max_rows_moved"
    words = f"{name}: 33.3 % of the rows are in another cluster than the previous model gives them"
    checks = {name: {"limit": 0.1, "level": level}}
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


def test_after_an_overridden_check_a_failed_one_advises_a_rollback(shop):
    """Without a failed check, there is no advice."""
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
    ways = f"to undo this: distsvc rollback {shop.out(SECOND)} --withdraw, then run this night"
    assert re.search(ways, str(caught.value))
    assert any(re.search(ways, text) for text in caught.value.report.warnings), "the page says so"
    assert not any("rollback" in text for text in shop.run(THIRD).warnings)


FOUND = {
    "rows": 900, "clusters": 45, "outlier_share": 0.21, "rows_moved": 0.5, "drift": 0.9123,
    "drifted": "a {} b", "agreement": 0.2, "ids": IdReport(4, 1, 0, "a"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("check", "limit", "found", "words"),
    [
        ("min_rows", 1000, {}, "900 rows, at least 1,000 expected"),
        ("max_outlier_share", 0.2, {},
         "21.0 % of the rows lie outside every cluster, at most 20 % expected"),
        ("max_outlier_share", 0.2, {"outlier_share": 0.2002},
         "20.02 % of the rows lie outside every cluster, at most 20 % expected"),
        ("max_outlier_share", 0.2, {"outlier_share": 0.2},
         "20.0 % of the rows lie outside every cluster, at most 20 % expected"),
        ("max_outlier_share", 0.29, {"outlier_share": None}, "not measured, at most 29 % expected"),
        ("clusters", [2, 40], {}, "45 clusters, 2 to 40 expected"),
        ("clusters", [3, 3], {"clusters": 1}, "1 cluster, 3 expected"),
        ("max_rows_moved", 0.3, {},
         "50.0 % of the rows are in another cluster than the previous model gives them, at most "
         "30 % expected: the clusters have changed; look first for rows in another unit"),
        ("max_ids_moved", 0.3, {},
         "75.0 % of the ids are in another cluster than in the previous run, at most 30 % expected"
         ": look first for ids that were joined to other rows, and for rows in another unit"),
        ("max_drift", 0.25, {},
         "the drift (population stability index) of column "
         "'a {} b' is 0.912, at most 0.25 expected"),
        ("max_drift", 0.25, {"drift": 0.2500001},
         "the drift (population stability index) of column "
         "'a {} b' is 0.2500001, at most 0.25 expected"),
        ("min_agreement", 0.3, {}, "the agreement is 0.20, at least 0.3 expected"),
        ("unique_id", True, {}, "5 rows share their id with another or have none, none expected"),
        ("unique_id", True, {"ids": IdReport(4, 0, 3, "a")},
         "4 rows share their id with another (only one in 8 ids was compared) or have "
         "none, none expected"),
        ("unique_id", True, {"ids": IdReport(0, 1, 0, "a")},
         "1 row shares its id with another or has none, none expected"),
        ("unique_id", True, {"ids": None}, "not measured, none expected"),
        ("max_rows", 800, {}, "900 rows, at most 800 expected"),
        ("rows_against_last", [0.5, 2.0], {"before": [300]},
         "the number of rows is 3.00 times "
         "the number in the previous run (300), 0.5 to 2 expected"),
        ("rows_against_last", {"limit": [0.5, 2.0], "nights": 4}, {"before": [900, 300, 500]},
         "the number of rows is 1.80 times "
         "the median number in the last 3 runs (500), 0.5 to 2 expected"),
        ("rows_against_last", [0.5, 2.0], {}, "not measured, 0.5 to 2 expected"),
        ("max_null_share", 0.1, {},
         "missing in column 'b': 20.0 % of the rows, at most 10 % expected"),
        ("max_null_share", 0.1, {"dropped": 0.05},
         "left out since a value is missing: 5.0 % of the rows, at most 10 % expected"),
        ("min_cluster_rows", 50, {}, "the smallest cluster has 7 rows, at least 50 expected"),
        ("max_new_share", 0.2, {},
         "40.0 % of the clusters have an id that is new, at most 20 % expected"),
        ("max_gone_share", 0.2, {},
         "25.0 % of the clusters of the previous run have ended, at most 20 % expected"),
        ("max_gone_share", 0.2, {"rows_moved": None}, "not measured, at most 20 % expected"),
        ("max_drift", {"limit": 1.0, "warn": 0.5}, {},
         "the drift (population stability index) of column "
         "'a {} b' is 0.912, at most 0.5 expected"),
        ("max_drift", {"limit": 0.9, "warn": 0.5}, {},
         "the drift (population stability index) of column "
         "'a {} b' is 0.912, at most 0.9 expected"),
    ],
)  # fmt: skip
def test_words_of_an_outcome(check, limit, found, words):
    config = ChecksConfig.model_validate({check: limit})
    (part,) = run_checks(config, measured(**(FOUND | found)))
    assert part.words == f"{check}: {words}"
    assert part.name == check


STORIES = [
    StoryPart(id=i, event=event, jaccard=0.5, rows_before=before, rows_after=after, others=[])
    for i, (event, before, after) in enumerate(
        [("survived", 9, 9), ("survived", 9, 9), ("survived", 9, 0), ("absorbed", 9, 0),
         ("split", 0, 9), ("appeared", 0, 9)]
    )
]  # fmt: skip
"""Three of four earlier clusters survive, and two are new."""


def measured(
    rows, clusters, outlier_share, rows_moved, drift, drifted, agreement, ids,
    before=(), dropped=None,
):  # fmt: skip
    missing = {"": Stand(missing=np.array([0.1, 0.2]))}
    sizes = np.array([[900, 0], [0, 0], [3, 4]])
    counts = Stand(n_rows=rows, n_clusters=clusters, columns=missing, sizes=sizes)
    labeller = Stand(columns=["a", "b"])
    labelled = Stand(counts=counts, outlier_share=outlier_share, ids=ids, labeller=labeller)
    lineage = Stand(moved=rows_moved, ids_moved=0.75, clusters=STORIES)
    drifted = Stand(columns=[Stand(index=drift, column=drifted, factor=None, change="")])
    return RunMetrics(labelled, lineage, drifted, agreement, dropped, before)


@pytest.mark.parametrize(
    ("drift", "state"), [(0.4, "passed"), (0.6, "warned"), (1.2, "failed"), (None, "not measured")]
)
def test_a_check_warns_first_and_then_holds_back(drift, state):
    config = ChecksConfig.model_validate({"max_drift": {"limit": 1.0, "warn": 0.5}})
    (part,) = run_checks(config, measured(**(FOUND | {"drift": drift})))
    assert (part.state, part.limit, part.warn) == (state, [1.0], [0.5])


def test_default_checks_of_a_job_with_a_previous_run():
    """A job's own checks replace them; their words name the key that turns them off."""
    found = measured(**(FOUND | {"outlier_share": 0.6, "drift": 9.0, "before": [100]}))
    none = ChecksConfig()
    assert run_checks(none, found) == []
    parts = {part.name: part for part in run_checks(none, found, guarded=True)}
    assert {name: part.state for name, part in parts.items()} == {
        "rows_against_last": "warned", "max_outlier_share": "failed", "max_rows_moved": "passed",
        "max_ids_moved": "failed", "max_drift": "failed", "same_units": "passed",
    }  # fmt: skip
    hint = "; this check is on by default, [checks] {} = false turns it off"
    hinted = {name for name, part in parts.items() if part.words.endswith(hint.format(name))}
    assert hinted == {name for name, part in parts.items() if part.state != "passed"}
    own = ChecksConfig.model_validate({"max_drift": False, "max_outlier_share": 0.55})
    parts = {part.name: part for part in run_checks(own, found, guarded=True)}
    assert "max_drift" not in parts
    assert parts["max_outlier_share"].state == "failed"
    assert "[checks]" not in parts["max_outlier_share"].words


@pytest.mark.parametrize(("has_ids", "states"), [(False, []), (True, ["not measured"])])
def test_the_default_check_of_ids_is_listed_if_the_job_has_ids(has_ids, states):
    found = replace(measured(**FOUND), lineage=None, has_ids=has_ids)
    parts = run_checks(ChecksConfig(), found, guarded=True)
    assert [part.state for part in parts if part.name == "max_ids_moved"] == states


def test_the_keys_of_a_job_are_all_checks():
    assert list(ChecksConfig.model_fields) == [check.name for check in CHECKS]


BALL = {"algorithm": "linear-svdd"}


@pytest.mark.parametrize(("share", "asked"), [
    (None, [{}]), (0.25, [{}]), (0.5, [{"nu": 0.5}]), (0.54, [{}, {"nu": 0.5}]),
    (0.5, [{"nu": None, "C": 0.1}]),
])  # fmt: skip
def test_few_or_expected_outliers_give_no_note(share, asked):
    assert outlier_notes(share, asked) == []


@pytest.mark.parametrize("asked", [[{}], [{"nu": 0.2}], [{"nu": None, "C": None}], []])
def test_many_outliers_give_a_note(asked):
    (note,) = outlier_notes(0.2512, asked)
    assert note.startswith("25.1% of the rows lie outside, more than expected: ")


def test_a_night_with_rows_far_from_the_model(tmp_path):
    X, out = three_clusters(400), str(tmp_path / "first")
    first = run_job(small_job(write_table(tmp_path / "1.parquet", X), BALL, output={"path": out}))
    assert first.outliers.share <= 0.05
    more = {"continuity": {"previous": out}, "output": {"path": str(tmp_path / "second")}}
    far = write_table(tmp_path / "2.parquet", X + 30.0)
    night = small_job(far, BALL | {"mode": "assign"}, **more)
    too_far = r"max_outlier_share: 100\.0 % of the rows lie outside"
    with pytest.raises(CheckFailedError, match=too_far):
        run_job(night)
    off = {"max_outlier_share": {"limit": 1.0}, "max_drift": False}
    second = run_job(night.model_copy(update={"checks": ChecksConfig.model_validate(off)}))
    told = [text for text in second.warnings if "more than expected" in text]
    assert (len(told), second.outliers.share) == (1, 1.0)
