"""Whole numbers that are no quantities: row numbers, ids, dates and codes, told by their form.

Each kind has a test of a column's name and some of its values. Names are a support only: they
never make an id of a column of few small numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

FEWEST_ROWS = 50
"""Of a table that may lose a column: in a smaller one all values of a quantity may differ."""

SPOTS, SPOT_ROWS = 8, 512
"""Number of spots of a table at which values are looked at, and of rows at each."""

ROW_NUMBER = "another value in nearly every row, as a row number or an id has"
DATE = "dates written as numbers, such as 20261120"
PRODUCT = "product codes such as EAN, by their check digits"
CODE = "an id or a code, by its name and its whole numbers"

ID_NAME = re.compile(r"(?i:(^|[_\s.-])(id|uuid|guid|key|rowid)$)|[a-z]I[dD]$")
_CODE_NAME = re.compile(
    r"(?i:(^|[_\s.-])(zip([_\s-]?code)?|post(al)?[_\s-]?code|plz|(ean|gtin|upc|isbn)([_\s-]?\d+)?"
    r"|(ean|gtin|upc|isbn)[_\s-]code|bar[_\s-]?code|sku|(tele)?phone([_\s-]?number)?)$"
    r"|^id[_\s.-]|^unnamed: \d+$)"
)
_MOST_KINDS, _LONG = 32, 1000
"""A column named like a code is one if it has more values, or usually at least four digits."""

_DISTINCT, _DISTINCT_SOMEWHERE, _DISTINCT_LARGE = 0.99, 0.95, 0.9
"""Share of ids that differ, in all and at one spot; of large ones float64 tells fewer apart."""

_FEW_ROWS, _SURE_ROWS = 200, 1000
"""From when on even values, and rising ones, are not thought to be a coincidence."""

_EVEN = 1.95
"""Kolmogorov's distance times the root of the number of values; 1 even column in 1,000 has it."""

_FINE, _LONGEST_SHORT = 1e7, 1e5
"""Least range of ids at random; or least id, where all have the same number of digits."""

_FEWEST_TIES = 8.0
"""Of equal pairs that independent values would have, and have not: 1 table in 3,000."""

_MOST_EXACT = 2.0**53
_DATE_SHARE = 0.95
_DAYS = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_FIRST_DATE = 190_001.0
_GTIN_DIGITS, _FEWEST_GTINS = 14, 10


@dataclass(frozen=True)
class CodeKind:
    """A kind of whole numbers, and the reason that a report gives for leaving them out.

    `may_be` is whether values (n,) of a column of a name may be of the kind, as far as they are
    known; `is_sure` is asked of all that were looked at, in the order of the rows.
    """

    reason: str
    may_be: Callable[[str, np.ndarray], bool]
    is_sure: Callable[[str, np.ndarray], bool]


def may_be_code(name: str, values: np.ndarray) -> bool:
    """Return whether values (n,) of a column may be of some kind, by those known so far."""
    return _whole(values) and any(kind.may_be(name, values) for kind in KINDS)


def may_have_codes(name: str, least: float, most: float, n_values: int) -> bool:
    """Return whether a column may be of some kind, by the extremes of so many of its values."""
    if not (float(least).is_integer() and float(most).is_integer()):
        return False
    room = most - least + 1 >= _DISTINCT_SOMEWHERE * n_values
    return room or most >= _FIRST_DATE or is_named_like_code(name)


def is_named_like_code(name: str) -> bool:
    """Return whether a column's name is one of an id or a code."""
    return bool(ID_NAME.search(name) or _CODE_NAME.search(name))


def code_reason(name: str, values: np.ndarray) -> str | None:
    """Return why a column is no feature, by its name and values (n,); None where it may be one."""
    if len(values) < FEWEST_ROWS or values.min() == values.max() or not _whole(values):
        return None
    kinds = (kind for kind in KINDS if kind.may_be(name, values) and kind.is_sure(name, values))
    return next((kind.reason for kind in kinds), None)


def _whole(values: np.ndarray) -> bool:
    return bool(np.array_equal(values, np.rint(values)) and not np.isinf(values).any())


def _are_dates(name: str, values: np.ndarray) -> bool:
    """Return whether whole numbers are dates from 1900 to 2100, or times: yyyymmddhhmmss."""
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
    return bool(values.size == 0 or valid.mean() >= _DATE_SHARE)


def _several_days(name: str, values: np.ndarray) -> bool:
    """Return whether dates are too many to be numbers by chance: six months, or two days."""
    fewest = 6 if _digits(float(np.median(values))) == 6 else 2
    return len(np.unique(values)) >= fewest


def _digits(value: float) -> int:
    return int(np.log10(value)) + 1 if value >= 1.0 else 0


def _have_check_digits(name: str, values: np.ndarray) -> bool:
    """Return whether the last digits are those that GS1 prescribes for EAN, UPC and GTIN."""
    if values.size and (values.min() < 1e7 or values.max() >= 10.0**_GTIN_DIGITS):
        return False
    rest, total = values.astype(np.int64), np.zeros(len(values), np.int64)
    for place in range(_GTIN_DIGITS):
        total += (3 if place % 2 else 1) * (rest % 10)
        rest //= 10
    return bool((total % 10 == 0).all())


def _many_products(name: str, values: np.ndarray) -> bool:
    return len(np.unique(values)) >= _FEWEST_GTINS


def _differ(name: str, values: np.ndarray) -> bool:
    """Return whether values differ, or nearly all do and are no fine quantity, by their form.

    Of large values float64 can tell only so many apart.
    """
    n, ties = len(values), _ties(values)
    if ties == 0 or not _exact(values):
        return ties <= (1.0 - _DISTINCT_LARGE) * n
    return ties <= (1.0 - _DISTINCT_SOMEWHERE) * n and (_lacks_ties(values) or _even(values))


def _ties(values: np.ndarray) -> int:
    return len(values) - len(np.unique(values))


def _exact(values: np.ndarray) -> bool:
    return len(values) == 0 or bool(np.abs(values).max() <= _MOST_EXACT)


def _numbers_rows(name: str, values: np.ndarray) -> bool:
    """Return whether values that nearly all differ, in the order of the rows, number these.

    Either they have fewer ties than values of a quantity would have in so small a range; or they
    rise or fall with the rows; or they are spread evenly, and longer than what is measured.
    """
    n, ties = len(values), _ties(values)
    if _exact(values) and ties > (1.0 - _DISTINCT) * n:
        return False
    if _lacks_ties(values):
        return True
    even, strict = _even(values), ties == 0 or not _exact(values)
    if n >= _SURE_ROWS and strict and (even or _are_ordered(values)):
        return True
    long = np.ptp(values) >= _FINE or (ties == 0 and _are_as_long(values))
    return n >= _FEW_ROWS and even and bool(long)


def _lacks_ties(values: np.ndarray) -> bool:
    """Return whether values have too few ties to be independent, in the range that they cover."""
    n, ordered = len(values), _are_ordered(values)
    jumps = SPOTS - 1 if ordered and n > _SURE_ROWS else 0  # from one spot to the next
    steps = np.sort(np.abs(np.diff(values)))[: n - 1 - jumps]
    covered = steps.sum() if ordered else np.ptp(values)
    return bool(n * n / (2.0 * max(covered, 1.0)) >= _FEWEST_TIES + 4.0 * _ties(values))


def _are_ordered(values: np.ndarray) -> bool:
    """Return whether values never fall from one row to the next, or never rise."""
    steps = np.diff(values)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _are_as_long(values: np.ndarray) -> bool:
    """Return whether values have the same sign and number of digits, and at least six."""
    low, high = np.abs(values).min(), np.abs(values).max()
    same_sign = values.min() > 0 or values.max() < 0
    return bool(same_sign and low >= _LONGEST_SHORT and _digits(low) == _digits(high))


def _even(values: np.ndarray) -> bool:
    shares = (np.sort(values) - values.min()) / max(np.ptp(values), 1.0)
    distance = np.abs(shares - np.linspace(0.0, 1.0, len(values))).max()
    return bool(distance * np.sqrt(len(values)) < _EVEN)


def _is_named(name: str, values: np.ndarray) -> bool:
    return is_named_like_code(name)


def _are_codes(name: str, values: np.ndarray) -> bool:
    return bool(len(np.unique(values)) > _MOST_KINDS or np.median(np.abs(values)) >= _LONG)


KINDS = (
    CodeKind(DATE, _are_dates, _several_days),
    CodeKind(PRODUCT, _have_check_digits, _many_products),
    CodeKind(ROW_NUMBER, _differ, _numbers_rows),
    CodeKind(CODE, _is_named, _are_codes),
)
"""In the order in which a reason is looked for."""

REASONS = tuple(kind.reason for kind in KINDS)
