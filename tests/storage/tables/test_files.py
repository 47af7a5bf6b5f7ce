"""Files are found in folders and by globs, in the order of their names, and none is missed."""

import errno
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import DataError, InputNotFoundError
from tests.small_tables import everything, opened, sample


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
    table = opened(tmp_path / "p=*", tmp_path, columns=["p", "x"])
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
