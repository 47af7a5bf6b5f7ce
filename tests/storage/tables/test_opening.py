"""The metadata of an opened table, and the detection of changed data."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from distsvc.storage.places.location import Location
from distsvc.storage.tables.opening import fingerprint, id_type
from distsvc.storage.tables.sources import find_source, source_of
from tests.small_tables import everything, opened, sample


def test_a_relative_path_is_found_from_another_folder(tmp_path, monkeypatch):
    pq.write_table(sample(10), tmp_path / "t.parquet")
    monkeypatch.chdir(tmp_path)
    table = opened("t.parquet", tmp_path)
    monkeypatch.chdir("/")
    assert table.layout.path == str(tmp_path / "t.parquet")
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
    later = fingerprint(opened(path, tmp_path))
    assert later != first
    pq.write_table(sample(10), path.parent / "u.parquet")
    assert fingerprint(opened(path.parent, tmp_path)) != later


def test_fingerprint_of_zarr_sees_a_new_chunk(tmp_path):
    array = zarr.create_array(tmp_path / "z.zarr", shape=(8,), chunks=(4,), dtype="f8")
    array[:4] = 1
    table = opened(tmp_path / "z.zarr", tmp_path)
    first = fingerprint(table)
    array[4:] = 1
    assert fingerprint(opened(tmp_path / "z.zarr", tmp_path)) != first


def test_the_type_of_an_id_is_known_without_rows(tmp_path):
    data = pa.table({"name": ["a"], "n": pa.array([1], pa.int16()), "x": [1.0]})
    pq.write_table(data, tmp_path / "t.parquet")
    assert id_type(opened(tmp_path / "t.parquet", tmp_path, id="n")) == pa.int16()
    assert id_type(opened(tmp_path / "t.parquet", tmp_path, id="name")) == pa.string()
    assert id_type(opened(tmp_path / "t.parquet", tmp_path)) == pa.int64()


def test_only_some_formats_leave_columns_out(tmp_path):
    pq.write_table(sample(3), tmp_path / "t.parquet")
    (tmp_path / "t.svm").write_text("1 2:1\n")
    one, other = (opened(tmp_path / f"t.{suffix}", tmp_path) for suffix in ("parquet", "svm"))
    assert source_of(one).states_width
    assert not source_of(other).states_width
    assert source_of(one).sparse_rows(one) is None
    assert source_of(other).sparse_rows(other).shape == (1, 2)


@pytest.mark.parametrize(
    ("files", "name", "claimed"),
    [
        (["a.csv", "b.svm", "README"], "csv", ["a.csv"]),
        (["a.svm", "b.libsvm.gz"], "svmlight", ["a.svm", "b.libsvm.gz"]),
        (["README", "a.svm"], "parquet", ["README", "a.svm"]),
        (["a.pq", "b.svm"], "parquet", ["a.pq"]),
        (["000000_0"], "parquet", ["000000_0"]),
        (["zarr.json", "c/0"], "zarr", []),
    ],
)
def test_the_format_follows_from_names(tmp_path, files, name, claimed):
    for file in files:
        (tmp_path / "t" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / file).touch()
    source, found = find_source(Location.of(str(tmp_path / "t")))
    assert source.name == name
    assert list(found.names) == claimed
