"""The plan: the same on every worker, and no unusable value gets past it."""

import json

import numpy as np
import pyarrow as pa
import pytest

from distsvc.errors import DataError
from distsvc.run.work import plan as plan_module
from distsvc.run.work.plan import Plan
from distsvc.storage.rows.usable import select_rows
from distsvc.storage.tables.opening import open_table
from tests.small_runs import small_job, three_clusters, write_table


def plan_of(path, model=None, **sections):
    given = {"columns": ["x0", "x1"]} | sections.pop("input", {})
    job = small_job(path, model or {}, input=given, **sections)
    return Plan.of(job, open_table(job.input, path.parent / "staging"))


def with_values(tmp_path, *values):
    """Write 400 rows, some values of which are replaced: (row, column, value)."""
    X = three_clusters(400)
    for row, column, value in values:
        X[row, column] = value
    names = [f"id-{i}" for i in range(400)]
    return write_table(tmp_path / "t.parquet", X, name=pa.array(names), y=np.arange(400) % 3)


def test_it_comes_back_from_json(tmp_path):
    path = with_values(tmp_path, (0, 0, 1.0 / 3.0))
    plan = plan_of(
        path,
        {"algorithm": "linear-svdd", "nu": 0.1, "seed": 5},
        input={"id": "name", "label": "y", "where": "y == 1"},
        output={"reasons": 2},
        preprocess={"missing": "drop"},
    )
    again = Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
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


def test_the_cut_is_that_of_the_job(tmp_path):
    plan = plan_of(with_values(tmp_path))
    assert plan.partitions == [(0, 300), (300, 400)]
    assert [len(block.rows) for block in plan.blocks(0)] == [70, 70, 70, 70, 20]
    assert plan_of(with_values(tmp_path), cluster={"block_rows": None}).block_rows == 65_536


def test_partitions_of_a_wide_table_have_fewer_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(plan_module, "PARTITION_BYTES", 100 * 2 * 8)
    assert plan_of(with_values(tmp_path)).partitions == [(k, k + 100) for k in (0, 100, 200, 300)]


@pytest.mark.parametrize(("n_bytes", "rows"), [(2**20, 10_000), (2**15, 2048), (10, 100)])
def test_a_pilot_of_a_wide_table_has_fewer_rows(tmp_path, monkeypatch, n_bytes, rows):
    monkeypatch.setattr(plan_module, "PILOT_BYTES", n_bytes)
    assert plan_of(with_values(tmp_path)).pilot_rows == rows


def test_the_shift_lies_among_the_first_rows(tmp_path):
    plan = plan_of(with_values(tmp_path, (0, 0, np.nan), (1, 1, np.inf), (2, 0, -1e9)))
    X = three_clusters(400)
    assert (plan.shift > X.min(axis=0)).all()
    assert (plan.shift < X.max(axis=0)).all()


def test_no_row_is_left(tmp_path):
    with pytest.raises(DataError, match=r"t\.parquet has no rows: input\.where = 'y == 9' "):
        plan_of(with_values(tmp_path), input={"where": "y == 9"})


ALSO = "such values are also in 'x0'$"


@pytest.mark.parametrize(
    ("missing", "value", "words"),
    [
        (
            "error",
            np.nan,
            r" has 1 missing value in rows 300 to 369 \(first at row 333\); so have 'x0' \(1\); "
            r"add --set "
            r"preprocess\.missing=median, or =drop$",
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


def test_a_block_without_missing_values_is_not_copied(tmp_path):
    block = next(plan_of(with_values(tmp_path)).blocks(0))
    assert select_rows(block, ~np.isnan(block.X).any(axis=1)) is block
