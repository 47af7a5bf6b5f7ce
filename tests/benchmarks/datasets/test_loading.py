"""A data set is loaded as the catalogue describes it, or the difference is told."""

import bz2
import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file

from benchmarks.datasets import loading
from benchmarks.datasets.catalogue import Dataset
from benchmarks.datasets.loading import METADATA, fetch, fingerprint, load
from distsvc.errors import DataError, InputNotFoundError, TemporaryError


def write(folder, X, y, split=None, name="bsgd/made.parquet", **more):
    columns = {f"f{j}": X[:, j] for j in range(X.shape[1])} | {"label": y}
    columns |= {} if split is None else {"split": split}
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns | more), path)
    return path


def test_rows_of_a_folder(rows, made, in_catalogue, tmp_path):
    in_catalogue(made)
    X, y, split = rows
    write(tmp_path, X.astype(np.float64), y.astype(np.int8), split)
    found, classes = load("made", tmp_path)
    assert (found.dtype, classes.dtype) == (np.float64, np.int64)
    assert found.flags.c_contiguous
    assert np.array_equal(found, X)
    assert np.array_equal(classes, y)
    for k in (0, 1):
        found, classes = load("made", str(tmp_path), split=k)
        assert np.array_equal(found, X[split == k])
        assert np.array_equal(classes, y[split == k])


def test_columns_come_in_the_order_of_their_numbers(tmp_path, in_catalogue):
    X = np.arange(48.0).reshape(4, 12)
    y = np.array([0, 0, 1, 1])
    one = Dataset("made", "bsgd", 4, 12, (2, 2), "Made.", fingerprint(X, y)[0])
    in_catalogue(one)
    path = tmp_path / "bsgd/made.parquet"
    path.parent.mkdir()
    backwards = {f"f{j}": X[:, j] for j in reversed(range(12))}
    pq.write_table(pa.table({"label": y} | backwards), path)
    assert np.array_equal(load("made", tmp_path)[0], X)


def faults(X, y, split):
    wrong = X.copy()
    wrong[7, 1] = np.nan
    yield "not finite", (wrong, y, split), "expected finite numbers, found nan in row 7, column f1"
    wrong = X.copy()
    wrong[3, 2] += 0.001
    yield "a value", (wrong, y, split), "the values are not: expected the fingerprint"
    yield "columns swapped", (X[:, [1, 0, 2]], y, split), "the values are not"
    yield "fewer rows", (X[1:], y[1:], split[1:]), r"expected rows and features \[60, 3\], found"
    yield "fewer columns", (X[:, :2], y, split), r"features \[60, 3\], found \[60, 2\]"
    yield "classes swapped", (X, (3 - y) % 3, split), r"classes \[30, .*found \[30, 10, 20\]"
    yield "a class below 0", (X, y - 1, split), r"found \[30, 20, 10, 0\]"
    yield "a class too many", (X, np.r_[y[:-1], 3], split), r"found \[.*, 1\]"


@pytest.mark.parametrize("number", range(8))
def test_rows_that_are_not_the_catalogues(number, rows, made, in_catalogue, tmp_path):
    in_catalogue(made)
    _, arrays, message = list(faults(*rows))[number]
    write(tmp_path, *arrays)
    with pytest.raises(DataError, match=message) as found:
        load("made", tmp_path)
    assert f"made from {tmp_path}/bsgd/made.parquet: " in str(found.value)


def test_rows_in_another_order_are_the_same_set(rows, made, in_catalogue, tmp_path):
    in_catalogue(made)
    X, y, _ = rows
    write(tmp_path, X[::-1], y[::-1])
    assert np.array_equal(load("made", tmp_path)[0], X[::-1])


def test_the_tolerance_lets_a_near_copy_pass(rows, made, in_catalogue, tmp_path):
    X, y, _ = rows
    write(tmp_path, X + 1e-6, y)
    in_catalogue(made, tolerance=1e-4)
    load("made", tmp_path)
    in_catalogue(made)
    with pytest.raises(DataError, match="fingerprint"):
        load("made", tmp_path)


def test_splits_are_checked_when_they_matter(rows, made, in_catalogue, tmp_path):
    in_catalogue(made)
    X, y, split = rows
    write(tmp_path, X, y, split[::-1])
    load("made", tmp_path)
    with pytest.raises(DataError, match="expected rows of the classes in split 0"):
        load("made", tmp_path, split=0)
    write(tmp_path, X, y)
    with pytest.raises(DataError, match="expected a column split, found none"):
        load("made", tmp_path, split=0)
    with pytest.raises(DataError, match="expected a column split, found none"):
        fetch("made", tmp_path / "out", tmp_path)
    with pytest.raises(DataError, match="made: expected a split of 0 to 1, found 2"):
        load("made", tmp_path, split=2)


def test_files_of_another_layout(rows, made, in_catalogue, tmp_path):
    in_catalogue(made)
    X, y, _ = rows
    path = write(tmp_path, X, y, weight=X[:, 0])
    with pytest.raises(DataError, match=r"expected columns f0, f1, .* found weight"):
        load("made", tmp_path)
    pq.write_table(pa.table({"f0": X[:, 0]}), path)
    with pytest.raises(DataError, match="found no label"):
        load("made", tmp_path)
    path.write_text("f0,label\n")
    with pytest.raises(DataError, match=r"made\.parquet is not Parquet"):
        load("made", tmp_path)


def test_fetch_writes_what_load_reads(rows, made, in_catalogue, tmp_path):
    in_catalogue(made)
    X, y, split = rows
    write(tmp_path / "in", X, y, split)
    path = fetch("made", tmp_path / "out", tmp_path / "in")
    assert path == tmp_path / "out/bsgd/made.parquet"
    assert os.listdir(path.parent) == ["made.parquet"]
    for k in (None, 0, 1):
        for got, expected in zip(
            load("made", tmp_path / "out", k), load("made", tmp_path / "in", k), strict=True
        ):
            assert np.array_equal(got, expected)
    facts = json.loads(pq.read_schema(path).metadata[METADATA])
    assert facts["class_counts"] == [30, 20, 10]
    assert facts["read_from"] == str(tmp_path / "in/bsgd/made.parquet")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.0, 255.0], "uint8"),
        ([-1.0, 255.0], "int16"),
        ([0.0, 40_000.0], "int32"),
        ([0.0, 2.0**31], "double"),
        ([0.0, 0.5], "double"),
    ],
)
def test_values_are_written_in_the_smallest_type_that_holds_them(
    values, kind, in_catalogue, tmp_path
):
    X, y = np.array(values)[:, np.newaxis], np.array([0, 1])
    in_catalogue(Dataset("made", "bsgd", 2, 1, (1, 1), "Made.", fingerprint(X, y)[0]))
    write(tmp_path, X, y)
    path = fetch("made", tmp_path / "out", tmp_path)
    assert str(pq.read_schema(path).field("f0").type) == kind
    assert np.array_equal(load("made", tmp_path / "out")[0], X)


def test_a_write_that_fails_leaves_the_earlier_file(
    rows, made, in_catalogue, tmp_path, monkeypatch
):
    in_catalogue(made)
    path = write(tmp_path, *rows)
    before = path.read_bytes()

    def half(table, stream, **_):
        stream.write(b"PAR1")
        raise OSError("no space left")

    monkeypatch.setattr(loading.pq, "write_table", half)
    with pytest.raises(TemporaryError, match="no space left"):
        fetch("made", tmp_path, tmp_path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["made.parquet"]


@pytest.fixture
def text(tmp_path, in_catalogue):
    """Return the path of a packed svmlight text of 5 rows, 4 columns and 2 classes."""
    in_catalogue(Dataset("linear/tiny", "linear", 5, 4, (2, 3), "Made."))
    X, y = np.eye(5, 4) + 1.0, np.array([-1, 1, 1, -1, 1])
    path = tmp_path / "in/linear/tiny.svm"
    path.parent.mkdir(parents=True)
    dump_svmlight_file(X, y, str(path), zero_based=False)
    packed = path.with_name("tiny.svm.bz2")
    packed.write_bytes(bz2.compress(path.read_bytes()))
    path.unlink()
    return packed


def test_svmlight_text_is_copied_as_it_is(text, tmp_path):
    path = fetch("linear/tiny", tmp_path / "out", tmp_path / "in")
    assert path == tmp_path / "out/linear/tiny.svm.bz2"
    assert path.read_bytes() == text.read_bytes()
    with pytest.raises(DataError, match=r"read linear/tiny\.svm with sklearn"):
        load("linear/tiny", tmp_path / "in")


def test_svmlight_text_that_is_not_the_catalogues(text, tmp_path, in_catalogue):
    source = tmp_path / "in"
    in_catalogue(Dataset("linear/tiny", "linear", 5, 5, (2, 3), "Made."))
    with pytest.raises(DataError, match=r"features \[5, 5\], found \[5, 4\]"):
        fetch("linear/tiny", tmp_path / "out", source)
    in_catalogue(Dataset("linear/tiny", "linear", 5, 4, (3, 2), "Made."))
    with pytest.raises(DataError, match=r"classes \[3, 2\], found \[2, 3\]"):
        fetch("linear/tiny", tmp_path / "out", source)
    text.write_bytes(text.read_bytes()[:-9])
    with pytest.raises(DataError, match="is not svmlight text"):
        fetch("linear/tiny", tmp_path / "out", source)
    shutil.rmtree(text.parent)
    with pytest.raises(InputNotFoundError, match=r"no file .*/linear/tiny\.svm, nor \.gz or \.bz2"):
        fetch("linear/tiny", tmp_path / "out", source)
    with pytest.raises(InputNotFoundError, match=r"svmlight text is only copied.*--from DIR"):
        fetch("linear/tiny", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_fingerprint_does_not_depend_on_the_order_of_rows(rows):
    X, y, _ = rows
    value, scale = fingerprint(X, y)
    assert fingerprint(X[::-1], y[::-1]) == pytest.approx((value, scale), rel=1e-12)
    slow = sum((y[i] + 1) * (j + 1) * X[i, j] for i in range(60) for j in range(3))
    assert value == pytest.approx(slow, rel=1e-12)
    assert scale >= abs(value)
