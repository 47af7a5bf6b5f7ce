"""The section on the most probable other answer."""

import pytest

from tests.report.reports import make_report, page_text

pytestmark = pytest.mark.usefixtures("no_figures")


def said(rows, n_clusters, chance=0.25):
    report = make_report(len(rows))
    other = {"view": "mixture", "n_clusters": n_clusters, "chance": chance,
             "label": list(range(len(rows))), "rows": rows}  # fmt: skip
    considered = [{"algorithm": "graph", "n_clusters": 3, "chosen": True},
                  {"algorithm": "mixture", "n_clusters": 4, "chosen": False}]  # fmt: skip
    report["choice"] = {"why": "Why.", "considered": considered, "likeness": 0.7,
                        "alternative": other}  # fmt: skip
    report["model"]["fitted"]["agreement"] = 0.62
    return page_text(report)


def test_each_view_has_its_name():
    text = said([[5, 5]], 2)
    assert "neighbour graph · this run 3 mixture model 4" in text


def test_divided_and_joined_clusters_are_listed():
    text = said([[90, 0, 10], [95, 5, 0], [0, 60, 40]], 3)
    assert "up to an adjusted Rand index of 0.8, in about 62 of 100 cases, and" in text
    assert "one in about 25: 3 clusters (mixture model)." in text
    assert "It divides cluster 2 into parts of 60.0 % and 40.0 %." in text
    assert "It joins clusters 0 and 1." in text


def test_an_answer_that_only_moves_borders():
    assert "It moves rows across the borders of clusters." in said([[90, 10], [10, 90]], 2)


def test_an_answer_of_one_cluster():
    text = said([[5], [5]], 1)
    assert "another one in about 25: 1 cluster (" in text
    assert "joins" not in text
    assert "Rand index of both" not in text


def test_a_more_probable_other_answer_is_explained():
    sentence = "The published one agrees best with the answers of all samples, on average."
    assert sentence in said([[90, 10], [10, 90]], 2, 0.63)
    assert sentence not in said([[90, 10], [10, 90]], 2, 0.25)


def test_an_improbable_other_answer():
    assert "and another one in fewer than 1: 2 clusters (" in said([[90, 10], [10, 90]], 2, 0.001)
