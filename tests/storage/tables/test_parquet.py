"""Parquet: folders that are columns, ranges across files, and damaged files."""

import datetime
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import DataError
from distsvc.storage.rows.blocks import Span
from distsvc.storage.tables.opening import notes_on_columns, read_blocks
from distsvc.storage.tables.parquet import Parquet
from tests.small_tables import everything, matrix, opened, sample


def test_a_large_row_group_is_read_in_slices(tmp_path, monkeypatch):
    data = sample(5000)
    pq.write_table(data, tmp_path / "t.parquet")
    table = opened(tmp_path / "t.parquet", tmp_path)
    sizes = []
    inner = Parquet.batches

    def spy(*args):
        for batch in inner(*args):
            sizes.append(len(batch["a"]))
            yield batch

    monkeypatch.setattr(Parquet, "batches", spy)
    _, X, _, _ = everything(table, 100, 4900, 1024)
    assert max(sizes) <= 1024
    np.testing.assert_array_equal(X, matrix(data.slice(100, 4800), table.columns))


def test_a_worker_opens_only_the_files_of_its_range(layouts, tmp_path):
    folder, data = layouts["several files"]
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    table = opened(tmp_path, tmp_path, columns=["a"])
    (tmp_path / "part-0.parquet").write_bytes(b"nothing to see")
    _, X, _, _ = everything(table, 121, 300)
    np.testing.assert_array_equal(X, matrix(data.slice(121), ["a"]))


def test_hive_folders_are_columns(tmp_path):
    for split, city, value in (("0", "Oslo", 1.0), ("1", "S%C3%A3o", 2.0), ("1", "Oslo", 3.0)):
        folder = tmp_path / "data" / f"split={split}" / f"city={city}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": [value, value + 0.5]}), folder / "part.parquet")
    path = tmp_path / "data"
    table = opened(path, tmp_path)
    assert (table.columns, table.left_out["split"]) == (("x",), "a partition key")
    table = opened(path, tmp_path, columns=["x", "split"], classes="city", where="split == 1")
    rows, X, _, labels = everything(table, block_rows=3)
    assert rows.tolist() == [2, 3, 4, 5]
    np.testing.assert_array_equal(X, [[3, 1], [3.5, 1], [2, 1], [2.5, 1]])
    assert labels == ["Oslo", "Oslo", "São", "São"]
    table = opened(path, tmp_path, columns=["split"], id="city", where="city != 'Oslo'")
    rows, X, ids, _ = everything(table)
    np.testing.assert_array_equal(X, [[1], [1]])
    assert ids == ["São", "São"]


def test_hive_values_may_be_fractions_or_missing(tmp_path):
    for value in ("0.5", "2", "__HIVE_DEFAULT_PARTITION__"):
        folder = tmp_path / "data" / f"k={value}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"s": ["t"]}), folder / "part.parquet")
    table = opened(tmp_path / "data", tmp_path, columns=["k"])
    np.testing.assert_array_equal(everything(table)[1].ravel(), [0.5, 2, np.nan])


def test_hive_keys_must_agree(tmp_path):
    for name in ("k=1/a.parquet", "b.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"x": [1]}), tmp_path / name)
    message = r"a.parquet has the keys \['k'\] in its folder names; expected \[\], as for .*b.p"
    with pytest.raises(DataError, match=message):
        opened(tmp_path, tmp_path)


def test_a_column_in_the_file_wins_over_its_folder(tmp_path):
    (tmp_path / "x=7").mkdir()
    pq.write_table(pa.table({"x": [1.5]}), tmp_path / "x=7" / "a.parquet")
    np.testing.assert_array_equal(everything(opened(tmp_path, tmp_path))[1], [[1.5]])


@pytest.mark.parametrize("keep", [0, 3, 100, -1, -20])
def test_a_truncated_file(tmp_path, keep):
    pq.write_table(sample(100), tmp_path / "good.parquet")
    content = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(content[:keep])
    with pytest.raises(DataError, match=r"can't read .*cut.parquet: "):
        opened(tmp_path, tmp_path)


def test_a_damaged_page_is_found_while_reading(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(sample(5000), path, row_group_size=1000, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 400] = bytes(400)
    path.write_bytes(content)
    table = opened(path, tmp_path)
    blocks = read_blocks(table, Span(0, 5000, 1000))
    next(blocks)
    with pytest.raises(DataError, match=r"can't read .*t.parquet: "):
        list(blocks)


def test_a_wide_table_is_not_asked_for_its_names_column_by_column(tmp_path, monkeypatch):
    """Each access makes all names again, so the time would grow with the square of the columns."""
    wide = {f"f{k}": [0.0, 1.0] for k in range(300)}
    pq.write_table(pa.table(wide), tmp_path / "t.parquet")
    table = opened(tmp_path / "t.parquet", tmp_path)
    asked = []
    inner = pq.ParquetFile.schema_arrow.fget
    monkeypatch.setattr(
        pq.ParquetFile, "schema_arrow", property(lambda file: asked.append(1) or inner(file))
    )
    assert everything(table)[1].shape == (2, 300)
    assert len(asked) < 10


def test_int96_reaches_beyond_the_years_of_nanoseconds(tmp_path):
    ends = [
        datetime.datetime(9999, 12, 31),
        datetime.datetime(2020, 1, 2),
        datetime.datetime(1500, 1, 1),
    ]
    data = pa.table({"x": [1.0, 2.0, 3.0], "end": pa.array(ends, pa.timestamp("us"))})
    pq.write_table(data, tmp_path / "t.parquet", use_deprecated_int96_timestamps=True)
    for where, kept in {
        "end > '2100-01-01'": [1],
        "end == '9999-12-31'": [1],
        "end < '1600-01-01'": [3],
    }.items():
        table = opened(tmp_path / "t.parquet", tmp_path, where=where)
        assert everything(table)[1].ravel().tolist() == kept


def test_views_of_lists_and_tensors_are_vectors(tmp_path):
    X = np.arange(12.0).reshape(6, 2)
    for name, array in {
        "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(X),
        "view": pa.array(X.tolist(), pa.list_view(pa.float64())),
        "large view": pa.array(X.tolist(), pa.large_list_view(pa.float64())),
    }.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"v": array}), path, row_group_size=4)
        table = opened(path, tmp_path)
        assert table.columns == ("v[0]", "v[1]")
        np.testing.assert_array_equal(everything(table)[1], X)


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([("lat", pa.float64()), ("lon", pa.float64())]),
        pa.struct([("type", pa.int8()), ("values", pa.list_(pa.float64()))]),
        pa.map_(pa.string(), pa.float64()),
        pa.list_(pa.list_(pa.float32())),
    ],
)
def test_numbers_inside_other_values_are_a_note(tmp_path, kind):
    pq.write_table(
        pa.table({"pos": pa.nulls(6, kind), "n": np.arange(6.0)}), tmp_path / "t.parquet"
    )
    table = opened(tmp_path / "t.parquet", tmp_path)
    (note,) = notes_on_columns(table)
    assert note.startswith("not used as features: 'pos' (numbers inside ")
    for name in "pos", "pos.lat":
        with pytest.raises(DataError, match=r"'pos.*write them as columns, or as one list"):
            opened(tmp_path / "t.parquet", tmp_path, columns=[name, "n"])


def test_a_bit_of_the_footer_does_not_end_the_process(tmp_path):
    data = pa.table(
        {"a": np.arange(100.0), "b": [f"n{k % 7}" for k in range(100)], "c": range(100)}
    )
    pq.write_table(data, tmp_path / "t.parquet", row_group_size=50)
    content = (tmp_path / "t.parquet").read_bytes()
    first = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    code = f"""
import sys
from pathlib import Path
from distsvc.errors import DistsvcError
from tests.small_tables import everything, opened
path = Path(sys.argv[1])
content = path.read_bytes()
for place, bit in [(18, 1), (20, 1), (26, 2), (28, 0), (42, 2), (58, 1), (220, 5), (347, 1)]:
    damaged = bytearray(content)
    damaged[{first} + place] ^= 1 << bit
    path.write_bytes(damaged)
    try:
        everything(opened(path, path.parent))
    except DistsvcError:
        pass
"""
    command = [sys.executable, "-c", code, str(tmp_path / "t.parquet")]
    assert subprocess.run(command, check=False).returncode == 0


@pytest.mark.parametrize("use", ["id", "classes", "where"])
def test_text_that_is_no_utf8_is_refused_where_it_is_used(tmp_path, use):
    words = pa.array([b"caf\xe9" if k % 7 == 0 else b"tea" for k in range(60)], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 60, words.buffers())
    pq.write_table(pa.table({"x": np.arange(60.0), "drink": text}), tmp_path / "t.parquet")
    assert opened(tmp_path / "t.parquet", tmp_path, columns=["x"]).columns == ("x",)
    assert "drink" in opened(tmp_path / "t.parquet", tmp_path).left_out
    given = {use: "drink == 'tea'" if use == "where" else "drink"}
    with pytest.raises(DataError, match=r"column 'drink': expected text as UTF-8"):
        opened(tmp_path / "t.parquet", tmp_path, columns=["x"], **given)
