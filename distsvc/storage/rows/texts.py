"""Columns of text that hold nothing but numbers, as CSV has them, and other formats may."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from distsvc.inputs.arrow import numbers
from distsvc.storage.rows.feature import DescribedFeature, UnusableValueError

NO_NUMBER = pa.array(csv.ConvertOptions().null_values)
"""Texts that stand for a missing number: nothing, and words such as NA."""

_CODE = r"^[+-]?0\d"
"""The beginning of a code such as 007, which is no number."""

_SPELLED = r"^[+-]?[$€£]?(\d+([.,]\d+)?|\d{1,3}(,\d{3})+(\.\d+)?)[%€$£]?$"
"""Numbers, also with a decimal comma, separated thousands, a currency or a percent sign."""

_WITH_UNIT = r"^[+-]?[\d.,]*\d\s?(?P<unit>[\p{L}°µ][^\s\d]*)$"
"""A number and the word behind it."""

_DATE = re.compile(r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2}.*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}.*")
"""Dates and times that begin with a year or a day, and months."""

_FEWEST_WITH_UNIT = 5
"""Different texts of a column of numbers with a unit: fewer are rather names, such as 2WD."""


class TextNumber(DescribedFeature):
    """A number that is stored as text."""

    kind: Literal["text"] = "text"
    wants = "numbers, or text that holds nothing else"

    @property
    def shown(self) -> str:
        """The column, and how it is stored."""
        return f"{self.column} (text read as numbers)"

    def takes(self, kind: pa.DataType) -> bool:
        """Return whether the type is one of text, or of numbers."""
        return is_text(kind) or _is_number(kind)

    def values(self, array: pa.Array) -> np.ndarray:
        """Return the numbers (n,)."""
        if _is_number(array.type):
            return numbers(array)
        words = _words(array)
        try:
            return words.cast(pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            place = next(k for k, word in enumerate(words.to_pylist()) if not _can_be_read(word))
            message = f"expected a number, as in the first rows, found {words[place].as_py()!r}"
            raise UnusableValueError(self.column, place, message) from None


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is one of text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def are_numbers(array: pa.Array) -> bool:
    """Return whether texts are finite numbers where they are anything, and no codes like 007."""
    words = _words(array).drop_null()
    if pc.any(pc.match_substring_regex(words, _CODE), min_count=0).as_py():
        return False
    try:
        return bool(np.isfinite(words.cast(pa.float64()).to_numpy(zero_copy_only=False)).all())
    except pa.ArrowInvalid:
        return False


def are_mostly_numbers(array: pa.Array) -> bool:
    """Return whether half of the texts are numbers, in whatever spelling, and none a code."""
    words = _words(array).drop_null()
    if pc.any(pc.match_substring_regex(words, _CODE), min_count=0).as_py():
        return False
    spelled = pc.sum(pc.match_substring_regex(words, _SPELLED)).as_py() or 0
    return len(words) > 0 and bool(2 * spelled >= len(words))


def have_unit(array: pa.Array) -> bool:
    """Return whether half of the texts are numbers with the same word behind each."""
    words = _words(array).drop_null()
    units = pc.struct_field(pc.extract_regex(words, _WITH_UNIT), "unit")
    if pc.count_distinct(words.filter(pc.is_valid(units))).as_py() < _FEWEST_WITH_UNIT:
        return False
    most = max(one["counts"] for one in pc.value_counts(units.drop_null()).to_pylist())
    return bool(2 * most >= len(words))


def are_dates(words: Iterable[str]) -> bool:
    """Return whether all of some texts look like dates, months or times of a day."""
    return all(_DATE.fullmatch(word.strip()) for word in words)


def known_words(array: pa.Array) -> set[str]:
    """Return the different texts of an array, but for those that stand for nothing."""
    return set(_words(array).drop_null().unique().to_pylist())


def _words(array: pa.Array) -> pa.Array:
    """Return the texts without blanks around them; null where they stand for no number."""
    words = array if pa.types.is_string(array.type) else array.cast(pa.string())
    words = pc.utf8_trim_whitespace(words)
    return pc.if_else(pc.is_in(words, NO_NUMBER), pa.scalar(None, pa.string()), words)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _can_be_read(word: str | None) -> bool:
    try:
        pa.scalar(word, pa.string()).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True
