import re

import pytest

from tests.report.reports import (
    Page,
    make_assigned,
    make_check,
    make_drift,
    make_lineage,
    make_night_report,
    make_profiles,
    make_report,
    make_story,
    page_text,
    rendered,
    said_first,
)

pytestmark = pytest.mark.usefixtures("undrawn")

HEADINGS = ["Since the run before", "Drift", "Checks"]


def headings(html):
    return [title for title in re.findall(r"<h2>(.*?)</h2>", html) if title in HEADINGS]


def test_a_run_without_lineage_has_no_such_sections():
    html = rendered(make_report())
    assert headings(html) == []
    for word in ('class="held', "measured", "Jaccard"):
        assert word not in html


@pytest.mark.parametrize(
    ("part", "heading"), [("lineage", HEADINGS[0]), ("drift", HEADINGS[1]), ("checks", HEADINGS[2])]
)
def test_each_part_has_its_heading(part, heading):
    report = make_night_report(lineage=make_assigned())
    assert headings(rendered(report)) == HEADINGS
    del report[part]
    assert headings(rendered(report)) == [one for one in HEADINGS if one != heading]


def test_a_held_run_begins_with_the_failed_checks():
    report = make_night_report(checks=("passed", "failed"))
    text = page_text(report)
    first = (
        "Held back by a check: 21.0 % of the rows lie outside every cluster, at most 20 % expected "
        "( max_outlier_share )."
    )
    assert text.startswith(first)
    assert text.index(first) < text.index(said_first(rendered(report)))
    assert 'class="held" role="alert"' in rendered(report)
    report["checks"].append(make_check("min_rows", "failed", "900 rows, at least 1,000 expected"))
    text = page_text(report)
    assert text.startswith("Held back by 2 checks: 21.0 % of the rows lie outside every cluster")
    assert "900 rows, at least 1,000 expected ( min_rows ) Two rings" in text


def test_a_run_without_failed_checks_is_not_held():
    html = rendered(make_night_report(checks=("passed", "warned", "not measured")))
    assert "Held back" not in html
    report = make_night_report(checks=("failed",)) | {"held": False}
    assert "Held back" not in rendered(report)


def test_failed_checks_come_first_in_the_table():
    report = make_night_report(checks=("passed", "not measured", "warned", "failed"))
    html = rendered(report)
    states = re.findall(r'class="state (\S+)">(.*?)<', html)
    assert [state for _, state in states] == ["failed", "warned", "not measured", "passed"]
    assert "not-measured" in dict(states)
    report["checks"] = [make_check("max_drift", words="the index is 0.1")]
    assert "Check Result The index is 0.1 max_drift passed" in page_text(report)


def test_a_lineage_in_words_and_as_tables():
    text = page_text(make_night_report())
    assert "Ids continue those of the run r-0731 , published at out/2026-07-31 ." in text
    assert "Of 4 clusters, 2 continue, 1 split and 1 disappeared; clusters 4 and 5 are new." in text
    assert (
        "47.4 % of the 1,899 rows moved: the previous model puts them into another cluster" in text
    )
    assert (
        "Rows now 0 split into 4 and 5 0.67 900 0 3 disappeared 0.00 0 0 4 new, out of 0 0.67 0 "
        "600 5 new, out of 0 0.33 0 300 1 continues 0.90 500 500 2 continues 0.90 499 499"
    ) in text
    assert "Moved from To Rows Share 0 4 600 31.6 % 0 5 300 15.8 % Cluster Event" in text


def test_events_in_words():
    lineage = make_lineage()
    lineage["clusters"] = [
        make_story(0, "absorbed", 50, 0, [2]),
        make_story(1, "split", 50, 0, range(3, 14)),
        make_story(2, "survived", 50, 90),
        make_story(14, "appeared", 0, 10),
    ]
    text = page_text(make_night_report(lineage=lineage))
    for expected in (
        "0 absorbed into 2 0.90", "1 split into 3, 4, 5, 6, 7, 8, 9, 10 and 3 more 0.90",
        "14 new 0.90", "2 continues 0.90",
        "Of 3 clusters, 1 continues, 1 split and 1 became part of another; cluster 14 is new.",
    ):  # fmt: skip
        assert expected in text, expected


def test_a_model_of_another_run_labelled_the_rows():
    text = page_text(make_night_report(30, lineage=make_assigned(30)))
    assert (
        "The rows were labelled with the model of run r-0731 , published at out/2026-07-31 . No "
        "new model was learned, so every id stays"
    ) in text
    assert "Rows now Share 0 10 3.3 % 500 3.3 % 1 10" in text
    assert "10 more clusters Cluster" in text
    assert "Jaccard" not in text


def test_ids_begin_if_nothing_is_published_before():
    lineage = make_lineage() | {
        "path": None, "run_id": None, "moves": None, "rows": 0, "moved": None,
        "not_published": "out/<b>", "clusters": [make_story(k, "appeared", 0, 500) for k in "012"],
    }  # fmt: skip
    for k, story in enumerate(lineage["clusters"]):
        story["id"] = k
    text = page_text(make_night_report(lineage=lineage))
    assert "Ids begin here: no run is published at out/<b> ." in text
    assert "Jaccard" not in text
    assert "the previous model puts" not in text


def test_rows_that_stay_are_no_moves():
    report = make_night_report()
    report["lineage"]["moves"] = {"before": [0, 1], "after": [0, 1], "rows": [5, 6]}
    assert "Moved from" not in page_text(report)


def test_drift():
    report = make_night_report()
    html, text = rendered(report), page_text(report)
    assert "Of 3 columns, 1 has changed much and 1 has changed some." in text
    assert "The index of the earlier model's scores of 1,500 rows is 0.031." in text
    assert "1.5 % of the rows lay outside every cluster before, 2.1 % do now." in text
    assert "Column Index column 0 0.300 column 1 0.120 column 2 0.010" in text
    assert re.findall(r'class="bar (\w*)" style="width:(\S+)%"', html) == [
        ("much", "100.0"), ("some", "40.0"), ("", "3.3"),
    ]  # fmt: skip
    assert "Missing" not in text
    assert "Bars end" not in text


def test_drift_of_many_columns_with_missing_values():
    report = make_night_report()
    report["drift"] = make_drift([i / 10 for i in range(40)], missing=0.07) | {
        "score": None, "outlier_share_before": None,
    }  # fmt: skip
    html, text = rendered(report), page_text(report)
    assert "Missing before Missing now column 39 3.900 0 % 7.0 % column 38" in text
    assert "<summary>20 more columns</summary>" in html
    assert "Bars end at 1." in text
    assert "The scores" not in text
    assert "2.1 % of the rows lie outside every cluster now." in text
    widths = [float(width) for width in re.findall(r'class="bar \w*" style="width:(\S+)%"', html)]
    assert len(widths) == 40
    assert max(widths) == 100


def test_drift_from_a_reference():
    report = make_report()
    columns = make_drift([0.4, 0.05], missing=0.07)["columns"]
    report["reference"] = {"path": "out/<1>", "run_id": "r", "run_date": "2026-01-01",
                           "columns": columns}  # fmt: skip
    text = page_text(report)
    assert "Drift from the reference Of 2 columns, 1 has changed much." in text
    assert "The reference is the run at out/<1>, of 2026-01-01." in text
    assert "Missing before" in text


def test_untrusted_text_is_escaped():
    evil = '<script>alert(1)</script>"&\x00\n$x_1$ 列' + "x" * 1000
    report = make_night_report(checks=("failed", "failed", "passed"))
    report["lineage"] |= {"path": evil, "run_id": evil, "not_published": evil, "because": [evil]}
    report["lineage"]["clusters"][0]["others"] = [2**63 - 1] * 50
    for check in report["checks"]:
        check |= {"name": evil, "words": evil}
    report["drift"]["columns"][0]["column"] = evil
    for one in (report, report | {"checks": report["checks"][1:2]}):
        html = rendered(one)
        assert html.count("<script") == 1
        assert Page(html).tags.count("script") == 1
        assert "x" * 700 not in html
    for other in ({"path": None}, {"mode": "assign"}):
        changed = report | {"lineage": report["lineage"] | other}
        assert Page(rendered(changed)).tags.count("script") == 1


def test_the_names_before_are_shown_where_they_are_no_longer_true():
    earlier = {
        "0": [{"column": "width", "text": "width 1 or more", "low": 1.0}],
        "1": [{"column": "width", "text": "width 9 or more", "low": 9.0}],
        "2": [{"column": "depth", "text": "high depth"}],
    }
    report = make_night_report(3) | {"profiles": make_profiles(range(3)), "earlier_names": earlier}
    text = page_text(report)
    assert "a new one: 1 was “width 9 or more”; 2 was “high depth”." in text
    assert "no longer true" not in page_text(report | {"names": {"1": "wide", "2": "deep"}})
