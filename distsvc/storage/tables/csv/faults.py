"""Faults in the text of a CSV file, with the line of the first one."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import DataError
from distsvc.storage.places.location import Location
from distsvc.storage.rows.numeric_text import NUMBER_PATTERN, TextStats, matches
from distsvc.storage.tables.csv.text import ZEROS, Head, encoding_of, head_of

MAX_CSV_VALUE_BYTES = 16 << 20
"""Maximum size of a value, and of the part of a file that is parsed at a time."""

_SHOWN = 40
"""Maximum number of characters of a value in a message."""


def text_error(file: Location, columns: Mapping[str, TextStats]) -> DataError | None:
    """Return the error for columns of text that are mostly numbers, or None.

    It names all words in them, and the line of the first.
    """
    mixed, most = {name: words for name, words in columns.items() if words.are_numbers}, 5
    if not mixed:
        spelled = ((name, words) for name, words in columns.items() if words.are_spelled)
        return next((_misspelled(file, name, words) for name, words in spelled), None)
    found = [
        f"line {line_of(file, words.first)}: column {name!r}: expected a number, as in "
        f"{words.numbers} of the first {words.given} rows, found {_counted(words.odd)}"
        for name, words in itertools.islice(mixed.items(), most)
    ]
    more = f"; and {len(mixed) - most} more columns" if len(mixed) > most else ""
    odd = [word for words in mixed.values() for word in words.odd]
    if any(ZEROS.decode() in word for word in odd):
        return encoding_error(file)
    which = "these columns" if len(mixed) > 1 else "the column"
    advice = "mend the values; leave them empty if they are missing"
    if any(word.lstrip().startswith("#") for word in [*mixed, *odd]):
        advice = "take out the lines with comments"
    return DataError(
        f"{file.shown}, {'; '.join(found)}{more}; leave {which} out of input.columns, or {advice}"
    )


def _misspelled(file: Location, name: str, words: TextStats) -> DataError:
    value, count = next(iter(words.spelled)), words.spelled.total()
    return DataError(
        f"{file.shown}, line {line_of(file, words.first_spelled)}: column {name!r}: expected a "
        f"number such as -1234.5, but {count} of the first {words.given} rows are like "
        f"{value[:_SHOWN]!r}; write them with a decimal point and nothing else, or leave the "
        "column out of input.columns"
    )


def thousands_error(file: Location, name: str, values: pa.Array) -> DataError:
    """Return the error for a column whose points seem to separate thousands."""
    plain = values.filter(pc.invert(matches(values, "[.]")))[0].as_py()
    row = pc.index(matches(values, "[.]"), True).as_py()
    return DataError(
        f"{file.shown}, line {line_of(file, row)}: column {name!r}: {values[row].as_py()!r} beside "
        f"{plain!r} seems to have a point for thousands: remove the points; or, if they are "
        "decimal points, write all numbers with three decimals; or leave the column out of "
        "input.columns"
    )


def _counted(odd: Counter[str]) -> str:
    """Return words with their counts, the most frequent first."""
    most = 10
    found = [f"{word[:_SHOWN]!r} ({n})" for word, n in odd.most_common(most)]
    more = f" and {len(odd) - most} more words" if len(odd) > most else ""
    return ", ".join(found) + more


def parse_error(file: Location, error: DataError) -> DataError:
    """Return the error for a text that Arrow can't read, with the line if it is found."""
    text, head = str(error), head_of(file)
    widths = "Expected " in text and " columns" in text
    if not widths and "invalid UTF8" not in text:
        return quote_fault(file) or error
    comment = widths and (": #" in text or head.text.startswith(b"#"))
    with _lines(file, head) as lines:
        for number, line in enumerate(lines, start=1):
            if comment and line.startswith(b"#"):
                found = line.decode(errors="replace").strip()[:_SHOWN]
                return DataError(
                    f"{file.shown}, line {number}: expected fields, found a comment, {found!r}; "
                    "comments are not read: take such lines out"
                )
            if ZEROS in line or encoding_of(line):
                return line_encoding_error(file, line, number)
    return quote_fault(file) or (_width_fault(file, head) if widths else None) or error


def _width_fault(file: Location, head: Head) -> DataError | None:
    """Return the error for the first record whose number of fields differs from the header."""
    with _reader(file, head) as reader:
        header: list[str] = next((fields for fields in reader if fields), [])
        top = reader.line_num
        odd = next((fields for fields in reader if fields and len(fields) != len(header)), None)
        line = reader.line_num
    if odd is None:
        return None
    width, found = len(header), len(odd)
    if width == 1 and line > top:
        return DataError(
            f"{file.shown}, line {top}: expected a header with {found} names, as line {line} has "
            f"{found} fields, found {header[0][:_SHOWN]!r}; take out the lines above the header"
        )
    words = f"{file.shown}, line {line}: expected {width} fields, as in the header, found {found}"
    if found == width + 1 and not odd[-1]:
        return DataError(
            f"{words}, the last of which is empty; take the separator out at the end of lines"
        )
    return DataError(f"{words}: {head.separator.join(odd)[:_SHOWN]!r}; mend the line")


def quote_fault(file: Location) -> DataError | None:
    """Return the error for a quote that swallows lines, or None.

    Such a quote is never closed, is closed within a value, or has lines in it that look like rows.
    """
    head, start = head_of(file), 1
    with _reader(file, head, strict=True) as reader:
        width = 0
        while True:
            try:
                fields = next(reader)
            except StopIteration:
                return None
            except csv.Error as error:
                if reader.line_num > start:
                    is_open = "end of data" in str(error)
                    fault = "is not closed" if is_open else "is closed within a value"
                    return _open_quote(file, start, reader.line_num, fault)
                fields = []
            width = width or len(fields)
            inner = [line for field in fields for line in field.split("\n")[1:-1]]
            if inner and all(_is_row(line, head.separator, width) for line in inner):
                return _open_quote(file, start, reader.line_num, "is closed after other rows")
            start = reader.line_num + 1


def _is_row(line: str, mark: str, width: int) -> bool:
    """Return True if a line has `width` fields, more than one, and one of them is a number."""
    fields = line.split(mark)
    return 1 < width == len(fields) and any(re.match(NUMBER_PATTERN, field) for field in fields)


def _open_quote(file: Location, first: int, last: int, fault: str) -> DataError:
    return DataError(
        f"{file.shown}, line {first}: a quote that begins a value {fault} (line {last}), so the "
        f"lines from {first} to {last} would be one row; remove the quote, or write the value in "
        "quotes and each quote in it twice"
    )


def encoding_error(file: Location) -> DataError:
    """Return the error for the first line that is not UTF-8."""
    with _lines(file, head_of(file)) as lines:
        numbered = enumerate(lines, start=1)
        found = ((n, line) for n, line in numbered if ZEROS in line or encoding_of(line))
        number, line = next(found, (1, b""))
    return line_encoding_error(file, line, number)


def line_encoding_error(file: Location, text: bytes, line: int) -> DataError:
    """Return the error for a text that is not UTF-8, with its likely encoding."""
    if ZEROS in text:
        return DataError(
            f"{file.shown}, line {line} has zero bytes, as in a file that is not fully written; if "
            "it is complete, remove them"
        )
    return DataError(
        f"{file.shown}, line {line} is not UTF-8, but looks like {encoding_of(text) or 'LATIN1'}; "
        "write it as UTF-8"
    )


def line_of(file: Location, row: int) -> int:
    """Return the line number of a row (from 0) of a file; the last line of a row with several."""
    head = head_of(file)
    with _reader(file, head) as reader:
        try:
            ends = (reader.line_num for fields in reader if fields)
            return next(itertools.islice(ends, row + 1, None), row + 2)
        except csv.Error:
            return row + 2


@contextmanager
def _reader(file: Location, head: Head, strict: bool = False) -> Iterator[Any]:
    """Open a file as records, from the header on; `line_num` counts all lines."""
    with _lines(file, head) as stream:
        text = io.TextIOWrapper(stream, errors="replace", newline="")
        before = csv.field_size_limit(MAX_CSV_VALUE_BYTES)
        try:
            reader: Any = csv.reader(text, delimiter=head.separator, strict=strict)
            for _ in range(head.skip):
                next(reader)
            yield reader
        finally:
            csv.field_size_limit(before)


def _lines(file: Location, head: Head) -> gzip.GzipFile | io.BufferedReader:
    """Open a file as lines of bytes."""
    stream = file.fs.open(file.path, "rb")
    return gzip.open(stream) if head.is_packed else io.BufferedReader(stream)
