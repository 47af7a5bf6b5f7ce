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
takes the type of its column, so ``x == 0.1`` finds the float32 nearest to 0.1; a text compared with
a date or time is read as one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import DataError, JobFileError

Literal = bool | int | float | str

_TOKEN = re.compile(
    r"""(?P<number>[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)
      | (?P<text>'([^'\\]|\\.)*'|"([^"\\]|\\.)*")
      | (?P<name>[^\W\d]\w*)
      | (?P<quoted>`[^`]+`)
      | (?P<mark>==|!=|<=|>=|<|>|[()\[\],])""",
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
_WORDS = {"and", "or", "not", "in", "true", "True", "false", "False"}


@dataclass(frozen=True)
class Condition:
    """A parsed filter: a comparison, or ``and``, ``or``, ``not`` of its parts."""

    operator: str
    parts: tuple[Condition, ...] = ()
    column: str = ""
    values: tuple[Literal, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns, each once, in the order they appear."""
        names = [self.column] if self.column else []
        for part in self.parts:
            names.extend(part.columns)
        return tuple(dict.fromkeys(names))

    def mask(self, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
        """Return which rows match, without nulls.

        Parameters
        ----------
        columns
            An Arrow array, not dictionary-encoded, for each name in `columns`; all equally long.

        Raises
        ------
        DataError
            A literal is not of its column's kind.

        """
        return pc.fill_null(self._three_valued(columns), False)

    def _three_valued(self, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
        if self.operator in _COMPARE:
            return _compare(self.column, columns[self.column], self.operator, self.values[0])
        if self.operator == "in":
            values = columns[self.column]
            found = [_compare(self.column, values, "==", value) for value in self.values]
            return functools.reduce(pc.or_kleene, found)
        inner = [part._three_valued(columns) for part in self.parts]
        if self.operator == "not":
            return pc.invert(inner[0])
        return functools.reduce(pc.and_kleene if self.operator == "and" else pc.or_kleene, inner)


def parse_where(text: str) -> Condition:
    """Parse a filter.

    Raises
    ------
    JobFileError
        The text is not in the language above; the message says where.

    """
    try:
        return _Parser(text).parse()
    except RecursionError:
        raise JobFileError("input.where is nested too deeply") from None


def where_columns(text: str | None) -> tuple[str, ...]:
    """Return the names of the columns that a filter reads; errors as in `parse_where`."""
    return parse_where(text).columns if text is not None else ()


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._split()
        self.at = 0

    def parse(self) -> Condition:
        condition = self._any_of()
        if self._kind() != "end":
            raise self._expected("'and', 'or' or the end")
        return condition

    def _any_of(self) -> Condition:
        parts = [self._all_of()]
        while self._take("name", "or"):
            parts.append(self._all_of())
        return parts[0] if len(parts) == 1 else Condition("or", tuple(parts))

    def _all_of(self) -> Condition:
        parts = [self._one()]
        while self._take("name", "and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else Condition("and", tuple(parts))

    def _one(self) -> Condition:
        if self._take("name", "not"):
            return Condition("not", (self._one(),))
        if self._take("mark", "("):
            inner = self._any_of()
            self._need(")")
            return inner
        return self._comparison()

    def _comparison(self) -> Condition:
        kind, column, _ = self.tokens[self.at]
        if kind == "quoted":
            column = column[1:-1]
        elif kind != "name" or column in _WORDS:
            raise self._expected("a column name")
        self.at += 1
        negated = self._take("name", "not")
        if self._take("name", "in"):
            self._need("[")
            values = [self._literal()]
            while self._take("mark", ","):
                values.append(self._literal())
            self._need("]")
            condition = Condition("in", column=column, values=tuple(values))
            return Condition("not", (condition,)) if negated else condition
        operator = self.tokens[self.at][1]
        if negated or self._kind() != "mark" or operator not in _COMPARE:
            raise self._expected("'in'" if negated else "==, !=, <, <=, >, >= or in")
        self.at += 1
        return Condition(operator, column=column, values=(self._literal(),))

    def _literal(self) -> Literal:
        kind, word, _ = self.tokens[self.at]
        value: Literal
        if kind == "number":
            value = int(word) if re.fullmatch(r"[+-]?\d{1,30}", word) else float(word)
        elif kind == "text":
            value = re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.DOTALL)
        elif word in ("true", "True", "false", "False") and kind == "name":
            value = word in ("true", "True")
        else:
            raise self._expected("a number, a text in quotes, true or false")
        self.at += 1
        return value

    def _kind(self) -> str:
        return self.tokens[self.at][0]

    def _take(self, kind: str, word: str) -> bool:
        found = self.tokens[self.at][:2] == (kind, word)
        self.at += found
        return found

    def _need(self, mark: str) -> None:
        if not self._take("mark", mark):
            raise self._expected(repr(mark))

    def _expected(self, what: str) -> JobFileError:
        kind, word, place = self.tokens[self.at]
        found = "the end" if kind == "end" else repr(word)
        return JobFileError(
            f"input.where: expected {what} at character {place + 1}, found {found}: {self.text}"
        )

    def _split(self) -> list[tuple[str, str, int]]:
        tokens = []
        place = 0
        while place < len(self.text):
            if self.text[place].isspace():
                place += 1
                continue
            match = _TOKEN.match(self.text, place)
            if match is None:
                raise JobFileError(
                    f"input.where: unexpected {self.text[place]!r} at character {place + 1}: "
                    f"{self.text}"
                )
            tokens.append((str(match.lastgroup), match.group(), place))
            place = match.end()
        return [*tokens, ("end", "", len(self.text))]


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
    except (pa.ArrowException, TypeError):
        raise DataError(
            f"input.where compares column {name!r} ({kind}) with {literal!r}, which is of "
            "another kind"
        ) from None


def _same_type(values: pa.Array, literal: Literal) -> tuple[pa.Array, pa.Scalar]:
    kind = values.type
    if isinstance(literal, bool):
        if pa.types.is_boolean(kind):
            return values, pa.scalar(literal)
    elif isinstance(literal, str):
        if pa.types.is_temporal(kind):
            return values, pa.scalar(literal).cast(kind)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return values, pa.scalar(literal, kind)
    elif pa.types.is_integer(kind) and isinstance(literal, int):
        try:
            return values, pa.scalar(literal, kind)
        except (pa.ArrowException, OverflowError):  # no value of this type is equal to it
            return values.cast(pa.float64(), safe=False), pa.scalar(float(literal))
    elif pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return values, pa.scalar(float(literal), kind)
    elif pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.float64(), safe=False), pa.scalar(float(literal))
    raise TypeError
