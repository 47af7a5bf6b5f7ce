"""Detection of whole numbers that are no quantities: row numbers, ids, dates and codes.

Each kind has tests of a column's name and of a sample of its values.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

MIN_ROWS_TO_DROP = 50
"""Minimum number of rows of a table from which columns of ids are excluded.

In a smaller table, the values of a quantity may all differ by chance.
"""

SPOTS, SPOT_ROWS = 8, 512
"""Number of row ranges of a table whose values are tested, and the rows of each range."""

ROW_NUMBER = "looks like an id: nearly every value is different"
DATE_NUMBER = "dates written as numbers, such as 20261120"
PRODUCT = "product codes such as EAN, by their check digits"
CODE = "an id or a code, by its name and its whole numbers"

ID_NAME = re.compile(r"(?i:(^|[_\s.-])(id|uuid|guid|key|rowid)$)|[a-z]I[dD]$")
_CODE_NAME = re.compile(
    r"(?i:(^|[_\s.-])(zip([_\s-]?code)?|post(al)?[_\s-]?code|plz|(ean|gtin|upc|isbn)([_\s-]?\d+)?"
    r"|(ean|gtin|upc|isbn)[_\s-]code|bar[_\s-]?code|sku|(tele)?phone([_\s-]?number)?)$"
    r"|^id[_\s.-]|^unnamed: \d+$)"
)

_SURE_ROWS = 1000
"""Minimum number of values that are called ids because they are ordered or evenly spread."""

_DAYS = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


@dataclass(frozen=True)
class CodeKind:
    """A kind of whole numbers that are no quantity."""

    reason: str  # text for reports
    may_be: Callable[[str, np.ndarray], bool]  # tests a column's name and the values (n,) so far
    is_sure: Callable[[str, np.ndarray], bool]  # tests all values, in row order


def may_be_code(name: str, values: np.ndarray) -> bool:
    """Return True if neither the name nor the first values (n,) of a column rule out a code."""
    return _whole(values) and any(kind.may_be(name, values) for kind in CODE_KINDS)


def is_named_like_code(name: str) -> bool:
    """Return True if a column has a name that is typical of an id or a code."""
    return bool(ID_NAME.search(name) or _CODE_NAME.search(name))


def code_reason(name: str, values: np.ndarray) -> str | None:
    """Return the reason why a column of values (n,) is no feature; None if it may be one."""
    if len(values) < MIN_ROWS_TO_DROP or values.min() == values.max() or not _whole(values):
        return None
    for kind in CODE_KINDS:
        if kind.may_be(name, values) and kind.is_sure(name, values):
            return kind.reason
    return None


def _whole(values: np.ndarray) -> bool:
    return bool(np.array_equal(values, np.rint(values)) and not np.isinf(values).any())


def _are_dates(name: str, values: np.ndarray) -> bool:
    """Return True if 95 % of the values are dates or times of 1900 to 2100: yyyymmddhhmmss."""
    digits = _digits(float(np.median(values))) if values.size else 8
    if digits not in (6, 8, 12, 14):
        return False
    whole = np.where(np.abs(values) < 10.0**digits, values, 0.0).astype(np.int64)
    day, clock = (whole * 100 + 1, 0 * whole) if digits == 6 else divmod(whole, 10 ** (digits - 8))
    clock = clock * 100 if digits == 12 else clock
    year, month, of_month = day // 10_000, day // 100 % 100, day % 100
    valid = (year >= 1900) & (year <= 2100) & (month >= 1) & (month <= 12) & (of_month >= 1)
    valid &= of_month <= _DAYS[np.clip(month, 1, 12) - 1]
    valid &= (clock // 10_000 < 24) & (clock // 100 % 100 < 60) & (clock % 100 < 60)
    return bool(values.size == 0 or valid.mean() >= 0.95)


def _enough_dates(name: str, values: np.ndarray) -> bool:
    """Return True if there are at least 6 different months (yyyymm), or 2 other different dates."""
    return len(np.unique(values)) >= (6 if _digits(float(np.median(values))) == 6 else 2)


def _digits(value: float) -> int:
    return int(np.log10(value)) + 1 if value >= 1.0 else 0


def _have_check_digits(name: str, values: np.ndarray) -> bool:
    """Return True if every value ends with its check digit, as in EAN, UPC and GTIN (GS1)."""
    if values.size and (values.min() < 1e7 or values.max() >= 1e14):
        return False
    rest, total = values.astype(np.int64), np.zeros(len(values), np.int64)
    for place in range(14):
        total += (3 if place % 2 else 1) * (rest % 10)
        rest //= 10
    return bool((total % 10 == 0).all())


def are_mostly_different(values: np.ndarray) -> bool:
    """Return True if at most 5 % of values (n,) equal another value."""
    return _ties(values) <= (1.0 - 0.95) * len(values)


def _differ(name: str, values: np.ndarray) -> bool:
    """Return True if nearly all values differ.

    Whole numbers above 2^53 are rounded in float64, so more of them may be equal.
    """
    n, ties = len(values), _ties(values)
    if ties == 0 or not _exact(values):
        return ties <= (1.0 - 0.9) * n
    return are_mostly_different(values) and (_lacks_ties(values) or _even(values))


def _ties(values: np.ndarray) -> int:
    return len(values) - len(np.unique(values))


def _exact(values: np.ndarray) -> bool:
    return len(values) == 0 or bool(np.abs(values).max() <= 2.0**53)


def _numbers_rows(name: str, values: np.ndarray) -> bool:
    """Return True if values are row numbers or ids, given that nearly all differ.

    They are if they lack ties (`_lacks_ties`), or if at least `_SURE_ROWS` of them are ordered or
    evenly spread. If the numbers have many digits, fewer evenly spread values are enough.
    """
    n, ties = len(values), _ties(values)
    few = not _exact(values) or ties <= (1.0 - 0.99) * n
    if _lacks_ties(values) and (few or not _are_ordered(values)):  # a meter's counts are ordered
        return True
    if not few:
        return False
    even, strict = _even(values), ties == 0 or not _exact(values)
    if n >= _SURE_ROWS and strict and (even or _are_ordered(values)):
        return True
    low, high = np.abs(values).min(), np.abs(values).max()
    same_sign = values.min() > 0 or values.max() < 0
    equal_length = same_sign and low >= 1e5 and _digits(low) == _digits(high)
    long = np.ptp(values) >= 1e7 or (ties == 0 and equal_length)
    return n >= 200 and even and bool(long)


def _lacks_ties(values: np.ndarray) -> bool:
    """Return True if values have too few ties to be independent draws from their range.

    Independent draws must be expected to have 8 equal pairs, and 4 more for each observed tie. If 8
    pairs are expected, the probability of no tie is 1 in 3,000.
    """
    n, ordered = len(values), _are_ordered(values)
    jumps = SPOTS - 1 if ordered and n > _SURE_ROWS else 0  # from one range of rows to the next
    steps = np.sort(np.abs(np.diff(values)))[: n - 1 - jumps]
    covered = steps.sum() if ordered else np.ptp(values)
    return bool(n * n / (2.0 * max(covered, 1.0)) >= 8.0 + 4.0 * _ties(values))


def _are_ordered(values: np.ndarray) -> bool:
    steps = np.diff(values)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _even(values: np.ndarray) -> bool:
    """Return True if values are uniform by Kolmogorov's test, at a level of 1 in 1,000."""
    shares = (np.sort(values) - values.min()) / max(np.ptp(values), 1.0)
    distance = np.abs(shares - np.linspace(0.0, 1.0, len(values))).max()
    return bool(distance * np.sqrt(len(values)) < 1.95)


CODE_KINDS = (
    CodeKind(DATE_NUMBER, _are_dates, _enough_dates),
    CodeKind(PRODUCT, _have_check_digits, lambda name, values: len(np.unique(values)) >= 10),
    CodeKind(ROW_NUMBER, _differ, _numbers_rows),
    CodeKind(
        CODE,
        lambda name, values: is_named_like_code(name),
        lambda name, values: bool(len(np.unique(values)) > 32 or np.median(abs(values)) >= 1000),
    ),
)
"""Kinds of ids and codes, in the order in which `code_reason` tests for them."""

CODE_REASONS = tuple(kind.reason for kind in CODE_KINDS)
