"""The comparison of a night with the previous run, in words."""

from types import SimpleNamespace

import pytest

from distsvc.report.content.night import words_of_night
from distsvc.report.content.parts import CheckPart, ColumnDrift, DriftPart, LineagePart, StoryPart


def story(number, event, before, after):
    return StoryPart(
        id=number, event=event, jaccard=0.5, rows_before=before, rows_after=after, others=[]
    )


def lineage(*stories, path="out/1", mode="refit", ids_moved=None):
    facts = {"rows": 100, "moved": 0.125, "ids_moved": ids_moved, "next_id": 30}
    return LineagePart(path=path, run_id="r", mode=mode, clusters=list(stories), **facts)


def check(name, state):
    level = "warn" if state == "warned" else "error"
    return CheckPart(name=name, level=level, limit=[1.0], found=2.0, state=state, words=name)


def night(of=None, drift=None, checks=()):
    return SimpleNamespace(lineage=of, drift=drift, checks=list(checks))


def test_a_run_without_lineage_and_checks_has_no_words():
    assert words_of_night(night()) == []
    assert words_of_night(night(lineage(path=None))) == ["ids from 0"]


def test_new_split_and_gone_ids_are_listed():
    found = lineage(
        story(0, "survived", 50, 50),
        story(1, "absorbed", 10, 0),
        story(2, "split", 20, 0),
        story(3, "disappeared", 5, 0),
        story(4, "split", 0, 10),
        story(5, "appeared", 0, 10),
        story(6, "disappeared", 0, 0),
    )
    words = words_of_night(night(found))
    assert words == ["12.5% of rows moved", "new 4, 5", "split 2", "gone 1, 3, 6"]
    kept = lineage(story(0, "survived", 50, 50))
    assert words_of_night(night(kept)) == ["12.5% of rows moved"]
    kept = lineage(story(0, "survived", 50, 50), ids_moved=0.75)
    assert words_of_night(night(kept)) == ["12.5% of rows and 75.0% of ids moved"]


def test_in_mode_assign_no_rows_have_moved():
    assert words_of_night(night(lineage(story(0, "survived", 5, 5), mode="assign"))) == []


def test_the_column_that_drifted_most_is_named():
    columns = [
        ColumnDrift(column=name, index=index, missing_before=0.0, missing_after=0.0)
        for name, index in (("price", 0.314), ("n", 0.01))
    ]
    drift = DriftPart(
        columns=columns,
        score=None,
        score_rows=0,
        outlier_share_before=None,
        outlier_share_after=None,
    )
    assert words_of_night(night(drift=drift)) == ["drift 0.31 in price"]


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (["passed"], ["1 check passed"]),
        (["passed", "passed", "not measured"], ["2 checks passed, 1 not measured"]),
        (["not measured", "not measured"], ["2 checks not measured"]),
        (["not measured", "passed", "failed"], ["1 check passed, 1 not measured", "c failed"]),
        (["warned", "passed", "failed", "failed"], ["1 check passed", "a warned", "c, d failed"]),
    ],
)
def test_failed_and_warned_checks_are_named_others_counted(states, words):
    checks = [check(name, state) for name, state in zip("abcd", states, strict=False)]
    assert words_of_night(night(checks=checks)) == words
