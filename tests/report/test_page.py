import base64
import copy
import hashlib
import json
import math
import re

import numpy as np
import pytest

from distsvc.metrics import INDICES
from distsvc.report.page import render_page
from tests.report.reports import (
    Page,
    make_levels_report,
    make_night_report,
    make_report,
    make_tree_report,
    page_text,
    rendered,
    said_first,
    typed,
)


@pytest.fixture(scope="module")
def html():
    return rendered(make_report(picture=True))


def test_order_of_the_page(html):
    headings = re.findall(r"<h2>(.*?)</h2>", html)
    assert headings == [
        "Cluster sizes", "What each cluster is", "Inside or outside", "Validity indices",
        "Time and memory", "How to run it again",
    ]  # fmt: skip


def test_numbers_and_texts(html):
    text = Page(html).text.replace("\u00a0", " ")
    for expected in (
        "3 clusters in 1,500 rows; 2.1 % of the rows lie outside every cluster.",
        "32 of 1,500 rows (2.1 %)",
        "out of 1,507 rows read",
        "300,000",
        "not set",
        "computed in 1 min 40 s, 19.0 s of it compiling",
        "1 min 40 s 19.0 s of it compiling – 210 MB – Total, peak 1 min 40 s 210 MB 1.31 GB",
        "distsvc run jobs/rings.toml",
        'path = "data/rings.parquet"',
        "distsvc 0.1.0 · finished 2026-08-01 12:34 UTC",
        "inside the boundary, score ≥ 0",
        "support vector",
        "equilibrium",
        "row outside",
    ):
        assert expected in text, expected
    for title, direction, definition in INDICES.values():
        assert f"{title} {direction.capitalize()} is better. {definition}" in text


def test_page_is_self_contained_and_small(html):
    page = Page(html)
    assert len(html) < 1_500_000
    assert page.tags.count("svg") == 2
    assert not {"link", "iframe", "object", "base"} & set(page.tags)
    for name, content in page.attributes:
        assert not name.startswith("on")
        if name in ("src", "href", "xlink:href", "data", "action"):
            assert content.startswith(("#", "data:image/png;base64,")), content
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)


def test_the_policy_allows_only_the_pages_script(html):
    """The script is the last element, and the policy has its digest."""
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy.startswith("default-src 'none'")
    assert policy.endswith(f"script-src 'sha256-{digest}'")
    assert "</" not in script
    assert html.index("<script>") > html.index("</main>")
    for word in ("fetch", "eval", "innerHTML", "http", "import("):
        assert word not in script


@pytest.mark.parametrize(
    "report",
    [
        make_report(picture=True),
        make_tree_report(2),
        make_tree_report(10, chain=True),
        make_tree_report(40),
        make_levels_report("nested", doubts=["Try iMDH."]),
        make_night_report(),
    ],
)
def test_a_page_is_well_formed_and_reproducible(report):
    content = typed(report)
    before = copy.deepcopy(content.model_dump())
    html = render_page(content)
    assert content.model_dump() == before
    assert rendered(json.loads(json.dumps(report))) == html
    ids = [content for name, content in Page(html).attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', html)) <= set(ids)


def test_untrusted_text_is_escaped():
    evil = '<script>alert(1)</script>"&\x00\n$x_1$ 列 id="a" url(#b)'
    report = make_report(picture=True)
    report |= {"title": evil, "command": evil, "job_file": evil, "finished": evil}
    report["warnings"] = [evil]
    report["input"] |= {"path": evil, "format": evil, "columns": [evil, "b"]}
    report["sample"]["axes"] = [evil, evil]
    report["phases"][0]["name"] = evil
    report["model"]["parameters"] = {evil: evil}
    report["indices"][evil] = {"value": 1.0, "rows": 3}
    html = rendered(report)
    page = Page(html)
    assert html.count("<script") == 1
    assert page.tags.count("script") == 1
    in_figure = '<script>alert(1)</script>"& $x_1$ 列 id="a" url(#b)'  # no control characters
    assert page.text.count(in_figure) == 3  # the warning and the titles of two axes


def test_one_cluster_with_all_rows_outside():
    report = make_report(1, outside=1500, picture=True)
    report["score_histogram"] = {"edges": [-3.0, -2.0, -1.0], "counts": [1490, 10]}
    report["picture"]["f"] = np.full((40, 40), -0.5).tolist()
    report["picture"]["equilibria"] = []
    text = Page(rendered(report)).text
    assert "inside the boundary" not in text
    assert "row outside" in text
    assert "boundary, f = 0" in text


def test_clusters_that_are_not_listed_are_summed():
    text = page_text(make_report(700, n_rows=7000, drawn=700, outside=70))
    assert "200 smaller clusters with 2,000 rows (28.6 %) are not listed." in text


@pytest.mark.usefixtures("undrawn")
def test_clusters_with_mostly_outliers_are_named():
    report = make_report()
    rows = report["clusters"][2]
    rows["outliers"] = rows["rows"] // 2
    assert "Most rows of" not in page_text(report)
    rows["outliers"] += 1
    assert "Most rows of cluster 2 lie outside: few rows of the table are near" in page_text(report)


@pytest.mark.usefixtures("undrawn")
def test_the_contents_link_to_every_section():
    html = rendered(make_report())
    contents = re.findall(r'<li><a href="#([\w-]+)">(.*?)</a>', html)
    sections = re.findall(r'<section id="([\w-]+)">\n<h2>(.*?)</h2>', html)
    assert contents == sections
    assert len(sections) == 6


@pytest.mark.usefixtures("undrawn")
def test_explanations_are_folded_away():
    report = make_report()
    report["outliers"]["meaning"] = "Far from everything."
    folded = re.findall(
        r"<details[^>]*><summary>(.*?)</summary>(.*?)</details>", rendered(report), re.DOTALL
    )
    inside = {summary: Page(content).text for summary, content in folded}
    assert inside["What the score means"] == "Far from everything."
    assert "data/rings.parquet" in inside["The job file"]


def test_the_caption_describes_the_projection():
    report = make_report()
    report["input"]["n_features"] = 9
    report["sample"] |= {"kind": "pca", "axes": ["first", "second"], "explained": [0.44, 0.17]}
    report["clusters"].append({"label": 3, "rows": 1, "share": 0.001, "outliers": 0})
    text = page_text(report)
    assert "300 of 1,500 rows, along the first two principal components of the 9 columns." in text
    assert "hold 61.0 % of the variance of the rows inside (44.0 % and 17.0 %)" in text
    assert "1 cluster has no row here" in text


def test_one_column():
    report = make_report()
    report["input"] |= {"n_features": 1, "columns": ["pressure"]}
    report["sample"] |= {"kind": "single", "axes": ["pressure", "decision value"]}
    del report["indices"]
    text = Page(rendered(report)).text
    assert "rows of 1 column" in text
    assert "the decision value upwards" in text
    assert "Validity indices" not in text


@pytest.mark.usefixtures("undrawn")
def test_undefined_and_unknown_indices():
    report = make_report()
    report["indices"] = {
        "own_index": {"value": 2.0, "rows": 5},
        "davies_bouldin": {"value": math.nan, "rows": 1500},
        "purity": {"value": None, "rows": 1500},
        "compactness": {"value": 1.2345, "rows": 1500},
    }
    html = rendered(report)
    text = Page(html).text
    assert text.count("not defined") == 2
    assert "1.234" in text
    assert text.index("Compactness") < text.index("Purity") < text.index("own_index")


@pytest.mark.usefixtures("undrawn")
def test_warnings_come_before_the_figure():
    report = make_report()
    report["warnings"] = ["max_iter was reached"]
    html = rendered(report)
    assert html.index("max_iter was reached") < html.index("What each cluster is</h2>")
    assert "Warnings" not in rendered(make_report())


def test_a_run_without_clusters_and_rows_to_draw():
    report = make_report(outside=0)
    report |= {"clusters": [], "phases": []}
    report["score_histogram"] = {"edges": [0.0], "counts": []}
    report["sample"] |= {key: [] for key in ("x", "y", "label", "outlier")}
    text = Page(rendered(report)).text
    assert "No rows to draw." in text
    assert "No clusters." in text


def test_a_model_without_outliers_has_no_word_of_them():
    report = make_tree_report(25)
    assert said_first(rendered(report)) == "25 clusters in 12,000 rows."
    text = page_text(report)
    assert "utside" not in text
    assert "boundary" not in text
    assert "Cluster Rows Share 0 480 4.0 %" in text
    assert "12,000 rows in all." in text
    assert "Each row has a <cluster>." in text
    assert "distance to the nearest hyperplane" in text
    assert "decision value" not in text


def test_a_cluster_with_most_outliers_is_named():
    report = make_report()
    report["clusters"][1] |= {"outliers": 30, "rows": 100, "share": 0.1}
    words = (
        "Most of them, 30, have the label of cluster 1, 30.0 % of its rows. In a small cluster "
        "whose values spread widely, such rows can be ordinary."
    )
    assert words in page_text(report)
    report["clusters"][1]["share"] = 0.4
    assert "Most of them" not in page_text(report)


def test_scores_have_the_names_given_by_the_rule():
    report = make_report()
    told = "{} and lie outside every cluster. Each still has the label of a nearby cluster."
    assert told.format("(2.1 %) have a negative decision value") in page_text(report)
    report["outliers"]["meaning"] = "Far from everything."
    report["score_histogram"]["title"] = "how far"
    text = page_text(report)
    assert told.format("(2.1 %) have a negative score") in text
    assert "What the score means Far from everything." in text
    assert "decision value" not in text
    assert "f =" not in text
    report["outliers"]["rows"] = 1
    assert "has a negative score and lies outside every cluster. It still" in page_text(report)
    assert "2.1 % of the rows lie outside every cluster" in text
    assert "Cluster Rows Share Outside" in text


@pytest.mark.usefixtures("undrawn")
def test_the_table_compares_forecast_and_measured_memory():
    report = make_report()
    assert "Forecast" not in page_text(report)
    driver = [{"name": "the <sample>", "mb": 150.0}, {"name": "libraries", "mb": 100.0}]
    report["forecast"] = {"driver": driver, "worker": []}
    assert "Driver the <sample> 150 MB + libraries 100 MB 250 MB 210 MB" in page_text(report)
    assert "Each worker" not in page_text(report)
    report["forecast"]["worker"] = [{"name": "blocks", "mb": 1400.0}]
    assert "Each worker blocks 1.40 GB 1.40 GB 1.31 GB" in page_text(report)


def test_the_caption_counts_rows_with_filled_values():
    report = make_report()
    assert "missing" not in page_text(report)
    report["sample"]["filled"] = 7
    assert (
        "7 rows have missing values, and are drawn with the column's usual value there."
        in page_text(report)
    )
