"""The choice of the features, and the messages on columns that can't be features."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import DataError, JobFileError
from distsvc.storage.tables.values import NO_VALUES
from tests.small_tables import everything, opened, sample


def test_types_that_turn_into_numbers(tmp_path):
    data = pa.table(
        {
            "dec": pa.array([Decimal("1.25"), None], pa.decimal128(10, 2)),
            "half": pa.array(np.array([0.5, 1.5], np.float16)),
            "yes": pa.array([True, None]),
            "big": pa.array([2**53 + 1, 2**63 - 1], pa.int64()),
            "ubig": pa.array([2**64 - 1, None], pa.uint64()),
            "coded": pa.array([3, 4]).dictionary_encode(),
            "nan": pa.array([float("nan"), None]),
            "inf": pa.array([float("inf"), float("-inf")], pa.float32()),
            "text": ["a", "b"],
            "list": [[1, 7], [2, 8]],
            "wait": pa.array([1500, None], pa.duration("ms")),
            "lists": [[[1]], [[2]]],
            "day": pa.array([1, 2], pa.date32()),
            "null": pa.nulls(2),
            "__index_level_0__": [5, 6],
        }
    )
    pq.write_table(data, tmp_path / "t.parquet")
    table = opened(tmp_path / "t.parquet", tmp_path)
    numbers = ("dec", "half", "yes", "big", "ubig", "coded", "inf")
    assert table.columns == (*numbers, "list[0]", "list[1]", "wait")
    nan, inf = np.nan, np.inf
    expected = [
        [1.25, 0.5, 1, 2**53, 2**64, 3, inf, 1, 7, 1.5],
        [nan, 1.5, nan, 2**63, nan, 4, -inf, 2, 8, nan],
    ]
    np.testing.assert_array_equal(everything(table)[1], np.array(expected, float))
    assert table.left_out["nan"] == table.left_out["null"] == NO_VALUES


def test_columns_of_where_label_and_id_are_no_features_unless_named(tmp_path):
    pq.write_table(pa.table({"i": [1], "y": [2], "split": [3], "x": [4]}), tmp_path / "t.parquet")
    names = {"id": "i", "classes": "y", "where": "split == 3"}
    assert opened(tmp_path / "t.parquet", tmp_path, **names).columns == ("x",)
    table = opened(tmp_path / "t.parquet", tmp_path, columns=["split", "x"], **names)
    assert table.columns == ("split", "x")
    np.testing.assert_array_equal(everything(table)[1], [[3.0, 4.0]])


def test_names_with_dots_and_spaces(tmp_path):
    data = pa.table({"a": [1, 2], "a.b": [3, 4], "a b": [5, 6]})
    pq.write_table(data, tmp_path / "t.parquet")
    table = opened(tmp_path / "t.parquet", tmp_path, columns=["a", "a b"], where="`a.b` > 3")
    np.testing.assert_array_equal(everything(table)[1], [[2.0, 6.0]])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"columns": ["a", "bb"]}, r"input.columns: .*no column 'bb'; did you mean 'b'\?"),
        ({"columns": ["zzzz"]}, r"no column 'zzzz'; available: row_id, a, b, c, flag, label"),
        ({"columns": ["row_id"]}, r"column 'row_id' of .* is text, expected a numeric"),
        ({"columns": ["label"]}, r"column 'label' of .* is text, expected a numeric"),
        ({"id": "rowid"}, r"input.id: .*no column 'rowid'; did you mean 'row_id'\?"),
        ({"classes": "labels"}, r"input.classes: .*did you mean 'label'\?"),
        ({"where": "splt == 1"}, r"input.where: .*no column 'splt'; did you mean 'split'\?"),
        ({"where": "row_id == 1"}, r"input.where compares column 'row_id' \(text\) with 1"),
    ],
)
def test_a_wrong_column_is_named(tmp_path, fields, message):
    pq.write_table(sample(10), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=message):
        opened(tmp_path / "t.parquet", tmp_path, **fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"columns": ["a", "a"]}, "input.columns names 'a' twice"),
        ({"where": "split = 1"}, "unexpected '=' at character 7"),
    ],
)
def test_wrong_keys_are_job_file_errors(tmp_path, fields, message):
    pq.write_table(sample(10), tmp_path / "t.parquet")
    with pytest.raises(JobFileError, match=message):
        opened(tmp_path / "t.parquet", tmp_path, **fields)


def test_no_numeric_column(tmp_path):
    pq.write_table(pa.table({"s": ["a"], "y": [1]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"no numeric column .* s \(text\), y \(a whole number\)"):
        opened(tmp_path / "t.parquet", tmp_path, classes="y")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"x": [1.0]}, r"column 'y' is missing from .*b.parquet"),
        ({"x": [1.0], "y": ["1"]}, r"'y' is text in .*b.parquet, a whole number in earlier files"),
        ({"x": [1.0], "y": [1], "z": [1]}, r"column 'z' is in .*b.parquet, not in .*a.parquet"),
    ],
)
def test_files_that_differ(tmp_path, second, message):
    pq.write_table(pa.table({"x": [1.0], "y": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table(second), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=message):
        opened(tmp_path, tmp_path)
    assert opened(tmp_path, tmp_path, columns=["x"]).n_rows == 2


def test_number_types_may_differ_between_files_and_a_column_may_be_null_in_one(tmp_path):
    one = {"x": pa.array([1], pa.int32()), "y": pa.nulls(1), "k": pa.array([7], pa.int8())}
    two = {"x": [2.5], "y": ["u"], "k": pa.array([2**40], pa.int64())}
    three = {"x": [Decimal("1.5")], "y": pa.nulls(1), "k": pa.array([1], pa.uint16())}
    for name, data in (("a", one), ("b", two), ("c", three)):
        pq.write_table(pa.table(data), tmp_path / f"{name}.parquet")
    table = opened(tmp_path, tmp_path, id="k", classes="y")
    _, X, ids, labels = everything(table)
    np.testing.assert_array_equal(X, [[1], [2.5], [1.5]])
    assert ids == [7, 2**40, 1]
    assert labels == [None, "u", None]


def test_an_id_that_does_not_fit_its_common_type(tmp_path):
    pq.write_table(pa.table({"i": [2**53 + 1], "x": [1.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"i": [0.5], "x": [1.0]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match="9007199254740993"):
        everything(opened(tmp_path, tmp_path, id="i"))
