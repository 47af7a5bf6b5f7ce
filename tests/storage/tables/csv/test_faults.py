"""Faulty CSV: the error names the line, the text found, and the fix."""

import gzip
import re

import pytest

from distsvc.errors import DataError
from tests.small_tables import opened

PLAIN = "größe,x\n" + "".join(f"{k % 7},{k / 2}\n" for k in range(60))


def refused(path, tmp_path, **fields) -> str:
    with pytest.raises(DataError) as caught:
        opened(path, tmp_path, **fields)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16LE"),
        ("utf-16-be", "UTF-16BE"),
        ("utf-32", "UTF-32"),
        ("latin-1", "LATIN1"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_the_encoding_of_a_file_is_named(tmp_path, encoding, named, packed):
    content = PLAIN.encode(encoding)
    path = tmp_path / ("my t.csv.gz" if packed else "my t.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    suffix = ".gz" if packed else ""
    expected = f"csv{suffix}, line 1 is not UTF-8, but looks like {named}; write it as UTF-8"
    assert expected in refused(path, tmp_path)


@pytest.mark.parametrize("start", [1, 2000])
def test_wrong_bytes_in_a_used_column_are_an_error(tmp_path, monkeypatch, start):
    monkeypatch.setattr("distsvc.storage.tables.csv.source._BLOCK_BYTES", 4096)
    lines = [f"{k},Köln {k}" if k >= start else f"{k},Bonn" for k in range(4000)]
    path = tmp_path / "t.csv"
    path.write_bytes(("x,city\n" + "\n".join(lines)).encode("latin-1"))
    message = refused(path, tmp_path, columns=["x", "city"])
    if start > 1:  # the column looked like text
        assert f"line {start + 2} is not UTF-8" in message
    else:
        assert "line 3 is not UTF-8" in message
        assert opened(path, tmp_path).columns == ("x",), "a column that nobody uses"


def test_wrong_bytes_in_a_category_are_an_error(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(("x,city\n1,Bonn\n" + "2,Köln\n" * 9).encode("latin-1"))
    assert "line 3 is not UTF-8, but looks like LATIN1" in refused(path, tmp_path)
    assert opened(path, tmp_path, exclude=["city"]).columns == ("x",)


def test_characters_of_windows(tmp_path):
    (tmp_path / "t.csv").write_bytes("preis €,x\n1,2\n3,4\n".encode("cp1252"))
    assert "looks like CP1252" in refused(tmp_path / "t.csv", tmp_path)


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_mark_of_utf8_is_no_part_of_the_text(tmp_path, separator):
    (tmp_path / "t.csv").write_text(f'"x"{separator}y\n1{separator}2\n', encoding="utf-8-sig")
    assert opened(tmp_path / "t.csv", tmp_path).columns == ("x", "y")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# made by hand\nx,y\n1,2\n3,4\n", "line 2: the number of fields is 2, expected 1"),
        (
            "# made by hand, by me, today\nx,y\n1,2\n3,4\n",
            "line 2: the number of fields is 2, expected 3",
        ),
        ("x,y\n1,2\n# a pause\n3,4\n", "line 3: the number of fields is 1, expected 2"),
        ("x\n1\n# a pause\n3\n", "line 3: column 'x': expected numbers"),
    ],
)
def test_a_comment_is_a_fault(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    assert f"t.csv, {message}" in refused(tmp_path / "t.csv", tmp_path)


def words_of(message: str) -> list[str]:
    return re.findall(r"'([^']*)' \(\d+\)", message)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("separator", [",", ";"])
def test_one_error_lists_all_words_that_are_no_numbers(tmp_path, monkeypatch, late, separator):
    monkeypatch.setattr("distsvc.storage.tables.csv.source._BLOCK_BYTES", 256)
    rows = [[f"{k}.5", f"{k}", "ok"] for k in range(300)]
    first = 200 if late else 3
    for k, word in enumerate(["n.a.", "?", "n.a.", "NA", "missing"]):
        rows[first + k][0] = word
    rows[first + 2][1] = "unknown"
    path = tmp_path / "t.csv"
    path.write_text("\n".join(separator.join(row) for row in [["x", "y", "z"], *rows]))
    message = refused(path, tmp_path)
    assert f"t.csv, line {first + 2}: column 'x': expected numbers such as" in message
    assert f"line {first + 4}: column 'y'" in message
    assert words_of(message) == ["n.a.", "?", "missing", "unknown"]
    assert "'n.a.' (2)" in message
    assert "leave them empty if they are missing" in message


@pytest.mark.parametrize(("word", "number"), [("<0.5", "0.5"), ("> 90", "90"), ("\u2264.1", ".1")])
def test_error_about_limits_of_detection_shows_the_number_to_write(tmp_path, word, number):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["x,y", *(f"{k}.5,{k}" for k in range(99)), f"{word},1", "n.d.,1"]))
    message = refused(path, tmp_path)
    assert f"mend the values (write {word!r} as {number}), leave them empty" in message


def test_many_words_and_columns_are_counted(tmp_path):
    rows = [[f"{k}.5" if k % 2 else f"w{k // 2:02}x" for _ in range(7)] for k in range(41)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(map(",".join, [list("abcdefg"), *[["1"] * 7] * 5, *rows])))
    message = refused(path, tmp_path)
    assert "and 11 more words" in message
    assert "and 2 more columns" in message
    assert "mend the values" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('x;name\n1;"two\nlines"\n\n2;one\noops;one\n3;one\n', "line 6: column 'x'"),
        ('x,y\n5.5,"1,234.5"\n6.5,12\n7.5,13', "found '1,234.5' (1)"),
        ("x;y\n5.5;1,25\n6.5;2\n7.5;0,5", "found '1,25' (1), '0,5' (1) in the first 3 rows"),
        ('x,y\n"5,5",1\n"6,5",2\n', "write '5,5' as 5.5, if the comma is a decimal comma"),
        ("x;y\n1,250;1\n2,500;2\n", "column 'x': expected numbers"),
        ("x;y\n1.5e-05;1,5\n2.0e+00;2,5\n", "found '1,5' (1), '2,5' (1)"),
        (
            "x;y\n1,5;1\n2,5;2\nabc;3\n",
            "line 4: column 'x': expected numbers such as -1234.5, found 'abc'",
        ),
        ("x,y\n1,2,\n3,4,\n", "line 2: the number of fields is 3, expected 2, as in the header"),
        ("Report of May\n\nx,y\n1,2\n3,4\n", "line 3: the number of fields is 2, expected 1"),
        ("x,y\n1,2\n3,4\n" + "\0" * 4096, "line 4 has zero bytes"),
        ("x,y\n1,2\n3" + "\0" * 99 + ",4\n", "line 3 has zero bytes"),
    ],
)
def test_a_fault_is_named_by_its_line_or_its_words(tmp_path, text, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert message in refused(path, tmp_path)


@pytest.mark.parametrize(
    ("notes", "last"),
    [
        ({10: '"wide 24'}, 41),
        ({10: '"wide 24', 20: '5" disc'}, 22),
        ({10: '"wide 24', 20: '24 wide"'}, 22),
    ],
)
def test_a_quote_that_swallows_lines(tmp_path, monkeypatch, notes, last):
    monkeypatch.setattr("distsvc.storage.tables.csv.source._BLOCK_BYTES", 256)
    path = tmp_path / "t.csv"
    path.write_text("a,b,note\n" + "".join(f"{k},{k}.5,{notes.get(k, 'x')}\n" for k in range(40)))
    for columns in (["a"], None):
        found = refused(path, tmp_path, columns=columns)
        assert (
            f"line 12: a quote at the start of a value joins the lines 12 to {last} into one row;"
            in found
        )


SPELLED = [
    "{}-",
    "({})",
    "1'{}",
    "1\N{RIGHT SINGLE QUOTATION MARK}{}",
    "EUR {}",
    "CHF{}",
    "US$ {}",
    "{} %",
    "1 {}",
    "-{}€",
]


@pytest.mark.parametrize("spelled", SPELLED)
def test_numbers_of_other_countries_and_programs(tmp_path, spelled):
    path = tmp_path / "t.csv"
    rows = [f"{spelled.format(f'{100 + k}.25')};{k}" for k in range(60)]
    path.write_text("\n".join(["a;b", *rows]))
    assert "line 2: column 'a': expected numbers such as" in refused(path, tmp_path)
    assert opened(path, tmp_path, columns=["b"]).columns == ("b",)


@pytest.mark.parametrize("word", [".", "?", "n.d.", "unknown"])
def test_a_frequent_word_among_numbers_is_named(tmp_path, word):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,b", *[f"{word if k % 3 else k / 4},{k}" for k in range(90)]]))
    assert words_of(refused(path, tmp_path)) == [word]


def test_points_for_thousands(tmp_path):
    path = tmp_path / "t.csv"
    numbers = [980 + k for k in range(60)]
    rows = [f"{n:,}".replace(",", ".") + f";{n % 7}" for n in numbers]
    path.write_text("\n".join(["umsatz;menge", *rows]))
    message = refused(path, tmp_path)
    assert "line 22: column 'umsatz': the point in '1.000' may separate thousands" in message
    path.write_text("\n".join(["x;y", *[f"{k / 8:.3f};{k}" for k in range(100)]]))
    assert opened(path, tmp_path, columns=["x"]).columns == ("x",)


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("t.csv", "Temp, C;Power, kW\n21.5;3\n22.5;4\n", ("Temp, C", "Power, kW")),
        ("t.tsv", "value, kW\tother\n1\t2\n", ("value, kW", "other")),
        ("t.csv", 'size (");weight\n1;2\n', ('size (")', "weight")),
        ("t.csv", "sep=;\na;b\n1;2\n", ("a", "b")),
        ("t.csv", "a|b, c, d\n1|2\n", ("a", "b, c, d")),
    ],
)
def test_the_first_lines_decide_the_separator(tmp_path, name, text, columns):
    (tmp_path / name).write_text(text)
    assert opened(tmp_path / name, tmp_path).columns == columns
