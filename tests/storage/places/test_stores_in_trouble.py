"""Stores that refuse, are busy, drop connections or don't answer: one line and code, and soon."""

import http.server
import threading
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr

from distsvc.errors import DataError, InputNotFoundError, TemporaryError
from distsvc.storage.places import remote
from distsvc.storage.tables.opening import fingerprint
from tests.small_tables import everything, matrix, opened, sample

pytest.importorskip("aiohttp")


class Store(http.server.BaseHTTPRequestHandler):
    """Handler that answers the first `troubles` requests by the server's `answer`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits for the answer to its header, 40 ms

    def log_message(self, *_args):
        pass

    def do_GET(self):
        self.server.seen.append(
            (self.command, self.path, self.headers.get("Authorization"), self.headers.get("Range"))
        )
        get = self.command == "GET"
        if self.server.troubles > 0 and (get or self.server.kind != "cut"):
            self.server.troubles -= get
            return self.trouble()
        content = self.server.files.get(self.path.partition("?")[0])
        if content is None:
            return self.answer(404, b"")
        if "Range" in self.headers and self.server.ranges:
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            part = content[int(first) : int(last) + 1]
            span = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
            return self.answer(206, part, {"Content-Range": span})
        return self.answer(200, content)

    do_HEAD = do_GET  # noqa: N815

    def trouble(self):
        kind = self.server.kind
        if kind == "silent":
            self.server.outlasted |= not self.server.stopping.wait(60)
            self.close_connection = True
        elif kind == "dropped":
            self.close_connection = True
        elif kind == "cut":
            self.send_response(206)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
            self.close_connection = True
        elif isinstance(kind, str):  # S3's codes
            status = {"AccessDenied": 403, "SlowDown": 503, "NoSuchBucket": 404}.get(kind, 400)
            text = f"<Error><Code>{kind}</Code><Message>no</Message></Error>"
            self.answer(status, text.encode(), {"Content-Type": "application/xml"})
        else:
            self.answer(kind, b"")

    def answer(self, status, content, headers=None):
        self.send_response(status)
        self.send_header("Accept-Ranges", "bytes" if self.server.ranges else "none")
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


@pytest.fixture
def store(tmp_path):
    pq.write_table(sample(100), tmp_path / "t.parquet", row_group_size=30)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        server.daemon_threads = True
        server.files = {"/t.parquet": (tmp_path / "t.parquet").read_bytes(), "/t.csv": b"x\n1\n"}
        server.kind, server.troubles, server.seen, server.ranges = 404, 0, [], True
        server.stopping, server.outlasted = threading.Event(), False
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.stopping.set()
        server.shutdown()
        thread.join()


ALWAYS = 10**6


def test_tables_behind_http(store, tmp_path):
    place = tmp_path / "z.zarr"
    zarr.create_array(place, data=np.arange(10.0), chunks=(4,))
    for file in filter(Path.is_file, place.rglob("*")):
        store.files[f"/{file.relative_to(tmp_path)}"] = file.read_bytes()
    table = opened(f"{store.url}/t.parquet", tmp_path, columns=["a", "b"])
    np.testing.assert_array_equal(everything(table)[1], matrix(sample(100), ["a", "b"]))
    assert len(fingerprint(table)) == 64
    np.testing.assert_array_equal(everything(opened(f"{store.url}/t.csv", tmp_path))[1], [[1]])
    X = everything(opened(f"{store.url}/z.zarr", tmp_path))[1]
    np.testing.assert_array_equal(X.ravel(), np.arange(10))


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.zarr"])
def test_a_server_that_is_down(tmp_path, name):
    with pytest.raises(TemporaryError, match=r"can't reach http://127.0.0.1:9/t"):
        opened(f"http://127.0.0.1:9/{name}", tmp_path)


def test_a_server_that_sends_whole_files_only(store, tmp_path):
    store.ranges = False
    with pytest.raises(DataError, match=r"can't read http://.*t.parquet: "):
        opened(f"{store.url}/t.parquet", tmp_path)


@pytest.mark.parametrize(
    ("kind", "expected", "message"),
    [
        (401, DataError, "no permission to read {}: the credentials are refused (HTTP 401)"),
        (403, DataError, "no permission to read {} (HTTP 403)"),
        (404, InputNotFoundError, "{} does not exist"),
        (410, InputNotFoundError, "{} does not exist"),
        (429, TemporaryError, "can't reach {}: the store is busy or broken (HTTP 429)"),
        (500, TemporaryError, "can't reach {}: the store is busy or broken (HTTP 500)"),
        (503, TemporaryError, "can't reach {}: the store is busy or broken (HTTP 503)"),
        ("dropped", TemporaryError, "can't reach {}: "),
    ],
)
@pytest.mark.parametrize("name", ["t.parquet", "t.zarr", "t"])
def test_a_store_that_fails_always(store, tmp_path, kind, expected, message, name):
    store.kind, store.troubles = kind, ALWAYS
    with pytest.raises(expected) as found:
        opened(f"{store.url}/{name}", tmp_path)
    shown = f"{store.url}/{name}"
    assert str(found.value).startswith(message.format(shown)) or (
        str(found.value).startswith(message.format(f"{shown}/zarr.json"))
    )
    assert "\n" not in str(found.value)


def test_a_store_that_fails_while_it_is_read(store, tmp_path):
    table = opened(f"{store.url}/t.parquet", tmp_path)
    for kind, expected in ((503, TemporaryError), (403, DataError), (404, DataError)):
        store.kind, store.troubles = kind, ALWAYS
        with pytest.raises(expected, match=r"t\.parquet"):
            everything(table)


def test_a_silent_store_is_not_waited_for_long(store, tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "STORE", replace(remote.STORE, silence=0.2))
    for name in ("t.parquet", "t.zarr"):
        store.kind, store.troubles = "silent", ALWAYS
        with pytest.raises(TemporaryError, match=r"can't reach http://127.*/t\."):
            opened(f"{store.url}/{name}", tmp_path)
        assert not store.outlasted


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.zarr"])
def test_headers_of_the_configuration_go_with_the_requests(store, tmp_path, monkeypatch, name):
    if name == "t.zarr":
        zarr.create_array(tmp_path / name, data=sample(10)["a"].to_numpy(), chunks=(4,))
        for path in (tmp_path / name).rglob("*"):
            if path.is_file():
                where = f"/{path.relative_to(tmp_path)}"
                store.files[where] = path.read_bytes()
    headers = {"client_kwargs": {"headers": {"Authorization": "Bearer s3cr3t"}}}
    monkeypatch.setitem(fsspec.config.conf, "http", headers)
    table = opened(f"{store.url}/{name}", tmp_path)
    assert len(everything(table)[1])
    assert len(store.seen) > 1
    assert {authorization for _, _, authorization, _ in store.seen} == {"Bearer s3cr3t"}
    assert "s3cr3t" not in str(table)


@pytest.fixture
def s3(store, monkeypatch):
    pytest.importorskip("s3fs")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": store.url})
    pause = "botocore.retries.standard.ExponentialBackoff.delay_amount"
    monkeypatch.setattr(pause, lambda *_: 0.01)
    return store


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("AccessDenied", DataError),
        ("InvalidAccessKeyId", DataError),
        ("ExpiredToken", DataError),
        ("NoSuchBucket", InputNotFoundError),
        ("SlowDown", TemporaryError),
        (500, TemporaryError),
        ("dropped", TemporaryError),
    ],
)
@pytest.mark.parametrize("name", ["t.parquet", "t.zarr"])
def test_s3_in_trouble(s3, tmp_path, kind, expected, name):
    s3.kind, s3.troubles = kind, ALWAYS
    with pytest.raises(expected, match=rf"s3://box/{name}|box/{name}") as found:
        opened(f"s3://box/{name}", tmp_path)
    assert "\n" not in str(found.value)


def test_s3_without_credentials(s3, tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(DataError, match="no credentials; give credentials in the environment"):
        opened("s3://empty/t.parquet", tmp_path)


def test_s3_that_does_not_answer(s3, tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "STORE", replace(remote.STORE, silence=0.2))
    s3.kind, s3.troubles = "silent", ALWAYS
    with pytest.raises(TemporaryError, match=r"can't reach s3://silent/t\.parquet"):
        opened("s3://silent/t.parquet", tmp_path)
    assert not s3.outlasted
