"""Examination of the text of CSV files.

Before a file is parsed, the compression, the separator and the header are found here. If parsing
fails, the file is searched for the faulty line, which the error names.
"""

import codecs
import csv
import gzip
import io
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import DataError
from distsvc.storage.places.location import Location
from distsvc.storage.rows.numeric_text import (
    LIMIT_SIGNS,
    NO_NUMBER,
    NUMBER_PATTERN,
    SPELLED,
    TextStats,
    matches,
)

HEAD_BYTES = 1 << 16
"""Number of bytes at the beginning of a file that decide its packing and separator."""

MAX_CSV_VALUE_BYTES = 16 << 20
"""Maximum size in bytes of a value; Arrow parses a file in pieces of this size."""

_SHOWN = 40
"""Maximum number of characters of a value or a line in a message."""

_SEPARATORS = ",;\t|"
_EXCEL = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=(.)"?\r?\n', re.IGNORECASE)
"""First line of a file with Excel's declaration of the separator."""

_GZIP = b"\x1f\x8b"
_OTHERS = {
    b"PK\3\4": "a ZIP archive or a spreadsheet", b"PAR1": "Parquet", b"BZh": "packed by bzip2",
    b"\xfd7zXZ": "packed by xz", b"\x28\xb5\x2f\xfd": "packed by Zstandard",
    b'{"': "JSON", b"[{": "JSON", b"<": "HTML or XML",
}  # fmt: skip
"""First bytes of files that are not CSV."""

ZEROS = b"\0" * 8
"""Bytes that occur in no text of any encoding."""

_MARKS = {
    b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16",
}  # fmt: skip
"""Byte order marks at the start of a text, and the encodings that they announce."""

_OF_WINDOWS = re.compile(rb"[\x80\x82-\x8c\x8e\x91-\x9c\x9e\x9f]")
"""Bytes that are printable in CP1252 only; a text with such a byte is not Latin-1."""

_WHOLE = r"^(0|-?[1-9]\d*)$"
_LARGE = r"^-?\d{1,38}$"
_DECIMAL_COMMA, _GROUPED = r"^[+-]?\d+,\d+$", r"^[+-]?[1-9]\d{0,2}(,\d{3})+$"
_DECIMAL_POINT = r"^[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?\s?%?$"


def encoding_of(text: bytes) -> str | None:
    """Return the likely encoding of a text, as iconv names it; None for UTF-8."""
    marked = next((name for mark, name in _MARKS.items() if text.startswith(mark)), None)
    if marked or (len(text) > 1 and 5 * text.count(0) > 2 * len(text)):
        return marked or ("UTF-16LE" if text[1] == 0 else "UTF-16BE")
    try:
        codecs.utf_8_decode(text, "strict", False)
    except UnicodeDecodeError:
        return "CP1252" if _OF_WINDOWS.search(text) else "LATIN1"
    return None


def first_line(head: bytes) -> bytes:
    """Return the first line, with its end, of a file's first bytes."""
    return head[: head.find(b"\n") + 1 or None]


class Head(NamedTuple):
    """The beginning of a file."""

    text: bytes  # the first bytes, unpacked
    is_packed: bool  # whether the file is compressed by gzip
    separator: str
    skip: int  # number of lines above the header

    @property
    def is_empty(self) -> bool:
        """Whether the file has no text, or a single line that is not ended by a line break."""
        return len(self.text) < HEAD_BYTES and not re.search(rb"[\r\n]", self.text.lstrip())

    @property
    def decimal_point(self) -> str:
        """The decimal point of the numbers: a point, or a comma if it is certain.

        A comma is certain if it is not the separator, a field is a number such as 7,25, and no
        field has a decimal point. Digits such as 1,250 may be grouped.
        """
        if self.separator == ",":
            return "."
        fields = [
            field for row in _rows(self.text, self.separator)[1 + self.skip :] for field in row
        ]
        cells = pa.array([field.strip() for field in fields], pa.string())
        commas = pc.and_not(matches(cells, _DECIMAL_COMMA), matches(cells, _GROUPED))
        is_comma = pc.any(commas).as_py() and not pc.any(matches(cells, _DECIMAL_POINT)).as_py()
        return "," if is_comma else "."


def head_of(file: Location) -> Head:
    """Read the beginning of a file; `DataError` if it is not text."""
    with file.naming_errors():
        with file.open() as handle:
            raw = handle.read(HEAD_BYTES)
        is_packed, text = raw.startswith(_GZIP), raw
        try:
            if is_packed:
                unpacking = zlib.decompressobj(31)
                text = unpacking.decompress(raw, HEAD_BYTES)
                if not (text or unpacking.eof):
                    raise DataError(f"can't read {file.shown}: the compressed file is truncated")
        except zlib.error as error:
            raise DataError(f"can't read {file.shown}: {error}") from None
    other = next((what for mark, what in _OTHERS.items() if raw.startswith(mark)), None)
    if other is not None:
        raise DataError(
            f"{file.shown} is named like CSV, but begins like {other}; rename it, or unpack it and "
            "write it as CSV"
        )
    excel = _EXCEL.match(text)
    if excel is not None:
        return Head(text, is_packed, excel[1].decode("latin-1"), 1)
    separator = "\t" if file.is_named([".tsv", ".tsv.gz"]) and b"\t" in first_line(text) else ""
    return Head(text, is_packed, separator or _separator(text), 0)


def _rows(text: bytes, separator: str) -> list[list[str]]:
    """Return the fields of the first lines of a file, without empty lines."""
    lines = text.decode(errors="replace").splitlines(keepends=True)
    if len(text) >= HEAD_BYTES and len(lines) > 1:
        del lines[-1]
    with suppress(csv.Error):
        return [row for row in csv.reader(lines[:200], delimiter=separator) if row]
    return []


def _separator(text: bytes) -> str:
    """Return the separator that splits most lines into as many fields as the header.

    If several separators do equally well, the separator that gives the most numbers wins. For
    example, "1,5;2,5" has two numbers with ";", because the comma is a decimal comma.
    """

    def score(mark: str) -> tuple[float, float, float, int]:
        rows = _rows(text, mark)
        header, body = (rows or [[]])[0], rows[1:]
        alike = sum(len(row) == len(header) for row in body) / len(body) if body else 1.0
        cells = pa.array([cell.strip() for row in body for cell in row if cell], pa.string())
        numbers = pc.or_(matches(cells, NUMBER_PATTERN), matches(cells, SPELLED))
        share = (pc.sum(numbers).as_py() or 0) / max(len(cells), 1)
        one = share == 1.0 and alike  # a column of numbers with a decimal comma
        return alike if len(header) > 1 else 0.0, share, one, len(header)

    return max(_SEPARATORS, key=score)


def check_header(shown: str, names: list[str], used: Collection[str] | None) -> list[str]:
    """Return the column names that occur once in a header.

    `DataError` if a name that the job uses occurs twice, or if the first line is no header. `used`
    are the names that the job uses; None means that it may use any column.
    """
    numbers = [float(name) for name in names if re.match(NUMBER_PATTERN, name.strip())]
    rising = all(one < other for one, other in itertools.pairwise(numbers))
    # Numeric names may be years or wavelengths, which rise, or the 0 of a single pandas column.
    if len(numbers) == len(names) or not (rising and (len(numbers) != 1 or numbers == [0])):
        line = numbers if len(numbers) == len(names) else names
        raise DataError(
            f"{shown} has no header: its first line is {line}; put a line with the columns' names "
            "above it"
        )

    counts = Counter(names)
    for name, count in counts.items():
        if count > 1 and (used is None or name in used):
            what = f"two columns named {name!r}" if name else f"{count} columns without a name"
            raise DataError(
                f"{shown} has {what}; correct the names in the header (the first line), or remove "
                "lines above the header"
            )
    return [name for name, count in counts.items() if count == 1]


def are_plain_integers(values: pa.Array) -> bool:
    """Return True if texts are int64 numbers as Python writes them, unlike 007 or 1.10."""
    known = values.drop_null()
    if not pc.all(pc.match_substring_regex(known, _WHOLE), min_count=0).as_py():
        return False
    with suppress(pa.ArrowInvalid):
        known.cast(pa.int64())
        return True
    return False


def are_large_integers(values: pa.Array) -> bool:
    """Return True if texts are missing values, or whole numbers that fit into decimal128."""
    known = without_missing(values)
    return bool(pc.all(pc.match_substring_regex(known, _LARGE), min_count=0).as_py())


def with_points(values: pa.Array, decimal_point: str) -> pa.Array:
    """Return texts with a point in place of a decimal comma, if the comma is the decimal point."""
    if decimal_point == ".":
        return values
    return pc.replace_substring_regex(values, r"^([+-]?\d+),(\d+)$", r"\1.\2")


def without_missing(values: pa.Array) -> pa.Array:
    """Return the texts that are not missing; "", NA and the like are missing."""
    return values.filter(pc.invert(pc.is_in(values, NO_NUMBER)))


def text_error(file: Location, columns: Mapping[str, TextStats]) -> DataError | None:
    """Return the error for columns that are mostly numbers but have other text, or None.

    For each of the first columns, the error names the line and the values to correct.
    """
    mixed, most = {name: words for name, words in columns.items() if words.are_mixed}, 5
    if not mixed:
        return None
    if any(ZEROS.decode() in word for words in mixed.values() for word in words.odd):
        return encoding_fault(file)
    found = [
        f"line {line_of(file, words.first)}: column {name!r}: expected numbers such as -1234.5, "
        f"found {_counted(words.odd)} in the first {words.given} rows"
        for name, words in itertools.islice(mixed.items(), most)
    ]
    more = f"; and {len(mixed) - most} more columns" if len(mixed) > most else ""
    limit = next(filter(None, (words.limit for words in mixed.values())), None)
    how = f" (write {limit!r} as {limit.lstrip(LIMIT_SIGNS)})" if limit is not None else ""
    spelled = itertools.chain.from_iterable(words.spelled for words in mixed.values())
    if comma := next((word for word in spelled if re.match(_DECIMAL_COMMA, word)), None):
        how += f" (write {comma!r} as {comma.replace(',', '.')}, if the comma is a decimal comma)"
    return DataError(
        f"{file.shown}, {'; '.join(found)}{more}; mend the values{how}, leave them empty "
        "if they are missing, or leave the column out by input.exclude"
    )


def thousands_error(file: Location, name: str, values: pa.Array) -> DataError:
    """Return the error for a column whose points seem to separate thousands."""
    plain = values.filter(pc.invert(matches(values, "[.]")))[0].as_py()
    row = pc.index(matches(values, "[.]"), True).as_py()
    return DataError(
        f"{file.shown}, line {line_of(file, row)}: column {name!r}: the point in "
        f"{values[row].as_py()!r} may separate thousands, since another value is {plain!r}: remove "
        "the points; or, if they are decimal points, write all numbers with three decimals; "
        "or leave the column out of input.columns"
    )


def _counted(odd: Counter[str]) -> str:
    most = 10
    found = [f"{word[:_SHOWN]!r} ({n})" for word, n in odd.most_common(most)]
    more = f" and {len(odd) - most} more words" if len(odd) > most else ""
    return ", ".join(found) + more


def parse_error(file: Location, error: DataError) -> DataError:
    """Return the error for a text that Arrow can't read, with the line if it is found."""
    has_other_width = "Expected " in str(error) and " columns" in str(error)
    fault = None
    if has_other_width or "invalid UTF8" in str(error):
        fault = encoding_fault(file)
    return fault or quote_fault(file) or (_width_fault(file) if has_other_width else None) or error


def _width_fault(file: Location) -> DataError | None:
    """Return the error for the first record whose number of fields differs from the header."""
    head = head_of(file)
    with _reader(file, head) as reader:
        header: list[str] = next((fields for fields in reader if fields), [])
        top = reader.line_num
        for fields in reader:
            if fields and len(fields) != len(header):
                words = head.separator.join(fields)[:_SHOWN]
                return DataError(
                    f"{file.shown}, line {reader.line_num}: the number of fields is "
                    f"{len(fields)}, expected {len(header)}, as in the header (line {top}): "
                    f"{words!r}; mend the line, or take out comments and lines above the header"
                )
    return None


def quote_fault(file: Location) -> DataError | None:
    """Return the error for a quote that swallows lines, or None.

    Such a quote is never closed, is closed within a value, or has lines in it that look like rows.
    """
    head, start, width = head_of(file), 1, 0
    with _reader(file, head, strict=True) as reader:
        while True:
            try:
                fields = next(reader)
            except StopIteration:
                return None
            except csv.Error:
                fields, swallows = [], reader.line_num > start
            else:
                width = width or len(fields)
                inner = [line for field in fields for line in field.split("\n")[1:-1]]
                swallows = bool(inner) and all(
                    1 < width == len(row) and any(re.match(NUMBER_PATTERN, one) for one in row)
                    for row in (line.split(head.separator) for line in inner)
                )
            if swallows:
                return DataError(
                    f"{file.shown}, line {start}: a quote at the start of a value joins the lines "
                    f"{start} to {reader.line_num} into one row; remove the quote, or quote the "
                    "whole value and double each quote inside it"
                )
            start = reader.line_num + 1


def encoding_fault(file: Location) -> DataError | None:
    """Return the error for the first line that is not UTF-8, or None."""
    with _lines(file, head_of(file)) as lines:
        for number, line in enumerate(lines, start=1):
            if ZEROS in line or encoding_of(line):
                return line_encoding_error(file, line, number)
    return None


def line_encoding_error(file: Location, text: bytes, line: int) -> DataError:
    """Return the error for a text that is not UTF-8, with its likely encoding."""
    if ZEROS in text:
        return DataError(
            f"{file.shown}, line {line} has zero bytes, as in a file that is not fully written; "
            "write the file again, or remove the zero bytes"
        )
    return DataError(
        f"{file.shown}, line {line} is not UTF-8, but looks like {encoding_of(text) or 'LATIN1'}; "
        "write it as UTF-8"
    )


def line_of(file: Location, row: int) -> int:
    """Return the number of the line on which a row (from 0) of a file ends."""
    head = head_of(file)
    with _reader(file, head) as reader:
        try:
            ends = (reader.line_num for fields in reader if fields)
            return next(itertools.islice(ends, row + 1, None), row + 2)
        except csv.Error:
            return row + 2


@contextmanager
def _reader(file: Location, head: Head, strict: bool = False) -> Iterator[Any]:
    """Open a file as a `csv.reader`, whose first record is the header.

    `line_num` of the reader is the number of a line in the file.
    """
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
    stream = file.fs.open(file.path, "rb")
    return gzip.open(stream) if head.is_packed else io.BufferedReader(stream)
