"""Tables are the same in memory and on disk."""

import gzip

import fsspec
import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr

from distsvc.errors import DataError, InputNotFoundError
from distsvc.storage.tables.opening import check_unchanged, fingerprint
from tests.small_tables import everything, matrix, opened, sample


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
    assert local.layout.path == str(tmp_path / "a.parquet")
    expected = matrix(data, ["a", "b", "c", "flag", "split"])
    np.testing.assert_array_equal(everything(local)[1], expected)
    for path in ("memory://data", "memory://data/*/*.parquet", "memory://data/k=1/a.parquet"):
        table = opened(path, tmp_path, columns=["a", "b", "c", "flag", "split"])
        assert table.layout.extents == (30, 30, 30, 10)
        np.testing.assert_array_equal(everything(table, block_rows=17)[1], expected)
        assert fingerprint(table) == fingerprint(table)
    with pytest.raises(InputNotFoundError, match=r"memory://nowhere.parquet"):
        opened("memory://nowhere.parquet", tmp_path)


def test_memory_csv_and_zarr(tmp_path, memory):
    memory.pipe("/t.csv.gz", gzip.compress(b"x,y\n1,2\n3,4\n"))
    table = opened("memory://t.csv.gz", tmp_path)
    np.testing.assert_array_equal(everything(table)[1], [[1, 2], [3, 4]])
    assert table.sources == ("memory://t.csv.gz",)
    first = fingerprint(table)
    check_unchanged(table)
    memory.pipe("/t.csv.gz", gzip.compress(b"x,y\n1,2\n3,5\n"))
    with pytest.raises(DataError, match=r"t.csv.gz changed while the run was reading it"):
        check_unchanged(table)
    assert fingerprint(opened("memory://t.csv.gz", tmp_path)) != first

    pytest.importorskip("fsspec.implementations.asyn_wrapper")  # fsspec 2024.12
    store = zarr.storage.FsspecStore.from_url("memory://z.zarr")
    zarr.create_array(store, data=np.arange(20.0).reshape(10, 2), chunks=(4, 2))
    table = opened("memory://z.zarr", tmp_path)
    assert table.layout.extents == (4, 4, 2)
    np.testing.assert_array_equal(everything(table)[1], np.arange(20).reshape(10, 2))
    assert fingerprint(table) == fingerprint(table)
