import pytest

from benchmarks.harness.rows import (
    grouped,
    mean_of,
    only,
    pivot,
    read_csv,
    show,
    write_csv,
)  # fmt: skip

ROWS = [
    {"set": "a", "method": "x", "seed": 0, "nmi": 0.5},
    {"set": "a", "method": "x", "seed": 1, "nmi": 0.7},
    {"set": "a", "method": "y", "seed": 0, "nmi": None},
    {"set": "b", "method": "x", "seed": 0, "nmi": 1.0},
]


def test_csv_and_back(tmp_path):
    path = tmp_path / "out" / "rows.csv"
    write_csv(path, ROWS, {"cpu": "one, fast"})
    assert read_csv(path) == [row | {"cpu": "one, fast"} for row in ROWS]
    write_csv(path, [{"x": 1 / 3, "n": 20_000, "big": 123_456_789.0}], {})
    assert path.read_text() == "x,n,big\n0.333333,20000,1.23457e+08\n"
    assert read_csv(tmp_path / "none.csv") == []


def test_values_side_by_side_are_means_of_what_is_known():
    wide = pivot(ROWS, ("set",), "method", "nmi")
    assert wide == [
        {"set": "a", "x": pytest.approx(0.6), "y": None},
        {"set": "b", "x": 1.0, "y": None},
    ]


def test_rows_by_their_values():
    assert [(key, len(rows)) for key, rows in grouped(ROWS, ("set", "method")).items()] == [
        (("a", "x"), 2), (("a", "y"), 1), (("b", "x"), 1),
    ]  # fmt: skip
    assert only(ROWS, set="a", seed=0) == [ROWS[0], ROWS[2]]
    assert mean_of([None, None]) is None
    assert mean_of([1, None, 2]) == 1.5


def test_a_shown_table(capsys):
    show("Title", [{"set": "a", "n": 5, "s": 12345.6}, {"set": "bcd", "s": None}])
    assert capsys.readouterr().out.splitlines() == [
        "Title",
        "  set  n       s",
        "  a    5  12,346",
        "  bcd",
    ]
    show("Nothing", [])
    assert capsys.readouterr().out == ""
