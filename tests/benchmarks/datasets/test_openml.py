"""Tables of OpenML, as scikit-learn returns them: right, of another kind, and failing."""

import json
import os
from dataclasses import replace
from email.message import Message
from io import BytesIO
from urllib.error import HTTPError, URLError

import numpy as np
import pytest
from sklearn.utils import Bunch

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


@pytest.fixture
def offer(monkeypatch, tmp_path):
    """Let scikit-learn find a table, and return a function that changes it or raises an error."""
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))

    def offered(lines=LINES, attributes=ATTRIBUTES, error=None):
        def fetch_openml(data_id, target_column, **_):
            assert data_id == 7
            copy = tmp_path / "cache/openml/7.gz"
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(b"a copy")
            if error is not None:
                raise error
            kind = attributes[target_column]
            names = [name for name in attributes if name != target_column]
            levels = {n: k[1:-1].replace("'", "").split(",") for n, k in attributes.items()}
            rows = [
                dict(zip(attributes, line.replace("'", "").split(","), strict=True))
                for line in lines
            ]
            categories = {n: levels[n] for n in names if attributes[n] != "NUMERIC"}

            def number(name, text):
                if text == "?":
                    return np.nan
                return categories[name].index(text) if name in categories else float(text)

            classes = [row[target_column] for row in rows]
            return Bunch(
                data=np.array([[number(n, row[n]) for n in names] for row in rows], float),
                target=np.array(classes, float if kind == "NUMERIC" else object),
                feature_names=names,
                categories=categories,
            )

        monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)

    offered()
    return offered


@pytest.fixture
def toy(in_catalogue):
    return in_catalogue(TOY)


def test_a_table_is_encoded_as_the_catalogue_says(offer, toy):
    found, classes = load("toy")
    assert found.flags.c_contiguous
    assert np.array_equal(found, X)
    assert (classes.tolist(), classes.dtype) == (Y.tolist(), np.int64)


def test_splits_are_the_rows_in_order_where_their_counts_are_right(offer, toy, in_catalogue):
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
        (
            sourced(doubt="from hearsay") | {"fingerprint": 1.0},
            r"the values are not: expected the fingerprint 1, found 88 \(from hearsay\)",
        ),
        (sourced(missing={}), "found nan in row 1, column f0"),
        (
            sourced(order={"f1": ("green", "red")}),
            "OpenML 7, column colour: expected green, red, found dark blue",
        ),
        (sourced(classes=("a", "c")), "OpenML 7, classes: expected a, c, found b"),
        (sourced(target="sort"), "can't be read: KeyError: .*sort"),
    ],
)
def test_a_table_that_is_not_the_catalogues(offer, in_catalogue, tmp_path, change, message):
    in_catalogue(TOY, **change)
    with pytest.raises(DataError, match=message):
        fetch("toy", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["{10,2}", "NUMERIC"])
def test_classes_that_are_numbers_are_sorted_as_such(offer, in_catalogue, kind):
    lines = [line.replace(",a", ",2").replace(",b", ",10") for line in LINES[:4]]
    offer(lines, ATTRIBUTES | {"kind": kind})
    in_catalogue(TOY, openml=replace(SOURCE, drop_classes=()))
    assert load("toy")[1].tolist() == [0, 0, 1, 0]


def status(code):
    return HTTPError("http://localhost", code, "", Message(), BytesIO())


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (status(404), InputNotFoundError, r"toy: OpenML 7 \(toy, version 1\) is not there"),
        (ValueError("Dataset 7 not found"), InputNotFoundError, "is not there: Dataset 7 not"),
        (status(503), TemporaryError, "can't be had now: HTTP 503"),
        (URLError("refused"), TemporaryError, "can't be reached, or was cut off: .*refused"),
        (EOFError("end"), TemporaryError, "can't be reached, or was cut off: end"),
        (json.JSONDecodeError("end", "{", 1), TemporaryError, "the answer is cut off: end"),
        (ValueError("md5 differs"), TemporaryError, "cut off or damaged: md5 differs"),
        (OSError("disk full"), TemporaryError, "can't be kept: disk full"),
        (RuntimeError("row 3"), DataError, "can't be read: RuntimeError: row 3"),
    ],
)
def test_a_download_that_fails_leaves_nothing(offer, toy, tmp_path, error, kind, message):
    offer(error=error)
    with pytest.raises(kind, match=message):
        fetch("toy", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    if kind is TemporaryError:
        assert not list((tmp_path / "cache").rglob("*.gz"))
    offer()
    assert os.listdir(fetch("toy", tmp_path / "out").parent) == ["toy.parquet"]
    assert np.array_equal(load("toy", tmp_path / "out")[0], X)
