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
_GZIP = b"\x1f\x8b"
_WHOLE = r"^(0|-?[1-9]\d*)$"
_LARGE = r"^-?\d{1,38}$"


def is_utf8(text: bytes) -> bool:
    """Return whether bytes are text in UTF-8, which may end within a character."""
    try:
        codecs.utf_8_decode(text, "strict", False)
    except UnicodeDecodeError:
        return False
    return b"\0" not in text


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
    """

    text: bytes
    is_packed: bool
    separator: str

    @property
    def is_empty(self) -> bool:
        """Whether the file has at most one line of text, without an end."""
        is_short = len(self.text) < HEAD_BYTES and is_utf8(self.text)
        return is_short and not re.search(rb"[\r\n]", self.text.lstrip())


def head_of(file: Location) -> Head:
    """Read the beginning of a file; `DataError` for a damaged archive."""
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
    is_tabs = file.is_named([".tsv", ".tsv.gz"]) and b"\t" in first_line(text)
    return Head(text, is_packed, "\t" if is_tabs else _separator(text))


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
    """Return the names in a header that are unique.

    `DataError` for a line of values, and for a shared name in `used` (None: all).
    """
    numbers = [float(name) for name in names if re.match(NUMBER_PATTERN, name.strip())]
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
    """Return whether whole numbers are written as Python does, unlike 007, 1.10 or 20 digits."""
    known = values.drop_null()
    if not pc.all(pc.match_substring_regex(known, _WHOLE), min_count=0).as_py():
        return False
    with suppress(pa.ArrowInvalid):
        known.cast(pa.int64())
        return True
    return False


def are_large_integers(values: pa.Array) -> bool:
    """Return whether texts are missing or whole numbers of at most 38 digits, as decimals hold."""
    known = without_missing(values)
    return bool(pc.all(pc.match_substring_regex(known, _LARGE), min_count=0).as_py())


def without_missing(values: pa.Array) -> pa.Array:
    """Return the texts that are not missing numbers."""
    return values.filter(pc.invert(pc.is_in(values, NO_NUMBER)))


def with_missing(batch: pa.RecordBatch, codes: Collection[str]) -> pa.RecordBatch:
    """Return rows with null for empty texts; in the columns `codes`, also for words such as NA."""
    nothing, null = pa.array([""]), pa.scalar(None, pa.string())
    for k, field in enumerate(batch.schema):
        if pa.types.is_string(field.type):
            text = batch.column(k)
            empty = pc.is_in(text, NO_NUMBER if field.name in codes else nothing)
            batch = batch.set_column(k, field, pc.if_else(empty, null, text))
    return batch
