"""The table of clusters by column, and the list of columns."""

import re

import pytest

from distsvc.errors import DataError
from distsvc.report.sections.clusters import compared_rows
from tests.report.reports import make_report, page_text, rendered, typed

pytestmark = pytest.mark.usefixtures("no_figures")

AGE = {
    "column": "age", "kind": "count", "scale": "logarithm", "reason": "whole numbers",
    "explained": 0.41, "quartiles": [[30.0, 34.0, 40.0], [50.0, 58.0, 63.0]],
    "leaning": [-0.8, 0.8], "missing": 100, "absent": [10, 90],
}  # fmt: skip
PREMIUM = {
    "column": "premium", "kind": "binary", "explained": 0.0, "levels": ["no", "yes"],
    "rows": [[650, 350], [331, 169]],
}  # fmt: skip
COUNTRY = {
    "column": "country", "kind": "", "feature": False, "reason": "input.exclude",
    "explained": 0.3, "levels": ["DE", "<b>FR"], "rows": [[900, 100], [50, 450]],
}  # fmt: skip


def with_columns(*columns, label=(0, 1), size=(1000, 500)):
    report = make_report(2)
    part = {"label": list(label), "size": list(size), "sample": 900, "columns": list(columns)}
    return report | {"columns": part}


def row_of(column):
    part = typed(with_columns(column)).columns
    (row,) = compared_rows(part.columns[0], part.size)
    return row


def test_a_number_has_its_medians():
    age = row_of(AGE)
    assert [cell.text for cell in age.cells] == ["34", "58"]
    assert [cell.side for cell in age.cells] == ["low", "high"]
    assert age.cells[1].more.replace("\u00a0", " ") == "50 to 63; 18.0 % missing"
    assert age.note.replace("\u00a0", " ") == "6.7 % missing"


def test_a_flag_has_the_share_of_its_affirmative_level():
    premium = row_of(PREMIUM)
    assert premium.level == "yes"
    assert [cell.text for cell in premium.cells] == ["35.0\u00a0%", "33.8\u00a0%"]
    assert [cell.side for cell in premium.cells] == ["", ""]


def test_values_that_were_filled_in_are_marked():
    text = page_text(with_columns(AGE | {"filled": 41.0}))
    assert "age 6.7 % missing, filled with 41" in text


def test_columns_that_are_no_features_come_last_with_a_row_for_each_level():
    levels = {"levels": ["DE", "<b>FR", "IT"], "rows": [[8, 1, 1], [1, 8, 1]]}
    report = with_columns(COUNTRY | levels, AGE)
    html, text = rendered(report), page_text(report)
    assert "Column 0 1 age 6.7 % missing 34 " in text
    other = "By columns that are not features Column 0 1 country DE 80.0 % 10.0 % <b>FR 10.0 % 80"
    assert other in text
    assert "<b>FR" not in html


def test_cells_have_numbers_that_put_two_clusters_side_by_side():
    html = rendered(with_columns(AGE, PREMIUM))
    values = [float(v) for v in re.findall(r'data-v="([^"]+)"', html)]
    assert values[1] - values[0] == pytest.approx(24 / 11.5, rel=1e-3)
    assert values[2:] == [0.35, 0.338]


def test_columns_that_say_nothing_are_folded():
    html = rendered(with_columns(AGE, PREMIUM))
    assert "<summary>1 column that says nothing about the clusters</summary>" in html
    assert "<summary>1 column that says" not in rendered(with_columns(PREMIUM))


def test_one_cluster_is_compared_with_none_but_its_columns_are_listed():
    one = AGE | {"quartiles": [[30.0, 34.0, 40.0]], "leaning": [0.0], "absent": [100]}
    report = make_report(1) | {
        "columns": {"label": [0], "size": [1500], "sample": 900, "columns": [one]}
    }
    text = page_text(report)
    assert "Clusters by column" not in text
    assert "Columns Column Used as Missing age count, logarithm whole numbers" in text
    assert "carries the division" not in text


def test_the_list_says_which_columns_carry_the_division_and_which_say_nothing():
    text = page_text(with_columns(PREMIUM, AGE, COUNTRY))
    assert "Columns age carries the division. premium says nothing about it. Column" in text
    assert "age count, logarithm whole numbers 6.7 % 41 % premium binary nothing" in text
    assert "1 column is not a feature country input.exclude" in text


@pytest.mark.parametrize("field", ["quartiles", "leaning", "absent"])
def test_a_column_of_other_clusters_is_refused(field):
    with pytest.raises(DataError, match="as long as each other"):
        typed(with_columns(AGE | {field: AGE[field][:1]}))
