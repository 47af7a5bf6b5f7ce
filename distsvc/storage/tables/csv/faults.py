"""Faults of the text of a CSV file: which line has one, and the command that mends it."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import DataError
from distsvc.storage.places.location import Location
from distsvc.storage.tables.csv.text import (
    HEAD_BYTES,
    NOTHING,
    NUMBER,
    encoding_of,
    separator,
)

_SPELLED = (
    r"^[+-]?[$€£]?\s?"
    r"(\d{1,3}(,\d{3})+(\.\d+)?|\d{1,3}(\.\d{3})+,\d+|\d+,\d+|\d+(\.\d+)?)\s?[%€$£]?$"
)
"""Numbers with a decimal comma, separated thousands, a currency or a percent sign."""

_THOUSANDS = r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?"
_DECIMAL_COMMA = r"[+-]?\d+(,\d+)?"

_NOT_FINITE = r"(?i)^[+-]?(inf|infinity|nan)$"
"""Numbers to Arrow, and refused when they are read."""

_SHOWN = 40
"""Characters of a value in a message."""

_WORDS, _COLUMNS = 10, 5
"""Different words of a column, and columns, that a message names."""

_WIDTH = re.compile(r"Expected \d+ columns, got \d+: (?P<row>.*)", re.DOTALL)


@dataclass
class Words:
    """The values of a column of text: how many are numbers, and the words that are none.

    `odd` are counts of what is no number and does not stand for a missing one, `spelled` of those
    that are numbers in another spelling. `first` is the row of the first odd word, `first_spelled`
    that of the first of the others, both from 0.
    """

    given: int = 0
    numbers: int = 0
    odd: Counter[str] = field(default_factory=Counter)
    spelled: int = 0
    first: int = -1
    first_spelled: int = -1

    def add(self, values: pa.Array, start: int = 0) -> Words:
        """Count some values, which begin at row `start`, and return itself."""
        words = pc.utf8_trim_whitespace(values)
        given = pc.and_not(pc.is_valid(words), pc.is_in(words, NOTHING))
        number = pc.or_(_matches(words, NUMBER), _matches(words, _NOT_FINITE))
        odd = pc.and_not(given, number)
        spelled = pc.and_(odd, _matches(words, _SPELLED))
        self.given += _count(given)
        self.numbers += _count(pc.and_(given, number))
        self.spelled += _count(spelled)
        if self.first < 0 and _count(odd):
            self.first = start + pc.index(odd, True).as_py()
        if self.first_spelled < 0 and _count(spelled):
            self.first_spelled = start + pc.index(spelled, True).as_py()
        for one in pc.value_counts(values.filter(odd)).to_pylist():
            self.odd[one["values"]] += one["counts"]
        return self

    @property
    def are_numbers(self) -> bool:
        """Whether at least half of the values are numbers, and some are not."""
        return bool(self.odd) and self.numbers > 0 and 2 * self.numbers >= self.given

    @property
    def are_spelled(self) -> bool:
        """Whether at least half of the values are numbers, and some in another spelling."""
        return self.spelled > 0 and 2 * (self.numbers + self.spelled) >= self.given


def _matches(words: pa.Array, pattern: str) -> pa.Array:
    return pc.fill_null(pc.match_substring_regex(words, pattern), False)


def _count(mask: pa.Array) -> int:
    return pc.sum(mask).as_py() or 0


def refused(file: Location, columns: Mapping[str, Words]) -> DataError | None:
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
    which = "these columns" if len(mixed) > 1 else "the column"
    return DataError(
        f"{file.shown}, {'; '.join(told)}{more}; leave {which} out of input.columns, or "
        + _advice(file, mixed, odd)
    )


def _misspelled(file: Location, name: str, words: Words) -> DataError:
    value = next(word for word in words.odd if re.match(_SPELLED, word.strip()))
    return DataError(
        f"{file.shown}, line {line_of(file, words.first_spelled)}: column {name!r}: expected a "
        f"number such as -1234.5, but {words.spelled} of the first {words.given} rows are like "
        f"{value[:_SHOWN]!r}; write them with a decimal point and nothing else"
        f"{_rewritten(file, words)}, or leave the column out of input.columns"
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


def _rewritten(file: Location, words: Words) -> str:
    """Return how to rewrite numbers with a decimal comma, if they have no other marks.

    Points for thousands are left alone: pandas would take those of dates for such ones, too.
    """
    if all(re.fullmatch(_DECIMAL_COMMA, word.strip()) for word in words.odd):
        return f", as {_by_pandas(file, 'decimal=' + repr(','))} does"
    return ""


def _by_pandas(file: Location, option: str) -> str:
    """Return the call by which pandas reads a file with an option and writes it as Parquet."""
    mark = _separator(file)
    apart = "" if mark == "," else f", sep={mark!r}"
    return f"pandas.read_csv({_name(file)!r}{apart}, {option}).to_parquet('new.parquet')"


def _named(odd: Counter[str]) -> str:
    """Return words and how often each comes up, the most frequent first."""
    told = [f"{word[:_SHOWN]!r} ({n})" for word, n in odd.most_common(_WORDS)]
    more = f" and {len(odd) - _WORDS} more words" if len(odd) > _WORDS else ""
    return ", ".join(told) + more


_NO_COMMENTS = "grep -v '^#'"


def explained(file: Location, error: DataError) -> DataError:
    """Return the error for a text that Arrow can't read, naming the line where that is known."""
    text = str(error)
    wide = _WIDTH.search(text)
    if wide is None and "invalid UTF8" not in text:
        return error
    comment = wide is not None and (wide["row"].startswith("#") or _begins_with_comment(file))
    with _lines(file) as lines:
        for number, line in enumerate(lines, start=1):
            if comment and line.startswith(b"#"):
                found = line.decode(errors="replace").strip()[:_SHOWN]
                return DataError(
                    f"{file.shown}, line {number}: expected fields, found a comment, {found!r}; "
                    f"comments are not read: {piped(file, _NO_COMMENTS)}"
                )
            if encoding_of(line):
                return not_utf8(file, line, number)
    return error


def _begins_with_comment(file: Location) -> bool:
    with _lines(file) as lines:
        return next(iter(lines), b"").startswith(b"#")


def bad_bytes(file: Location) -> DataError:
    """Return the error for a file that has a line which is no UTF-8."""
    with _lines(file) as lines:
        found = ((n, line) for n, line in enumerate(lines, start=1) if encoding_of(line))
        number, line = next(found, (1, b""))
    return not_utf8(file, line, number)


def not_utf8(file: Location, text: bytes, line: int) -> DataError:
    """Return the error for a text that is not UTF-8, with the command that makes it so."""
    command = f"iconv -f {encoding_of(text) or 'LATIN1'} -t UTF-8"
    return DataError(
        f"{file.shown}, line {line} is not UTF-8; write it as UTF-8: {piped(file, command)}"
    )


def piped(file: Location, command: str) -> str:
    """Return the line of a shell that writes a file anew, as a command changes it."""
    name = shlex.quote(_name(file))
    suffix = "".join(PurePosixPath(file.bare).suffixes[-2:]).lower()
    if _is_packed(file):
        return f"gunzip -c {name} | {command} | gzip > new{suffix}"
    return f"{command} {name} > new{PurePosixPath(file.bare).suffix.lower()}"


def _name(file: Location) -> str:
    """Return the path of a local file, or the name of another, as it would be fetched."""
    return file.path if file.is_local else PurePosixPath(file.bare).name


def _is_packed(file: Location) -> bool:
    return file.is_named([".gz"])


def line_of(file: Location, row: int) -> int:
    """Return the line of a row (from 0) of a file, or the last one of several."""
    mark = _separator(file)
    with _lines(file) as stream:
        text = io.TextIOWrapper(stream, errors="replace", newline="")
        reader: Any = csv.reader(text, delimiter=mark)
        try:
            ends = (reader.line_num for fields in reader if fields)
            return next(itertools.islice(ends, row + 1, None), row + 2)
        except csv.Error:
            return row + 2


def _separator(file: Location) -> str:
    with _lines(file) as stream:
        return separator(stream.read(HEAD_BYTES))


def _lines(file: Location) -> Any:
    """Open a file as lines of bytes."""
    stream = file.fs.open(file.path, "rb")
    return gzip.open(stream) if _is_packed(file) else io.BufferedReader(stream)
