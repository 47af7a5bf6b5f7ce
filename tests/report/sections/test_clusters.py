"""The page's tables of clusters by column, list of columns, and profile cards."""

import re
from typing import NamedTuple

import pytest

from tests.report.reports import Page, make_profiles, make_report, page_text, rendered

pytestmark = pytest.mark.usefixtures("no_figures")


def with_profiles(n_clusters, told=None):
    report = make_report(n_clusters)
    report["profiles"] = make_profiles(range(n_clusters if told is None else told))
    return report


class Bar(NamedTuple):
    left: float
    width: float
    median: float


BAR = re.compile(
    r'"left:(.*?)%;width:calc\((.*?)% [^"]*"></span><span class="median" style="left:(.*?)%'
)


def first_bars(report):
    """Return the bars of the first card's first column: the cluster's and all others'."""
    return [Bar(*map(float, one)) for one in BAR.findall(rendered(report))[:2]]


def test_a_profile_in_words():
    text = page_text(with_profiles(2))
    assert "0: width 1 or more · 750 rows (50.0 %)" in text
    assert "width 1 or more: 99.0 % (others 1.5 %) median 2 (others 0.25)" in text
    assert "2 typical rows Row width 12,345 2.12 3 missing" in text
    assert "measured on a sample of 900 rows." in text
    assert "Nothing is told" not in text


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (1.0, 2.5, "1 to 2.5"),
        (None, -1234567.0, "−1,234,567 or less"),
        (0.001234, None, "0.00123 or more"),
        (3.0, 3.0, "3"),
    ],
)
def test_ranges_in_words(low, high, words):
    report = with_profiles(2)
    report["profiles"]["clusters"][0]["columns"][0] |= {"low": low, "high": high}
    assert f" {words}: 99.0 % (others 1.5 %)" in page_text(report)


def test_bars_lie_within_the_drawing():
    own, other = first_bars(with_profiles(2))
    for bar in own, other:
        assert 0.0 < bar.left <= bar.median <= bar.left + bar.width < 100.0
    assert other.width > 10 * own.width


def test_a_category_is_described_by_shares():
    report = with_profiles(2)
    assert "For a category" not in page_text(report)
    columns = report["profiles"]["clusters"][0]["columns"]
    columns[0] |= {"column": "country=DE", "present": True, "low": 1.0, "high": 1.0}
    text = page_text(report)
    assert "(50.0 %) country=DE 99.0 % (others 1.5 %) 2 typical rows" in text
    assert "For a category, the bar is its share, counted in all rows." in text
    assert "All else is measured on a sample of 900 rows." in text
    own, other = first_bars(report)
    assert own.width > 50 * other.width
    columns[0]["present"] = False
    assert "(50.0 %) not country=DE 99.0 %" in page_text(report)


def test_a_flag_alone_does_not_name_a_cluster():
    report = with_profiles(2)
    flag = {"column": "premium=yes", "present": True, "low": 1.0, "high": 1.0}
    first = report["profiles"]["clusters"][0]
    first["columns"] = [first["columns"][0] | flag]
    text = page_text(report)
    assert "0: premium=yes, otherwise like the others · 750 rows" in text
    assert "1: high width · 750 rows" in text


def test_the_table_of_sizes_has_names_and_links_to_profiles():
    report = make_report(3) | {"profiles": make_profiles([0, 2])}
    html = rendered(report)
    assert Page(html).text.count("width 1 or more") >= 2
    rows = re.findall(r'<th scope="row">(<a href="#cluster-\d">)?<span class="swatch"', html)
    assert rows[:3] == ['<a href="#cluster-0">', "", '<a href="#cluster-2">']
    assert {'id="cluster-0"', 'id="cluster-2"'} <= set(re.findall(r'id="cluster-\d"', html))


def test_a_cluster_that_no_column_sets_apart():
    report = with_profiles(2)
    report["profiles"]["clusters"][1] |= {"columns": [], "typical": [{"row": 3, "values": []}]}
    assert "No single column sets it apart. A typical row Row 3" in page_text(report)


def test_names_are_escaped_and_may_break_after_underscores():
    html = rendered(with_profiles(2) | {"profiles": make_profiles([0, 1], "<b>_width")})
    assert '<div class="name">&lt;b&gt;_<wbr>width</div>' in html


def reasons_of(reasons, **more):
    farthest = [{"row": 1234, "score": -0.98765, "label": 1, "reasons": reasons}]
    return {"leading": [{"column": "height", "rows": 30}], "farthest": farthest} | more


WIDTH = {"column": "width", "share": 0.75, "value": 3.5, "typical": 0.125}


@pytest.mark.parametrize(
    ("outliers", "heading", "cluster"),
    [
        ({}, "Outliers", "1"),
        ({"only": True}, "Outliers", ""),
        ({"defined": False}, "Rows near a border", "1"),
    ],
)
def test_reasons_of_every_kind_of_model(outliers, heading, cluster):
    report = make_report()
    report["outliers"] |= {"rows": 40} | outliers
    report["reasons"] = reasons_of([WIDTH], counted=40)
    text = page_text(report)
    assert f"{heading} The " in text
    assert (
        f"1 1,234 −0.988 {cluster + ' ' if cluster else ''}width = 3.5 (typical 0.125, 75.0 %)"
        in text
    )
    of = "the 40 outliers" if outliers.get("defined", True) else "such rows"
    assert f"First reasons are counted in 40 of {of}, those in a sample of the table." in text
    assert ("Cluster sizes" in text) != bool(outliers.get("only"))


def test_without_outliers_there_is_no_section():
    report = make_report()
    report["reasons"] = {"leading": [], "farthest": []}
    assert "Outliers" not in re.findall(r"<h2>(.*?)</h2>", rendered(report))
    report["outliers"] |= {"only": True}
    assert "Outliers There are no outliers." in page_text(report)


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
    """Return the text of a column's row in the table by columns, and the sides of its cells."""
    (row,) = re.findall(r"(<tr>(?:(?!</tr>).)*data-v=.*?</tr>)", rendered(with_columns(column)))
    return Page(row).text.replace("\u00a0", " "), re.findall(r'<td class="n(.*?)"', row)


def test_cells_of_a_number_are_medians():
    text, sides = row_of(AGE)
    assert text == "age 6.7 % missing 34 30 to 40; 1.0 % missing 58 50 to 63; 18.0 % missing"
    assert sides == [" cell low", " cell high"]
    assert 'style="--a:0.80" data-v="2.957">34<' in rendered(with_columns(AGE))


def test_cells_of_a_flag_are_shares_of_its_affirmative_level():
    text, sides = row_of(PREMIUM)
    assert text == "premium yes 35.0 % 33.8 %"
    assert sides == ["", ""]


def test_columns_with_filled_values_are_marked():
    text = page_text(with_columns(AGE | {"filled": 41.0}))
    assert "age 6.7 % missing, filled with 41" in text


def test_columns_that_are_not_features_come_last():
    levels = {"levels": ["DE", "<b>FR", "IT"], "rows": [[8, 1, 1], [1, 8, 1]]}
    report = with_columns(COUNTRY | levels, AGE)
    html, text = rendered(report), page_text(report)
    assert "Column 0 1 age 6.7 % missing 34 " in text
    other = "By columns that are not features Column 0 1 country DE 80.0 % 10.0 % <b>FR 10.0 % 80"
    assert other in text
    assert "<b>FR" not in html


def test_cells_have_the_numbers_by_which_two_clusters_are_compared():
    html = rendered(with_columns(AGE, PREMIUM))
    values = [float(v) for v in re.findall(r'data-v="([^"]+)"', html)]
    assert values[1] - values[0] == pytest.approx(24 / 11.5, rel=1e-3)
    assert values[2:] == [0.35, 0.338]
    assert ".compared th:first-child { position: sticky; left: -1px; " in html  # "Column", too


def test_one_cluster_has_a_list_of_columns_but_no_comparison():
    one = AGE | {"quartiles": [[30.0, 34.0, 40.0]], "leaning": [0.0], "absent": [100]}
    one |= {"gap": "missing where a=b"}
    report = make_report(1) | {
        "columns": {"label": [0], "size": [1500], "sample": 900, "columns": [one]}
    }
    text = page_text(report)
    assert "Clusters by column" not in text
    assert "Used as Missing age count, logarithm whole numbers; missing where a=b" in text
    assert "separates the clusters" not in text


def test_the_list_names_informative_and_uninformative_columns():
    text = page_text(with_columns(PREMIUM, AGE, COUNTRY))
    assert "Columns age separates the clusters. premium hardly differs between clusters." in text
    assert "age count, logarithm whole numbers 6.7 % 41 % premium binary nothing" in text
    assert "1 column is not a feature country input.exclude" in text


def test_similar_columns_of_different_kinds_are_explained():
    why = "Why similar columns can be of different kinds"
    rating = AGE | {"column": "rating", "kind": "ordinal", "scale": ""}
    assert why in page_text(with_columns(AGE, rating))
    assert why not in page_text(with_columns(AGE, PREMIUM))


def test_dates_are_shown_as_dates():
    day = AGE | {"column": "opened", "quartiles": [[0.0, 1.0, 31.0], [365.0, 366.0, 367.0]]}
    text = page_text(with_columns(day | {"unit": "date", "filled": 1.0}))
    assert "filled with 1970-01-02 1970-01-02 1970-01-01 to 1970-02-01" in text
