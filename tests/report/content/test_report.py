import copy
import json

import pytest

from distsvc.errors import DataError
from distsvc.report.content.model_parts import Branch
from distsvc.report.content.report import OutlierPart, PhaseCost, Report, ScoreHistogram
from tests.report.reports import (
    make_levels_report,
    make_profiles,
    make_report,
    make_tree_report,
    typed,
)


def make_reasons_report():
    """Make the report of a model that names the reasons of outliers."""
    report = make_report(1)
    del report["indices"]
    reason = {"column": "width", "share": 0.75, "value": 3.5}
    farthest = [{"row": 7, "score": -0.5, "reasons": [reason]}]
    report["reasons"] = {"leading": [{"column": "width", "rows": 32}], "farthest": farthest}
    report["outliers"] |= {"only": True, "meaning": "Far away."}
    report["score_histogram"]["title"] = "decision value"
    return report


def make_pca_report():
    """Make a report with rows on principal components, some of them beyond the frame."""
    report = make_report()
    report["sample"] |= {"kind": "pca", "explained": [0.5, 0.25], "beyond": 3}
    return report


def make_profiles_report(n_clusters=3):
    """Make a report with reasons and profiles of clusters."""
    report = make_report(n_clusters)
    known = {"column": "width", "share": 0.75, "value": None, "typical": 0.5}
    farthest = [{"row": 7, "score": -0.5, "label": 2, "reasons": [known]}]
    report["reasons"] = {"leading": [], "farthest": farthest, "counted": 12}
    report["profiles"] = make_profiles(range(n_clusters))
    return report


REPORTS = {
    "columns": make_report(picture=True),
    "components": make_pca_report(),
    "levels": make_levels_report(doubts=["Try another."]),
    "splits": make_tree_report(5),
    "one cluster": make_tree_report(1),
    "reasons": make_reasons_report(),
    "profiles": make_profiles_report(),
}


@pytest.mark.parametrize("name", REPORTS)
def test_json_parsed_and_dumped_again_is_equal(name):
    content = REPORTS[name]
    if name in ("splits", "one cluster"):
        for row in content["clusters"]:
            row.setdefault("outliers", 0)
    before = copy.deepcopy(content)
    assert typed(content).model_dump() == content == before
    again = json.loads(json.dumps(typed(content).model_dump(), allow_nan=False))
    assert again == content
    assert typed(again) == typed(content)


def test_keys_keep_their_order():
    content = REPORTS["components"]
    report = typed(content).model_dump()
    assert list(report)[-5:] == ["warnings", "sample", "indices", "checks", "phases"]
    assert list(report["sample"]) == [
        "kind", "axes", "explained", "beyond", "label", "outlier", "x", "y",
    ]  # fmt: skip


def test_values_other_than_the_default_have_a_key_even_if_null():
    scores = ScoreHistogram(edges=[0.0, 1.0], counts=[3], boundary=None)
    assert scores.model_dump() == {"edges": [0.0, 1.0], "counts": [3], "boundary": None}
    outliers = OutlierPart(rows=0, share=0.0, defined=False)
    assert outliers.model_dump() == {"rows": 0, "share": 0.0, "defined": False}
    phase = PhaseCost(name="a", seconds=1.0, rows=None, driver_peak_mb=None, worker_peak_mb=None)
    assert list(phase.model_dump().values()) == ["a", 1.0, None, None, None]
    branch = {"parent": None, "z": None, "label": None}
    assert branch.items() <= Branch(id=3, parent=None).model_dump().items()


def test_default_values_have_no_key_even_if_given():
    scores = ScoreHistogram(
        edges=[0.0, 1.0], counts=[3], heading="Inside or outside", title="", boundary=0.0
    )
    assert set(scores.model_dump()) == {"edges", "counts"}
    assert set(OutlierPart(rows=0, share=0.0, defined=True, meaning="").model_dump()) == {
        "rows", "share",
    }  # fmt: skip
    content = make_report()
    parts = {"picture": None, "tree": None, "levels": None, "reasons": None, "indices": None}
    assert set(parts) & set(typed(content | parts).model_dump()) == set()


@pytest.mark.parametrize(
    ("name", "place", "value", "words"),
    [
        ("columns", "input.n_rows", None, " is missing"),
        ("columns", "score_histogram.edges.0", -1.7e308, ": expected greater than or equal to "),
        (
            "columns",
            "sample.kind",
            "cube",
            ": expected 'columns', 'single', 'pca' or 'clusters', found 'cube'",
        ),
        ("columns", "picture.f.3", "z" * 999, r": expected a valid list, found 'z{148}…z{148}'"),
        (
            "levels",
            "levels.tree.branches.1.label",
            "<b>$x$</b>",
            r": expected a valid integer, found '<b>\$x\$</b>'",
        ),
        ("splits", "tree.nodes.0.rank", None, " is missing"),
        ("splits", "tree.nodes.0", 7, ": expected a valid dictionary, found 7"),
    ],
)
def test_an_error_names_the_wrong_field(name, place, value, words):
    """A value of None removes the key."""
    part = content = copy.deepcopy(REPORTS[name])
    *way, last = (int(step) if step.isdigit() else step for step in place.split("."))
    for step in way:
        part = part[step]
    if value is None:
        del part[last]
    else:
        part[last] = value
    with pytest.raises(DataError, match=f"^out/report.json: {place}{words}"):
        Report.parsed(content, "out/report.json")


def test_an_error_for_content_that_is_no_dictionary():
    message = "^out/report.json: the report: expected a valid dictionary, found 'text'"
    with pytest.raises(DataError, match=message):
        Report.parsed("text", "out/report.json")
