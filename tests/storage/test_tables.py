"""Every kind of table gives the rows that a plain read gives, and every fault is named."""

import errno
import functools
import gzip
import http.server
import json
import os
import threading
from decimal import Decimal

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.config import InputConfig
from distsvc.errors import (
    DataError,
    InputNotFoundError,
    JobFileError,
    OutputPermissionError,
    TemporaryError,
)
from distsvc.storage.location import Location
from distsvc.storage.sources.parquet import Parquet
from distsvc.storage.tables import Table, fingerprint, open_table, read_blocks


def sample(n: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    missing = rng.random(n) < 0.1
    return pa.table(
        {
            "row_id": pa.array([f"id-{seed}-{i}" for i in range(n)], pa.string()),
            "a": pa.array(rng.normal(size=n).astype(np.float32)),
            "b": pa.array(rng.normal(size=n), mask=missing),
            "c": pa.array(rng.integers(-5, 5, n), pa.int16()),
            "flag": pa.array(rng.random(n) < 0.5),
            "label": pa.array(["xy"[i % 2] for i in range(n)], pa.string()).dictionary_encode(),
            "split": pa.array(rng.integers(0, 3, n), pa.int8()),
        }
    )


def opened(path, tmp_path, **fields) -> Table:
    return open_table(InputConfig(path=str(path), **fields), tmp_path / "staging")


def everything(table, start=0, stop=None, block_rows=1000):
    """All blocks as (rows, X, ids, labels), each in one piece."""
    stop = table.n_rows if stop is None else stop
    blocks = list(read_blocks(table, start, stop, block_rows, with_ids=True, with_labels=True))
    for block in blocks:
        assert 0 < len(block.rows) <= block_rows
        assert block.rows.dtype == np.int64
        assert block.X.dtype == np.float64
        assert block.X.flags.c_contiguous
        assert block.X.shape == (len(block.rows), len(table.columns))
    rows = np.concatenate([np.empty(0, np.int64), *(block.rows for block in blocks)])
    X = np.concatenate([np.empty((0, len(table.columns))), *(block.X for block in blocks)])
    ids = [value for block in blocks for value in (block.ids or pa.nulls(0)).to_pylist()]
    labels = [value for block in blocks for value in (block.labels or pa.nulls(0)).to_pylist()]
    return rows, X, ids, labels


def matrix(data: pa.Table, columns) -> np.ndarray:
    return np.column_stack(
        [data[name].cast(pa.float64()).to_numpy(zero_copy_only=False) for name in columns]
    )


def write_zarr_group(path, columns, chunks=4, attributes=None):
    zarr.open_group(path, mode="w", attributes=attributes)
    for name, values in columns.items():
        zarr.create_array(path / name, data=np.asarray(values), chunks=(chunks,))


# --- the same rows, however the table is laid out and the range is cut -------------------------

LAYOUTS = {
    "tiny row groups": [(300, 7)],
    "one row group": [(300, 1000)],
    "several files": [(120, 50), (0, 10), (1, 1), (179, 33)],
}


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    """Folders of the layouts above, each with the whole table as one read gives it."""
    made = {}
    for name, parts in LAYOUTS.items():
        folder = tmp_path_factory.mktemp("layout")
        tables = [sample(n, seed) for seed, (n, _) in enumerate(parts)]
        for i, (data, (_, group)) in enumerate(zip(tables, parts, strict=True)):
            pq.write_table(data, folder / f"part-{i}.parquet", row_group_size=group)
        made[name] = (folder, pa.concat_tables([t.unify_dictionaries() for t in tables]))
    return made


@pytest.mark.parametrize("where", [None, "split == 1 and (flag == true or not b > 0)"])
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=40, deadline=None)
@given(cut=st.tuples(st.integers(0, 300), st.integers(0, 300)), block_rows=st.integers(1, 400))
def test_blocks_hold_the_rows_of_the_range(layouts, layout, where, cut, block_rows):
    folder, data = layouts[layout]
    start, stop = min(cut), max(cut)
    table = opened(folder, folder, id="row_id", label="label", where=where, columns=["c", "a", "b"])
    rows, X, ids, labels = everything(table, start, stop, block_rows)

    expected = data.append_column("row", pa.array(np.arange(300))).slice(start, stop - start)
    expected = expected.combine_chunks()  # or_kleene of pyarrow 17 mixes up chunks
    if where is not None:
        positive = pc.greater(expected["b"], 0)
        kept = pc.and_kleene(
            pc.equal(expected["split"], 1), pc.or_kleene(expected["flag"], pc.invert(positive))
        )
        expected = expected.filter(kept)
    np.testing.assert_array_equal(rows, expected["row"].to_numpy())
    np.testing.assert_array_equal(X, matrix(expected, ["c", "a", "b"]))
    assert ids == expected["row_id"].to_pylist()
    assert labels == expected["label"].to_pylist()


def test_blocks_without_where_are_full(layouts):
    folder, _ = layouts["tiny row groups"]
    table = opened(folder, folder)
    sizes = [len(block.rows) for block in read_blocks(table, 5, 300, 100)]
    assert sizes == [100, 100, 95]


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


@pytest.mark.parametrize(
    ("start", "stop", "block_rows", "message"),
    [
        (-1, 5, 10, r"rows \[-1, 5\) are not within the table's 300 rows"),
        (0, 301, 10, r"rows \[0, 301\)"),
        (7, 6, 10, r"rows \[7, 6\)"),
        (0, 5, 0, "block_rows must be at least 1, found 0"),
    ],
)
def test_bad_ranges(layouts, start, stop, block_rows, message):
    folder, _ = layouts["one row group"]
    table = opened(folder, folder)
    with pytest.raises(ValueError, match=message):
        read_blocks(table, start, stop, block_rows)


def test_ids_and_labels_only_when_asked(layouts):
    folder, _ = layouts["one row group"]
    table = opened(folder, folder, id="row_id", label="label")
    (block,) = read_blocks(table, 0, 300, 300)
    assert block.ids is None
    assert block.labels is None
    (block,) = read_blocks(table, 0, 300, 300, with_labels=True)
    assert block.ids is None
    assert block.labels.type == pa.string()


def test_a_table_without_id_or_label_has_none(layouts):
    folder, _ = layouts["one row group"]
    (block,) = read_blocks(opened(folder, folder), 0, 300, 300, with_ids=True, with_labels=True)
    assert block.ids is None
    assert block.labels is None


# --- what a table knows about itself ------------------------------------------------------------


def test_extents_sizes_and_json(layouts):
    folder, _ = layouts["several files"]
    table = opened(folder, folder, id="row_id", label="label", where="split != 0")
    assert table.extents == (50, 50, 20, 1, 33, 33, 33, 33, 33, 14)
    assert table.n_rows == 300
    assert table.columns == ("a", "b", "c", "flag")
    assert table.nbytes == 300 * 4 * 8
    assert table.format == "parquet"
    again = Table.from_dict(json.loads(json.dumps(table.to_dict())))
    assert again == table
    np.testing.assert_array_equal(everything(again)[1], everything(table)[1])


def test_a_worker_opens_only_the_files_of_its_range(layouts, tmp_path):
    folder, data = layouts["several files"]
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    table = opened(tmp_path, tmp_path, columns=["a"])
    (tmp_path / "part-0.parquet").write_bytes(b"nothing to see")
    _, X, _, _ = everything(table, 121, 300)
    np.testing.assert_array_equal(X, matrix(data.slice(121), ["a"]))


def test_a_relative_path_is_found_from_another_folder(tmp_path, monkeypatch):
    pq.write_table(sample(10), tmp_path / "t.parquet")
    monkeypatch.chdir(tmp_path)
    table = opened("t.parquet", tmp_path)
    monkeypatch.chdir("/")
    assert table.path == str(tmp_path / "t.parquet")
    assert len(everything(table)[0]) == 10


def test_fingerprint_follows_the_files(tmp_path):
    path = tmp_path / "data" / "t.parquet"
    path.parent.mkdir()
    pq.write_table(sample(10), path)
    table = opened(path, tmp_path)
    first = fingerprint(table)
    assert len(first) == 64
    assert fingerprint(opened(path, tmp_path)) == first
    assert fingerprint(opened(path.parent, tmp_path)) == first
    assert fingerprint(opened(path, tmp_path, columns=["a"])) != first
    os.utime(path, (1, 1))
    assert fingerprint(table) != first


def test_fingerprint_of_a_folder_sees_a_new_file(tmp_path):
    pq.write_table(sample(10), tmp_path / "one.parquet")
    table = opened(tmp_path, tmp_path)
    first = fingerprint(table)
    pq.write_table(sample(10), tmp_path / "two.parquet")
    assert fingerprint(table) != first


def test_fingerprint_of_zarr_sees_a_new_chunk(tmp_path):
    array = zarr.create_array(tmp_path / "z.zarr", shape=(8,), chunks=(4,), dtype="f8")
    array[:4] = 1
    table = opened(tmp_path / "z.zarr", tmp_path)
    first = fingerprint(table)
    array[4:] = 1
    assert fingerprint(table) != first


# --- which columns become features ---------------------------------------------------------------


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
            "list": [[1], [2]],
            "day": pa.array([1, 2], pa.date32()),
            "null": pa.nulls(2),
            "__index_level_0__": [5, 6],
        }
    )
    pq.write_table(data, tmp_path / "t.parquet")
    table = opened(tmp_path / "t.parquet", tmp_path)
    assert table.columns == ("dec", "half", "yes", "big", "ubig", "coded", "nan", "inf")
    nan, inf = np.nan, np.inf
    expected = [
        [1.25, 0.5, 1, 2**53, 2**64, 3, nan, inf],
        [nan, 1.5, nan, 2**63, nan, 4, nan, -inf],
    ]
    np.testing.assert_array_equal(everything(table)[1], np.array(expected, float))


def test_columns_of_where_label_and_id_are_no_features_unless_named(tmp_path):
    pq.write_table(pa.table({"i": [1], "y": [2], "split": [3], "x": [4]}), tmp_path / "t.parquet")
    names = {"id": "i", "label": "y", "where": "split == 3"}
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
        ({"columns": ["row_id"]}, r"column 'row_id' of .* is string, expected a numeric"),
        ({"columns": ["label"]}, r"column 'label' of .* is string, expected a numeric"),
        ({"id": "rowid"}, r"input.id: .*no column 'rowid'; did you mean 'row_id'\?"),
        ({"label": "labels"}, r"input.label: .*did you mean 'label'\?"),
        ({"where": "splt == 1"}, r"input.where: .*no column 'splt'; did you mean 'split'\?"),
        ({"where": "row_id == 1"}, r"input.where compares column 'row_id' \(string\) with 1"),
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
def test_a_wrong_job_is_told(tmp_path, fields, message):
    pq.write_table(sample(10), tmp_path / "t.parquet")
    with pytest.raises(JobFileError, match=message):
        opened(tmp_path / "t.parquet", tmp_path, **fields)


def test_no_numeric_column(tmp_path):
    pq.write_table(pa.table({"s": ["a"], "y": [1]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"no numeric column .* found s \(string\), y \(int64\)"):
        opened(tmp_path / "t.parquet", tmp_path, label="y")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"x": [1.0]}, r"column 'y' is missing from .*b.parquet"),
        ({"x": [1.0], "y": ["1"]}, r"column 'y' is string in .*b.parquet, int64 before it"),
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
    table = opened(tmp_path, tmp_path, id="k", label="y")
    _, X, ids, labels = everything(table)
    np.testing.assert_array_equal(X, [[1], [2.5], [1.5]])
    assert ids == [7, 2**40, 1]
    assert labels == [None, "u", None]


def test_two_columns_of_one_name(tmp_path):
    data = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    pq.write_table(data, tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t.parquet has two columns named 'x'"):
        opened(tmp_path / "t.parquet", tmp_path)


# --- finding files -------------------------------------------------------------------------------


def test_a_folder_is_read_recursively_in_the_order_of_names(tmp_path):
    folder = tmp_path / "data"
    for name, value in (("b/2.parquet", 2), ("b/1.parquet", 1), ("a.parquet", 0)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [value]}), folder / name)
    for name in ("_SUCCESS", ".a.parquet.crc", "_temporary/x.parquet", "README.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("not a table")
    table = opened(folder, tmp_path)
    np.testing.assert_array_equal(everything(table)[1].ravel(), [0, 1, 2])


def test_a_glob_chooses_files_and_folders(tmp_path):
    for name, value in (("p=1/x.parquet", 1), ("p=2/x.parquet", 2), ("q/x.parquet", 3)):
        (tmp_path / name).parent.mkdir()
        pq.write_table(pa.table({"x": [value]}), tmp_path / name)
    table = opened(tmp_path / "p=*", tmp_path)
    assert table.columns == ("p", "x")
    np.testing.assert_array_equal(everything(table)[1], [[1, 1], [2, 2]])
    table = opened(tmp_path / "q" / "*.parquet", tmp_path)
    np.testing.assert_array_equal(everything(table)[1], [[3]])


def test_files_without_a_suffix_are_parquet(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    pq.write_table(sample(3), folder / "000000_0")
    assert opened(folder, tmp_path).n_rows == 3


@pytest.mark.parametrize(
    "name", ["nothing.parquet", "nothing", "nothing.csv", "nothing.zarr", "no*.parquet", "empty"]
)
def test_nothing_there(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputNotFoundError, match=name.replace("*", r"\*")):
        opened(tmp_path / name, tmp_path)


def test_csv_and_parquet_do_not_mix(tmp_path):
    pq.write_table(sample(3), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("a\n1\n")
    with pytest.raises(DataError, match=r"mixes CSV \(b.csv\) and Parquet \(a.parquet\)"):
        opened(tmp_path, tmp_path)
    assert opened(tmp_path / "*.csv", tmp_path).n_rows == 1


def test_an_unknown_protocol(tmp_path):
    with pytest.raises(JobFileError, match=r"can't open gopher9://x"):
        opened("gopher9://x/t.parquet", tmp_path)


def test_messages_do_not_tell_passwords():
    assert Location.of("http://me:secret@host/a.csv?sig=abc").shown == "http://host/a.csv"
    assert Location.of("/a b/c?.csv").shown == "/a b/c?.csv"


# --- Hive partitions -----------------------------------------------------------------------------


def test_hive_folders_are_columns(tmp_path):
    for split, city, value in (("0", "Oslo", 1.0), ("1", "S%C3%A3o", 2.0), ("1", "Oslo", 3.0)):
        folder = tmp_path / "data" / f"split={split}" / f"city={city}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": [value, value + 0.5]}), folder / "part.parquet")
    path = tmp_path / "data"
    assert opened(path, tmp_path).columns == ("split", "x")
    table = opened(path, tmp_path, columns=["x", "split"], label="city", where="split == 1")
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
    table = opened(tmp_path / "data", tmp_path)
    assert table.columns == ("k",)
    np.testing.assert_array_equal(everything(table)[1].ravel(), [0.5, 2, np.nan])


def test_hive_keys_must_agree(tmp_path):
    for name in ("k=1/a.parquet", "b.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"x": [1]}), tmp_path / name)
    message = r"k=1/a.parquet lies in folders for \['k'\], .*b.parquet in folders for \[\]"
    with pytest.raises(DataError, match=message):
        opened(tmp_path, tmp_path)


def test_a_column_in_the_file_wins_over_its_folder(tmp_path):
    (tmp_path / "x=7").mkdir()
    pq.write_table(pa.table({"x": [1.5]}), tmp_path / "x=7" / "a.parquet")
    np.testing.assert_array_equal(everything(opened(tmp_path, tmp_path))[1], [[1.5]])


# --- damaged Parquet -----------------------------------------------------------------------------


def test_an_empty_table(tmp_path):
    pq.write_table(sample(0), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t.parquet has no rows"):
        opened(tmp_path / "t.parquet", tmp_path)


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
    blocks = read_blocks(table, 0, 5000, 1000)
    next(blocks)
    with pytest.raises(DataError, match=r"can't read .*t.parquet: "):
        list(blocks)


def test_a_file_that_changed_since_it_was_opened(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(sample(20), path)
    table = opened(path, tmp_path)
    pq.write_table(sample(19), path)
    with pytest.raises(DataError, match=r"t.parquet has 19 rows, 20 when the table was opened"):
        everything(table)
    path.unlink()
    with pytest.raises(DataError, match=r"t.parquet has gone"):
        everything(table)


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (PermissionError(errno.EACCES, "no"), DataError, r"no permission to read .*t.parquet"),
        (ConnectionResetError(), TemporaryError, r"can't reach .*t.parquet"),
        (OSError(errno.EIO, "disk"), TemporaryError, r"can't reach .*t.parquet"),
    ],
)
def test_a_file_that_can_not_be_reached(tmp_path, monkeypatch, error, expected, message):
    pq.write_table(sample(5), tmp_path / "t.parquet")
    table = opened(tmp_path / "t.parquet", tmp_path)

    def fail(*_args, **_kwargs):
        raise error

    monkeypatch.setattr(pa, "OSFile", fail)
    with pytest.raises(expected, match=message):
        opened(tmp_path / "t.parquet", tmp_path)
    with pytest.raises(expected, match=message):
        everything(table)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_listed(tmp_path):
    (tmp_path / "open").mkdir()
    pq.write_table(sample(5), tmp_path / "open" / "t.parquet")
    (tmp_path / "shut").mkdir(mode=0)
    with pytest.raises(DataError, match="no permission to read"):
        opened(tmp_path, tmp_path)


def test_an_unlistable_folder_is_not_passed_over(tmp_path, monkeypatch):
    pq.write_table(sample(5), tmp_path / "t.parquet")
    (tmp_path / "shut").mkdir()
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("shut"):
            raise PermissionError(errno.EACCES, "no", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match="no permission to read"):
        opened(tmp_path, tmp_path)


def test_links_are_followed(tmp_path):
    for name in ("elsewhere", "data"):
        (tmp_path / name).mkdir()
    pq.write_table(sample(5), tmp_path / "elsewhere" / "t.parquet")
    (tmp_path / "data" / "folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data" / "file.parquet").symlink_to(tmp_path / "elsewhere" / "t.parquet")
    assert opened(tmp_path / "data", tmp_path).n_rows == 10


def test_an_id_that_does_not_fit_its_common_type(tmp_path):
    pq.write_table(pa.table({"i": [2**53 + 1], "x": [1.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"i": [0.5], "x": [1.0]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match="9007199254740993"):
        everything(opened(tmp_path, tmp_path, id="i"))


# --- other file systems --------------------------------------------------------------------------


@pytest.fixture
def memory():
    fs = fsspec.filesystem("memory")
    yield fs
    for path in fs.find("/"):
        fs.rm(path)


def test_memory_and_file_urls(tmp_path, memory):
    data = sample(100)
    pq.write_table(data, tmp_path / "a.parquet", row_group_size=30)
    memory.pipe("/data/k=1/a.parquet", (tmp_path / "a.parquet").read_bytes())
    memory.pipe("/data/k=1/_SUCCESS", b"")
    local = opened(f"file://{tmp_path}/a.parquet", tmp_path)
    assert local.path == str(tmp_path / "a.parquet")
    expected = matrix(data, ["a", "b", "c", "flag", "split"])
    np.testing.assert_array_equal(everything(local)[1], expected)
    for path in ("memory://data", "memory://data/*/*.parquet", "memory://data/k=1/a.parquet"):
        table = opened(path, tmp_path, columns=["a", "b", "c", "flag", "split"])
        assert table.extents == (30, 30, 30, 10)
        np.testing.assert_array_equal(everything(table, block_rows=17)[1], expected)
        assert fingerprint(table) == fingerprint(table)
    with pytest.raises(InputNotFoundError, match=r"memory://nowhere.parquet"):
        opened("memory://nowhere.parquet", tmp_path)


def test_memory_csv_and_zarr(tmp_path, memory):
    memory.pipe("/t.csv.gz", gzip.compress(b"x,y\n1,2\n3,4\n"))
    table = opened("memory://t.csv.gz", tmp_path)
    np.testing.assert_array_equal(everything(table)[1], [[1, 2], [3, 4]])
    assert table.source == "memory://t.csv.gz"
    first = fingerprint(table)
    memory.pipe("/t.csv.gz", gzip.compress(b"x,y\n1,2\n3,5\n"))
    assert fingerprint(table) != first

    pytest.importorskip("fsspec.implementations.asyn_wrapper")  # fsspec 2024.12
    store = zarr.storage.FsspecStore.from_url("memory://z.zarr")
    zarr.create_array(store, data=np.arange(20.0).reshape(10, 2), chunks=(4, 2))
    table = opened("memory://z.zarr", tmp_path)
    assert table.extents == (4, 4, 2)
    np.testing.assert_array_equal(everything(table)[1], np.arange(20).reshape(10, 2))
    assert fingerprint(table) == fingerprint(table)


class RangeHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; honours ``Range``, as every real store does."""

    ranges = "bytes"

    def log_message(self, *_args):
        pass

    def do_GET(self):
        path = self.translate_path(self.path)
        if not os.path.isfile(path):
            self.send_error(404)
            return
        with open(path, "rb") as file:
            content = file.read()
        first, last, status = 0, len(content) - 1, 200
        if "Range" in self.headers and self.ranges == "bytes":
            ends = self.headers["Range"].removeprefix("bytes=").split("-")
            first, last, status = int(ends[0]), min(int(ends[1] or last), last), 206
        self.send_response(status)
        self.send_header("Accept-Ranges", self.ranges)
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[first : last + 1])

    do_HEAD = do_GET  # noqa: N815


@pytest.fixture
def http_folder(tmp_path):
    pytest.importorskip("aiohttp")
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(RangeHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_http(tmp_path, http_folder):
    folder, url = http_folder
    data = sample(100)
    pq.write_table(data, folder / "t.parquet", row_group_size=30)
    (folder / "t.csv").write_text("x\n1\n")
    zarr.create_array(folder / "z.zarr", data=np.arange(10.0), chunks=(4,))
    table = opened(f"{url}/t.parquet?token=secret", tmp_path, columns=["a", "b"])
    np.testing.assert_array_equal(everything(table)[1], matrix(data, ["a", "b"]))
    assert len(fingerprint(table)) == 64
    np.testing.assert_array_equal(everything(opened(f"{url}/t.csv", tmp_path))[1], [[1]])
    X = everything(opened(f"{url}/z.zarr", tmp_path))[1]
    np.testing.assert_array_equal(X.ravel(), np.arange(10))
    with pytest.raises(InputNotFoundError, match=r"nothing.parquet"):
        opened(f"{url}/nothing.parquet", tmp_path)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.zarr"])
def test_an_http_server_that_is_down(tmp_path, name):
    pytest.importorskip("aiohttp")
    with pytest.raises(TemporaryError, match=r"can't reach http://127.0.0.1:9/t"):
        opened(f"http://127.0.0.1:9/{name}", tmp_path)


def test_an_http_server_that_sends_whole_files_only(tmp_path, http_folder, monkeypatch):
    folder, url = http_folder
    pq.write_table(sample(10), folder / "t.parquet")
    monkeypatch.setattr(RangeHandler, "ranges", "none")
    with pytest.raises(DataError, match=r"can't read http://.*t.parquet: "):
        opened(f"{url}/t.parquet", tmp_path)


# --- Zarr ----------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    cut=st.tuples(st.integers(0, 100), st.integers(0, 100)),
    block_rows=st.integers(1, 120),
    wanted=st.lists(st.sampled_from(["f0", "f1", "f2"]), min_size=1, unique=True),
)
def test_a_sharded_zarr_array(tmp_path_factory, cut, block_rows, wanted):
    path = tmp_path_factory.getbasetemp() / "sharded.zarr"
    values = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    values[7, 1] = np.nan
    if not path.exists():
        # Not data=values: that writes chunk by chunk, and zarr 3.0.8 then damages shards.
        array = zarr.create_array(path, shape=(100, 3), dtype="f4", chunks=(8, 2), shards=(32, 4))
        array[:] = values
    table = opened(path, path.parent, columns=wanted)
    assert table.extents == (32, 32, 32, 4)
    assert table.format == "zarr"
    rows, X, _, _ = everything(table, min(cut), max(cut), block_rows)
    np.testing.assert_array_equal(rows, np.arange(min(cut), max(cut)))
    expected = values[min(cut) : max(cut), [int(name[1]) for name in wanted]]
    np.testing.assert_array_equal(X, expected.astype(np.float64))


@pytest.mark.parametrize("dtype", ["f4", ">f8", "i2", "bool", "u8", "f2"])
def test_zarr_arrays_of_every_number(tmp_path, dtype):
    values = np.array([0, 1, 1, 0, 1]).astype(dtype)
    # Format 3 keeps the byte order apart from the dtype, format 2 in it.
    zarr.create_array(tmp_path / "a.zarr", data=values, chunks=(2,), zarr_format=2)
    table = opened(tmp_path / "a.zarr", tmp_path)
    assert table.columns == ("f0",)
    assert table.extents == (2, 2, 1)
    np.testing.assert_array_equal(everything(table)[1], values.astype(float)[:, None])


def test_a_zarr_folder_without_the_suffix_and_an_old_format(tmp_path):
    values = np.arange(6.0).reshape(3, 2)
    zarr.create_array(tmp_path / "new", data=values)
    zarr.create_array(tmp_path / "old", data=values, zarr_format=2)
    for name in ("new", "old"):
        np.testing.assert_array_equal(everything(opened(tmp_path / name, tmp_path))[1], values)


@pytest.mark.filterwarnings("ignore:The (codec|dtype) ")  # zarr 3.0
def test_a_zarr_group(tmp_path):
    columns = {
        "y": np.arange(10) % 2,
        "b": np.linspace(0, 1, 10),
        "a": np.arange(10, dtype="f4"),
        "keep": np.arange(10) < 7,
    }
    path = tmp_path / "g.zarr"
    write_zarr_group(path, columns)
    names = zarr.create_array(path / "name", shape=(10,), chunks=(10,), dtype=str)
    names[:] = np.array([f"n{i}" for i in range(10)], dtype=object)
    zarr.open_group(path / "inner", mode="w")
    assert opened(path, tmp_path).columns == ("a", "b", "keep", "y")
    table = opened(path, tmp_path, id="name", label="y", where="keep == true and name != 'n2'")
    assert table.columns == ("a", "b")
    assert table.extents == (10,)
    rows, X, ids, labels = everything(table, 1, 9, 3)
    assert rows.tolist() == [1, 3, 4, 5, 6]
    np.testing.assert_array_equal(X, np.column_stack([columns["a"], columns["b"]])[rows])
    assert ids == ["n1", "n3", "n4", "n5", "n6"]
    assert labels == [1, 1, 0, 1, 0]
    with pytest.raises(DataError, match=r"column 'name' of .*g.zarr is an array of dtype"):
        opened(path, tmp_path, columns=["name"])


def test_a_zarr_group_that_lists_its_columns(tmp_path):
    columns = {name: np.arange(5) for name in "abc"}
    write_zarr_group(tmp_path / "g.zarr", columns, attributes={"columns": ["c", "a"]})
    table = opened(tmp_path / "g.zarr", tmp_path)
    assert table.columns == ("c", "a")
    assert table.extents == (4, 1)
    assert opened(tmp_path / "g.zarr", tmp_path, columns=["b"]).columns == ("b",)


@pytest.mark.parametrize(
    ("listed", "message"),
    [(["a", "q"], "names 'q', which is not there"), ("a", "must be a list of names, found 'a'")],
)
def test_a_zarr_group_that_lists_them_wrongly(tmp_path, listed, message):
    write_zarr_group(tmp_path / "g.zarr", {"a": [1]}, attributes={"columns": listed})
    with pytest.raises(DataError, match=message):
        opened(tmp_path / "g.zarr", tmp_path)


def test_zarr_shapes_that_are_no_table(tmp_path):
    zarr.create_array(tmp_path / "cube.zarr", data=np.zeros((2, 2, 2)))
    with pytest.raises(DataError, match=r"cube.zarr has 3 dimensions, expected 1 or 2"):
        opened(tmp_path / "cube.zarr", tmp_path)
    write_zarr_group(tmp_path / "wide.zarr", {"a": np.zeros(4)})
    zarr.create_array(tmp_path / "wide.zarr" / "m", data=np.zeros((4, 2)))
    with pytest.raises(DataError, match=r"array 'm' of .*wide.zarr has 2 dimensions, expected 1"):
        opened(tmp_path / "wide.zarr", tmp_path)
    write_zarr_group(tmp_path / "uneven.zarr", {"a": np.zeros(4), "b": np.zeros(3)})
    with pytest.raises(DataError, match=r"array 'b' of .* has 3 rows, 'a' has 4"):
        opened(tmp_path / "uneven.zarr", tmp_path)
    zarr.create_array(tmp_path / "none.zarr", shape=(0, 2), dtype="f8", chunks=(1, 2))
    with pytest.raises(DataError, match=r"none.zarr has no rows"):
        opened(tmp_path / "none.zarr", tmp_path)
    zarr.open_group(tmp_path / "bare.zarr", mode="w")
    with pytest.raises(DataError, match=r"bare.zarr is a group without arrays"):
        opened(tmp_path / "bare.zarr", tmp_path)


@pytest.mark.parametrize("fields", [{"id": "f0"}, {"label": "f0"}, {"where": "f0 > 1"}])
def test_a_lone_array_has_no_other_columns(tmp_path, fields):
    zarr.create_array(tmp_path / "a.zarr", data=np.zeros((4, 2)))
    with pytest.raises(DataError, match=r"a.zarr is a lone array; .* need a Zarr group .*here f0"):
        opened(tmp_path / "a.zarr", tmp_path, **fields)
    with pytest.raises(DataError, match=r"no column 'f7'; did you mean|available: f0, f1"):
        opened(tmp_path / "a.zarr", tmp_path, columns=["f7"])


def test_zarr_of_complex_numbers(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=np.zeros(4, complex))
    with pytest.raises(DataError, match=r"no numeric column .* array of dtype complex128"):
        opened(tmp_path / "a.zarr", tmp_path)
    with pytest.raises(DataError, match=r"column 'f0' of .* is an array of dtype complex128"):
        opened(tmp_path / "a.zarr", tmp_path, columns=["f0"])


def test_zarr_objects(tmp_path):
    path = tmp_path / "g.zarr"
    zarr.open_group(path, mode="w", zarr_format=2)
    zarr.create_array(path / "x", data=np.arange(4.0), zarr_format=2)
    (path / "odd").mkdir()
    metadata = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|O", "order": "C"}
    metadata |= {"compressor": None, "fill_value": None, "filters": [{"id": "pickle"}]}
    (path / "odd" / ".zarray").write_text(json.dumps(metadata))
    assert opened(path, tmp_path).columns == ("x",)
    with pytest.raises(
        DataError, match=r"'odd' of .*g.zarr (can't be read: .*\|O|is .* dtype object)"
    ):
        opened(path, tmp_path, columns=["odd"])


def test_damaged_zarr(tmp_path):
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=np.random.default_rng(0).normal(size=20), chunks=(10,))
    table = opened(path, tmp_path)
    (path / "c" / "1").write_bytes(b"damaged")
    assert len(everything(table, 0, 10)[0]) == 10
    with pytest.raises(DataError, match=r"can't read .*a.zarr: "):
        everything(table)
    (path / "zarr.json").write_text("{")
    with pytest.raises(DataError, match=r"can't read .*a.zarr: "):
        opened(path, tmp_path)
    (path / "zarr.json").unlink()
    with pytest.raises(DataError, match=r"a.zarr is not Zarr: it holds no zarr.json"):
        opened(path, tmp_path)


def test_zarr_that_changed_since_it_was_opened(tmp_path):
    array = zarr.create_array(tmp_path / "a.zarr", shape=(20,), chunks=(10,), dtype="f8")
    table = opened(tmp_path / "a.zarr", tmp_path)
    array.resize((30,))
    with pytest.raises(DataError, match=r"a.zarr has 30 rows, 20 when the table was opened"):
        everything(table)


# --- CSV -----------------------------------------------------------------------------------------


def test_csv_with_quotes_newlines_and_missing_values(tmp_path):
    text = 'id,x,note,ok,y\n007,1,"a, ""b""\nc",true,2\n008,,"",false,NA\n009,2.5,NA,true,nan\n'
    (tmp_path / "t.csv").write_text(text)
    table = opened(tmp_path / "t.csv", tmp_path, id="id", label="note")
    assert table.columns == ("x", "ok", "y")
    assert table.format == "parquet"
    assert table.path.startswith(str(tmp_path / "staging"))
    assert table.source == str(tmp_path / "t.csv")
    rows, X, ids, labels = everything(table)
    nan = np.nan
    np.testing.assert_array_equal(X, [[1, 1, 2], [nan, 0, nan], [2.5, 1, nan]])
    assert ids == [7, 8, 9]
    assert labels == ['a, "b"\nc', "", "NA"]
    assert rows.tolist() == [0, 1, 2]


def test_several_csv_files_packed_or_not(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "b.csv").write_text("x,y\n3,\n")
    (folder / "a.csv.gz").write_bytes(gzip.compress(b"x,y\n1,u\n") + gzip.compress(b"2,v\n"))
    (folder / "notes.txt").write_text("skipped")
    table = opened(folder, tmp_path, label="y")
    _, X, _, labels = everything(table)
    np.testing.assert_array_equal(X.ravel(), [1, 2, 3])
    assert labels[:2] == ["u", "v"]
    np.testing.assert_array_equal(everything(opened(folder / "a*", tmp_path))[1].ravel(), [1, 2])


def test_csv_row_groups_and_a_fraction_that_comes_late(tmp_path, monkeypatch):
    monkeypatch.setattr("distsvc.storage.sources.csv._BLOCK_BYTES", 1 << 12)
    n = 600_000
    lines = "\n".join(f"{i},1" for i in range(n))
    (tmp_path / "t.csv").write_text(f"i,x\n{lines}\n{n},0.25\n")
    table = opened(tmp_path / "t.csv", tmp_path, id="i")
    assert table.extents == (262_144, 262_144, n + 1 - 2 * 262_144)
    rows, X, ids, _ = everything(table, n - 5, n + 1)
    assert ids == list(rows)
    assert X.ravel().tolist() == [1] * 5 + [0.25]


def test_csv_is_converted_once(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("x\n1\n")
    table = opened(path, tmp_path)
    monkeypatch.setattr("pyarrow.csv.open_csv", None)
    assert opened(path, tmp_path) == table
    monkeypatch.undo()
    path.write_text("x\n1\n2\n")
    assert opened(path, tmp_path).n_rows == 2
    assert sorted(p.suffix for p in (tmp_path / "staging").iterdir()) == [".parquet", ".parquet"]


def test_fingerprint_of_csv_is_that_of_the_csv(tmp_path):
    (tmp_path / "t.csv").write_text("x\n1\n")
    one = open_table(InputConfig(path=str(tmp_path / "t.csv")), tmp_path / "one")
    two = open_table(InputConfig(path=str(tmp_path / "t.csv")), tmp_path / "two")
    assert one.path != two.path
    first = fingerprint(one)
    assert fingerprint(two) == first
    os.utime(tmp_path / "t.csv", (1, 1))
    changed = fingerprint(one)
    assert changed != first
    os.utime(one.path, (1, 1))
    assert fingerprint(one) == changed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"can't read .*t.csv: .*[Ee]mpty"),
        (b"x,y\n", r"t.csv has no rows"),
        (b"x,y\n1,2\n1,2,3\n", r"can't read .*t.csv: .*Expected 2 columns, got 3"),
        (b"x,x\n1,2\n", r"t.csv has two columns named 'x'"),
        (b"1,2\n3,4\n", r"t.csv has no header: its first line is \[1.0, 2.0\]"),
        (b"x,y\n1,\xff\xfe\n", r"t.csv"),
    ],
)
def test_a_bad_csv(tmp_path, content, message):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        opened(tmp_path / "t.csv", tmp_path, columns=["y"])


def test_a_csv_type_that_changes_later(tmp_path, monkeypatch):
    monkeypatch.setattr("distsvc.storage.sources.csv._BLOCK_BYTES", 64)
    (tmp_path / "t.csv").write_text("x\n" + "1\n" * 100 + "oops\n")
    with pytest.raises(DataError, match=r"can't read .*t.csv: .*double: invalid value 'oops'"):
        opened(tmp_path / "t.csv", tmp_path)
    assert list((tmp_path / "staging").iterdir()) == []


def test_a_csv_feature_may_begin_empty(tmp_path, monkeypatch):
    monkeypatch.setattr("distsvc.storage.sources.csv._BLOCK_BYTES", 64)
    (tmp_path / "t.csv").write_text("x,y\n" + "1,\n" * 100 + "1,2\n")
    with pytest.raises(DataError, match=r"null: invalid value '2'"):
        opened(tmp_path / "t.csv", tmp_path)
    X = everything(opened(tmp_path / "t.csv", tmp_path, columns=["y"]))[1].ravel()
    assert X[-1] == 2
    assert np.isnan(X[:-1]).all()


def test_csv_files_whose_headers_or_types_differ(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x,z\n1,2\n")
    with pytest.raises(
        DataError, match=r"header of .*b.csv is \['x', 'z'\], expected \['x', 'y'\]"
    ):
        opened(tmp_path, tmp_path)
    (tmp_path / "b.csv").write_text("x,y\n1,two\n")
    with pytest.raises(DataError, match=r"column 'y' is string in .*b.csv, int64 before it"):
        opened(tmp_path, tmp_path)


def test_csv_that_is_not_gzip_or_cut_short(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_text("x\n1\n")
    with pytest.raises(DataError, match=r"can't read .*t.csv.gz: "):
        opened(path, tmp_path)
    content = gzip.compress(b"x\n" + b"".join(b"%d\n" % i for i in range(50_000)))
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"can't read .*t.csv.gz: "):
        opened(path, tmp_path)


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (PermissionError(errno.EACCES, "no"), OutputPermissionError, "no permission to write"),
        (OSError(errno.ENOSPC, "full"), TemporaryError, "can't write .*full"),
    ],
)
def test_csv_that_can_not_be_staged(tmp_path, monkeypatch, error, expected, message):
    (tmp_path / "t.csv").write_text("x\n1\n")

    def fail(*_args):
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(expected, match=message):
        opened(tmp_path / "t.csv", tmp_path)
    assert list((tmp_path / "staging").iterdir()) == []
