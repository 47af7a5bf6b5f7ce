"""The plan of a run: its JSON, its partitions, and unusable values."""

import itertools
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distsvc.errors import DataError
from distsvc.run.work import plan as plan_module
from distsvc.run.work.plan import (
    BLOCK_BYTES,
    MAX_BLOCK_ROWS,
    STORED_PLAN,
    Plan,
    choose_block_rows,
    cut,
    plan_partitions,
)
from distsvc.storage.tables.opening import open_table
from tests.small_runs import small_job, three_clusters, write_table


def plan_of(path, model=None, **sections):
    given = {"columns": ["x0", "x1"]} | sections.pop("input", {})
    job = small_job(path, model or {}, input=given, **sections)
    return Plan.of(job, open_table(job.input, path.parent / "staging"))


def with_values(tmp_path, *values):
    """Write 400 rows with some replaced values: (row, column, value)."""
    X = three_clusters(400)
    for row, column, value in values:
        X[row, column] = value
    names = [f"id-{i}" for i in range(400)]
    return write_table(tmp_path / "t.parquet", X, name=pa.array(names), y=np.arange(400) % 3)


def test_a_plan_is_restored_from_json(tmp_path):
    path = with_values(tmp_path, (0, 0, 1.0 / 3.0))
    plan = plan_of(
        path,
        {"algorithm": "linear-svdd", "nu": 0.1, "seed": 5},
        input={"id": "name", "label": "y", "where": "y == 1"},
        output={"reasons": 2},
        preprocess={"missing": "drop"},
    )
    again = STORED_PLAN.validate_json(STORED_PLAN.dump_json(plan))
    assert vars(again).keys() == vars(plan).keys()
    for name, value in vars(plan).items():
        if name != "shift":
            assert getattr(again, name) == value
    assert again.shift.tobytes() == plan.shift.tobytes()
    assert again.shift.dtype == np.float64
    assert (again.missing, again.seed, again.output.reasons, again.output.format) == (
        "drop",
        5,
        2,
        "parquet",
    )
    assert [len(block.rows) for block in again.blocks(0)] == [
        len(block.rows) for block in plan.blocks(0)
    ]


def test_partitions_of_a_wide_table_have_fewer_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(plan_module, "PARTITION_BYTES", 100 * 2 * 8)
    assert plan_of(with_values(tmp_path)).partitions == [(k, k + 100) for k in (0, 100, 200, 300)]


ALSO = "infinite values are also in 'x0'$"


@pytest.mark.parametrize(
    ("missing", "value", "words"),
    [
        (
            "error",
            np.nan,
            r" has 1 missing value in rows 300 to 369 \(first at row 333\); other columns with "
            r"missing values: 'x0' \(1\); add --set preprocess\.missing=median, or =drop$",
        ),
        ("error", -np.inf, ", row 333: expected a finite number below 1e154, found -inf; " + ALSO),
        ("drop", np.inf, ", row 333: expected a finite number below 1e154, found inf; " + ALSO),
        ("median", np.inf, ", row 333: expected a finite number below 1e154, found inf; " + ALSO),
    ],
)
def test_an_unusable_value_is_named(tmp_path, missing, value, words):
    path = with_values(tmp_path, (333, 1, value), (350, 0, value))
    plan = plan_of(path, preprocess={"missing": missing})
    assert sum(len(block.rows) for block in plan.blocks(0)) == 300
    with pytest.raises(DataError, match=rf"t\.parquet: column 'x1'{words}"):
        list(plan.blocks(1))


def test_rows_with_missing_values_are_dropped_or_kept(tmp_path):
    path = with_values(tmp_path, (3, 0, np.nan), (3, 1, np.nan), (70, 1, np.nan))
    columns = {"with_ids": True, "with_labels": True}
    named = {"id": "name", "label": "y"}
    dropping = plan_of(path, input=named, preprocess={"missing": "drop"})
    dropped = list(dropping.blocks(0, **columns))
    assert [len(block.rows) for block in dropped] == [69, 69, 70, 70, 20]
    for block in dropped:
        assert np.isfinite(block.X).all()
        assert block.ids.to_pylist() == [f"id-{row}" for row in block.rows]
        assert block.labels.to_pylist() == (block.rows % 3).tolist()
    keeping = plan_of(path, input=named, preprocess={"missing": "median"})
    kept = list(keeping.blocks(0, **columns))
    assert [len(block.rows) for block in kept] == [70, 70, 70, 70, 20]
    assert [int(np.isnan(block.X).sum()) for block in kept] == [2, 1, 0, 0, 0]


extents = st.lists(st.integers(1, 60), max_size=40)
sizes = st.integers(1, 50)


@given(extents, sizes)
def test_partitions_have_every_row_once_in_order(extents, size):
    partitions = plan_partitions(extents, size)
    rows = [row for start, stop in partitions for row in range(start, stop)]
    assert rows == list(range(sum(extents)))


@given(extents, sizes)
def test_no_partition_is_empty_or_more_than_twice_the_size(extents, size):
    assert all(0 < stop - start <= 2 * size for start, stop in plan_partitions(extents, size))


@given(extents, sizes)
def test_borders_lie_between_units_but_within_large_ones(extents, size):
    edges = [0, *itertools.accumulate(extents)]
    large = [(a, b) for a, b in itertools.pairwise(edges) if b - a > 2 * size]
    for start, stop in plan_partitions(extents, size):
        for border in (start, stop):
            assert border in edges or any(a < border < b for a, b in large)
        if any(a <= start and stop <= b for a, b in large):
            assert stop - start <= size


@pytest.mark.parametrize(
    ("extents", "size", "expected"),
    [
        ([], 10, []),
        ([10], 10, [(0, 10)]),
        ([20], 10, [(0, 20)]),
        ([21], 10, [(0, 7), (7, 14), (14, 21)]),
        ([4, 4, 4], 8, [(0, 8), (8, 12)]),
        ([4, 25, 4], 10, [(0, 4), (4, 12), (12, 20), (20, 29), (29, 33)]),
        ([3, 3, 3], 1000, [(0, 9)]),
        ([1_048_576] * 3, 1_000_000, [(i * 1_048_576, (i + 1) * 1_048_576) for i in range(3)]),
    ],
)
def test_examples_of_partitions(extents, size, expected):
    assert plan_partitions(extents, size) == expected


@pytest.mark.parametrize(
    ("rows", "d", "n_rows", "expected"),
    [
        (50, 4, 500_000, 7_812),
        (50, 4, 10**8, 65_536),
        (50, 10_000, 500_000, 419),
        (50, 4, 3_200, 50),
    ],
)
def test_small_partitions_are_as_large_as_a_block_or_a_64th_of_the_table(rows, d, n_rows, expected):
    table = SimpleNamespace(
        columns=["x"] * d, n_rows=n_rows, layout=SimpleNamespace(extents=[1] * n_rows)
    )
    job = SimpleNamespace(cluster=SimpleNamespace(partition_rows=rows))
    assert cut(job, table)[0] == (0, expected)


@given(st.integers(1, 10**7))
def test_blocks_are_as_large_as_allowed(n_columns):
    rows = choose_block_rows(n_columns)
    assert 1 <= rows <= MAX_BLOCK_ROWS
    assert rows == 1 or rows * n_columns * 8 <= BLOCK_BYTES
    more = (rows + 1) * n_columns * 8 > BLOCK_BYTES
    assert more or rows == MAX_BLOCK_ROWS
