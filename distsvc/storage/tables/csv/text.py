"""The text of a CSV file: its separator, its header, and the spelling of numbers."""

from __future__ import annotations

import codecs
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
_MARKS = {
    b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16",
}  # fmt: skip
"""Beginnings of a text that say how it is encoded."""

_OF_WINDOWS = re.compile(rb"[\x80\x82-\x8c\x8e\x91-\x9c\x9e\x9f]")
"""Characters of Windows that Latin-1 does not have, such as a typographic quote."""

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"

NOTHING = pa.array(csv.ConvertOptions().null_values)
"""Texts that stand for no number: nothing, and words such as NA."""

_WHOLE = r"^(0|-?[1-9]\d*)$"
_LARGE = r"^-?\d{1,38}$"


def encoding_of(text: bytes) -> str | None:
    """Return what a text is likely to be in, as iconv calls it; None for UTF-8.

    It may end within a character. What is neither UTF-8 nor 16 or 32 bits wide is taken for an
    encoding of Western Europe.
    """
    marked = next((name for mark, name in _MARKS.items() if text.startswith(mark)), None)
    if marked or (len(text) > 1 and 5 * text.count(0) > 2 * len(text)):
        return marked or ("UTF-16LE" if text[1] == 0 else "UTF-16BE")
    try:
        codecs.utf_8_decode(text, "strict", False)
    except UnicodeDecodeError:
        return "CP1252" if _OF_WINDOWS.search(text) else "LATIN1"
    return None


def first_line(head: bytes) -> bytes:
    """Return the first line of a file, with its end, by its first bytes."""
    return head[: head.find(b"\n") + 1 or None]


def separator(head: bytes) -> str:
    """Return the separator of a file by its first bytes.

    It is the comma, the semicolon, the tab or the bar: the most frequent one in the first line.
    """
    line = first_line(_QUOTED.sub(b"", head))
    return max(_SEPARATORS, key=lambda one: line.count(one.encode()))


def check_header(shown: str, names: list[str], expected: list[str]) -> None:
    """Raise DataError for a header unlike the first file's, or one that is a line of values."""
    if names != expected:
        raise DataError(f"the header of {shown} is {names}, expected {expected} as in the first")
    numbers = [float(name) for name in names if re.match(NUMBER, name.strip())]
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
        raise DataError(f"{shown} has two columns named {twice[0]!r}; rename one in the header")


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


def are_large_integers(values: pa.Array) -> bool:
    """Return whether texts are whole numbers, or missing, that decimals of 38 digits hold."""
    known = values.filter(pc.invert(pc.is_in(values, NOTHING)))
    return bool(pc.all(pc.match_substring_regex(known, _LARGE), min_count=0).as_py())


def with_missing(batch: pa.RecordBatch, codes: Collection[str]) -> pa.RecordBatch:
    """Return rows whose empty texts are null; of `codes`, also what stands for no number."""
    nothing, null = pa.array([""]), pa.scalar(None, pa.string())
    for k, field in enumerate(batch.schema):
        if pa.types.is_string(field.type):
            text = batch.column(k)
            empty = pc.is_in(text, NOTHING if field.name in codes else nothing)
            batch = batch.set_column(k, field, pc.if_else(empty, null, text))
    return batch
