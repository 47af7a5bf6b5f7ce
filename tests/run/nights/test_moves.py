"""The file of ids whose published cluster differs from the previous night's."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.run.nights import comparison
from tests.jobs.shop import FIRST, SECOND, THIRD, rows
from tests.published_files import published_file, read_labels

pytestmark = pytest.mark.usefixtures("quick_page")

OFF = dict.fromkeys(("max_drift", "max_rows_moved", "max_ids_moved"), False)


def customers(n, first=0, text=False):
    ids = np.arange(first, first + n)
    return [f"customer {i}" for i in ids] if text else ids


def expected(shop, before, now, name="customer"):
    """Return the moves that follow from the labels files of two nights, by id."""
    then, found = (
        dict(zip(*(read_labels(shop.out(d))[c].to_pylist() for c in (name, "label")), strict=True))
        for d in (before, now)
    )
    every = sorted(then.keys() | found.keys())
    return [(i, then.get(i), found.get(i)) for i in every if then.get(i) != found.get(i)]


def told(shop, date):
    table = pq.read_table(published_file(shop.out(date), "moves.parquet"))
    return table, list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "texts"])
@pytest.mark.parametrize("bucket_rows", [2**21, 100])
def test_moves_follow_from_the_labels_of_both_nights(shop, monkeypatch, text, bucket_rows):
    monkeypatch.setattr(comparison, "BUCKET_ROWS", bucket_rows)
    ids = {"input": {"id": "customer"}, "checks": OFF}
    shop.table(FIRST, rows(300, 200, 100)[0], customer=customers(600, text=text))
    shop.table(SECOND, rows(300, 200, 100, seed=1)[0], customer=customers(600, 50, text=text))
    shop.run(FIRST, **ids)
    lineage = shop.run(SECOND, **ids).lineage
    table, found = told(shop, SECOND)
    assert table.column_names == ["customer", "cluster_before", "cluster_now"]
    assert table.schema.types[1:] == [pa.int32(), pa.int32()]
    assert sorted(found, key=lambda one: one[0]) == expected(shop, FIRST, SECOND)
    assert sum(now is None for _, _, now in found) == 50
    assert sum(before is None for _, before, _ in found) == 50
    moved = sum(None not in one for one in found)
    assert moved > 0
    assert lineage.ids_moved == pytest.approx(moved / 550)
    with pytest.raises(StopIteration):
        published_file(shop.out(FIRST), "moves.parquet")


def test_shared_and_missing_ids_are_left_out(shop):
    asked = {"input": {"id": "customer"}, "checks": OFF}
    ids = customers(600).tolist()
    shop.table(FIRST, rows(300, 200, 100)[0], customer=ids)
    shop.run(FIRST, **asked)
    again = pa.array([None, 7, 7, *ids[3:]], pa.int64())
    shop.table(SECOND, rows(300, 200, 100, seed=1)[0], customer=again)
    shop.run(SECOND, **asked)
    _, found = told(shop, SECOND)
    by_id = {i: (before, now) for i, before, now in found}
    assert len(by_id) == len(found)
    assert None not in by_id
    assert 7 not in by_id, "two rows have it, so it is neither gone nor in one cluster"
    assert by_id[0][1] is None
    shop.table(THIRD, rows(300, 200, 100, seed=2)[0], customer=[*ids[:3], 1, *ids[4:]])
    shop.run(THIRD, **asked)
    by_id = {i: (before, now) for i, before, now in told(shop, THIRD)[1]}
    assert by_id[0][0] is by_id[2][0] is by_id[3][1] is None
    assert {1, 7}.isdisjoint(by_id)


def test_ids_that_became_text_are_a_warning(shop):
    ids = {"input": {"id": "customer"}, "checks": OFF}
    for seed, date in enumerate([FIRST, SECOND, THIRD]):
        known = [f"{i}.0" for i in range(600)] if date == SECOND else customers(600)
        shop.table(date, rows(300, 200, 100, seed=seed)[0], customer=known)
    shop.run(FIRST, **ids)
    warning = "ids in 'customer' are text, unlike those in "
    assert any(note.startswith(warning) for note in shop.run(SECOND, **ids).warnings)
    again = shop.run(THIRD, **ids | {"continuity": {"previous": str(shop.out(FIRST))}})
    assert not any("ids in 'customer'" in note for note in again.warnings)


def test_ids_that_are_all_new_are_a_warning_if_earlier_nights_shared_ids(shop):
    for seed, date in enumerate([FIRST, SECOND, THIRD]):
        ids = customers(600, 9000 if date == THIRD else 0)
        shop.table(date, rows(300, 200, 100, seed=seed)[0], customer=ids)
    checks = {"max_drift": False, "max_ids_moved": {"limit": 0.5, "level": "warn"}}
    given = {"input": {"id": "customer"}, "checks": checks}
    first, second, third = (shop.run(date, **given) for date in (FIRST, SECOND, THIRD))
    state = {check.name: check.state for check in second.checks}["max_ids_moved"]
    assert state == "warned"  # rows are in another order each night
    assert not any("no id in" in note for note in [*first.warnings, *second.warnings])
    assert any(note.startswith("no id in 'customer' occurs in the prev") for note in third.warnings)


def test_a_table_with_the_values_of_the_night_before_is_a_warning(shop):
    ids = customers(600)
    nights = (FIRST, ids, []), (SECOND, ids, ["was the"]), (THIRD, ids[::-1], ["were ids joined"])
    for date, known, words in nights:
        shop.table(date, rows(300, 200, 100)[0], customer=known)
        notes = shop.run(date, input={"id": "customer"}, checks=OFF).warnings
        found = [note for note in notes if note.startswith("each column has the same values as")]
        assert [any(word in note for word in words) for note in found] == [True] * len(words)


def test_nothing_without_ids_in_both_nights(shop):
    for seed, date in enumerate([FIRST, SECOND, THIRD]):
        shop.table(date, rows(300, 200, 100, seed=seed)[0], customer=customers(600))
    columns = {"columns": ["x0", "x1"]}
    shop.run(FIRST, checks=OFF, input=columns)
    shop.run(SECOND, checks=OFF, input=columns)
    shop.run(THIRD, checks=OFF, input=columns | {"id": "customer"})
    for date in (SECOND, THIRD):
        with pytest.raises(StopIteration):
            published_file(shop.out(date), "moves.parquet")


def test_zarr_and_assigned_nights_have_moves(shop):
    asked = {"input": {"id": "customer"}, "checks": OFF, "output": {"format": "zarr"}}
    for seed, date in enumerate([FIRST, SECOND]):
        shop.table(date, rows(300, 200, 100, seed=seed)[0], customer=customers(600))
    shop.run(FIRST, **asked)
    shop.run(SECOND, model={"mode": "assign"}, **asked)
    table, _ = told(shop, SECOND)
    assert len(table) > 0
