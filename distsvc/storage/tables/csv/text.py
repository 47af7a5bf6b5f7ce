"""The text of a CSV file: packing, separator, header, spelling of numbers, and faults by line."""

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
from distsvc.storage.rows.columns import truncated
from distsvc.storage.rows.numeric_text import (
    NO_NUMBER,
    NUMBER_PATTERN,
    SPELLED,
    TextStats,
    matches,
)

HEAD_BYTES = 1 << 16
"""Number of bytes at the beginning of a file that decide its packing and separator."""

MAX_CSV_VALUE_BYTES = 16 << 20
"""Maximum size of a value, and of the part of a file that is parsed at a time."""

_SHOWN = 40
"""Maximum number of characters of a value in a message."""

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
"""Byte order marks."""

_OF_WINDOWS = re.compile(rb"[\x80\x82-\x8c\x8e\x91-\x9c\x9e\x9f]")
"""Characters of CP1252 that Latin-1 lacks, such as a typographic quote."""

_WHOLE = r"^(0|-?[1-9]\d*)$"
_LARGE = r"^-?\d{1,38}$"


def encoding_of(text: bytes) -> str | None:
    """Return the likely encoding of a text, by its name in iconv; None for UTF-8."""
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
    is_packed: bool  # by gzip
    separator: str
    skip: int  # number of lines above the header

    @property
    def is_empty(self) -> bool:
        """Whether the file has at most one line, without an end."""
        return len(self.text) < HEAD_BYTES and not re.search(rb"[\r\n]", self.text.lstrip())


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


def _separator(text: bytes) -> str:
    """Return the separator by which most lines have as many fields as the header.

    If several do, the most fields are numbers: a comma may also be a decimal comma.
    """
    lines = text.decode(errors="replace").splitlines(keepends=True)
    if len(text) >= HEAD_BYTES and len(lines) > 1:
        del lines[-1]

    def score(mark: str) -> tuple[float, float, float, int]:
        rows: list[list[str]] = []
        with suppress(csv.Error):
            rows = [row for row in csv.reader(lines[:200], delimiter=mark) if row]
        header, body = (rows or [[]])[0], rows[1:]
        alike = sum(len(row) == len(header) for row in body) / len(body) if body else 1.0
        cells = pa.array([cell.strip() for row in body for cell in row if cell], pa.string())
        numbers = pc.or_(matches(cells, NUMBER_PATTERN), matches(cells, SPELLED))
        share = (pc.sum(numbers).as_py() or 0) / max(len(cells), 1)
        one = share == 1.0 and alike  # a column of numbers with a decimal comma
        return alike if len(header) > 1 else 0.0, share, one, len(header)

    return max(_SEPARATORS, key=score)


def check_header(shown: str, names: list[str], used: Collection[str] | None) -> list[str]:
    """Return the names of a header that occur once; names in `used` (None: all) must not repeat."""
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
                f"{shown} has {what}; rename one in the header, its first line, or take out what "
                "is above the header"
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
    """Return True if texts are missing or whole numbers of at most 38 digits, as decimals hold."""
    known = without_missing(values)
    return bool(pc.all(pc.match_substring_regex(known, _LARGE), min_count=0).as_py())


def without_missing(values: pa.Array) -> pa.Array:
    """Return the texts that are not missing numbers."""
    return values.filter(pc.invert(pc.is_in(values, NO_NUMBER)))


def text_error(file: Location, columns: Mapping[str, TextStats]) -> DataError | None:
    """Return the error for columns of text that are mostly numbers, with its line, or None."""
    mixed, most = {name: words for name, words in columns.items() if words.are_numbers}, 5
    spelled = [(name, words) for name, words in columns.items() if words.are_spelled]
    if not mixed and spelled:
        words, names = spelled[0][1], truncated([repr(name) for name, _ in spelled])
        return DataError(
            f"{file.shown}, line {line_of(file, words.first_spelled)}: column"
            f"{'' if len(spelled) == 1 else 's'} {names}: expected numbers such as -1234.5, but "
            f"{words.spelled.total()} of the first {words.given} rows are like "
            f"{next(iter(words.spelled))[:_SHOWN]!r}; write them with a decimal point and nothing "
            "else, or leave them out by input.exclude"
        )
    if not mixed:
        return None
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
            rows = [line.split(head.separator) for line in inner]
            if inner and all(
                1 < width == len(row) and any(re.match(NUMBER_PATTERN, one) for one in row)
                for row in rows
            ):
                return _open_quote(file, start, reader.line_num, "is closed after other rows")
            start = reader.line_num + 1


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
    stream = file.fs.open(file.path, "rb")
    return gzip.open(stream) if head.is_packed else io.BufferedReader(stream)
