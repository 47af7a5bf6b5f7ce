"""The text of a CSV file: its separator, its header, and the spelling of numbers."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from distsvc.errors import DataError

HEAD_BYTES = 1 << 16
"""Of a file, in which its first line is looked for."""

_SEPARATORS = ",;\t|"
_QUOTED = re.compile(rb'"[^"]*"?')
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_SPELLED = (
    r"^[+-]?[$€£]?\s?"
    r"(\d{1,3}(,\d{3})+(\.\d+)?|\d{1,3}(\.\d{3})+,\d+|\d+,\d+|\d+(\.\d+)?)\s?[%€$£]?$"
)
"""Numbers with a decimal comma, separated thousands, a currency or a percent sign."""

_NOTHING = pa.array(csv.ConvertOptions().null_values)
"""Texts that stand for no number: nothing, and words such as NA."""

_WHOLE = r"^(0|-?[1-9]\d*)$"
_SHOWN = 40
"""Characters of a value in a message."""


def separator(shown: str, head: bytes) -> str:
    """Return the separator of a file by its first bytes; `DataError` if they are not UTF-8.

    It is the comma, the semicolon, the tab or the bar: the most frequent one in the first line.
    """
    line = _QUOTED.sub(b"", head).split(b"\n", 1)[0]
    try:
        if head.startswith(_UTF16):
            raise ValueError
        line.decode("utf-8", "strict" if len(head) < HEAD_BYTES else "ignore")
    except ValueError:
        raise DataError(
            f"{shown} is not UTF-8: write it as UTF-8, such as with iconv -t UTF-8"
        ) from None
    return max(_SEPARATORS, key=lambda one: line.count(one.encode()))


def check_header(shown: str, names: list[str], expected: list[str]) -> None:
    """Raise DataError for a header unlike the first file's, or one that is a line of values."""
    if names != expected:
        raise DataError(f"the header of {shown} is {names}, expected {expected} as in the first")
    numbers = [float(name) for name in names if re.match(_NUMBER, name.strip())]
    rising = all(one < other for one, other in itertools.pairwise(numbers))
    # Years or wavelengths rise, and pandas calls a single column 0.
    if len(numbers) == len(names) or not (rising and (len(numbers) != 1 or numbers == [0])):
        line = numbers if len(numbers) == len(names) else names
        raise DataError(
            f"{shown} has no header: its first line is {line}; put a line with the columns' names "
            "above it"
        )


def check_distinct(shown: str, names: list[str]) -> None:
    """Raise DataError for two columns of one name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"{shown} has two columns named {twice[0]!r}")


def check_text(shown: str, name: str, values: pa.Array) -> None:
    """Refuse a column of text most of whose values are numbers, in whatever spelling."""
    words = pc.utf8_trim_whitespace(values)
    given = pc.invert(pc.is_in(words, _NOTHING))
    numbers = pc.and_(given, pc.match_substring_regex(words, _NUMBER))
    spelled = pc.and_not(pc.and_(given, pc.match_substring_regex(words, _SPELLED)), numbers)
    n_given, n_numbers, n_spelled = (
        pc.sum(mask).as_py() or 0 for mask in (given, numbers, spelled)
    )
    if n_numbers and 2 * n_numbers >= n_given:
        odd, alike = pc.and_not(given, numbers), n_numbers
        expected = "expected a number, as in {} of the first {} rows, found {!r}; mend the value"
    elif n_spelled and 2 * (n_numbers + n_spelled) >= n_given:
        odd, alike = spelled, n_spelled
        expected = (
            "expected a number such as -1234.5, but {} of the first {} rows are like {!r}; write "
            "them with a decimal point and nothing else"
        )
    else:
        return
    row = pc.index(odd, True).as_py()
    message = expected.format(alike, n_given, values[row].as_py()[:_SHOWN])
    raise DataError(
        f"{shown}: column {name!r}, row {row}: {message}, or leave the column out of input.columns"
    )


def are_plain_integers(values: pa.Array) -> bool:
    """Return whether texts are whole numbers that can be had back as they are written.

    Not so are 007, 1.10 or a number of 20 digits, which an id may be.
    """
    known = values.drop_null()
    if not pc.all(pc.match_substring_regex(known, _WHOLE), min_count=0).as_py():
        return False
    try:
        known.cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def with_missing(batch: pa.RecordBatch, codes: Collection[str]) -> pa.RecordBatch:
    """Return rows whose empty texts are null; of `codes`, also what stands for no number."""
    nothing, null = pa.array([""]), pa.scalar(None, pa.string())
    for k, field in enumerate(batch.schema):
        if pa.types.is_string(field.type):
            text = batch.column(k)
            empty = pc.is_in(text, _NOTHING if field.name in codes else nothing)
            batch = batch.set_column(k, field, pc.if_else(empty, null, text))
    return batch
