"""The text of a CSV file: packing, separator, header and spelling of numbers."""

from __future__ import annotations

import codecs
import csv
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import DataError
from distsvc.storage.places.location import Location
from distsvc.storage.rows.numeric_text import NO_NUMBER, NUMBER_PATTERN, SPELLED, matches

HEAD_BYTES = 1 << 16
"""Number of bytes at the beginning of a file that decide its packing and separator."""

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
    """Return the likely encoding of a text, by its name in iconv; None for UTF-8.

    The text may end within a character.
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
    """Return the first line, with its end, of a file's first bytes."""
    return head[: head.find(b"\n") + 1 or None]


class Head(NamedTuple):
    """The beginning of a file.

    Attributes
    ----------
    text : bytes
        The first bytes, unpacked.
    is_packed : bool
        Whether the file is packed by gzip.
    separator : str
        The separator of fields.
    skip : int
        Number of lines above the header.
    """

    text: bytes
    is_packed: bool
    separator: str
    skip: int

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

    If several separators qualify, the separator that leaves the most numbers wins, because a comma
    may be a decimal comma.
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
    """Return the names of a header that occur once.

    `DataError` if the header is a line of values, or if a name in `used` (None: any name) occurs
    twice.
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


def has_hexadecimals(values: pa.Array) -> bool:
    """Return True if a text is like 0x1f; Arrow reads it as an integer in the first rows only."""
    return bool(pc.any(matches(values, "(?i)^[+-]?0x"), min_count=0).as_py())


def with_missing(batch: pa.RecordBatch, codes: Collection[str]) -> pa.RecordBatch:
    """Return rows with null for empty texts; in the columns `codes`, also for words such as NA."""
    nothing, null = pa.array([""]), pa.scalar(None, pa.string())
    for k, field in enumerate(batch.schema):
        if pa.types.is_string(field.type):
            text = batch.column(k)
            empty = pc.is_in(text, NO_NUMBER if field.name in codes else nothing)
            batch = batch.set_column(k, field, pc.if_else(empty, null, text))
    return batch
