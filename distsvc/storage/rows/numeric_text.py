"""Columns of text that hold only numbers, as in CSV."""

import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from distsvc.errors import DataError
from distsvc.inputs.given import is_text as is_text

NO_NUMBER = pa.array(csv.ConvertOptions().null_values)
"""Texts for a missing number: the empty text, and words such as NA."""

NUMBER_PATTERN = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
"""Pattern of plain numbers such as -1234.5 and 1e-3, which need no correction to be read."""

_NOT_FINITE = r"(?i)^[+-]?(inf|infinity|nan)$"
"""Pattern of infinity and NaN, which Arrow reads as numbers; they are rejected later."""

_LEADING_ZERO = r"^[+-]?0\d"
"""Pattern of codes that begin like 007, which are not read as numbers."""

_SIGN, _BLANK = "[+\\-\u2212\u2013]?", "[\\s\u00a0\u202f]?"
_CURRENCY = (
    r"(\p{Sc}|(US|A|C|R|HK|S)\$|(Fr|kr|Rs)\.?|z\x{142}|K\x{10d}|AED|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR"
    r"|GBP|HKD|HUF|IDR|ILS|INR|JPY|KRW|MXN|MYR|NOK|NZD|PLN|RON|RUB|SAR|SEK|SGD|THB|TRY|TWD|UAH|USD|VND|ZAR)?"
)
_DIGITS = (
    r"(\d{1,3}(,\d{2,3})*,\d{3}(\.\d*)?"  # 1,234.5 and 1,23,456
    r"|\d{1,3}(\.\d{3})+,\d*|\d{1,3}(\.\d{3}){2,}"  # 1.234,5
    "|[1-9]\\d{0,2}(['\u2019_ \u00a0\u2009\u202f]\\d{3})+([.,]\\d*)?"  # 1'234.5
    r"|(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?)"
)
SPELLED = (
    rf"^\(?{_SIGN}{_BLANK}{_CURRENCY}{_BLANK}{_SIGN}"
    rf"{_DIGITS}{_BLANK}[%\x{{2030}}\p{{Sc}}]?{_SIGN}\)?$"
)
"""Pattern of numbers with decimal comma, grouped digits, currency, percent or trailing sign."""

_GROUP, _SMALL = r"^[+-]?[1-9]\d{0,2}\.\d{3}$", r"^[+-]?(0|[1-9]\d{0,2})$"
_WITH_UNIT = r"^[+-]?[\d.,]*\d\s?(?P<unit>[\p{L}°µ][^\s\d]*)$"
"""Pattern of a number and the unit behind it."""

LIMIT_SIGNS = "<>\u2264\u2265= "
"""Characters before the number in a detection limit, such as <0.5."""

_LIMIT = re.compile(r"[<>\u2264\u2265]=? ?(\d+\.?\d*|\.\d+)")
"""Pattern of limits, such as <0.5 for values below the limit of detection."""

_DATE = re.compile(r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2}.*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}.*")
"""Pattern of dates and times that begin with a year or a day, and of months (2026-11)."""


def is_unicode(array: pa.Array) -> bool:
    """Return True if texts are valid UTF-8; some files have other bytes in columns of text."""
    with suppress(pa.ArrowInvalid):
        array.validate(full=True)
        return True
    return False


def unicode_error(shown: str, column: str, where: str = "") -> DataError:
    """Return the error for a column of text that the job needs and that is not UTF-8."""
    return DataError(
        f"{shown}: column {column!r}{where}: expected text as UTF-8, found other bytes; write the "
        "column as UTF-8, or as binary, or use another column"
    )


def are_numbers(array: pa.Array) -> bool:
    """Return True if texts are missing or finite numbers, without codes (007) or grouped digits."""
    words = trimmed(array).drop_null()
    if _count(matches(words, _LEADING_ZERO)) or are_thousands(words):
        return False
    with suppress(pa.ArrowInvalid):
        return bool(np.isfinite(words.cast(pa.float64()).to_numpy(zero_copy_only=False)).all())
    return False


@dataclass
class TextStats:
    """Counts of the numbers in a column of text, and of all values that are not numbers."""

    given: int = 0  # values that are not missing
    numbers: int = 0  # plain numbers
    spelled: Counter[str] = field(default_factory=Counter)  # numbers in another spelling
    words: Counter[str] = field(default_factory=Counter)  # other values
    first: int = -1  # first row, from 0, of a value that is no plain number; -1 if none
    distinct: int = 0  # largest number of different numbers in a batch

    def add(self, values: pa.Array, start: int = 0) -> "TextStats":
        """Add the counts of `values`, whose first row is `start`, and return self."""
        words = pc.utf8_trim_whitespace(values)
        given = pc.and_not(pc.is_valid(words), pc.is_in(words, NO_NUMBER))
        number = pc.or_(matches(words, NUMBER_PATTERN), matches(words, _NOT_FINITE))
        odd = pc.and_not(given, number)
        spelled = pc.and_(odd, matches(words, SPELLED))
        self.given += _count(given)
        self.numbers += _count(pc.and_(given, number))
        if self.first < 0 and _count(odd):
            self.first = start + pc.index(odd, True).as_py()
        for counter, mask in (self.spelled, spelled), (self.words, pc.and_not(odd, spelled)):
            for one in pc.value_counts(values.filter(mask)).to_pylist():
                counter[one["values"]] += one["counts"]
        found = pc.count_distinct(words.filter(pc.and_(given, pc.or_(number, spelled)))).as_py()
        self.distinct = max(self.distinct, found)
        return self

    @property
    def odd(self) -> Counter[str]:
        """The counts of all values that are not plain numbers: `spelled` and `words` together."""
        return self.spelled + self.words

    @property
    def limit(self) -> str | None:
        """The commonest value that is a limit, such as <0.5; None if there is no such value."""
        return next((word for word, _ in self.words.most_common() if _LIMIT.fullmatch(word)), None)

    @property
    def are_mixed(self) -> bool:
        """Whether at least half of the values are numbers, and one or more is not a plain number.

        Numbers in any spelling count. In a column of many different numbers, the most frequent
        word is assumed to mean "missing". It does not count as a value.
        """
        missing = max(self.words.values(), default=0) if self.distinct >= 20 else 0
        numbers = self.numbers + self.spelled.total()
        return bool(self.odd) and numbers > 0 and 2 * numbers >= self.given - missing


def matches(words: pa.Array, pattern: str) -> pa.Array:
    """Return the mask of texts that match a pattern of RE2; False for null."""
    return pc.fill_null(pc.match_substring_regex(words, pattern), False)


def _count(mask: pa.Array) -> int:
    return pc.sum(mask).as_py() or 0


def are_thousands(array: pa.Array) -> bool:
    """Return True if the points of texts such as 1.234 and 980 separate thousands.

    Three digits must follow each point, and values without a point must be below 1000. Unless a
    value ends in zero (1.230), or 50 values have a point, the points may be decimal.
    """
    words = trimmed(array).drop_null()
    grouped = matches(words, _GROUP)
    others = words.filter(pc.invert(grouped))
    if not len(others) or not pc.all(matches(others, _SMALL)).as_py():
        return False
    return _count(grouped) >= 50 or _count(pc.and_(grouped, matches(words, "0$"))) > 0


def are_mostly_numbers(array: pa.Array) -> bool:
    """Return True if most texts are numbers, in any spelling, and none is a code."""
    if _count(matches(trimmed(array).drop_null(), _LEADING_ZERO)):
        return False
    found = TextStats().add(array)
    return found.are_mixed or 0 < found.given == found.numbers


def have_unit(array: pa.Array) -> bool:
    """Return True if half of the texts are numbers with the same word behind them."""
    words = trimmed(array).drop_null()
    units = pc.struct_field(pc.extract_regex(words, _WITH_UNIT), "unit")
    if pc.count_distinct(words.filter(pc.is_valid(units))).as_py() < 5:
        return False  # a few may be names, such as 2WD
    most = max(one["counts"] for one in pc.value_counts(units.drop_null()).to_pylist())
    return bool(2 * most >= len(words))


def are_dates(words: Iterable[str]) -> bool:
    """Return True if all texts look like dates, months or times."""
    return all(_DATE.fullmatch(word.strip()) for word in words)


def trimmed(array: pa.Array) -> pa.Array:
    """Return the texts without blanks around them; null for missing values."""
    words = array if pa.types.is_string(array.type) else array.cast(pa.string())
    words = pc.utf8_trim_whitespace(words)
    return pc.if_else(pc.is_in(words, NO_NUMBER), pa.scalar(None, pa.string()), words)
