"""Files are found in folders and by globs, in the order of their names, and none is missed."""

import errno
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distsvc.errors import DataError, InputNotFoundError, JobFileError
from distsvc.job.config import InputConfig
from distsvc.storage.publishing.publication import Output
from distsvc.storage.tables.opening import open_table
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


@pytest.mark.parametrize(
    "name", ["nothing.parquet", "nothing", "nothing.csv", "nothing.zarr", "no*.parquet", "empty"]
)
def test_nothing_there(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputNotFoundError, match=name.replace("*", r"\*")):
        opened(tmp_path / name, tmp_path)


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
    pq.write_table(sample(5), tmp_path / "u.parquet")
    (tmp_path / "data" / "folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data" / "file.parquet").symlink_to(tmp_path / "u.parquet")
    assert opened(tmp_path / "data", tmp_path).n_rows == 10


def write(path, start=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": np.arange(start, start + 5.0)}), path)


@pytest.mark.parametrize(
    "name", ["000000_0", "20261120_101112_abcde", "b.parquet.gzip", "b.hive", "part-1"]
)
def test_parquet_beside_parquet_is_read_whatever_its_name(tmp_path, name):
    write(tmp_path / "in" / "a.parquet")
    write(tmp_path / "in" / name, 5)
    (tmp_path / "in" / "README.md").write_text("about")
    (tmp_path / "in" / "_old.parquet").write_text("hidden")
    table = opened(tmp_path / "in", tmp_path)
    assert sorted(everything(table)[1].ravel()) == list(range(10))
    (note,) = table.notes
    assert note.startswith("2 files of ")
    assert "README.md, _old.parquet" in note


def test_a_link_counts_once(tmp_path):
    write(tmp_path / "in" / "day=2026-11-20" / "a.parquet")
    (tmp_path / "in" / "day=latest").symlink_to("day=2026-11-20")
    (tmp_path / "in" / "day=2026-11-20" / "b.parquet").hardlink_to(
        tmp_path / "in" / "day=2026-11-20" / "a.parquet"
    )
    table = opened(tmp_path / "in", tmp_path, where="day == '2026-11-20'")
    assert table.n_rows == 5
    assert "day=latest/a.parquet (the same file as day=2026-11-20/a.parquet)" in table.notes[0]
    paths = [str(tmp_path / "in" / day / "a.parquet") for day in ("day=2026-11-20", "day=latest")]
    with pytest.raises(JobFileError, match=r"input.path names .* twice"):
        open_table(InputConfig(path=paths), tmp_path / "staging")


def test_a_packed_copy_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "a.csv.gz").write_text("x\n1\n")
    with pytest.raises(
        DataError, match=r"holds a.csv and its compressed copy a.csv.gz, .* count twice"
    ):
        opened(tmp_path, tmp_path)
    assert opened(tmp_path / "*.csv", tmp_path).n_rows == 1


def test_a_link_to_itself_is_named(tmp_path):
    write(tmp_path / "in" / "a.parquet")
    (tmp_path / "in" / "self").symlink_to("self")
    with pytest.raises(DataError, match=r"in/self is a link that leads to itself"):
        opened(tmp_path / "in", tmp_path)


@pytest.mark.parametrize(
    ("given", "output"),
    [("in", "in/out"), ("in/*", "in/out"), ("in/**/*.parquet", "in/out"), ("in", "outs/o")],
)
def test_an_output_that_the_input_would_find_is_refused(tmp_path, monkeypatch, given, output):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in" / "a.parquet")
    (tmp_path / "outs").mkdir()
    (tmp_path / "in" / "results").symlink_to("../outs")
    with pytest.raises(JobFileError, match=f"output.path {output} lies in the folder of the input"):
        Output(output).check_apart(given)
    Output("elsewhere/out").check_apart(given)
    Output("in/out").check_apart("in/*.parquet")
