"""Rows of numbers, categories and missing values, in estimators and jobs."""

import warnings

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import UnusableRowsError
from distsvc.inputs.mixed import Levels, mixed_rows
from distsvc.job.file import parse_job
from distsvc.run.work.plan import Plan
from distsvc.storage.tables.opening import open_table

N = 200
random = np.random.default_rng(0)
COLUMNS = {
    "age": np.where(np.arange(N) % 7 == 0, np.nan, random.normal(40, 9, N)),
    "flag": np.arange(N) % 3 == 0,
    "plan": np.array(["a", "b", "b", "c"] * (N // 4), object),
    "visits": np.arange(N) % 5,
}
COLUMNS["plan"][[0, 8]] = [None, "rare"]


def pandas_frame():
    frame = pd.DataFrame(COLUMNS, index=np.arange(N)[::-1])
    return frame.astype({"plan": "category", "flag": "boolean"})


def polars_frame():
    frame = pl.DataFrame({**COLUMNS, "plan": COLUMNS["plan"].tolist()})
    return frame.with_columns(pl.col("plan").cast(pl.Categorical))


TABLES = {
    "pandas": pandas_frame,
    "pandas text": lambda: pd.DataFrame(COLUMNS),
    "polars": polars_frame,
    "arrow": lambda: pa.table(COLUMNS),
    "arrow batches": lambda: pa.Table.from_batches(pa.table(COLUMNS).to_batches(max_chunksize=33)),
    "reader": lambda: pa.table(COLUMNS).to_reader(max_chunksize=50),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_tables_of_any_kind_have_the_same_rows(make):
    found = mixed_rows(make())
    assert found.names == ("age", "flag", "plan", "visits")
    assert found.rows.dtype == np.float64
    assert found.nominal.tolist() == [False, False, True, False]
    assert found.levels[2] == Levels(("b", "c", "a"), has_bucket=True)
    assert found.levels[2].texts == ("b", "c", "a", "other")
    codes = {"b": 0, "c": 1, "a": 2, "rare": 3, None: np.nan}
    np.testing.assert_array_equal(found.rows[:, 2], [codes[v] for v in COLUMNS["plan"]])
    for k, name in [(0, "age"), (1, "flag"), (3, "visits")]:
        np.testing.assert_array_equal(found.rows[:, k], COLUMNS[name])


def test_an_array_of_objects_and_a_list_of_rows():
    rows = list(zip(*COLUMNS.values(), strict=True))
    expected = mixed_rows(pa.table(COLUMNS))
    for X in rows, np.array(rows, object), [list(row) for row in rows]:
        found = mixed_rows(X)
        np.testing.assert_array_equal(found.rows, expected.rows)
        assert (found.levels, found.names) == (expected.levels, None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, bool])
def test_arrays_of_numbers(dtype):
    X = random.normal(size=(50, 3)).astype(dtype)
    if X.dtype.kind == "f":
        X[3, 1] = np.nan
    for given in X, np.asfortranarray(X), X.tolist(), da.from_array(X, chunks=(20, 3)):
        found = mixed_rows(given)
        np.testing.assert_array_equal(found.rows, X)
        assert not found.nominal.any()


def test_levels_are_those_of_a_job(tmp_path):
    pq.write_table(pa.table(COLUMNS), tmp_path / "t.parquet")
    given = {"path": str(tmp_path / "t.parquet")}
    job = parse_job({"input": given, "output": {"path": str(tmp_path / "out")}})
    table = open_table(job.input, tmp_path / "staging", mixed=True)
    plan = Plan.of(job, table)
    X = np.concatenate([block.X for block in plan.blocks(0)])
    np.testing.assert_array_equal(X, mixed_rows(pandas_frame()).rows)


def test_text_of_many_numbers_and_few_limits_is_a_warning():
    values = [f"{value:.2f}" for value in random.gamma(2.0, 3.0, N)]
    limits = ["<0.50" if k % 5 == 0 else value for k, value in enumerate(values)]
    with pytest.warns(UserWarning, match="column 'lead' is text.*such as '<0.50', are not"):
        assert mixed_rows(pd.DataFrame({"lead": limits})).nominal.all()
    for texts in values, [value.replace(".", ",") for value in values]:
        with pytest.warns(UserWarning, match="though its values are numbers: convert the column"):
            mixed_rows(pd.DataFrame({"lead": texts}))
    codes = [str(k % 30) if k % 5 else "other" for k in range(N)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixed_rows(pd.DataFrame({"code": codes, "word": [f"w{k}" for k in range(N)]}))


def test_levels_of_the_fit_are_kept():
    fitted = mixed_rows(pandas_frame())
    later = pd.DataFrame(COLUMNS).iloc[:4].assign(plan=["c", "new", None, "rare"])
    found = mixed_rows(later, fitted.levels)
    np.testing.assert_array_equal(found.rows[:, 2], [1, 3, np.nan, 3])
    np.testing.assert_array_equal(mixed_rows(later[:1], fitted.levels).rows, found.rows[:1])
    certain = mixed_rows(pd.DataFrame({"k": ["a", "b"] * 20}))
    codes = mixed_rows(pd.DataFrame({"k": ["b", "new"]}), certain.levels).rows[:, 0]
    np.testing.assert_array_equal(codes, [1, np.nan])
    missing = mixed_rows(pd.DataFrame({"k": [None, None]}), certain.levels).rows
    assert np.isnan(missing).all()
    missing = mixed_rows(pd.DataFrame({"k": [np.nan, np.nan]}), certain.levels).rows
    assert np.isnan(missing).all()
    ports = mixed_rows(pd.DataFrame({"k": ["80", "443"] * 20})).levels
    np.testing.assert_array_equal(mixed_rows(pd.DataFrame({"k": [80]}), ports).rows, [[1.0]])


@pytest.mark.parametrize(
    ("X", "levels", "words"),
    [
        (pd.DataFrame({"a": [1.0, np.inf]}), None, "column 'a', row 1: expected a finite number"),
        (np.array([[1.0, -np.inf]]), None, "column 1, row 0: .* found -inf"),
        (pd.DataFrame({"a": pd.to_datetime(["2026-01-01"])}), None, "'a' is a date and time"),
        (pd.DataFrame({"a": ["x"]}), [None], "column 'a' holds text, expected numbers, as in fit"),
        (pd.DataFrame({"a": [0.5]}), [Levels(("x",), False)], "is a number, expected text"),
        (pd.DataFrame({"a": [1]}), [Levels(("x",), False)], "is a whole number, expected text"),
        (pd.DataFrame({"a": [0.5]}), [None, None], "has 1 columns, expected 2"),
        (pd.DataFrame({"a": []}), None, "X has no rows"),
        (np.zeros(3), None, "Expected 2D array|expected chunks|expected rows"),
        ([[1, 2], [3]], None, "expected rows by columns"),
        (np.array([[1], ["a"]], object), None, "expected numbers or text in each column"),
        ("text", None, "expected an array"),
    ],
)
def test_rows_that_can_not_be_used(X, levels, words):
    with pytest.raises(UnusableRowsError, match=words):
        mixed_rows(X, levels)
