"""Columns that are no features, by which reports compare clusters."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from distsvc.storage.rows.blocks import Span
from distsvc.storage.rows.columns import MAX_COMPARED_COLUMNS
from distsvc.storage.rows.features import Codes, Numeric
from distsvc.storage.tables.opening import read_blocks
from tests.small_tables import opened

N = 600


def table():
    k = np.arange(N)
    return pa.table(
        {
            "x": np.sin(k),
            "y": np.cos(7.0 * k),
            "plan": np.array(["basic", "pro", None])[k % 3],
            "children": k % 4,
            "news": k % 2 == 0,
            "name": [f"n{i}" for i in k],
            "same": ["a"] * N,
            "user_id": k * 7919 % 10007,
            "height": 170.0 + 10.0 * np.sin(3.0 * k),
            "day": pa.array(k.astype(np.int32)).cast(pa.date32()),
        }
    )


def compared(path, tmp_path, **fields):
    return {one.column: one for one in opened(path, tmp_path, **fields).compared}


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_few_values_are_shares_and_many_numbers_are_medians(name, tmp_path):
    write = pq.write_table if name == "t.parquet" else pyarrow.csv.write_csv
    write(table(), tmp_path / name)
    found = compared(tmp_path / name, tmp_path, columns=("x", "y"))
    shares = {name for name, one in found.items() if isinstance(one, Codes)}
    assert shares == {"plan", "children", "news"}
    assert found["children"].levels[:4] == ("0", "1", "2", "3")
    numbers = {name for name, one in found.items() if isinstance(one, Numeric)}
    assert numbers == ({"height"} if name == "t.parquet" else set())


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_blocks_include_compared_columns_on_request(name, tmp_path):
    write = pq.write_table if name == "t.parquet" else pyarrow.csv.write_csv
    write(table(), tmp_path / name)
    found = opened(tmp_path / name, tmp_path, exclude=("plan", "news"))
    place = [one.column for one in found.compared].index("plan")
    blocks = list(read_blocks(found, Span(0, N, 100, with_compared=True)))
    codes = np.concatenate([block.compared[:, place] for block in blocks])
    expected = np.array([0.0, 1.0, np.nan])[np.arange(N) % 3]
    np.testing.assert_array_equal(codes, expected)
    assert next(read_blocks(found, Span(0, N, 100))).compared is None


def test_text_that_is_no_utf8_is_left_out(tmp_path):
    words = pa.array([b"a", b"\xff"] * (N // 2), pa.binary()).view(pa.string())
    data = table().select(["x", "y"]).append_column("odd", words)
    pq.write_table(data, tmp_path / "t.parquet")
    assert compared(tmp_path / "t.parquet", tmp_path, columns=("x", "y")) == {}


def test_spellings_of_a_truth_value_are_one_level(tmp_path):
    words = np.array(["True", "false"])[np.arange(N) % 2]
    words[-2] = "TRUE"
    data = table().select(["x", "y"]).append_column("flag", pa.array(words))
    pq.write_table(data, tmp_path / "t.parquet")
    found = compared(tmp_path / "t.parquet", tmp_path, columns=("x", "y"))
    assert found["flag"].known == ("false", "true")


def test_there_are_not_too_many(tmp_path):
    more = {f"c{k}": np.arange(N) % (k + 2) for k in range(MAX_COMPARED_COLUMNS + 5)}
    pq.write_table(pa.table({"x": np.sin(np.arange(N)), **more}), tmp_path / "t.parquet")
    assert len(compared(tmp_path / "t.parquet", tmp_path, columns=("x",))) == MAX_COMPARED_COLUMNS
