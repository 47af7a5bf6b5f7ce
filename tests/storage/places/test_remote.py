"""Tables are the same in memory, behind HTTP and on disk."""

import functools
import gzip
import http.server
import os
import threading

import fsspec
import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr

from distsvc.errors import DataError, InputNotFoundError, TemporaryError
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
    table = opened(f"{url}/t.parquet", tmp_path, columns=["a", "b"])
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
