"""CSV is converted once; types fit the whole file, or an error names the line."""

import errno
import gzip
import os
from collections import Counter

import numpy as np
import pytest

from distsvc.errors import DataError, OutputPermissionError, TemporaryError
from distsvc.job.config import InputConfig, PreprocessConfig
from distsvc.storage.tables.opening import fingerprint, open_table
from distsvc.storage.tables.values import add_counts
from tests.small_tables import everything, opened


def test_csv_with_quotes_newlines_and_missing_values(tmp_path):
    text = 'id,x,note,ok,y\n007,1,"a, ""b""\nc",true,2\n008,,"",false,NA\n009,2.5,NA,true,nan\n'
    (tmp_path / "t.csv").write_text(text)
    table = opened(tmp_path / "t.csv", tmp_path, id="id", classes="note")
    assert table.columns == ("x", "ok", "y")
    assert table.layout.format == "csv"
    assert table.layout.path.startswith(str(tmp_path / "staging"))
    assert table.sources == (str(tmp_path / "t.csv"),)
    rows, X, ids, labels = everything(table)
    nan = np.nan
    np.testing.assert_array_equal(X, [[1, 1, 2], [nan, 0, nan], [2.5, 1, nan]])
    assert ids == ["007", "008", "009"]
    assert labels == ['a, "b"\nc', None, "NA"]
    assert rows.tolist() == [0, 1, 2]


def test_an_empty_text_is_missing(tmp_path):
    text = 'x,id,name\n1,a,NA\n2,,""\n3,c,\n4,d,e\n'
    (tmp_path / "t.csv").write_text(text)
    given = {"columns": ["x"], "id": "id", "classes": "name"}
    _, _, ids, labels = everything(opened(tmp_path / "t.csv", tmp_path, **given))
    assert ids == ["a", None, "c", "d"]
    assert labels == ["NA", None, None, "e"]
    for where, kept in (("name != 'e'", [0]), ("not name == 'NA'", [3]), ("name == ''", [])):
        found = everything(opened(tmp_path / "t.csv", tmp_path, **given, where=where))
        assert found[0].tolist() == kept


def test_several_csv_files_packed_or_not(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "b.csv").write_text("x,y\n3,\n")
    (folder / "a.csv.gz").write_bytes(gzip.compress(b"x,y\n1,u\n") + gzip.compress(b"2,v\n"))
    (folder / "notes.txt").write_text("skipped")
    table = opened(folder, tmp_path, classes="y")
    _, X, _, labels = everything(table)
    np.testing.assert_array_equal(X.ravel(), [1, 2, 3])
    assert labels[:2] == ["u", "v"]
    np.testing.assert_array_equal(everything(opened(folder / "a*", tmp_path))[1].ravel(), [1, 2])


def test_csv_row_groups_and_a_late_fraction(tmp_path, monkeypatch):
    monkeypatch.setattr("distsvc.storage.tables.csv.source._BLOCK_BYTES", 1 << 12)
    n = 600_000
    lines = "\n".join(f"{i},1" for i in range(n))
    (tmp_path / "t.csv").write_text(f"i,x\n{lines}\n{n},0.25\n")
    table = opened(tmp_path / "t.csv", tmp_path, id="i")
    assert table.layout.extents == (262_144, 262_144, n + 1 - 2 * 262_144)
    rows, X, ids, _ = everything(table, n - 5, n + 1)
    assert ids == list(rows)
    assert X.ravel().tolist() == [1] * 5 + [0.25]


@pytest.mark.parametrize(
    "text",
    [
        "Temp, C;Power, kW;name\n21,5;-3,25;a,b\n22,5;4;c\n",
        "Temp, C\tPower, kW\tname\n21,5\t-3,25\ta,b\n22,5\t4\tc\n",
    ],
)
def test_decimal_commas_beside_other_separators(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    table = opened(tmp_path / "t.csv", tmp_path)
    assert table.columns == ("Temp, C", "Power, kW")
    assert everything(table)[1].tolist() == [[21.5, -3.25], [22.5, 4.0]]


def test_csv_is_converted_once(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("x\n1\n")
    table = opened(path, tmp_path)
    monkeypatch.setattr("pyarrow.csv.open_csv", None)
    assert opened(path, tmp_path) == table
    monkeypatch.undo()
    path.write_text("x\n1\n2\n")
    assert opened(path, tmp_path).n_rows == 2
    assert sorted(p.suffix for p in (tmp_path / "staging").iterdir()) == [".parquet", ".parquet"]


def test_fingerprint_of_csv_is_that_of_the_csv(tmp_path):
    (tmp_path / "t.csv").write_text("x\n1\n")
    one = open_table(InputConfig(path=str(tmp_path / "t.csv")), tmp_path / "one")
    two = open_table(InputConfig(path=str(tmp_path / "t.csv")), tmp_path / "two")
    assert one.layout.path != two.layout.path
    first = fingerprint(one)
    assert fingerprint(two) == first
    os.utime(tmp_path / "t.csv", (1, 1))
    changed = fingerprint(open_table(InputConfig(path=str(tmp_path / "t.csv")), tmp_path / "one"))
    assert changed != first


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"t.csv has no rows"),
        (b"\n \n", r"t.csv has no rows"),
        (b"x,y\n", r"t.csv has no rows"),
        (b"x,y", r"t.csv has no rows"),
        (b"x,y\n1,2\n1,2,3\n", r"t.csv, line 3: the number of fields is 3, .*: '1,2,3'; mend"),
        (b"y,y\n1,2\n", r"t.csv has two columns named 'y'"),
        (b"1,2\n3,4\n", r"t.csv has no header: its first line is \[1.0, 2.0\]"),
        (b"x,y\n1,\xff\xfe\n", r"t.csv"),
    ],
)
def test_a_bad_csv(tmp_path, content, message):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        opened(tmp_path / "t.csv", tmp_path, columns=["y"])


def test_a_csv_type_that_changes_later(tmp_path, monkeypatch):
    monkeypatch.setattr("distsvc.storage.tables.csv.source._BLOCK_BYTES", 64)
    (tmp_path / "t.csv").write_text("x\n" + "1\n" * 100 + "oops\n")
    with pytest.raises(DataError, match=r"t.csv, line 102: column 'x': .* found 'oops'"):
        opened(tmp_path / "t.csv", tmp_path)
    assert list((tmp_path / "staging").iterdir()) == []


def test_a_csv_feature_may_begin_empty(tmp_path, monkeypatch):
    monkeypatch.setattr("distsvc.storage.tables.csv.source._BLOCK_BYTES", 64)
    (tmp_path / "t.csv").write_text("x,y\n" + "1,\n" * 100 + "1,2\n")
    assert opened(tmp_path / "t.csv", tmp_path).columns == ("x",)
    X = everything(opened(tmp_path / "t.csv", tmp_path, columns=["y"]))[1].ravel()
    assert X[-1] == 2
    assert np.isnan(X[:-1]).all()


def test_csv_files_whose_headers_or_types_differ(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x,z\n1,2\n")
    message = r"column 'y' is missing from .*b.csv, column 'z' is in .*b.csv, not in"
    with pytest.raises(DataError, match=message):
        opened(tmp_path / "*.csv", tmp_path)
    assert everything(opened(tmp_path / "*.csv", tmp_path, columns=["x"]))[1].ravel().tolist() == [
        1,
        1,
    ]
    (tmp_path / "b.csv").write_text("y,x\n3,4\n")
    assert everything(opened(tmp_path / "*.csv", tmp_path))[1].tolist() == [[1, 2], [4, 3]]
    for content in (b"", b"x,y"):
        (tmp_path / "c.csv").write_bytes(content)
        assert opened(tmp_path / "*.csv", tmp_path).n_rows == 2
    (tmp_path / "c.csv").unlink()
    (tmp_path / "b.csv").write_text("x,y\n1,two\n")
    with pytest.raises(DataError, match=r"'y' is text in .*b.csv, a whole number in earlier files"):
        opened(tmp_path / "*.csv", tmp_path)


def test_the_first_bytes_decide_how_a_file_is_unpacked(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_text("x\n1\n")
    assert opened(path, tmp_path).n_rows == 1
    (tmp_path / "t.csv").write_bytes(gzip.compress(b"x\n1\n2\n"))
    assert opened(tmp_path / "t.csv", tmp_path).n_rows == 2
    (tmp_path / "u.csv").write_bytes(b"PK\3\4" + bytes(100))
    with pytest.raises(DataError, match=r"u.csv is named like CSV, but begins like a ZIP"):
        opened(tmp_path / "u.csv", tmp_path)
    path.write_bytes(gzip.compress(b"x\n1\n")[:10])
    with pytest.raises(DataError, match=r"can't read .*t.csv.gz: the compressed file is truncated"):
        opened(path, tmp_path)
    content = gzip.compress(b"x\n" + b"".join(b"%d\n" % i for i in range(50_000)))
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"can't read .*t.csv.gz: "):
        opened(path, tmp_path)


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (PermissionError(errno.EACCES, "no"), OutputPermissionError, "no permission to write"),
        (OSError(errno.ENOSPC, "full"), TemporaryError, "no space left to write .*full"),
    ],
)
def test_csv_that_can_not_be_staged(tmp_path, monkeypatch, error, expected, message):
    (tmp_path / "t.csv").write_text("x\n1\n")

    def fail(*_args):
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(expected, match=message):
        opened(tmp_path / "t.csv", tmp_path)
    assert list((tmp_path / "staging").iterdir()) == []


def put(path, header, rows):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("late", "first"),
    [("A1", "1"), ("5", ""), ("unknown", "2026-11-20"), ("x", "0x1f"), ("2", "true")],
)
def test_columns_that_nobody_needs_have_no_type(tmp_path, monkeypatch, late, first):
    monkeypatch.setattr("distsvc.storage.tables.csv.source._BLOCK_BYTES", 512)
    rows = [f"{first if k < 200 else late},{k % 7}" for k in range(220)]
    path = put(tmp_path / "t.csv", "c,x", rows)
    assert everything(opened(path, tmp_path, columns=["x"]))[1].ravel().tolist()[:3] == [0, 1, 2]
    assert opened(path, tmp_path, columns=["x"]).left_out.keys() == {"c"}


@pytest.mark.parametrize("truth", ["True", "TRUE", "true"])
def test_truths_are_categories_beside_other_words(tmp_path, truth):
    put(tmp_path / "a.csv", "k,x", [f"{truth if k % 2 else 'False'},{k}" for k in range(40)])
    put(tmp_path / "b.csv", "k,x", [f"{'Unknown' if k < 10 else truth},{k}" for k in range(40)])
    found = []
    for name in "a.csv", "*.csv":
        config = InputConfig(path=str(tmp_path / name))
        table = open_table(config, tmp_path / "staging", PreprocessConfig(encode={"k": "onehot"}))
        counts = {"k": Counter()}
        add_counts(counts, table, 0, table.n_rows)
        found.append(counts["k"])
    assert found == [{"false": 20, "true": 20}, {"false": 20, "true": 50, "Unknown": 10}]


def test_long_integers_are_compared_as_they_are_written(tmp_path):
    first = 123456789012345678901
    path = put(tmp_path / "t.csv", "tenant,x", [f"{first + k % 3},{k}" for k in range(30)])
    kept = everything(opened(path, tmp_path, where=f"tenant == {first + 1}"))[1]
    assert kept.ravel().tolist() == list(range(1, 30, 3))


def test_a_name_that_two_unused_columns_share(tmp_path):
    put(tmp_path / "t.csv", "a,c,b,c", [f"{k}.5,x,{k},y" for k in range(9)])
    assert opened(tmp_path / "t.csv", tmp_path, columns=["a", "b"]).columns == ("a", "b")
    put(tmp_path / "t.csv", "a,c,b,c", [*[f"{k}.5,x,{k},y" for k in range(9)], "1.5,x,2.5e,y"])
    with pytest.raises(DataError, match=r"t.csv, line 11: column 'b': expected numbers"):
        opened(tmp_path / "t.csv", tmp_path, columns=["a", "b"])
    for columns in (None, ["a", "c"]):
        with pytest.raises(DataError, match="two columns named 'c'"):
            opened(tmp_path / "t.csv", tmp_path, columns=columns)


@pytest.mark.parametrize("content", [b"BZh9", b'{"a": 1}\n', b"[{}]", b"<html>\n"])
def test_other_formats_named_like_csv_are_refused(tmp_path, content):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=r"but begins like .* write it as CSV"):
        opened(tmp_path / "t.csv", tmp_path)
