"""Warnings in one line each, the rest folded away."""

from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.sections.basics import caption, folded_texts
from tests.report.reports import make_report, rendered, typed


def test_a_long_warning_is_one_line_and_the_rest_is_folded():
    long = "extreme rows: " + "row 1 (x = 1), " * 20 + "; ignored while learning"
    report = make_report() | {"warnings": [long, "short"]}
    row, short = folded_texts(report["warnings"])
    assert len(row.line) <= PAGE_LIMITS.warning
    assert row.whole == long
    assert (short.line, short.whole) == ("short", "")
    html = rendered(report)
    assert f"<details><summary>{row.line}</summary>" in html
    assert "<li>short</li>" in html


def test_values_that_were_filled_are_marked_in_the_picture():
    report = make_report()
    assert "missing" not in caption(typed(report)).text
    report["sample"]["filled"] = 7
    assert (
        "7 rows have missing values, and are drawn with the column's usual value there."
        in caption(typed(report)).text
    )
