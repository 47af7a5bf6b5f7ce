"""Errors name a file that has changed since the table was opened."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from distsvc.errors import DataError
from distsvc.storage.places.location import Version
from distsvc.storage.tables.opening import check_unchanged, fingerprint
from tests.small_tables import everything, opened


def test_versions_differ_only_in_properties_of_both():
    one = Version(3, "ETag a", 7)
    assert not one.differs(Version(None, "LastModified now", 7))
    assert not one.differs(Version(3, "ETag a", 7))
    for other in (Version(4, "ETag a", 7), Version(3, "ETag b", 7), Version(3, "ETag a", 8)):
        assert one.differs(other)


def test_the_types_of_columns_are_part_of_a_fingerprint(tmp_path):
    found = set()
    for kind in (pa.int64(), pa.uint64()):
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table({"x": pa.array([1, 2], kind)}), path, compression="none")
        os.utime(path, (1, 1))
        table = opened(path, tmp_path)
        assert table.types == (str(kind),)
        found.add(fingerprint(table))
    assert len(found) == 2


def test_a_plan_lists_one_version_for_all_chunks_of_an_array(tmp_path):
    path = tmp_path / "z.zarr"
    zarr.open_group(path, mode="w")
    for name in "ab":
        zarr.create_array(path / name, data=np.arange(60.0), chunks=(2,))
    table = opened(path, tmp_path)
    metadata = {"zarr.json", "a/zarr.json", "b/zarr.json"}
    assert set(table.versions) == metadata | {"a/*", "b/*"}
    chunk = path / "a" / "c" / "7"
    chunk.write_bytes(chunk.read_bytes())
    (path / "b" / "c" / "3").unlink()
    everything(table, 0, 10)  # a chunk of fill values has no file
    with pytest.raises(DataError, match=r"z.zarr/a/\* changed"):
        check_unchanged(table)
