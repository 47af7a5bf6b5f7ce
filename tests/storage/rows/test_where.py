"""The filter language: its syntax, its matches, and its errors."""

import datetime
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distsvc.errors import DataError, JobFileError
from distsvc.storage.rows.where import parse_where, where_columns

COLUMNS = {
    "x": pa.array([1.0, 2.5, None, float("nan"), -3.0]),
    "n": pa.array([1, 2, 3, None, 2**60], pa.int64()),
    "small": pa.array([0, 1, 2, 3, 255], pa.uint8()),
    "s": pa.array(["a", "b", "a", None, "it's"]),
    "b": pa.array([True, False, True, None, False]),
    "two words": pa.array([1, 1, 2, 2, 3]),
    "day": pa.array([datetime.date(2024, 1, day) for day in (1, 2, 3, 4, 5)]),
    "price": pa.array([Decimal("0.10"), Decimal("1.50"), None, Decimal("2.00"), Decimal("9.99")]),
    "f4": pa.array(np.array([0.1, 0.2, 0.3, 0.4, 0.5], np.float32)),
    "f2": pa.array(np.array([0.5, 1.0, 1.5, np.nan, 2.0], np.float16)),
    "größe": pa.array([1, 2, 3, 4, 5]),
    "nothing": pa.nulls(5),
}


def matches(text: str) -> list[int]:
    mask = parse_where(text).mask(COLUMNS)
    assert mask.null_count == 0
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False)).tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x == 2.5", [1]),
        ("x != 2.5", [0, 4]),
        ("x < 1", [4]),
        ("x <= 1", [0, 4]),
        ("x > -3", [0, 1]),
        ("x >= -3.0e0", [0, 1, 4]),
        ("x>=+.5", [0, 1]),
        ("not x > 0", [4]),
        ("not (x > 0 or x < 0)", []),
        ("n == 1152921504606846976", [4]),
        ("n > 1.5", [1, 2, 4]),
        ("small == 300", []),
        ("small < 300", [0, 1, 2, 3, 4]),
        ("small > -1", [0, 1, 2, 3, 4]),
        ("small < 1000000000000000000000000000000000000000", [0, 1, 2, 3, 4]),
        ("s == 'a'", [0, 2]),
        ('s != "a"', [1, 4]),
        (r"s == 'it\'s'", [4]),
        ('s == "it\'s"', [4]),
        ("s < 'b'", [0, 2]),
        ("b == true", [0, 2]),
        ("b == False", [1, 4]),
        ("b != True", [1, 4]),
        ("`two words` == 2", [2, 3]),
        ("n in [1, 3, 7]", [0, 2]),
        ("s in ['b']", [1]),
        ("s not in ['b', 'a']", [4]),
        ("not s in ['b', 'a']", [4]),
        ("x in [1, 2.5]", [0, 1]),
        ("day >= '2024-01-04'", [3, 4]),
        ("price == 0.1", [0]),
        ("price > 1", [1, 3, 4]),
        ("f4 == 0.1", [0]),
        ("f4 <= 0.3", [0, 1, 2]),
        ("f2 > 0.75", [1, 2, 4]),
        ("größe > 4", [4]),
        ("nothing == 1 or n == 1", [0]),
        ("not nothing == 1", []),
        ("x == 1 or n == 2 and b == true", [0]),
        ("(x == 1 or n == 2) and b == false", [1]),
        ("not b == true and n > 0", [1, 4]),
        ("not not n == 1", [0]),
        ("n\n==\t1", [0]),
    ],
)
def test_matches(text, expected):
    assert matches(text) == expected


def test_columns_are_named_once_in_order():
    text = "b == true and (n in [1] or not `two words` > 2) and n < 4"
    assert where_columns(text) == ("b", "n", "two words")
    assert where_columns(None) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"expected a column name at character 1, found the end"),
        ("x", r"expected ==, .* or in at character 2, found the end"),
        ("x = 1", r"unexpected '=' at character 3: x = 1"),
        ("x ==", r"expected a number, a text in quotes, true or false at character 5"),
        ("x == y", r"expected a number, .* at character 6, found 'y'"),
        ("1 == x", r"expected a column name at character 1, found '1'"),
        ("x == 1 y == 2", r"expected 'and', 'or' or the end at character 8, found 'y'"),
        ("x == 1 and", r"expected a column name at character 11, found the end"),
        ("(x == 1", r"expected '\)' at character 8, found the end"),
        ("x == 1)", r"expected 'and', 'or' or the end at character 7, found '\)'"),
        ("x in 1", r"expected '\[' at character 6, found '1'"),
        ("x in []", r"expected a number, .* at character 7, found '\]'"),
        ("x in [1 2]", r"expected '\]' at character 9, found '2'"),
        ("x not == 1", r"expected 'in' at character 7, found '=='"),
        ("x == 'open", r"unexpected \"'\" at character 6"),
        ("x == 1; y", r"unexpected ';' at character 7"),
        ("__import__('os')", r"expected ==, .* found '\('"),
        ("x.y == 1", r"unexpected '\.' at character 2"),
        ("and == 1", r"expected a column name at character 1, found 'and'"),
        ("not", r"expected a column name at character 4, found the end"),
        ("x == 1e", r"found 'e'"),
        ("(" * 5000 + "x == 1" + ")" * 5000, r"nested too deeply"),
        ("not " * 5000 + "x == 1", r"nested too deeply"),
        ("x == 1 and (" * 5000 + "x == 1" + ")" * 5000, r"nested too deeply"),
        ("x == 1\0", r"unexpected '\\x00' at character 7"),
        ("x == 1 # note", r"unexpected '#' at character 8"),
        ("x in [1,]", r"expected a number, .* at character 9, found '\]'"),
        ("x in (1, 2)", r"expected '\[' at character 6, found '\('"),
        ("1 < x < 2", r"expected a column name at character 1, found '1'"),
        ("x < 1 < 2", r"expected 'and', 'or' or the end at character 7, found '<'"),
        ("(x) == 1", r"expected ==, .* at character 3, found '\)'"),
        ("x == 'a' 'b'", r"expected 'and', 'or' or the end at character 10"),
        ("x == 1_000", r"expected 'and', 'or' or the end at character 7, found '_000'"),
    ],
)
def test_syntax_errors_name_the_position(text, message):
    with pytest.raises(JobFileError, match=message):
        parse_where(text)


@pytest.mark.parametrize(
    "name", ["class", "None", "lambda", "x²", "ﬁ", "_0", "`and`", "`a.b`", "`x == 1 or y`", "`1`"]
)
def test_a_column_may_have_any_name(name):
    column = name.strip("`")
    condition = parse_where(f"{name} == 1 or not {name} in [2, 3]")
    assert condition.columns == (column,)
    assert condition.mask({column: pa.array([1, 2, 4])}).to_pylist() == [True, False, True]


@pytest.mark.parametrize("number", ["9" * 29, "9" * 31, "9" * 5000, "1e999", "-1e999", "007"])
def test_numbers_of_any_size(number):
    mask = parse_where(f"n < {number} or n > {number}").mask({"n": pa.array([1], pa.int64())})
    assert mask.to_pylist() == [True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s == 1", r"column 's' \(text\) with 1"),
        ("n == 'a'", r"column 'n' \(a whole number\) with 'a'"),
        ("b == 1", r"column 'b' \(true or false\) with 1"),
        ("n == true", r"column 'n' \(a whole number\) with True"),
        ("s == true", r"column 's' \(text\) with True"),
        ("day == 'soon'", r"column 'day' \(a date\) with 'soon'"),
        ("day == 3", r"column 'day'"),
    ],
)
def test_a_literal_of_another_kind_is_named(text, message):
    with pytest.raises(DataError, match=message):
        parse_where(text).mask(COLUMNS)


@pytest.mark.parametrize(
    ("days", "text", "message"),
    [
        (["28.07.2026", None], "day >= '2026-03-01'", "holds text such as '28.07.2026'; write"),
        (["2026-03-01", "7/28/2026"], "day != '2026-03-01'", "holds text such as '7/28/2026'"),
        (["20260728"], "not day in ['2026-03-01']", "holds text such as '20260728'"),
        (["2026/07/28 10:00"], "day < '2026-03-01 12:00'", "holds text such as '2026/07/28 10:00'"),
        (["28.07.2026"], "day > '01.03.2026'", "whose order as text is not the order of dates"),
    ],
)
def test_dates_in_another_spelling_are_named(days, text, message):
    with pytest.raises(DataError, match=re.escape(message)):
        parse_where(text).mask({"day": pa.array(days)})


@pytest.mark.parametrize(
    ("days", "text", "expected"),
    [
        (["2026-07-28", "2026-01-01", "unknown", None], "day >= '2026-03-01'", [1, 0, 1, 0]),
        (["28.07.2026", "01.03.2026"], "day == '01.03.2026'", [0, 1]),
        (["10.0.12.2026", "28.07.2026"], "day > '10.0'", [1, 1]),
    ],
)
def test_text_is_compared_as_text(days, text, expected):
    mask = parse_where(text).mask({"day": pa.array(days)})
    assert mask.to_pylist() == [bool(one) for one in expected]


names = st.sampled_from(["p", "q"])
comparisons = st.builds(
    "{} {} {}".format, names, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), st.integers(0, 3)
)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds("({}) and ({})".format, inner, inner),
        st.builds("({}) or ({})".format, inner, inner),
        st.builds("not ({})".format, inner),
    ),
    max_leaves=8,
)


@given(conditions)
def test_agrees_with_python_where_nothing_is_missing(text):
    p, q = (grid.ravel() for grid in np.meshgrid(range(4), range(4)))
    mask = parse_where(text).mask({"p": pa.array(p), "q": pa.array(q)})
    expected = [eval(text, {"p": i, "q": j}) for i, j in zip(p, q, strict=True)]
    assert mask.to_pylist() == expected


def test_a_text_without_a_zone_is_in_utc():
    times = [datetime.datetime(2026, 11, day, tzinfo=datetime.UTC) for day in (20, 21)]
    column = {"t": pa.array(times, pa.timestamp("us", "Europe/Berlin"))}
    assert parse_where("t < '2026-11-21'").mask(column).to_pylist() == [True, False]
    assert parse_where("t < '2026-11-20T00:00+01:00'").mask(column).to_pylist() == [False, False]


TENANTS = [1234567890123456700 + k for k in range(3)]
CENTS = [Decimal(k).scaleb(-2) for k in range(2000)]


@pytest.mark.parametrize(
    "kind", [pa.decimal128(38, 0), pa.decimal256(60, 2), pa.int64(), pa.uint64()]
)
def test_large_integers_are_compared_exactly(kind):
    values = pa.array([k if pa.types.is_integer(kind) else Decimal(k) for k in TENANTS], kind)
    for text, expected in {
        f"x == {TENANTS[1]}": [False, True, False],
        f"x != {TENANTS[0]}": [False, True, True],
        f"x < {TENANTS[1]}.5": [True, True, False],
        f"x >= {TENANTS[2]}.0": [False, False, True],
        "x < 1e70": [True, True, True],
        "x > 1e-300": [True, True, True],
        "x == 12345678901234567890123456789012345678901": [False, False, False],
    }.items():
        assert parse_where(text).mask({"x": values}).to_pylist() == expected, text


@pytest.mark.parametrize("scale", [2, 4, 10])
def test_amounts_equal_their_own_literals(scale):
    values = pa.array(CENTS, pa.decimal128(20, scale))
    for k in range(0, 2000, 37):
        found = parse_where(f"x == {CENTS[k]}").mask({"x": values})
        assert np.flatnonzero(found.to_numpy(zero_copy_only=False)).tolist() == [k]
