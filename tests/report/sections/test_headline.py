"""The first sentence, and warnings in one line each."""

import re

import pytest

from distsvc.report.content.limits import PAGE_LIMITS
from distsvc.report.sections.headline import brief
from tests.report.reports import (
    make_levels_report,
    make_report,
    page_text,
    rendered,
    said_first,
    typed,
)

pytestmark = pytest.mark.usefixtures("undrawn")


def said(report):
    """Return the first sentence of the page."""
    return said_first(rendered(report))


@pytest.mark.parametrize(
    ("n_clusters", "outside", "expected"),
    [
        (1, 0, "1 cluster in 1,500 rows; no row lies outside the cluster."),
        (3, 1500, "3 clusters in 1,500 rows; all of the rows lie outside every cluster."),
        (2, 15, "2 clusters in 1,500 rows; 1.0 % of the rows lie outside every cluster."),
    ],
)
def test_the_answer(n_clusters, outside, expected):
    assert said(make_report(n_clusters, outside=outside)) == expected


def with_trust(chance, support, z=4.0, **parameters):
    report = make_levels_report("spiral")
    report["model"]["fitted"] |= {"agreement": chance, "support": support}
    report["model"]["parameters"] |= parameters
    for row in report["levels"]["candidates"]:
        row["z"] = z if row["winner"] else 1.0
    return report


@pytest.mark.parametrize(
    ("chance", "support", "z", "doubt"),
    [
        (0.9, 0.25, 4.0, "only 25.0 % of the models agree"),
        (0.02, 0.7, 1.5, "another sample gives the same groups with a chance of only 2.0 %"),
    ],
)
def test_no_reliable_clusters(chance, support, z, doubt):
    assert said(with_trust(chance, support, z)) == (
        "No reliable clusters in 1,500 rows: the labels are a best guess with 3 groups, but "
        f"{doubt}; 2.1 % of the rows lie outside every cluster."
    )


@pytest.mark.parametrize(
    ("chance", "support", "z", "cases"),
    [
        (0.02, 0.7, 3.0, 98),
        (0.3, 0.7, 1.0, 70),
        (0.02, 0.7, None, 98),
        (0.5, 0.7, 1.0, None),
        (None, 0.1, 1.0, None),
        (0.02, None, 1.0, 98),
    ],
)
def test_clusters_that_another_sample_may_not_have(chance, support, z, cases):
    other = f", but another sample has other clusters in about {cases} of 100 cases"
    begin = f"3 clusters in 1,500 rows{other if cases else ''}; 2.1 %"
    assert said(with_trust(chance, support, z)).startswith(begin)


def test_a_given_number_of_clusters_is_not_in_doubt():
    report = with_trust(0.01, 0.1, 1.0, n_clusters=3)
    assert said(report).startswith("3 clusters, as asked for, in 1,500 rows; ")
    report["model"]["parameters"]["n_clusters"] = 4
    assert said(report).startswith("3 clusters in 1,500 rows; ")


@pytest.mark.parametrize(
    ("chance", "clause"),
    [(0.28, ", but another sample has several clusters in about 72 of 100 cases"), (0.5, "")],
)
def test_one_cluster_that_other_samples_divide(chance, clause):
    report = make_levels_report("one")
    report["model"]["fitted"] |= {"agreement": chance, "support": 0.0}
    assert said(report).startswith(f"1 cluster in 1,500 rows{clause}; ")
    report["model"]["parameters"]["n_clusters"] = 1
    assert "another sample" not in said(report)


@pytest.mark.parametrize(
    ("candidates", "head", "others"),
    [
        (
            {89: 1.0, 80: 0.9, 94: 0.8},
            "Probably many small clusters",
            "other good answers have 80 to 94, and",
        ),
        ({89: 1.0, 2: 0.7}, "Probably many small clusters", ", but"),
        ({89: 1.0, 2: 0.8}, "No reliable clusters", ", but"),
        ({9: 1.0, 12: 0.9}, "No reliable clusters", ", but"),
    ],
)
def test_probably_many_small_clusters(candidates, head, others):
    report = with_trust(0.0, 0.1)
    row = report["levels"]["candidates"][0]
    report["levels"]["candidates"] = [
        row | {"n_clusters": k, "standing": standing, "winner": standing == 1.0}
        for k, standing in candidates.items()
    ]
    assert said(report).startswith(
        f"{head} in 1,500 rows: the labels are a best guess with 3 groups, "
    )
    assert f"{others} only 10.0 % of the models agree" in said(report)
    assert brief(typed(report)) == head[0].lower() + head[1:]


def with_other(n_clusters, chance):
    report = make_report(3, outside=0)
    rows = [[1] * n_clusters] * 3
    other = {"view": "mixture", "n_clusters": n_clusters, "chance": chance, "label": [0, 1, 2],
             "rows": rows}  # fmt: skip
    report["choice"] = {"why": "", "considered": [], "alternative": other}
    return report


@pytest.mark.parametrize(
    ("n_clusters", "chance", "doubt"),
    [
        (4, 0.25, ", but 4 clusters describe the rows nearly as well"),
        (1, 0.4, ", but 1 cluster describes the rows nearly as well"),
        (4, 0.24, ""),
        (3, 0.4, ""),
    ],
)
def test_another_answer_that_is_nearly_as_probable(n_clusters, chance, doubt):
    report = with_other(n_clusters, chance)
    assert said(report) == f"3 clusters in 1,500 rows{doubt}; no row lies outside every cluster."


def test_overlap_is_the_weakest_doubt():
    report = with_other(4, 0.0)
    report["choice"]["overlap"] = 0.123
    clause = ", but the clusters overlap: about 12.3 % of the rows may belong to another cluster;"
    assert clause in said(report)
    assert "About 12.3 % of the rows are expected to belong to another" in page_text(report)
    report["doubts"] = ["clusters 0 and 1 differ only in premium"]
    assert ", but clusters 0 and 1 differ only in premium;" in said(report)


def test_the_strongest_doubt_comes_first():
    report = with_other(4, 0.5) | {"doubts": ["clusters 0 and 1 differ only in premium"]}
    assert ", but 4 clusters" in said(report)
    report["choice"]["alternative"]["chance"] = 0.0
    assert ", but clusters 0 and 1 differ only in premium;" in said(report)


def test_one_column_that_separates_all_clusters_is_a_doubt_before_other_answers():
    report = with_other(4, 0.5) | {"doubts": ["they differ only in region"]}
    assert said(report).startswith("3 clusters in 1,500 rows, but they differ only in region;")


def test_a_long_warning_is_one_line_and_the_rest_is_folded():
    long = "extreme rows: " + "row 1 (x = 1), " * 20 + "; ignored while learning"
    report = make_report() | {"warnings": [long, "short"]}
    html = rendered(report)
    ((line, whole),) = re.findall(r"<li><details><summary>(.*?)</summary>(.*?)</details>", html)
    assert line == "extreme rows"
    assert len(line) <= PAGE_LIMITS.warning
    assert whole == long
    assert "<li>short</li>" in html
