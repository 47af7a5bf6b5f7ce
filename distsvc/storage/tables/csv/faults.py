"""Faults of the text of a CSV file: which line has one, and the command that mends it."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import DataError
from distsvc.storage.places.location import Location
from distsvc.storage.rows.texts import NUMBER, TextStats, matches
from distsvc.storage.tables.csv.text import ZEROS, Head, encoding_of, head_of

_THOUSANDS = r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?"
_DECIMAL_COMMA = r"[+-]?\d+(,\d+)?"

MOST_BYTES = 16 << 20
"""Maximum size of a value, and of the part of a file that is parsed at a time."""

_SHOWN = 40
"""Characters of a value in a message."""

_WORDS, _COLUMNS = 10, 5
"""Different words of a column, and columns, that a message names."""


def refused(file: Location, columns: Mapping[str, TextStats]) -> DataError | None:
    """Return the error for columns of text whose values are numbers for the most part, or None.

    It names all words that are none, and the command that makes them missing values.
    """
    mixed = {name: words for name, words in columns.items() if words.are_numbers}
    if not mixed:
        return next(
            (_misspelled(file, n, words) for n, words in columns.items() if words.are_spelled), None
        )
    told = [
        f"line {line_of(file, words.first)}: column {name!r}: expected a number, as in "
        f"{words.numbers} of the first {words.given} rows, found {_named(words.odd)}"
        for name, words in itertools.islice(mixed.items(), _COLUMNS)
    ]
    more = f"; and {len(mixed) - _COLUMNS} more columns" if len(mixed) > _COLUMNS else ""
    odd = [word for words in mixed.values() for word in words.odd]
    if any(ZEROS.decode() in word for word in odd):
        return bad_bytes(file)
    which = "these columns" if len(mixed) > 1 else "the column"
    return DataError(
        f"{file.shown}, {'; '.join(told)}{more}; leave {which} out of input.columns, or "
        + _advice(file, mixed, odd)
    )


def _misspelled(file: Location, name: str, words: TextStats) -> DataError:
    value, count = next(iter(words.spelled)), words.spelled.total()
    return DataError(
        f"{file.shown}, line {line_of(file, words.first_spelled)}: column {name!r}: expected a "
        f"number such as -1234.5, but {count} of the first {words.given} rows are like "
        f"{value[:_SHOWN]!r}; write them with a decimal point and nothing else"
        f"{_rewritten(file, words)}, or leave the column out of input.columns"
    )


def grouped(file: Location, name: str, values: pa.Array) -> DataError:
    """Return the error for a column whose points seem to separate thousands."""
    plain = values.filter(pc.invert(matches(values, "[.]")))[0].as_py()
    row = pc.index(matches(values, "[.]"), True).as_py()
    option = f"converters={{{name!r}: lambda v: v.replace('.', '')}}"
    return DataError(
        f"{file.shown}, line {line_of(file, row)}: column {name!r}: {values[row].as_py()!r} beside "
        f"{plain!r} looks like a number with a point for thousands; write it without, as "
        f"{_by_pandas(file, option)} does; or, if it is a decimal, give all numbers three digits "
        "behind the point; or leave the column out of input.columns"
    )


def _advice(file: Location, names: Iterable[str], odd: list[str]) -> str:
    """Return what to do about words that are no numbers."""
    if any(word.lstrip().startswith("#") for word in [*names, *odd]):
        return f"leave out comments: {piped(file, _NO_COMMENTS)}"
    if any(map(str.isdigit, "".join(odd))) or len(odd) > _WORDS:
        if all(re.fullmatch(_THOUSANDS, word.strip()) for word in odd):
            return f"read them without the commas: {_by_pandas(file, 'thousands=' + repr(','))}"
        return "mend the values"
    return f"make them missing values: {_by_pandas(file, f'na_values={list(dict.fromkeys(odd))}')}"


def _rewritten(file: Location, words: TextStats) -> str:
    """Return how to rewrite numbers with a decimal comma, if they have no other marks.

    Points for thousands are left alone: pandas would take those of dates for such ones, too.
    """
    if all(re.fullmatch(_DECIMAL_COMMA, word.strip()) for word in words.odd):
        return f", as {_by_pandas(file, 'decimal=' + repr(','))} does"
    return ""


def _by_pandas(file: Location, option: str) -> str:
    """Return the call by which pandas reads a file with an option and writes it as Parquet."""
    head = head_of(file)
    apart = "" if head.separator == "," else f", sep={head.separator!r}"
    apart += f", skiprows={head.skip}" if head.skip else ""
    return f"pandas.read_csv({_name(file)!r}{apart}, {option}).to_parquet('new.parquet')"


def _named(odd: Counter[str]) -> str:
    """Return words and how often each comes up, the most frequent first."""
    told = [f"{word[:_SHOWN]!r} ({n})" for word, n in odd.most_common(_WORDS)]
    more = f" and {len(odd) - _WORDS} more words" if len(odd) > _WORDS else ""
    return ", ".join(told) + more


_NO_COMMENTS = "grep -v '^#'"


def explained(file: Location, error: DataError) -> DataError:
    """Return the error for a text that Arrow can't read, naming the line where that is known."""
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
                    f"comments are not read: {piped(file, _NO_COMMENTS)}"
                )
            if ZEROS in line or encoding_of(line):
                return not_utf8(file, line, number)
    return quote_fault(file) or (_width_fault(file, head) if widths else None) or error


def _width_fault(file: Location, head: Head) -> DataError | None:
    """Return the error for the first record that has not as many fields as the header."""
    with _reader(file, head) as reader:
        header: list[str] = next((fields for fields in reader if fields), [])
        top = reader.line_num
        odd = next((fields for fields in reader if fields and len(fields) != len(header)), None)
        line = reader.line_num
    if odd is None:
        return None
    width, found, mark = len(header), len(odd), head.separator
    if width == 1 and line > top:
        command = piped(file, f"tail -n +{line}")
        return DataError(
            f"{file.shown}, line {top}: expected a header with {found} names, as line {line} has "
            f"{found} fields, found {header[0][:_SHOWN]!r}; leave out what is above the header: "
            f"{command}"
        )
    if found == width + 1 and not odd[-1]:
        tab = mark.replace("\t", r"\t")
        mended = piped(file, f"sed -E 's/[{tab}]\r?$//'")
        return DataError(
            f"{file.shown}, line {line}: expected {width} fields, as in the header, found {found}, "
            f"the last of which is empty; take the separator out at the end of lines: {mended}"
        )
    text = mark.join(odd)[:_SHOWN]
    return DataError(
        f"{file.shown}, line {line}: expected {width} fields, as in the header, found {found}: "
        f"{text!r}; mend the line"
    )


def quote_fault(file: Location) -> DataError | None:
    """Return the error for a quote that swallows lines, or None.

    It is never closed, or is closed by a quote after which the value goes on, or the lines between
    have as many fields as the header, and numbers among them.
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
                    fault = (
                        "is not closed" if "end of data" in str(error) else "is closed amid a value"
                    )
                    return _open_quote(file, start, reader.line_num, fault)
                fields = []
            width = width or len(fields)
            inner = [line for field in fields for line in field.split("\n")[1:-1]]
            if inner and all(_is_row(line, head.separator, width) for line in inner):
                return _open_quote(file, start, reader.line_num, "is closed behind other rows")
            start = reader.line_num + 1


def _is_row(line: str, mark: str, width: int) -> bool:
    """Return whether a line has as many fields as the header, more than 1, and a number."""
    fields = line.split(mark)
    return 1 < width == len(fields) and any(re.match(NUMBER, field) for field in fields)


def _open_quote(file: Location, first: int, last: int, fault: str) -> DataError:
    return DataError(
        f"{file.shown}, line {first}: a quote that begins a value {fault} (line {last}), so the "
        f"lines from {first} to {last} would be one row; write a quote inside of a value as two, "
        "within quotes, or take it out"
    )


def bad_bytes(file: Location) -> DataError:
    """Return the error for a file that has a line which is no UTF-8."""
    with _lines(file, head_of(file)) as lines:
        numbered = enumerate(lines, start=1)
        found = ((n, line) for n, line in numbered if ZEROS in line or encoding_of(line))
        number, line = next(found, (1, b""))
    return not_utf8(file, line, number)


def not_utf8(file: Location, text: bytes, line: int) -> DataError:
    """Return the error for a text that is not UTF-8, with the command that makes it so."""
    if ZEROS in text:
        command = piped(file, r"sed 's/\x00//g'")
        return DataError(
            f"{file.shown}, line {line} holds bytes that are zero, where space was reserved and "
            f"nothing was written; is the file whole? This leaves them out: {command}"
        )
    command = f"iconv -f {encoding_of(text) or 'LATIN1'} -t UTF-8"
    return DataError(
        f"{file.shown}, line {line} is not UTF-8; write it as UTF-8: {piped(file, command)}"
    )


def piped(file: Location, command: str) -> str:
    """Return the line of a shell that writes a file anew, as a command changes it."""
    name = shlex.quote(_name(file))
    suffix = "".join(PurePosixPath(file.path).suffixes[-2:]).lower()
    if head_of(file).is_packed:
        return f"gunzip -c {name} | {command} | gzip > new{suffix}"
    return f"{command} {name} > new{PurePosixPath(file.path).suffix.lower()}"


def _name(file: Location) -> str:
    """Return the path of a local file, or the name of another, as it would be fetched."""
    return file.path if file.is_local else PurePosixPath(file.path).name


def line_of(file: Location, row: int) -> int:
    """Return the line of a row (from 0) of a file, or the last one of several."""
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
        before = csv.field_size_limit(MOST_BYTES)
        try:
            reader: Any = csv.reader(text, delimiter=head.separator, strict=strict)
            for _ in range(head.skip):
                next(reader)
            yield reader
        finally:
            csv.field_size_limit(before)


def _lines(file: Location, head: Head) -> Any:
    """Open a file as lines of bytes."""
    stream = file.fs.open(file.path, "rb")
    return gzip.open(stream) if head.is_packed else io.BufferedReader(stream)
