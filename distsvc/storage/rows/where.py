"""The filter language of ``input.where``: comparisons of columns with literals, nothing else.

::

    condition  = all {"or" all}
    all        = one {"and" one}
    one        = "not" one | "(" condition ")" | comparison
    comparison = column ("==" | "!=" | "<" | "<=" | ">" | ">=") literal
               | column ["not"] "in" "[" literal {"," literal} "]"
    column     = a name, or any text in backticks
    literal    = a number, a text in quotes, true or false

A missing value (null or NaN) matches no comparison, nor the ``not`` of one, as in SQL. A literal
takes the type of its column, so ``x == 0.1`` finds the float32 nearest to 0.1; integers and
decimals are compared exactly; a text compared with a date or time is read as one, in UTC where the
column has a time zone and the text has none.
"""

from __future__ import annotations

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
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_TRUTHS = {"true": True, "True": True, "false": False, "False": False}

_MOST_DIGITS = 76
"""Maximum number of digits of Arrow's decimals."""

_DEEPEST = 200
_LONGEST = 200_000


@dataclass(frozen=True)
class Condition:
    """A parsed filter: a comparison, or ``and``, ``or``, ``not`` of its parts."""

    operator: str
    parts: tuple[Condition, ...] = ()
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
        """Return which rows match, without nulls.

        `columns` holds an Arrow array, not dictionary-encoded, for each name in `columns`;
        all are equally long. Raises `DataError` where a literal is not of its column's
        kind.
        """
        return pc.fill_null(self._three_valued(columns), False)

    def may_match(self, known: Mapping[str, pa.Array]) -> bool:
        """Return whether a row may match of which some values are known; the others are null.

        Each array of `known` has one value. Errors as in `mask`.
        """
        return self._three_valued(known)[0].as_py() is not False

    def _three_valued(self, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
        if self.operator in _COMPARE:
            return _compare(self.column, columns[self.column], self.operator, self.literal)
        inner = [part._three_valued(columns) for part in self.parts]
        if self.operator == "not":
            return pc.invert(inner[0])
        return functools.reduce(pc.and_kleene if self.operator == "and" else pc.or_kleene, inner)


def parse_where(text: str) -> Condition:
    """Parse a filter; `JobFileError`, which says where, for a text not in the language above."""
    if len(text) > _LONGEST:
        found = f"expected at most {_LONGEST} characters, found {len(text)}"
        raise JobFileError(f"input.where: {found}")
    tokens = _Tokens(text)
    condition = _condition(tokens, 0)
    tokens.take("'and', 'or' or the end", "end")
    return condition


def where_columns(text: str | None) -> tuple[str, ...]:
    """Return the names of the columns that a filter reads; errors as in `parse_where`."""
    return parse_where(text).columns if text is not None else ()


class _Token(NamedTuple):
    """A word of a filter: its kind (a word of the language is its own), its position and value."""

    kind: str
    word: str
    position: int
    value: Literal = ""


class _Tokens:
    """The words of a filter, taken one after another."""

    def __init__(self, text: str) -> None:
        self._text, self._next = text, 0
        self._tokens = [_token(one, text) for one in _TOKEN.finditer(text) if not one["space"]]
        self._tokens.append(_Token("end", "", len(text)))

    def skip(self, kind: str) -> bool:
        """Return whether the next word is of a kind, and go past it if so."""
        known = self._tokens[self._next].kind == kind
        self._next += known
        return known

    def take(self, expected: str, *kinds: str) -> _Token:
        """Return the next word, which must be of one of some kinds, and go past it."""
        token = self._tokens[self._next]
        if token.kind not in kinds:
            found = "the end" if token.kind == "end" else repr(token.word)
            raise JobFileError(
                f"input.where: expected {expected} at character {token.position + 1}, "
                f"found {found}: {self._text}"
            )
        self._next += 1
        return token


def _token(match: re.Match[str], text: str) -> _Token:
    group, word, position = str(match.lastgroup), match.group(), match.start()
    if group == "odd":
        raise JobFileError(f"input.where: unexpected {word!r} at character {position + 1}: {text}")
    if group == "number":
        number = int(word) if re.fullmatch(r"[+-]?\d{1,30}", word) else Decimal(word)
        return _Token("literal", word, position, number)
    if group == "text":
        value = re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.DOTALL)
        return _Token("literal", word, position, value)
    if group == "quoted":
        return _Token("column", word, position, word[1:-1])
    if group == "name" and word in _TRUTHS:
        return _Token("literal", word, position, _TRUTHS[word])
    if group == "name" and word not in ("and", "or", "not", "in"):
        return _Token("column", word, position, word)
    return _Token("compare" if word in _COMPARE else word, word, position)


def _condition(tokens: _Tokens, depth: int) -> Condition:
    alternatives: list[Condition] = []
    while not alternatives or tokens.skip("or"):
        parts = [_one(tokens, depth)]
        while tokens.skip("and"):
            parts.append(_one(tokens, depth))
        alternatives.append(_joined("and", parts))
    return _joined("or", alternatives)


def _joined(operator: str, parts: list[Condition]) -> Condition:
    return parts[0] if len(parts) == 1 else Condition(operator, tuple(parts))


def _one(tokens: _Tokens, depth: int) -> Condition:
    if depth > _DEEPEST:
        raise JobFileError("input.where is nested too deeply")
    first = tokens.take("a column name", "column", "not", "(")
    if first.kind == "not":
        return Condition("not", (_one(tokens, depth + 1),))
    if first.kind == "(":
        inner = _condition(tokens, depth + 1)
        tokens.take("')'", ")")
        return inner
    operator = tokens.take("==, !=, <, <=, >, >= or in", "compare", "in", "not")
    if operator.kind == "compare":
        return _comparison(first, operator.word, tokens)
    if operator.kind == "not":
        tokens.take("'in'", "in")
    tokens.take("'['", "[")
    equal = [_comparison(first, "==", tokens)]
    while tokens.take("']'", ",", "]").kind == ",":
        equal.append(_comparison(first, "==", tokens))
    member = _joined("or", equal)
    return member if operator.kind == "in" else Condition("not", (member,))


def _comparison(column: _Token, operator: str, tokens: _Tokens) -> Condition:
    literal = tokens.take("a number, a text in quotes, true or false", "literal")
    return Condition(operator, column=str(column.value), literal=literal.value)


def _compare(name: str, values: pa.Array, operator: str, literal: Literal) -> pa.BooleanArray:
    kind = values.type
    if pa.types.is_null(kind):
        return pa.nulls(len(values), pa.bool_())
    if pa.types.is_float16(kind):
        values = values.cast(pa.float32())  # Arrow compares no half floats
    if pa.types.is_floating(kind):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    try:
        values, scalar = _same_type(values, literal)
        return _COMPARE[operator](values, scalar)
    except (pa.ArrowException, TypeError, ValueError):  # ValueError: text that is no Unicode
        raise DataError(
            f"input.where compares column {name!r} ({kind}) with {_shown(literal)}, which is of "
            "another kind"
        ) from None


def _same_type(values: pa.Array, literal: Literal) -> tuple[pa.Array, pa.Scalar]:
    kind = values.type
    if isinstance(literal, bool):
        if pa.types.is_boolean(kind):
            return values, pa.scalar(literal)
    elif isinstance(literal, str):
        if pa.types.is_temporal(kind):
            return values, _moment(literal, kind)
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
    """Return integers or decimals and a number in one type that holds both exactly.

    A number that no such type holds is equal to no value: it is compared in float64.
    """
    kind = values.type
    digits, scale = (kind.precision, kind.scale) if pa.types.is_decimal(kind) else (20, 0)
    places = max(scale, -int(number.as_tuple().exponent), 0)
    whole = max(digits - scale, number.adjusted() + 1, 1)
    if places + whole > _MOST_DIGITS:
        return values.cast(pa.float64(), safe=False), pa.scalar(float(number))
    both = pa.decimal256(places + whole, places)
    if not pa.types.is_decimal(kind):
        values = values.cast(pa.decimal128(digits, 0))
    return values.cast(both), pa.scalar(number, both)


def _shown(literal: Literal) -> str:
    return str(literal) if isinstance(literal, Decimal) else shown(literal)


def _moment(text: str, kind: pa.DataType) -> pa.Scalar:
    """Return a date or time from text; one without a zone is in UTC where a zone is needed."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        with suppress(pa.ArrowInvalid):
            return pa.scalar(text).cast(pa.timestamp(kind.unit)).cast(kind)
    return pa.scalar(text).cast(kind)
