"""A table of several paths: the rows of all files, in the order in which they are named."""

import gzip

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.job.config import InputConfig
from distsvc.storage.tables.opening import check_unchanged, fingerprint, open_table
from tests.small_tables import everything, sample


def opened(folder, *paths, **fields):
    config = InputConfig(path=[str(folder / path) for path in paths], **fields)
    return open_table(config, folder / "staging")


def same(one, other):
    for mine, theirs in zip(everything(one), everything(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.fixture
def days(tmp_path):
    """Folders of three days with two files each, and the same files in the folder ``all``."""
    for day in range(3):
        for part in range(2):
            data = sample(40 + day, seed=2 * day + part)
            for path in f"day={day}/{part}.parquet", f"all/{day}{part}.parquet":
                (tmp_path / path).parent.mkdir(exist_ok=True)
                pq.write_table(data, tmp_path / path, row_group_size=30)
    return tmp_path


def test_files_folders_and_globs_are_read_in_their_order(days):
    whole = opened(days, "all", id="row_id", classes="label", where="split != 0")
    fields = {"id": "row_id", "classes": "label", "where": "split != 0"}
    listed = opened(days, *(f"all/{d}{p}.parquet" for d in range(3) for p in range(2)), **fields)
    mixed = opened(days, "day=0", "day=1/*.parquet", "day=2/0.parquet", "day=2/1.parquet", **fields)
    for table in listed, mixed:
        assert table.layout.extents == whole.layout.extents
        assert table.columns == whole.columns
        assert table.left_out == whole.left_out
        assert table.types == whole.types
        same(table, whole)
    assert fingerprint(listed) == fingerprint(whole)
    backwards = opened(days, "day=2", "day=1", "day=0", **fields)
    assert backwards.n_rows == whole.n_rows
    assert everything(backwards)[2][:5] == everything(opened(days, "day=2", **fields))[2][:5]
    assert fingerprint(backwards) != fingerprint(mixed)


def test_keys_are_those_of_folders_below_a_path(tmp_path):
    for day in range(2):
        for hour in range(2):
            folder = tmp_path / f"year=2026/day={day}/hour={hour}"
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"x": [1.0, 2.0]}), folder / "0.parquet")
    both = {"columns": ["hour", "x"]}
    assert opened(tmp_path, "year=2026/day=1", **both).left_out == {}
    listed = opened(tmp_path, "year=2026/day=0", "year=2026/day=1", **both)
    assert everything(listed)[1].T.tolist() == [[0, 0, 1, 1] * 2, [1, 2] * 4]
    with pytest.raises(DataError, match=r"has the keys \[\] in .* expected \['hour'\]"):
        opened(tmp_path, "year=2026/day=0", "year=2026/day=1/hour=0")


def test_csv_and_svmlight(tmp_path):
    (tmp_path / "b.csv").write_text("x,y\n1,2\n3,4\n")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x,y\n5,\n"))
    assert everything(opened(tmp_path, "b.csv", "a.csv.gz"))[1].tolist()[:2] == [[1, 2], [3, 4]]
    X = everything(opened(tmp_path, "a.csv.gz", "b.csv"))[1]
    np.testing.assert_array_equal(X, [[5, np.nan], [1, 2], [3, 4]])
    (tmp_path / "one.svm").write_text("1 1:7\n")
    (tmp_path / "two.svm").write_text("0 3:9\n")
    table = opened(tmp_path, "one.svm", "two.svm")
    assert table.columns == ("f1", "f2", "f3")
    assert everything(table)[1].tolist() == [[7, 0, 0], [0, 0, 9]]


def test_zarr_is_refused(tmp_path):
    for name in ("a.zarr", "b.zarr"):
        zarr.create_array(tmp_path / name, data=np.zeros((4, 2)))
    message = r"of CSV, svmlight text or Parquet, found Zarr \(.*a\.zarr\)"
    with pytest.raises(JobFileError, match=message):
        opened(tmp_path, "a.zarr", "b.zarr")
    assert opened(tmp_path, "a.zarr").n_rows == 4


def test_paths_that_are_no_one_table(days):
    (days / "t.csv").write_text("x\n1\n")
    with pytest.raises(JobFileError, match=r"found Parquet \(.*day=0\) and CSV \(.*t\.csv\)"):
        opened(days, "day=0", "t.csv")
    with pytest.raises(JobFileError, match=r"input\.path names .*day=1/0\.parquet twice"):
        opened(days, "day=0", "day=1", "day=1/0.parquet")


def test_paths_of_two_file_systems(days):
    with fsspec.open("memory://t.parquet", "wb") as stream:
        pq.write_table(sample(3), stream)
    config = InputConfig(path=[str(days / "all"), "memory://t.parquet"])
    with pytest.raises(JobFileError, match=r"in one file system, .* found .*all and memory://t"):
        open_table(config, days / "staging")


def test_a_path_that_is_missing_is_named(days):
    with pytest.raises(InputNotFoundError, match=r"day=7 does not exist"):
        opened(days, "day=0", "day=7", "day=8")
    (days / "empty").mkdir()
    with pytest.raises(InputNotFoundError, match=r"no file in .*empty"):
        opened(days, "day=0", "empty")


def test_a_file_that_changes_is_named(days):
    table = opened(days, "day=0", "day=2/*.parquet")
    (days / "day=0/.hidden").touch()
    check_unchanged(table)
    pq.write_table(sample(5), days / "day=2/9.parquet")
    with pytest.raises(DataError, match=r"day=2/9\.parquet was added"):
        check_unchanged(table)
    (days / "day=2/9.parquet").unlink()
    (days / "day=0").rename(days / "away")
    with pytest.raises(DataError, match=r"day=0 was removed while"):
        check_unchanged(table)
    (days / "away").rename(days / "day=0")
    pq.write_table(sample(5), days / "day=0/0.parquet")
    with pytest.raises(DataError, match=r"day=0/0\.parquet changed"):
        check_unchanged(table)


def test_messages_name_the_first_path(days):
    with pytest.raises(DataError, match=r"day=0 and 2 more has no column 'z'"):
        opened(days, "day=0", "day=1", "day=2", columns=["z"])


# Paths that are complete and empty


def test_a_day_without_rows_is_no_fault_beside_others(days):
    (days / "day=1/_SUCCESS").touch()
    for part in range(2):
        (days / f"day=1/{part}.parquet").unlink()
    table = opened(days, "day=0", "day=1", "day=2")
    assert table.n_rows == 2 * (40 + 42)
    check_unchanged(table)
    for paths in ["day=1"], ["day=1", "day=1/*.parquet"]:
        with pytest.raises(DataError, match=r"day=1.* has no rows: it is complete"):
            opened(days, *paths)


def test_the_ready_file_is_no_data(days):
    (days / "day=1/state").mkdir()
    (days / "day=1/state/done").write_text("no table")
    table = opened(days, "day=1", ready="state/done")
    same(table, opened(days, "day=1/*.parquet"))
    (days / "day=1/state/done").write_text("no table, later")
    check_unchanged(table)
    for part in range(2):
        (days / f"day=1/{part}.parquet").rename(days / f"day=1/part-{part}")
    assert opened(days, "day=1", ready="state/done").n_rows == 2 * 41
    with pytest.raises(DataError, match=r"can't read .*state/done"):
        opened(days, "day=1")
