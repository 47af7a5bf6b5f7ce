"""Warnings in one line each, with the line of a job file that helps."""

from pathlib import Path

import pytest

import distsvc
from distsvc.report.sections.basics import ADVICE, LONGEST, advice
from tests.report.reports import make_levels_report, make_report, page_text, rendered, typed

SOURCES = [
    " ".join(path.read_text(encoding="utf-8").replace('"\n', "").split())
    for path in Path(distsvc.__file__).parent.rglob("*.py")
    if path.parent.name != "sections"
]


@pytest.mark.parametrize("words", [words for words, _, _ in ADVICE])
def test_the_words_are_those_of_a_warning(words):
    plain = [text.replace('" f"', "").replace('" "', "") for text in SOURCES]
    assert any(words in text for text in plain)


@pytest.mark.parametrize(
    ("text", "toml", "where"),
    [
        ("not used as features: 'id' (a row number)", "", ""),
        ("the number of clusters depends on the granularity: 7 (coarse), 14 (default)", "", ""),
        ("Clusters 0 and 1 differ only in width. To ignore it: --exclude width",
         'exclude = ["width"]', "input"),
        ("3 missing values were replaced by their columns' medians", "", ""),
        ("numbers that may stand for missing values: -9999 in x; if they do, give missing_values = "
         "[-9999, 1e+20] in [preprocess]", "missing_values = [-9999, 1e+20]", "preprocess"),
        ("numbers that may stand for missing values: -9 in x; if they do, give missing_values = "
         "[-9] and missing = 'median' (or 'drop') in [preprocess]",
         'missing_values = [-9]\nmissing = "median"', "preprocess"),
        ("extreme rows: row 1 (x = 1e+07), row 9 (x = 1e+07); ignored while learning", "", ""),
        ("the answer is one cluster: none of the 3 splits at the elbow, in any tree, passes "
         "through a valley of the density", "", ""),
        ("extreme values decide the scale of x (99 %): use preprocess.scale = 'robust', or for "
         "some columns preprocess.log = ['y']", 'scale = "robust"', "preprocess"),
        ("extreme values decide the scale of x, y: use preprocess.log = ['x', 'y'], or "
         "preprocess.scale = 'robust'", 'log = ["x", "y"]', "preprocess"),
        ("2.1% of the rows lie outside, and the job did not ask for so many", "nu = 0.021",
         "model"),
        ("something else", "", ""),
    ],
)  # fmt: skip
def test_the_line_that_helps(text, toml, where):
    (row,) = advice([text], typed(make_report()))
    assert (row.toml, row.where) == (toml, where)


def test_names_are_quoted():
    text = 'Clusters 0 and 1 differ only in a\\b"c. To ignore it: --exclude ...'
    (row,) = advice([text], typed(make_report()))
    assert row.toml == 'exclude = ["a\\\\b\\"c"]'


def test_a_long_warning_is_one_line_and_the_rest_is_folded():
    long = "extreme rows: " + "row 1 (x = 1), " * 20 + "; ignored while learning"
    report = make_report() | {"warnings": [long, "short"]}
    row, short = advice(report["warnings"], typed(report))
    assert len(row.line) <= LONGEST
    assert row.whole == long
    assert (short.line, short.whole) == ("short", "")
    html = rendered(report)
    assert f"<details><summary>{row.line}</summary>" in html
    assert "<li>short</li>" in html


def test_two_lines_that_help_are_told_apart():
    text = (
        "may stand for missing values: -9 in x; give missing_values = [-9] and missing = 'median'"
    )
    html = rendered(make_report() | {"warnings": [text]})
    assert "<code>missing_values = [-9]</code> and <code>missing = " in html


def test_doubts_help_too():
    report = make_levels_report(doubts=["Weak evidence: only 8 % of the models agree"])
    text = page_text(report)
    assert 'of the models agree effort = "thorough" in [model]' in text
