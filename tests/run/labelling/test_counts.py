"""Counts of labelled rows: levels of categories in clusters, missing values, ids."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import CheckFailedError
from distsvc.job.config import OutputConfig
from distsvc.run.job import run_job
from distsvc.run.labelling import counts as ids_module
from distsvc.run.labelling.columns import MissingValues
from distsvc.run.labelling.counts import (
    ClusterContents,
    IdCounts,
    code_text,
    counts_ids,
    id_keys,
    levels_of_columns,
)
from distsvc.storage.places.store import store_of
from distsvc.storage.publishing.formats import part_file
from distsvc.storage.rows.blocks import Block
from distsvc.storage.rows.features import Codes, Numeric, OneHot
from tests.small_runs import small_job, three_clusters, write_table

PLAN = OneHot(column="plan", known=("a", "b"), rest=0.1)
LAND = Codes(column="land", known=("DE", "FR"), rest=0.0)
N = 600


def contents(compared=(), share=1.0, seed=0):
    features = levels_of_columns([Numeric("x"), PLAN, LAND])
    own = levels_of_columns(compared)
    rows = {c.column: np.zeros((2, len(c.codes) + 1), np.int64) for c in [*features, *own]}
    width = len(compared)
    missing, sample = np.zeros((2, 5), np.int64), np.zeros((0, width))
    return ClusterContents(features, own, missing, width, share, seed, rows, sample)


def table(seed=0):
    random = np.random.default_rng(seed)
    plan, land = random.integers(0, 4, N), random.integers(0, 3, N)
    X = np.zeros((N, 5), np.float32)
    X[:, 0] = np.where(random.random(N) < 0.2, np.nan, 1.0)
    X[:, 1:4] = np.where((plan < 3)[:, None], np.eye(4)[plan, :3], np.nan)
    X[:, 4] = np.where(land < 2, land, np.nan)
    return X, plan, land, random.integers(0, 2, N).astype(np.int32)


def test_contents_do_not_depend_on_partitions():
    X, plan, land, labels = table()
    whole, parts = contents(), contents()
    whole.add(Block(np.arange(N), X, None, None), X, {"label": labels})
    for first in range(0, N, 70):
        rows = slice(first, first + 70)
        one = contents()
        one.add(Block(np.arange(N)[rows], X[rows], None, None), X, {"label": labels[rows]})
        parts.merge(one.arrays())
    for found in whole, parts:
        for c in range(2):
            expected = np.bincount(plan[labels == c], minlength=4)
            assert found.rows["plan"][c].tolist() == expected.tolist()
            expected = np.bincount(land[labels == c], minlength=3)
            assert found.rows["land"][c].tolist() == expected.tolist()
            assert found.missing[c, 0] == np.isnan(X[labels == c, 0]).sum()


def test_other_columns_are_counted_or_sampled_by_row_keys():
    X, _, land, labels = table()
    y = np.arange(N, dtype=float)
    compared = np.column_stack([np.where(land < 2, land, np.nan), y])
    whole, parts = (contents((LAND_2, Numeric("y")), 0.3, seed=5) for _ in range(2))
    whole.add(Block(np.arange(N), X, None, None, compared), X, {"label": labels})
    for first in range(0, N, 70):
        rows = slice(first, first + 70)
        one = contents((LAND_2, Numeric("y")), 0.3, seed=5)
        block = Block(np.arange(N)[rows], X[rows], None, None, compared[rows])
        one.add(block, X, {"label": labels[rows]})
        parts.merge(one.arrays())
    assert 0.2 * N < len(whole.sample) < 0.4 * N
    assert np.array_equal(whole.sample, parts.sample, equal_nan=True)
    assert np.array_equal(whole.sample_labels, labels[whole.sample[:, 1].astype(int)])
    assert np.array_equal(whole.rows["land2"], whole.rows["land"])


def test_missing_values_of_rows_are_an_optional_column():
    X = np.array([[np.nan, 1, 0, 0, 1], [np.nan] * 5, [1, 0, 1, 0, 0]])
    features, block = [Numeric("x"), PLAN, LAND], Block(np.arange(3), X, None, None)
    for wanted in True, False:
        output = OutputConfig(path="out", missing=wanted)
        found = MissingValues(None, None, features, output).add(block, X, {})
        assert [*found] == ["missing"] * wanted
    found = MissingValues(None, None, features, OutputConfig(path="out", missing=True))
    assert found.add(block, X, {})["missing"].tolist() == [1, 3, 0]


LAND_2 = Codes(column="land2", known=("DE", "FR"), rest=0.0)


pytestmark = pytest.mark.usefixtures("quick_page")

N_IDS = 700
X_IDS = three_clusters(N_IDS)
CENTRES = {"algorithm": "bico", "n_clusters": 3}
DAY = datetime.datetime(2026, 2, 28)

KINDS = [
    pa.array([3, -1, 3]),
    pa.array([3, 2**64 - 1, 3], pa.uint64()),
    pa.array([True, False, True]),
    pa.array([1.5, -0.5, 1.5]),
    pa.array([1.5, -0.5, 1.5], pa.float32()),
    pa.array(["a", "", "a"]),
    pa.array(["a", "", "a"], pa.large_string()),
    pa.array([b"\xff", b"", b"\xff"]),
    pa.array([DAY, DAY + datetime.timedelta(1), DAY]),
    pa.array([DAY.date(), None, DAY.date()], pa.date32()).fill_null(datetime.date(2026, 1, 1)),
    pa.array([decimal.Decimal("1.50"), decimal.Decimal("1.05"), decimal.Decimal("1.50")]),
]


@pytest.mark.parametrize("ids", KINDS, ids=lambda ids: str(ids.type))
def test_equal_ids_have_equal_keys_and_no_others(ids):
    assert counts_ids(ids.type)
    keys = id_keys(ids).tolist()
    assert keys[0] == keys[2] != keys[1]
    assert id_keys(ids[1:]).tolist() == keys[1:]
    assert id_keys(ids[:0]).tolist() == []


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct({"a": pa.int64()})], ids=str)
def test_nested_ids_are_not_compared(kind):
    assert not counts_ids(kind)


def counted(folder, *parts):
    """Return the report on the ids of several partitions."""
    n = sum(len(part) for part in parts)
    together = IdCounts.of_table(n)
    for number, part in enumerate(parts):
        one = IdCounts.of_table(n)
        for first in range(0, len(part), 70):
            one.add(Block(None, None, part[first : first + 70], None), None, {})
        together.merge(one.arrays())
        pq.write_table(pa.table({"id": part}), folder / f"part-{number:05d}.parquet")
    files = [part_file(number) for number in range(len(parts))]
    return together.report(store_of(folder), files, "id")


def cut(array, *places):
    return [array[a:b] for a, b in zip([0, *places], [*places, len(array)], strict=True)]


@pytest.mark.parametrize("places", [(), (100,), (1, 350, 350, 699)])
def test_id_counts_do_not_depend_on_partitions(tmp_path, places):
    names = [f"id-{k}" for k in range(N_IDS)]
    names[650] = names[20] = names[21] = "id-5"
    names[40] = names[699]
    names[7] = names[8] = None
    found = counted(tmp_path, *cut(pa.array(names), *places))
    assert (found.shared, found.missing, found.bits) == (6, 2, 0)
    assert found.example == "id-5"
    assert counted(tmp_path, pa.array(range(N_IDS))).shared == 0
    assert counted(tmp_path, pa.array([], pa.string())).notes("id") == []


def test_only_some_of_many_ids_are_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(ids_module, "MAX_IDS", 100)
    ids = np.arange(N_IDS)
    ids[N_IDS // 2 :] = ids[: N_IDS // 2]
    found = counted(tmp_path, *cut(pa.array(ids), 300))
    assert found.bits == 3
    assert found == counted(tmp_path, *cut(pa.array(ids), 10, 500))
    assert 0 < found.shared < 200
    assert found.shared % 2 == 0
    assert (
        "share their id with another row (only one in 8 ids was compared)" in (found.notes("id")[0])
    )


def table_with(path, ids):
    return write_table(path, X_IDS, account=ids)


def job(path, out, **checks):
    return small_job(
        path, CENTRES, input={"id": "account"}, output={"path": str(out)}, checks=checks
    )


IDS = [f"a{k % 690}" for k in range(N_IDS - 3)] + [None] * 3


def test_duplicate_ids_hold_a_run_back(tmp_path):
    path = table_with(tmp_path / "t.parquet", IDS)
    words = "unique_id: 17 rows share their id with another or have none, none expected"
    with pytest.raises(CheckFailedError, match=words):
        run_job(job(path, tmp_path / "out", unique_id=True))
    report = run_job(job(path, tmp_path / "out", unique_id={"limit": True, "level": "warn"}))
    assert words in report.warnings
    fine = table_with(tmp_path / "fine.parquet", [f"a{k}" for k in range(N_IDS)])
    report = run_job(job(fine, tmp_path / "fine", unique_id=True))
    assert [check.state for check in report.checks] == ["passed"]
    assert not [text for text in report.warnings if "id" in text.split()]


def test_a_column_without_ids_holds_a_run_back(tmp_path):
    path = table_with(tmp_path / "t.parquet", pa.nulls(N_IDS))
    with pytest.raises(CheckFailedError, match=f"unique_id: {N_IDS} rows share their id with"):
        run_job(job(path, tmp_path / "out", unique_id=True))


def test_codes_have_all_their_digits():
    assert [code_text(code) for code in (1_011_500.0, -3.0, 0.5)] == ["1011500", "-3", "0.5"]
