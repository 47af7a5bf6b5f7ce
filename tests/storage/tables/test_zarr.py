"""Zarr: arrays and groups of every layout, shapes that are no table, and damage."""

import json
import shutil

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs import Blosc

from distsvc.errors import DataError
from distsvc.job.file import parse_job
from distsvc.run.work.plan import Plan
from distsvc.storage.tables.opening import check_unchanged
from tests.small_tables import STORED, everything, opened


def write_zarr_group(path, columns, chunks=4, attributes=None):
    zarr.open_group(path, mode="w", attributes=attributes)
    for name, values in columns.items():
        zarr.create_array(path / name, data=np.asarray(values), chunks=(chunks,))


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
    assert table.layout.extents == (32, 32, 32, 4)
    assert table.layout.format == "zarr"
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
    assert table.layout.extents == (2, 2, 1)
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
    zarr.create_array(path / "inner" / "0", data=np.arange(3.0))
    assert opened(path, tmp_path).columns == ("a", "b", "keep", "y")
    table = opened(path, tmp_path, id="name", classes="y", where="keep == true and name != 'n2'")
    assert table.columns == ("a", "b")
    assert table.layout.extents == (10,)
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
    assert table.layout.extents == (4, 1)
    assert opened(tmp_path / "g.zarr", tmp_path, columns=["b"]).columns == ("b",)


@pytest.mark.parametrize(
    ("listed", "message"),
    [(["a", "q"], "names 'q', which does not exist"), ("a", "must be a list of names, found 'a'")],
)
def test_a_zarr_group_that_lists_them_wrongly(tmp_path, listed, message):
    write_zarr_group(tmp_path / "g.zarr", {"a": [1]}, attributes={"columns": listed})
    with pytest.raises(DataError, match=message):
        opened(tmp_path / "g.zarr", tmp_path)


def test_zarr_shapes_that_are_no_table(tmp_path):
    zarr.create_array(tmp_path / "cube.zarr", data=np.zeros((2, 2, 2)))
    with pytest.raises(DataError, match=r"cube.zarr has 3 dimensions, expected 1 or 2"):
        opened(tmp_path / "cube.zarr", tmp_path)
    zarr.create_array(tmp_path / "none.zarr", shape=(0, 2), dtype="f8", chunks=(1, 2))
    with pytest.raises(DataError, match=r"none.zarr has no rows"):
        opened(tmp_path / "none.zarr", tmp_path)
    zarr.open_group(tmp_path / "bare.zarr", mode="w")
    with pytest.raises(DataError, match=r"bare.zarr is a group without arrays"):
        opened(tmp_path / "bare.zarr", tmp_path)


def test_an_array_of_two_dimensions_in_a_group_is_a_column_of_vectors(tmp_path):
    X = np.arange(20, dtype=np.float32).reshape(10, 2)
    write_zarr_group(tmp_path / "g.zarr", {"a": np.arange(10)})
    zarr.create_array(tmp_path / "g.zarr" / "v", data=X, chunks=(3, 1))
    table = opened(tmp_path / "g.zarr", tmp_path)
    assert table.columns == ("a", "v[0]", "v[1]")
    np.testing.assert_array_equal(everything(table)[1], np.c_[np.arange(10), X])


@pytest.mark.parametrize("fields", [{"id": "f0"}, {"classes": "f0"}, {"where": "f0 > 1"}])
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
    assert opened(path, tmp_path, exclude=["odd"]).columns == ("x",)
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
        everything(opened(path, tmp_path))
    (path / "zarr.json").write_text("{")
    with pytest.raises(DataError, match=r"can't read .*a.zarr: "):
        opened(path, tmp_path)
    (path / "zarr.json").unlink()
    with pytest.raises(DataError, match=r"a.zarr is not Zarr: it holds no zarr.json"):
        opened(path, tmp_path)


V2 = '{"shape": [4], "chunks": [4], "dtype": "|S8", "fill_value": "", "order": "C", "filters": null'
DAMAGE = {
    "a group of format 2": (3, '{"zarr_format": 2, "node_type": "group"}'),
    "a group": (3, '{"zarr_format": 3, "node_type": "group", "attributes": {}}'),
    "no group of format 2": (3, '{"zarr_format": 2}'),
    "an array of format 2": (3, V2 + ', "compressor": null, "zarr_format": 2}'),
    "no JSON": (3, "\0\1"),
    "another node": (3, '{"zarr_format": 3, "node_type": "leaf"}'),
    **{f"{text!r} in format 2": (2, text) for text in ("{", "", "[]", "{}", '{"shape": "x"}')},
    "no file": (2, None),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_an_array_with_damaged_metadata_is_refused(tmp_path, name):
    path, (zarr_format, damage) = tmp_path / "g.zarr", DAMAGE[name]
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    for column in ("x", "y"):
        group.create_array(column, data=np.arange(4.0))
    file = path / "y" / ("zarr.json" if zarr_format == 3 else ".zarray")
    file.unlink() if damage is None else file.write_text(damage)
    with pytest.raises(DataError, match=r"array 'y' of .*g.zarr can't be read"):
        opened(path, tmp_path)
    table = opened(path, tmp_path, columns=["x"])
    assert table.left_out == {"y": "not in input.columns"}
    assert everything(table)[1].ravel().tolist() == [0, 1, 2, 3]


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_a_member_that_only_consolidated_metadata_names(tmp_path):
    path = tmp_path / "g.zarr"
    write_zarr_group(path, {"x": np.arange(4.0), "y": np.arange(4.0)})
    zarr.consolidate_metadata(path)
    assert opened(path, tmp_path).columns == ("x", "y")
    shutil.rmtree(path / "y")
    with pytest.raises(
        DataError, match=r"consolidated metadata of .*g.zarr names 'y', which does not"
    ):
        opened(path, tmp_path)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_unwritten_chunks_are_a_warning(tmp_path, zarr_format):
    path = tmp_path / "g.zarr"
    zarr.open_group(path, mode="w", zarr_format=zarr_format)
    fills = {"x": 0.5, "y": np.nan, "z": 0, "unused": 0}
    for name, fill in fills.items():
        array = zarr.create_array(
            path / name, shape=(10,), chunks=(2,), dtype="f8", fill_value=fill,
            zarr_format=zarr_format,
        )  # fmt: skip
        array[:6] = [1, 2, 3, 4, 5, 6]
        if name == "z":
            array[6:] = 7
    table = opened(path, tmp_path, columns=["x", "y", "z"])
    (note,) = table.notes
    assert "'x' (2 of 5 chunks, read as 0.5)" in note
    assert "'y'" not in note, "NaN is a missing value"
    assert "'z'" not in note
    assert "unused" not in note
    assert STORED.validate_json(STORED.dump_json(table)).notes == table.notes
    job = parse_job({"input": {"path": str(path)}, "output": {"path": "-"}})
    assert note in Plan.of(job, table).notes


def test_shards_and_lone_arrays_that_lack_chunks(tmp_path):
    path = tmp_path / "a.zarr"
    array = zarr.create_array(path, shape=(40, 4), dtype="f4", chunks=(5, 2), shards=(10, 4))
    array[:30] = 1.0
    assert "the array (1 of 4 chunks, read as 0.0)" in opened(path, tmp_path).notes[0]
    array[30:] = 1.0
    assert opened(path, tmp_path).notes == ()


def test_zarr_that_changed_since_it_was_opened(tmp_path):
    array = zarr.create_array(tmp_path / "a.zarr", shape=(20,), chunks=(10,), dtype="f8")
    table = opened(tmp_path / "a.zarr", tmp_path)
    array.resize((30,))
    with pytest.raises(DataError, match=r"a.zarr has 30 rows, 20 when the table was opened"):
        everything(table)
    with pytest.raises(DataError, match=r"a.zarr/zarr.json changed while the run was reading it"):
        check_unchanged(table)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_chunk_of_blosc_that_was_cut_is_refused(tmp_path, zarr_format):
    compressor = Blosc(cname="lz4") if zarr_format == 2 else zarr.codecs.BloscCodec(cname="lz4")
    values = np.repeat(np.random.default_rng(0).normal(size=500), 8)
    zarr.create_array(
        tmp_path / "t.zarr", data=values, chunks=(1000,), compressors=compressor,
        zarr_format=zarr_format,
    )  # fmt: skip
    table = opened(tmp_path / "t.zarr", tmp_path)
    chunk = tmp_path / "t.zarr" / ("c/2" if zarr_format == 3 else "2")
    whole = chunk.read_bytes()
    for size in (len(whole) - 1, len(whole) // 2, 3, 0):
        chunk.write_bytes(whole[:size])
        with pytest.raises(DataError, match=rf"t.zarr/(c/)?2 is truncated: it has {size} bytes"):
            everything(opened(tmp_path / "t.zarr", tmp_path))
    chunk.write_bytes(whole)
    np.testing.assert_array_equal(
        everything(opened(tmp_path / "t.zarr", tmp_path))[1][:, 0], values
    )
    assert table.n_rows == 4000


def test_consolidated_metadata_may_be_old(tmp_path):
    group = zarr.open_group(tmp_path / "g.zarr", mode="w", zarr_format=2)
    array = group.create_array("x", data=np.arange(10.0), chunks=(5,))
    zarr.consolidate_metadata(tmp_path / "g.zarr")
    array = zarr.open_array(tmp_path / "g.zarr" / "x", mode="r+")
    array.resize((20,))
    array[10:] = np.arange(10.0, 20.0)
    X = everything(opened(tmp_path / "g.zarr", tmp_path))[1]
    assert X.ravel().tolist() == list(range(20))
