"""The text of a CSV file: its packing, its separator, its header, and the spelling of numbers."""

from __future__ import annotations

import codecs
import csv
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import DataError
from distsvc.storage.places.location import Location
from distsvc.storage.rows.texts import NO_NUMBER, NUMBER, SPELLED, matches

HEAD_BYTES = 1 << 16
"""Bytes at the beginning of a file that decide its packing and its separator."""

_HEAD_LINES = 200
_SEPARATORS = ",;\t|"
_EXCEL = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=(.)"?\r?\n', re.IGNORECASE)
"""A first line by which Excel learns the separator."""

_GZIP = b"\x1f\x8b"
_OTHERS = {
    b"PK\3\4": "a ZIP archive or a spreadsheet", b"PAR1": "Parquet", b"BZh": "packed by bzip2",
    b"\xfd7zXZ": "packed by xz", b"\x28\xb5\x2f\xfd": "packed by Zstandard",
    b'{"': "JSON", b"[{": "JSON", b"<": "HTML or XML",
}  # fmt: skip
"""First bytes of files that are not CSV."""

ZEROS = b"\0" * 8
"""Bytes that no text has, in whatever encoding."""

_MARKS = {
    b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16",
}  # fmt: skip
"""Beginnings of a text that say how it is encoded."""

_OF_WINDOWS = re.compile(rb"[\x80\x82-\x8c\x8e\x91-\x9c\x9e\x9f]")
"""Characters of Windows that Latin-1 does not have, such as a typographic quote."""

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


class Head(NamedTuple):
    """The beginning of a file.

    Attributes
    ----------
    text : bytes
        The first bytes, unpacked.
    is_packed : bool
        Whether the file is packed by gzip.
    separator : str
        What separates the fields.
    skip : int
        Lines above the header.

    """

    text: bytes
    is_packed: bool
    separator: str
    skip: int

    @property
    def is_empty(self) -> bool:
        """Whether the file has at most one line, and that without an end."""
        return len(self.text) < HEAD_BYTES and not re.search(rb"[\r\n]", self.text.lstrip())


def head_of(file: Location) -> Head:
    """Read the beginning of a file; `DataError` for one that is not text."""
    with file.naming_errors():
        with file.open() as handle:
            raw = handle.read(HEAD_BYTES)
        is_packed, text = raw.startswith(_GZIP), raw
        try:
            if is_packed:
                unpacking = zlib.decompressobj(31)
                text = unpacking.decompress(raw, HEAD_BYTES)
                if not (text or unpacking.eof):
                    raise DataError(f"can't read {file.shown}: the packed file was cut")
        except zlib.error as error:
            raise DataError(f"can't read {file.shown}: {error}") from None
    other = next((what for mark, what in _OTHERS.items() if raw.startswith(mark)), None)
    if other is not None:
        raise DataError(
            f"{file.shown} is {other}, by its first bytes, and is named like CSV; name it as what "
            "it is, or unpack it and write it as CSV"
        )
    excel = _EXCEL.match(text)
    if excel is not None:
        return Head(text, is_packed, excel[1].decode("latin-1"), 1)
    separator = "\t" if file.is_named([".tsv", ".tsv.gz"]) and b"\t" in first_line(text) else ""
    return Head(text, is_packed, separator or _separator(text), 0)


def _separator(text: bytes) -> str:
    """Return the separator by which the first lines have as many fields as the header, or most.

    If several do, the one that leaves the most numbers: a comma may be that of a decimal.
    """
    lines = text.decode(errors="replace").splitlines(keepends=True)
    if len(text) >= HEAD_BYTES and len(lines) > 1:
        del lines[-1]

    def score(mark: str) -> tuple[float, float, float, int]:
        rows = [row for row in _fields(lines[:_HEAD_LINES], mark) if row]
        header, body = (rows or [[]])[0], rows[1:]
        alike = sum(len(row) == len(header) for row in body) / len(body) if body else 1.0
        cells = pa.array([cell.strip() for row in body for cell in row if cell], pa.string())
        numbers = pc.or_(matches(cells, NUMBER), matches(cells, SPELLED))
        share = (pc.sum(numbers).as_py() or 0) / max(len(cells), 1)
        one = share == 1.0 and alike  # a column of numbers with a decimal comma
        return alike if len(header) > 1 else 0.0, share, one, len(header)

    return max(_SEPARATORS, key=score)


def _fields(lines: list[str], mark: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=mark))
    except csv.Error:
        return []


def check_header(shown: str, names: list[str], used: Collection[str] | None) -> list[str]:
    """Return the names of a header but those that several columns share.

    Raises `DataError` for a line of values, and for a shared name that is `used`; all are if None.
    """
    numbers = [float(name) for name in names if re.match(NUMBER, name.strip())]
    rising = all(one < other for one, other in itertools.pairwise(numbers))
    # Years or wavelengths rise, and pandas calls a single column 0.
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
    known = without_missing(values)
    return bool(pc.all(pc.match_substring_regex(known, _LARGE), min_count=0).as_py())


def without_missing(values: pa.Array) -> pa.Array:
    """Return the texts that do not stand for a missing number."""
    return values.filter(pc.invert(pc.is_in(values, NO_NUMBER)))


def has_hexadecimals(values: pa.Array) -> bool:
    """Return whether a text is like 0x1f, which Arrow takes for an integer only at first."""
    return bool(pc.any(matches(values, "(?i)^[+-]?0x"), min_count=0).as_py())


def with_missing(batch: pa.RecordBatch, codes: Collection[str]) -> pa.RecordBatch:
    """Return rows whose empty texts are null; of `codes`, also what stands for no number."""
    nothing, null = pa.array([""]), pa.scalar(None, pa.string())
    for k, field in enumerate(batch.schema):
        if pa.types.is_string(field.type):
            text = batch.column(k)
            empty = pc.is_in(text, NO_NUMBER if field.name in codes else nothing)
            batch = batch.set_column(k, field, pc.if_else(empty, null, text))
    return batch
