"""The section on the best other answer."""

import pytest

from tests.report.reports import make_report, page_text

pytestmark = pytest.mark.usefixtures("no_figures")


def said(rows, n_clusters, chance=0.62):
    report = make_report(len(rows))
    other = {"view": "mixture", "n_clusters": n_clusters, "chance": chance,
             "label": list(range(len(rows))), "rows": rows}  # fmt: skip
    considered = [{"algorithm": "graph", "n_clusters": 3, "chosen": True},
                  {"algorithm": "mixture", "n_clusters": 4, "chosen": False}]  # fmt: skip
    report["choice"] = {"why": "Why.", "considered": considered, "likeness": 0.7,
                        "alternative": other}  # fmt: skip
    return page_text(report)


def test_each_view_has_its_name():
    text = said([[5, 5]], 2)
    assert "graph of near rows · this run 3 mixture of normals and categories 4" in text


def test_clusters_that_are_divided_and_joined():
    text = said([[90, 0, 10], [95, 5, 0], [0, 60, 40]], 3)
    assert "The best other answer has 3 clusters (mixture of normals and categories)." in text
    assert "It divides cluster 2 into parts of 60.0 % and 40.0 %." in text
    assert "It joins clusters 0 and 1." in text
    assert "would prefer the published clusters in about 62 of 100 cases." in text


def test_borders_that_move():
    assert "It moves rows across the borders of clusters." in said([[90, 10], [10, 90]], 2)


def test_one_cluster_is_an_answer_too():
    text = said([[5], [5]], 1)
    assert "The best other answer has 1 cluster (" in text
    assert "joins" not in text
