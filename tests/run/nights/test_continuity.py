"""Ids of clusters that continue from night to night."""

import json

import numpy as np
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


def test_ids_stay_with_the_members_where_others_move_beside_a_cluster(shop):
    X, y = rows(300, 0, 0, 100)
    ids, own = range(400), {"input": {"id": "customer"}, "checks": {"max_drift": False}}
    shop.table(FIRST, X, customer=ids)
    shop.run(FIRST, model={"n_clusters": 2}, **own)
    then = shop.ids(FIRST, y)
    y[np.flatnonzero(y == 0)[:160]] = 2  # the first night's model puts these into centre 3
    X[y == 2] -= [7.0, 14.0]
    shop.table(SECOND, X, customer=ids)
    lineage = shop.run(SECOND, **own).lineage
    assert shop.ids(SECOND, y) == then | {2: 2}
    assert lineage.ids_moved == pytest.approx(160 / 400)
    assert [one.others for one in lineage.clusters if one.id == 2] == [[then[0]]]
    shop.table(SECOND, X, customer=range(1000, 1400))
    shop.run(SECOND, overwrite=True, **own)
    assert shop.ids(SECOND, y) == {0: then[0], 3: 3, 2: then[3]}, "without members places decide"


def test_ids_do_not_depend_on_partitions_or_workers(shop):
    shop.table(FIRST, rows(300, 200, 100)[0], customer=range(600))
    shop.table(SECOND, rows(150, 250, 0, 200, seed=1)[0], customer=range(60, 660))
    by_customer = {"input": {"id": "customer"}}
    shop.run(FIRST, **by_customer)
    found = []
    with loopback_cluster(2) as workers:
        here, there = None, workers.scheduler_address
        for at, *cut in (here, 300, 70), (here, 100, 33), (here, 10_000, 10_000), (there, 100, 33):
            cluster = dict(zip(("partition_rows", "block_rows"), cut, strict=True))
            asked = {"cluster": cluster, "checks": {"max_ids_moved": False}} | by_customer
            shop.run(SECOND, overwrite=True, scheduler=at, **asked)
            out = shop.out(SECOND)
            names = ("lineage.json", "drift.json", "model.json", "arrays.npz")
            found.append([published_file(out, name).read_bytes() for name in names])
            found[-1].append(read_labels(out).to_pydict())
            forget()
            (out / "manifest.json").unlink()
    assert found[0] == found[1] == found[2] == found[3]
