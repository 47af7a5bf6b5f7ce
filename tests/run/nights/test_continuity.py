"""Ids of clusters that continue from night to night."""

import json

import pytest

from tests.clusters import loopback_cluster
from tests.jobs.shop import FIRST, SECOND, THIRD, rows
from tests.published_files import published_file, read_labels
from tests.small_runs import forget

pytestmark = pytest.mark.usefixtures("quick_page")


def test_ids_continue_whatever_the_sizes_and_are_never_reused(shop):
    nights = {
        FIRST: rows(300, 200, 100),
        SECOND: rows(100, 300, 200, seed=1),
        THIRD: rows(300, 150, 0, 100, seed=2),  # one is not there, another comes
        "2026-03-03": rows(300, 150, 100, seed=3),  # and is back, for the other
        "2026-03-04": rows(300, 150, 0, 100, seed=4),  # which is back, too
    }
    found = {}
    for date, (X, y) in nights.items():
        shop.table(date, X)
        report = shop.run(date)
        found[date] = shop.ids(date, y)
        assert sorted(c.label for c in report.clusters) == sorted(found[date].values())
    assert found[FIRST] == {0: 0, 1: 1, 2: 2}
    assert found[SECOND] == found[FIRST], "by size they would be 2, 0 and 1"
    assert found[THIRD] == {0: 0, 1: 1, 3: 3}
    assert found["2026-03-03"] == found[FIRST], "which was gone for a night"
    assert found["2026-03-04"] == found[THIRD]
    assert shop.said("2026-03-04", "lineage.json")["next_id"] == 4
    model = json.loads(published_file(shop.out("2026-03-04"), "model.json").read_text())
    assert (model["facts"]["n_clusters"], model["facts"]["next_id"]) == (3, 4)
    events = {s["id"]: s["event"] for s in shop.said("2026-03-04", "lineage.json")["clusters"]}
    assert events == {0: "survived", 1: "survived", 2: "disappeared", 3: "returned"}
    told = {s["id"]: s["event"] for s in shop.said(THIRD, "lineage.json")["clusters"]}
    assert {i: told[i] for i in (0, 1, 2)} == {0: "survived", 1: "survived", 2: "disappeared"}
    assert told[3] in ("split", "appeared")


def test_ids_do_not_depend_on_partitions_or_workers(shop):
    shop.table(FIRST, rows(300, 200, 100)[0])
    shop.table(SECOND, rows(150, 250, 0, 200, seed=1)[0])
    shop.run(FIRST)
    found = []
    with loopback_cluster(2) as workers:
        here, there = None, workers.scheduler_address
        for at, *cut in (here, 300, 70), (here, 100, 33), (here, 10_000, 10_000), (there, 100, 33):
            cluster = dict(zip(("partition_rows", "block_rows"), cut, strict=True))
            shop.run(SECOND, overwrite=True, scheduler=at, cluster=cluster)
            out = shop.out(SECOND)
            names = ("lineage.json", "drift.json", "model.json", "arrays.npz")
            found.append([published_file(out, name).read_bytes() for name in names])
            found[-1].append(read_labels(out).to_pydict())
            forget()
            (out / "manifest.json").unlink()
    assert found[0] == found[1] == found[2] == found[3]
