"""The filter language of ``input.where``: comparisons of columns with literals.

::

    condition  = all {"or" all}
    all        = one {"and" one}
    one        = "not" one | "(" condition ")" | comparison
    comparison = column ("==" | "!=" | "<" | "<=" | ">" | ">=") literal
               | column ["not"] "in" "[" literal {"," literal} "]"
    column     = a name, or any text in backticks
    literal    = a number, a text in quotes, true or false

A missing value (null or NaN) matches no comparison, nor the ``not`` of one, as in SQL. A literal
takes the type of its column, so ``x == 0.1`` finds the float32 nearest to 0.1. Integers and
decimals are compared exactly. Text is converted to a date or time if its column holds these. If
a column of text spells dates in another way than the condition, that is an error.
"""

import functools
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import DataError, JobFileError, shown
from distsvc.inputs.given import type_words
from distsvc.storage.rows.numeric_text import is_text

Literal = bool | int | Decimal | str

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)
      | (?P<text>'([^'\\]|\\.)*'|"([^"\\]|\\.)*")
      | (?P<name>[^\W\d]\w*)
      | (?P<quoted>`[^`]+`)
      | (?P<mark>==|!=|<=|>=|<|>|[()\[\],])
      | (?P<odd>.)""",
    re.VERBOSE | re.DOTALL,
)
_COMPARE = {
    "==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
    ">=": pc.greater_equal,
}  # fmt: skip
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]|$)")
_DAY_FIRST = r"^\d{1,2}[./-]\d{1,2}[./-]\d{4}([T ]|$)"
_OTHER_DATE = rf"{_DAY_FIRST}|^\d{{4}}[./]\d{{1,2}}[./]\d{{1,2}}([T ]|$)|^\d{{8}}$"
"""Patterns of dates such as 2026-11-25, 25.11.2026, and all other spellings of a date."""


@dataclass(frozen=True)
class Condition:
    """A parsed filter: a comparison, or ``and``, ``or``, ``not`` of its parts."""

    operator: str
    parts: tuple["Condition", ...] = ()
    column: str = ""
    literal: Literal = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns, each once, in the order they appear."""
        names = [self.column] if self.column else []
        for part in self.parts:
            names.extend(part.columns)
        return tuple(dict.fromkeys(names))

    def mask(self, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
        """Return the mask of matching rows, without nulls, from plain arrays of equal length."""
        return pc.fill_null(self._three_valued(columns), False)

    def may_match(self, known: Mapping[str, pa.Array]) -> bool:
        """Return True if a row with the `known` values may match; null is an unknown value."""
        return self._three_valued(known)[0].as_py() is not False

    def _three_valued(self, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
        if self.operator in _COMPARE:
            return _compare(self.column, columns[self.column], self.operator, self.literal)
        inner = [part._three_valued(columns) for part in self.parts]
        if self.operator == "not":
            return pc.invert(inner[0])
        return functools.reduce(pc.and_kleene if self.operator == "and" else pc.or_kleene, inner)


def parse_where(text: str) -> Condition:
    """Return the condition of a text; `JobFileError` names the place of a syntax error."""
    if len(text) > 200_000:
        raise JobFileError(f"input.where: expected at most 200000 characters, found {len(text)}")
    parser = _Parser(text)
    condition = parser.condition(0)
    parser.take("'and', 'or' or the end", "end")
    return condition


def where_columns(text: str | None) -> tuple[str, ...]:
    """Return the names of the columns in a condition; errors as in `parse_where`."""
    return parse_where(text).columns if text is not None else ()


class _Token(NamedTuple):
    """A token; its kind is "column", "literal", "compare", "end", or the word itself."""

    kind: str
    word: str
    position: int
    value: Literal = ""


class _Parser:
    """A parser by recursive descent, with a method for each rule of the grammar above."""

    def __init__(self, text: str) -> None:
        self.text, self.next = text, 0
        self.tokens = [_token(one, text) for one in _TOKEN.finditer(text) if not one["space"]]
        self.tokens.append(_Token("end", "", len(text)))

    def skip(self, kind: str) -> bool:
        """Skip the next token if it is of a kind; return True if it was."""
        found = self.tokens[self.next].kind == kind
        self.next += found
        return found

    def take(self, expected: str, *kinds: str) -> _Token:
        """Consume and return the next token; `JobFileError` unless its kind is expected."""
        token = self.tokens[self.next]
        if token.kind not in kinds:
            found = "the end" if token.kind == "end" else repr(token.word)
            raise JobFileError(
                f"input.where: expected {expected} at character {token.position + 1}, "
                f"found {found}: {self.text}"
            )
        self.next += 1
        return token

    def condition(self, depth: int, operator: str = "or") -> Condition:
        """Parse parts joined by `operator`: "or" at the outer level, "and" inside each part."""
        parts: list[Condition] = []
        while not parts or self.skip(operator):
            one = self.condition(depth, "and") if operator == "or" else self.one(depth)
            parts.append(one)
        return _joined(operator, parts)

    def one(self, depth: int) -> Condition:
        if depth > 200:
            raise JobFileError("input.where is nested too deeply")
        first = self.take("a column name", "column", "not", "(")
        if first.kind == "not":
            return Condition("not", (self.one(depth + 1),))
        if first.kind == "(":
            inner = self.condition(depth + 1)
            self.take("')'", ")")
            return inner
        operator = self.take("==, !=, <, <=, >, >= or in", "compare", "in", "not")
        if operator.kind == "compare":
            return self.comparison(first, operator.word)
        if operator.kind == "not":
            self.take("'in'", "in")
        self.take("'['", "[")
        equal = [self.comparison(first, "==")]
        while self.take("']'", ",", "]").kind == ",":
            equal.append(self.comparison(first, "=="))
        member = _joined("or", equal)
        return member if operator.kind == "in" else Condition("not", (member,))

    def comparison(self, column: _Token, operator: str) -> Condition:
        literal = self.take("a number, a text in quotes, true or false", "literal")
        return Condition(operator, column=str(column.value), literal=literal.value)


def _joined(operator: str, parts: list[Condition]) -> Condition:
    return parts[0] if len(parts) == 1 else Condition(operator, tuple(parts))


def _token(match: re.Match[str], text: str) -> _Token:
    group, word, position = str(match.lastgroup), match.group(), match.start()
    kind, value = "compare" if word in _COMPARE else word, ""
    if group == "odd":
        raise JobFileError(f"input.where: unexpected {word!r} at character {position + 1}: {text}")
    if group == "number":
        number = int(word) if re.fullmatch(r"[+-]?\d{1,30}", word) else Decimal(word)
        return _Token("literal", word, position, number)
    if group == "text":
        kind, value = "literal", re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.DOTALL)
    elif group == "quoted":
        kind, value = "column", word[1:-1]
    elif word in ("true", "True", "false", "False"):
        return _Token("literal", word, position, word.lower() == "true")
    elif group == "name" and word not in ("and", "or", "not", "in"):
        kind, value = "column", word
    return _Token(kind, word, position, value)


def _compare(name: str, values: pa.Array, operator: str, literal: Literal) -> pa.BooleanArray:
    kind = values.type
    if pa.types.is_null(kind):
        return pa.nulls(len(values), pa.bool_())
    if pa.types.is_float16(kind):
        values = values.cast(pa.float32())  # Arrow can't compare half floats
    if pa.types.is_floating(kind):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    try:
        if isinstance(literal, str) and is_text(kind):
            _check_dates(name, values, operator, literal)
        values, scalar = _same_type(values, literal)
        return _COMPARE[operator](values, scalar)
    except (pa.ArrowException, TypeError, ValueError):  # ValueError: text that is no Unicode
        value = literal if isinstance(literal, Decimal) else shown(literal)
        raise DataError(
            f"input.where compares column {name!r} ({type_words(kind)}) with {value}, which has "
            "another type"
        ) from None


def _check_dates(name: str, values: pa.Array, operator: str, literal: str) -> None:
    """Raise `DataError` if text is compared with a date that has another spelling, or no order."""
    fault = None
    if _ISO_DATE.match(literal):
        other = values.filter(pc.match_substring_regex(values, _OTHER_DATE))
        if len(other):
            fault = f"but the column holds text such as {shown(other[0].as_py())}"
    elif operator not in ("==", "!=") and re.match(_DAY_FIRST, literal):
        fault = "whose order as text is not the order of dates"
    if fault:
        raise DataError(
            f"input.where compares column {name!r} with the date {shown(literal)}, {fault}; write "
            "dates such as 2026-11-25 in the table and in the condition"
        )


def _same_type(values: pa.Array, literal: Literal) -> tuple[pa.Array, pa.Scalar]:
    kind = values.type
    if isinstance(literal, bool):
        if pa.types.is_boolean(kind):
            return values, pa.scalar(literal)
    elif isinstance(literal, str):
        if pa.types.is_temporal(kind):
            if pa.types.is_timestamp(kind) and kind.tz is not None:
                with suppress(pa.ArrowInvalid):  # without a time zone, the text is in UTC
                    return values, pa.scalar(literal).cast(pa.timestamp(kind.unit)).cast(kind)
            return values, pa.scalar(literal).cast(kind)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return values, pa.scalar(literal, kind)
    elif pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return values, pa.scalar(float(literal), kind)
    elif pa.types.is_integer(kind) and isinstance(literal, int) and _fits(literal, kind):
        return values, pa.scalar(literal, kind)
    elif pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return _decimals(values, Decimal(literal))
    raise TypeError


def _fits(number: int, kind: pa.DataType) -> bool:
    signed = pa.types.is_signed_integer(kind)
    return -(2 ** (kind.bit_width - 1)) * signed <= number < 2 ** (kind.bit_width - signed)


def _decimals(values: pa.Array, number: Decimal) -> tuple[pa.Array, pa.Scalar]:
    """Cast values and a number to a common decimal type; float64 if it would be too wide."""
    kind = values.type
    digits, scale = (kind.precision, kind.scale) if pa.types.is_decimal(kind) else (20, 0)
    places = max(scale, -int(number.as_tuple().exponent), 0)
    whole = max(digits - scale, number.adjusted() + 1, 1)
    if places + whole > 76:  # the digits of Arrow's decimals
        return values.cast(pa.float64(), safe=False), pa.scalar(float(number))
    both = pa.decimal256(places + whole, places)
    if not pa.types.is_decimal(kind):
        values = values.cast(pa.decimal128(digits, 0))
    return values.cast(both), pa.scalar(number, both)
