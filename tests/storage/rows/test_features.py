"""The conversion of stored columns to numbers, logarithms, times and vectors."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import DataError, JobFileError
from distsvc.job.config import InputConfig, PreprocessConfig
from distsvc.published.saved_model import feature_matrix
from distsvc.storage.rows.blocks import fill
from distsvc.storage.rows.features import (
    Log,
    Numeric,
    TextNumber,
    Time,
    UnusableValueError,
    Vector,
    descriptions,
    restore,
)
from distsvc.storage.tables.opening import open_table, shown_columns
from tests.small_tables import everything

DAY = datetime.datetime(1970, 1, 3, 12)
KINDS = {
    "list": pa.list_(pa.float32()),
    "large list": pa.large_list(pa.float64()),
    "fixed": pa.list_(pa.float32(), 3),
    "half": pa.list_(pa.float16(), 3),
    "whole": pa.list_(pa.int8(), 3),
}


def written(tmp_path, data: dict, **given):
    """Write a table and open it; `given` are keys of [preprocess], `columns` and `known`."""
    pq.write_table(pa.table(data), tmp_path / "t.parquet", row_group_size=4)
    chosen = {"columns": given.pop("columns")} if "columns" in given else {}
    known = given.pop("known", ())
    config = InputConfig(path=str(tmp_path / "t.parquet"), **chosen)
    return open_table(config, tmp_path / "staging", PreprocessConfig(**given), known)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("block_rows", [1, 3, 100])
def test_a_vector_becomes_a_column_for_each_place(tmp_path, kind, block_rows):
    rows = [[k, k + 0.5, -k] if "int" not in str(kind) else [k, k + 1, -k] for k in range(10)]
    table = written(tmp_path, {"a": range(10), "v": pa.array(rows, kind)})
    assert table.columns == ("a", "v[0]", "v[1]", "v[2]")
    expected = np.c_[np.arange(10), np.array(rows, float)]
    np.testing.assert_array_equal(everything(table, block_rows=block_rows)[1], expected)


def test_a_vector_that_is_missing_is_missing_in_every_place(tmp_path):
    values = [None, [1.0, 2.0], None, [3.0, None]]
    X = everything(written(tmp_path, {"v": pa.array(values, KINDS["list"])}))[1]
    np.testing.assert_array_equal(X, [[np.nan, np.nan], [1, 2], [np.nan, np.nan], [3, np.nan]])


def test_vectors_of_unequal_length_name_the_row(tmp_path):
    values = [[1.0, 2.0]] * 6 + [[1.0]]
    table = written(tmp_path, {"v": pa.array(values), "x": range(7)})
    message = r"t.parquet: column 'v', row 6: expected a list of 2 numbers, .*found a list of 1"
    with pytest.raises(DataError, match=message):
        everything(table)


def test_vectors_without_a_length(tmp_path):
    with pytest.raises(DataError, match="column 'v': found a list without numbers"):
        written(tmp_path, {"v": pa.array([None, []], KINDS["list"])})
    with pytest.raises(DataError, match=r"column 'v' of .* has no value in any row"):
        written(tmp_path, {"v": pa.array([None, None], KINDS["list"])})


@pytest.mark.parametrize(
    ("value", "kind", "unit", "expected"),
    [
        (DAY, pa.timestamp("us", "UTC"), "seconds", 2.5 * 86_400),
        (DAY, pa.timestamp("ns"), "seconds", 2.5 * 86_400),
        (DAY.date(), pa.date32(), "days", 2),
        (DAY.date(), pa.date64(), "days", 2),
        (datetime.timedelta(minutes=1), pa.duration("ms"), "seconds", 60),
        (datetime.time(1, 0, 0, 250_000), pa.time64("us"), "seconds", 3600.25),
        (datetime.time(1), pa.time32("s"), "seconds", 3600),
    ],
)
def test_dates_and_times_are_numbers_with_a_unit(tmp_path, value, kind, unit, expected):
    columns = {"when": pa.array([value, None], kind), "x": [1, 2]}
    table = written(tmp_path, columns, columns=("when",))
    assert shown_columns(table)["used"] == f"when ({unit})"
    np.testing.assert_array_equal(everything(table)[1], [[expected], [np.nan]])
    one = Time(column="when", unit="days").values(pa.array([value], kind))
    assert one[0] == pytest.approx(expected / (1 if unit == "days" else 86_400), rel=1e-12)


def test_dates_are_no_features_unless_named(tmp_path):
    columns = {"day": pa.array([DAY.date()] * 2), "at": pa.array([DAY] * 2), "x": [1, 2]}
    table = written(tmp_path, columns)
    assert table.columns == ("x",)
    assert shown_columns(table)["left_out"] == "day (date), at (date and time)"


def test_logarithms(tmp_path):
    columns = {"bytes": [0, 1, 10**9, -1], "x": [1.0, 2.0, 3.0, 4.0]}
    table = written(tmp_path, columns, log=["bytes"])
    assert table.columns == ("log(bytes)", "x")
    found = everything(table)[1][:, 0]
    np.testing.assert_allclose(found, [0, np.log(2), np.log1p(1e9), -np.log(2)], rtol=1e-15)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_logarithms_of_a_vector(tmp_path, kind):
    columns = {"v": pa.array([[0, 3, 100], None], kind), "x": pa.array([1, 2], pa.int8())}
    table = written(tmp_path, columns, log=["v"])
    assert table.columns == ("log(v[0])", "log(v[1])", "log(v[2])", "x")
    assert shown_columns(table)["used"] == "log(v) (3 numbers), x"
    expected = [[0.0, np.log(4), np.log(101), 1.0], [np.nan] * 3 + [2.0]]
    if pa.types.is_fixed_size_list(kind) and int(pa.__version__.split(".")[0]) < 26:
        with pytest.raises(DataError, match=r"a row has no list.* pyarrow 26 or newer reads it"):
            everything(table)
    else:
        np.testing.assert_allclose(everything(table)[1], expected, rtol=1e-15)
    found = feature_matrix(np.array([[0.0, 3, 100, 1]]), table.features, ())
    np.testing.assert_allclose(found, expected[:1], rtol=1e-15)


def test_logarithms_of_a_part_of_a_vector(tmp_path):
    columns = {"v": pa.array([[1.0, 2.0]], KINDS["list"]), "x[1]": [1]}
    assert written(tmp_path, columns, log=["x[1]"]).columns == ("v[0]", "v[1]", "log(x[1])")
    message = r"found 'v\[1\]'; for the logarithms of all numbers of the vector, give 'v'"
    with pytest.raises(JobFileError, match=message):
        written(tmp_path, columns, log=["v[1]"])


@pytest.mark.parametrize("name", ["y", "text", "left"])
def test_logarithms_of_what_is_no_number(tmp_path, name):
    columns = {"x": [1, 2], "text": ["a", "b"], "left": [1, 2]}
    with pytest.raises(JobFileError, match=f"preprocess.log: expected .* found '{name}'"):
        written(tmp_path, columns, log=[name], columns=("x",))


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (Vector(column="v", width=3), "column 'v' .*list.*expected vectors of 3 numbers, as in"),
        (Numeric("v"), "column 'v' .* expected numbers, as in the model"),
        (Time(column="v", unit="days"), "expected dates, times or durations, as in the model"),
    ],
)
def test_a_column_that_is_not_the_model_s(tmp_path, known, message):
    fixed = pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))
    with pytest.raises(DataError, match=message):
        written(tmp_path, {"v": fixed}, columns=("v",), known=[known])


def test_features_come_back_from_json():
    features = (
        Numeric("a"), Log(column="b"), Time(column="c", unit="days"), Vector(column="d", width=2),
        Vector(column="e", width=2, log=True),
    )  # fmt: skip
    assert restore(descriptions(features)) == features


@pytest.mark.parametrize("n", [1, 300, 5000])
def test_many_columns_are_turned_as_few_are(n):
    random = np.random.default_rng(0)
    kinds = [np.float32] * 30 + [np.int16] * 30 + [np.float64] * 2
    columns = [random.integers(0, 99, n).astype(kind) for kind in kinds]
    X = np.empty((n, len(kinds)), np.float32)
    fill(X, [Numeric(f"x{k}") for k in range(len(kinds))], [pa.array(c) for c in columns])
    np.testing.assert_array_equal(X, np.column_stack(columns))


def test_rows_are_float32_where_that_holds_every_value(tmp_path):
    small = {"a": pa.array([1, None], pa.int16()), "v": pa.array([[0.1, 2.0]] * 2, KINDS["list"])}
    table = written(tmp_path, small)
    assert table.dtype == np.float32
    np.testing.assert_array_equal(everything(table)[1][:, 0], [1.0, np.nan])
    for kind in pa.int32(), pa.float64(), pa.list_(pa.float64(), 2):
        one = [1.0, 2.0] if pa.types.is_fixed_size_list(kind) else 1
        assert written(tmp_path, small | {"b": pa.array([one] * 2, kind)}).dtype == np.float64


def test_text_of_numbers_is_kept_with_the_model():
    feature = TextNumber(column="t")
    assert restore(descriptions([feature])) == (feature,)
    for kind in (pa.string(), pa.large_string(), pa.int64(), pa.float32()):
        assert feature.takes(kind)
        array = pa.array([3, None, -1], kind) if "string" not in str(kind) else None
        words = pa.array(["3", "NA", " -1 "], kind) if array is None else array
        np.testing.assert_array_equal(feature.values(words), [3.0, np.nan, -1.0])
    assert not feature.takes(pa.date32())
    with pytest.raises(UnusableValueError, match=r"expected a number, .* found 'x'") as found:
        feature.values(pa.array(["1", "x"]))
    assert (found.value.column, found.value.place) == ("t", 1)


def test_a_model_of_text_reads_numbers_and_the_other_way_round(tmp_path):
    texts = written(tmp_path, {"t": [str(k / 2) for k in range(60)], "x": np.sin(range(60))})
    table = written(tmp_path, {"t": np.arange(5) / 2, "x": np.arange(5.0)}, known=texts.features)
    np.testing.assert_array_equal(everything(table)[1][:, 0], np.arange(5) / 2)
    few = written(tmp_path, {"t": ["7"], "x": [0.5]}, known=texts.features)
    np.testing.assert_array_equal(everything(few)[1], [[7.0, 0.5]])
    numbers = (*table.features[1:], Numeric("t"))
    for texts, expected in (["7"], 7.0), ([""], np.nan):
        rows = {"t": texts, "x": [0.5]}
        table = written(tmp_path, rows, known=numbers, columns=["t", "x"])
        np.testing.assert_array_equal(everything(table)[1], [[expected, 0.5]])
    with pytest.raises(DataError, match="is text, expected"):
        written(tmp_path, {"t": ["seven"], "x": [0.5]}, known=numbers, columns=["t", "x"])
