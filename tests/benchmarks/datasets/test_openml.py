"""OpenML's answers, from a server of our own on this machine: right, wrong, late and cut off."""

import gzip
import hashlib
import json
import os
import threading
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from benchmarks.datasets.catalogue import Dataset, OpenML
from benchmarks.datasets.loading import fetch, fingerprint, load
from distsvc.errors import DataError, InputNotFoundError, TemporaryError

ATTRIBUTES = {
    "ID": "NUMERIC",
    "size": "NUMERIC",
    "colour": "{red,green,'dark blue'}",
    "doors": "{2,3,4}",
    "shape": "{round,flat}",
    "kind": "{b,a,rare}",
}
LINES = [
    "1,0.5,red,2,round,a",
    "2,?,green,3,flat,a",
    "3,1.5,'dark blue',4,?,b",
    "4,2.5,red,4,round,a",
    "5,9,red,2,flat,rare",
]
SOURCE = OpenML(
    id=7,
    title="toy, version 1",
    target="kind",
    drop=("ID",),
    order={"f1": ("dark blue", "green", "red")},
    missing={"f0": 1.0},
    drop_classes=("rare",),
)
X = np.array([[0.5, 2, 2, 2], [1.0, 1, 3, 1], [1.5, 0, 4, 0], [2.5, 2, 4, 2]])
Y = np.array([0, 0, 1, 0])
TOY = Dataset(
    "toy", "bsgd", 4, 4, (3, 1), "Made.", fingerprint(X, Y)[0], splits=((2, 0), (1, 1)),
    openml=SOURCE,
)  # fmt: skip


@dataclass
class Server:
    """What the server answers: contents by path, or a status instead, and what it was asked."""

    url: str = ""
    contents: dict[str, bytes] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    cut_off: set[str] = field(default_factory=set)
    packed: bool = False
    asked: list[str] = field(default_factory=list)

    def offer(self, lines=LINES, attributes=ATTRIBUTES, **description):
        """Serve a table under the identifier 7."""
        header = [f"@ATTRIBUTE {name} {kind}" for name, kind in attributes.items()]
        arff = "\n".join(["@RELATION toy", *header, "@DATA", *lines, ""]).encode()
        features = [
            {
                "index": str(index),
                "name": name,
                "data_type": "nominal" if kind.startswith("{") else kind.lower(),
                "is_target": str(name == "kind").lower(),
                "is_ignore": "false",
                "is_row_identifier": "false",
                "number_of_missing_values": "0",
            }
            for index, (name, kind) in enumerate(attributes.items())
        ]
        about = {
            "id": "7",
            "name": "toy",
            "version": "1",
            "description": "made",
            "format": "ARFF",
            "status": "active",
            "url": f"{self.url}/data/toy.arff",
            "md5_checksum": hashlib.md5(arff).hexdigest(),
        }
        qualities = [{"name": "NumberOfInstances", "value": str(float(len(lines)))}]
        answers = {
            "data/7": {"data_set_description": about | description},
            "data/features/7": {"data_features": {"feature": features}},
            "data/qualities/7": {"data_qualities": {"quality": qualities}},
        }
        self.contents |= {f"/api/{path}": json.dumps(a).encode() for path, a in answers.items()}
        self.contents["/data/toy.arff"] = arff


@pytest.fixture
def server(monkeypatch, tmp_path):
    offered = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            offered.asked.append(self.path)
            body = offered.contents.get(self.path, b"")
            if offered.packed:
                body = gzip.compress(body)
            missing = 200 if self.path in offered.contents else 404
            self.send_response(offered.status.get(self.path, missing))
            if offered.packed:
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            half = self.path in offered.cut_off
            self.wfile.write(body[: len(body) // 2] if half else body)

        def log_message(self, *_):
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    offered.url = f"http://127.0.0.1:{listening.server_port}"
    for name, path in {"INFO": "", "FEATURES": "features/", "QUALITIES": "qualities/"}.items():
        address = f"{offered.url}/api/data/{path}{{}}"
        monkeypatch.setattr(f"sklearn.datasets._openml._DATA_{name}", address)
    monkeypatch.setattr("sklearn.datasets._openml.time.sleep", lambda _: None)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    offered.offer()
    yield offered
    listening.shutdown()
    listening.server_close()
    thread.join()


@pytest.fixture
def toy(in_catalogue):
    return in_catalogue(TOY)


@pytest.mark.parametrize("packed", [False, True])
def test_a_table_is_encoded_as_the_catalogue_says(server, toy, packed):
    server.packed = packed
    found, classes = load("toy")
    assert found.flags.c_contiguous
    assert np.array_equal(found, X)
    assert (classes.tolist(), classes.dtype) == (Y.tolist(), np.int64)


def test_splits_are_the_rows_in_order_where_their_counts_are_right(server, toy, in_catalogue):
    assert np.array_equal(load("toy", split=1)[0], X[2:])
    in_catalogue(TOY, splits=((1, 1), (2, 0)))
    with pytest.raises(DataError, match="classes in split 0"):
        load("toy", split=1)


def sourced(**changes):
    return {"openml": replace(SOURCE, **changes)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 5}, r"toy from OpenML 7, toy, version 1: .* \[5, 4\], found \[4, 4\]"),
        ({"features": 3}, r"features \[4, 3\], found \[4, 4\]"),
        ({"class_counts": (2, 2)}, r"classes \[2, 2\], found \[3, 1\]"),
        ({"fingerprint": 1.0}, "the values are not: expected the fingerprint 1, found 88"),
        (sourced(doubt="from hearsay") | {"fingerprint": 1.0}, r"found 88 \(from hearsay\)"),
        (sourced(missing={}), "found nan in row 1, column f0"),
        (
            sourced(order={"f1": ("green", "red")}),
            "OpenML 7, column colour: expected green, red, found dark blue",
        ),
        (sourced(classes=("a", "c")), "OpenML 7, classes: expected a, c, found b"),
        (sourced(target="sort"), "can't be read: KeyError: .*sort"),
    ],
)
def test_a_table_that_is_not_the_catalogues(server, in_catalogue, tmp_path, change, message):
    in_catalogue(TOY, **change)
    with pytest.raises(DataError, match=message):
        fetch("toy", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_table_that_is_not_arff(server, toy):
    server.offer(lines=["1,2", *LINES[1:]])
    with pytest.raises(DataError, match="can't be read: BadDataFormat"):
        load("toy")


@pytest.mark.parametrize("kind", ["{10,2}", "NUMERIC"])
def test_classes_that_are_numbers_are_sorted_as_such(server, in_catalogue, kind):
    lines = [line.replace(",a", ",2").replace(",b", ",10") for line in LINES[:4]]
    server.offer(lines, ATTRIBUTES | {"kind": kind})
    in_catalogue(TOY, openml=replace(SOURCE, drop_classes=()))
    assert load("toy")[1].tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("status", [404, 412])
@pytest.mark.parametrize("path", ["/api/data/7", "/data/toy.arff"])
def test_a_table_that_is_not_there(server, toy, path, status):
    server.status[path] = status
    with pytest.raises(InputNotFoundError, match=r"toy: OpenML 7 \(toy, version 1\) is not there"):
        load("toy")


@pytest.mark.parametrize("path", ["/api/data/features/7", "/data/toy.arff"])
def test_a_server_in_trouble(server, toy, path):
    server.status[path] = 503
    with pytest.raises(TemporaryError, match="can't be had now: HTTP 503"):
        load("toy")
    assert server.asked.count(path) == 4, "sklearn's three retries"
    server.status.clear()
    assert np.array_equal(load("toy")[0], X)


def test_no_server(server, toy, monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as gone:
        address = f"http://127.0.0.1:{gone.server_port}/{{}}"
    monkeypatch.setattr("sklearn.datasets._openml._DATA_INFO", address)
    with pytest.raises(TemporaryError, match=r"can't be reached.*refused"):
        load("toy")


@pytest.mark.parametrize(
    ("path", "message"), [("/data/toy.arff", "cut off"), ("/api/data/7", "cut off")]
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_download_that_is_cut_off_leaves_nothing(server, toy, tmp_path, path, message, packed):
    server.packed = packed
    server.cut_off.add(path)
    with pytest.raises(TemporaryError, match=message):
        fetch("toy", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    server.cut_off.clear()
    path = fetch("toy", tmp_path / "out")
    assert os.listdir(path.parent) == ["toy.parquet"]
    assert np.array_equal(load("toy", tmp_path / "out")[0], X)
