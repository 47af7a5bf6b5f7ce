"""The content of lineage.json and drift.json."""

import pytest

from distsvc.report.sections.names import cluster_names, column_names
from tests.jobs.shop import FIRST, SECOND, rows
from tests.published_files import listed

pytestmark = pytest.mark.usefixtures("quick_page")


def test_lineage_and_drift_of_two_nights(shop):
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(100, 300, 200, seed=1)[0])
    first = shop.run(FIRST)
    assert shop.said(FIRST, "lineage.json") == {
        "path": None,
        "run_id": None,
        "mode": "refit",
        "because": [],
        "not_published": str(shop.out("2026-02-27")),
        "rows": 0,
        "moved": None,
        "followed": None,
        "next_id": 3,
        "clusters": [
            {"id": i, "event": "appeared", "jaccard": 0.0, "rows_before": 0, "rows_after": n}
            | {"others": []}
            for i, n in enumerate((300, 200, 100))
        ],
        "moves": None,
    }
    before = shop.out("2026-02-27")
    wanted = f"nothing is published at {before} or before: cluster ids start at 0"
    assert wanted in first.warnings
    assert "previous" not in shop.manifest(FIRST)
    assert not [path for path in listed(shop.out(FIRST)) if path.name == "drift.json"]

    second = shop.run(SECOND)
    named = {str(label): each for label, each in column_names(first).items()}
    assert second.earlier_names == named
    assert len(named) == 3
    assert cluster_names(second)[0] == cluster_names(first)[0]
    before = shop.manifest(FIRST)["run_id"]
    named = shop.manifest(SECOND)["previous"]
    assert (named["path"], named["run_id"]) == (str(shop.out(FIRST)), before)
    lineage = shop.said(SECOND, "lineage.json")
    assert lineage == second.lineage.model_dump()
    assert (lineage["path"], lineage["run_id"]) == (str(shop.out(FIRST)), before)
    assert (lineage["rows"], lineage["moved"], lineage["not_published"]) == (600, 0.0, None)
    assert lineage["clusters"] == [
        {"id": i, "event": "survived", "jaccard": 1.0, "rows_before": then, "rows_after": n}
        | {"others": []}
        for i, (then, n) in enumerate([(300, 100), (200, 300), (100, 200)])
    ]
    moves = lineage["moves"]
    assert moves["before"] == moves["after"]
    assert dict(zip(moves["after"], moves["rows"], strict=True)) == {0: 100, 1: 300, 2: 200}
    drift = shop.said(SECOND, "drift.json")
    assert drift == second.drift.model_dump()
    assert {c["column"] for c in drift["columns"]} == {"x0", "x1"}
    indices = [c["index"] for c in drift["columns"]]
    assert indices == sorted(indices, reverse=True)
    assert indices[-1] > 0.1, "sizes have changed"
    assert all(c["missing_before"] == c["missing_after"] == 0.0 for c in drift["columns"])
    assert drift["score_rows"] == 600
