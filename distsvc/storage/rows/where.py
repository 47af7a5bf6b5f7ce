"""The filter language of ``input.where``: comparisons of columns with literals.

::

    condition  = all {"or" all}
    all        = one {"and" one}
    one        = "not" one | "(" condition ")" | comparison
    comparison = column ("==" | "!=" | "<" | "<=" | ">" | ">=") literal
               | column ["not"] "in" "[" literal {"," literal} "]"
    column     = a name, or any text in backticks
    literal    = a number, a text in quotes, true or false

A missing value (null or NaN) matches no comparison and no negated comparison, as in SQL. A literal
takes the type of its column, so ``x == 0.1`` finds the float32 nearest to 0.1. Integers and
decimals are compared exactly. In comparisons with a column of dates or times, text is converted. It
is an error if a column of text spells dates in another way than the condition.
"""

import functools
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import DataError, JobFileError, shown
from distsvc.inputs.given import is_text, type_words

Literal = bool | int | Decimal | str

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)
      | (?P<text>'([^'\\]|\\.)*'|"([^"\\]|\\.)*")
      | (?P<truth>(true|True|false|False)(?!\w))
      | (?P<word>(and|or|not|in)(?!\w)|[()\[\],])
      | (?P<column>[^\W\d]\w*|`[^`]+`)
      | (?P<compare>==|!=|<=|>=|<|>)
      | (?P<odd>.)
      | (?P<end>\Z)""",
    re.VERBOSE | re.DOTALL,
)
_COMPARE = {
    "==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
    ">=": pc.greater_equal,
}  # fmt: skip
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]|$)")
_DAY_FIRST = r"^\d{1,2}[./-]\d{1,2}[./-]\d{4}([T ]|$)"
_OTHER_DATE = rf"{_DAY_FIRST}|^\d{{4}}[./]\d{{1,2}}[./]\d{{1,2}}([T ]|$)|^\d{{8}}$"
"""Pattern of dates in any spelling but ISO, such as 25.11.2026, 2026/11/25 and 20261125."""


@dataclass(frozen=True)
class Condition:
    """A parsed filter: a comparison, or ``and``, ``or``, ``not`` of its parts."""

    operator: str
    parts: tuple["Condition", ...] = ()
    column: str = ""
    literal: Literal = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, each once, in order of appearance."""
        names = [self.column] if self.column else []
        for part in self.parts:
            names.extend(part.columns)
        return tuple(dict.fromkeys(names))

    def mask(self, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
        """Return the mask of the rows that match; `columns` are plain arrays of equal length."""
        return pc.fill_null(self._three_valued(columns), False)

    def may_match(self, known: Mapping[str, pa.Array]) -> bool:
        """Return True unless the known values of a row rule out that it matches.

        `known` has an array of length 1 for each column, such as a partition key of a file. Null
        means that the value is unknown.
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


class _Parser:
    """A parser by recursive descent, with a method for each rule of the grammar above."""

    def __init__(self, text: str) -> None:
        self.text, self.next = text, 0
        self.tokens = [token for token in _TOKEN.finditer(text) if not token["space"]]
        odd = next((token for token in self.tokens if token["odd"]), None)
        if odd:
            where = f"{odd['odd']!r} at character {odd.start() + 1}: {text}"
            raise JobFileError(f"input.where: unexpected {where}")

    @property
    def kind(self) -> str:
        """The kind of the next token, such as "number" or "column", or the word itself: "and"."""
        token = self.tokens[self.next]
        return token["word"] or str(token.lastgroup)

    def take(self, expected: str, *kinds: str) -> re.Match[str]:
        """Consume and return the next token; `JobFileError` unless it has one of the kinds."""
        token = self.tokens[self.next]
        if self.kind not in kinds:
            found = "the end" if token.lastgroup == "end" else repr(token[0])
            raise JobFileError(
                f"input.where: expected {expected} at character {token.start() + 1}, "
                f"found {found}: {self.text}"
            )
        self.next += 1
        return token

    def condition(self, depth: int, operator: str = "or") -> Condition:
        """Parse one or more conditions joined by `operator`.

        The conditions between two "or" are in turn conditions joined by "and".
        """
        parts: list[Condition] = []
        while not parts or self.kind == operator:
            self.next += bool(parts)
            parts.append(self.condition(depth, "and") if operator == "or" else self.one(depth))
        return _joined(operator, parts)

    def one(self, depth: int) -> Condition:
        if depth > 200:
            raise JobFileError("input.where is nested too deeply")
        first = self.take("a column name", "column", "not", "(")
        if first[0] == "not":
            return Condition("not", (self.one(depth + 1),))
        if first[0] == "(":
            inner = self.condition(depth + 1)
            self.take("')'", ")")
            return inner
        name = first[0].strip("`")
        operator = self.take("==, !=, <, <=, >, >= or in", "compare", "in", "not")
        if operator["compare"]:
            return Condition(operator[0], column=name, literal=self.literal())
        if operator[0] == "not":
            self.take("'in'", "in")
        self.take("'['", "[")
        equal = [Condition("==", column=name, literal=self.literal())]
        while self.take("']'", ",", "]")[0] == ",":
            equal.append(Condition("==", column=name, literal=self.literal()))
        member = _joined("or", equal)
        return member if operator[0] == "in" else Condition("not", (member,))

    def literal(self) -> Literal:
        token = self.take("a number, a text in quotes, true or false", "number", "text", "truth")
        word = token[0]
        if token["number"]:
            return int(word) if re.fullmatch(r"[+-]?\d{1,30}", word) else Decimal(word)
        if token["truth"]:
            return word.lower() == "true"
        return re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.DOTALL)


def _joined(operator: str, parts: list[Condition]) -> Condition:
    return parts[0] if len(parts) == 1 else Condition(operator, tuple(parts))


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
    """Raise `DataError` if dates as text would compare wrongly.

    This is so if the column and the literal spell dates differently, or if the day comes first.
    """
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
        if is_text(kind):
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
    if places + whole > 76:  # more digits than Arrow's decimals have
        return values.cast(pa.float64(), safe=False), pa.scalar(float(number))
    both = pa.decimal256(places + whole, places)
    if not pa.types.is_decimal(kind):
        values = values.cast(pa.decimal128(digits, 0))
    return values.cast(both), pa.scalar(number, both)
