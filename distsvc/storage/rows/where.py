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
a date or time is read as one, in UTC where the column has a time zone and the text has none.

Python's parser knows how conditions nest. Columns may have names that it does not take for names,
and literals are not quite its own: it sees a placeholder for each. What may stand beside what, and
so every message, is in one small table.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import DataError, JobFileError, shown

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
_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_TRUTHS = {"true": True, "True": True, "false": False, "False": False}
_A_LITERAL = "a number, a text in quotes, true or false"
_EXPECTED: dict[str, tuple[str, dict[str, str]]] = {
    "condition": ("a column name", {"column": "operator", "not": "condition", "(": "condition"}),
    "operator": ("==, !=, <, <=, >, >= or in", {"compare": "value", "in": "list", "not": "in"}),
    "in": ("'in'", {"in": "list"}),
    "list": ("'['", {"[": "item"}),
    "item": (_A_LITERAL, {"literal": "more"}),
    "more": ("']'", {",": "item", "]": "done"}),
    "value": (_A_LITERAL, {"literal": "done"}),
    "done": (
        "'and', 'or' or the end",
        {"and": "condition", "or": "condition", ")": "done", "end": "end"},
    ),
}
"""At each place between tokens: what is expected there, and the place after each kind of token."""

_DEEPEST = 100
_LONGEST = 200_000


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

    def may_match(self, known: Mapping[str, pa.Array]) -> bool:
        """Return whether a row may match of which some values are known; the others are null.

        Each array of `known` has one value. Errors as in `mask`.
        """
        return self._three_valued(known)[0].as_py() is not False

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
    if len(text) > _LONGEST:
        found = f"expected at most {_LONGEST} characters, found {len(text)}"
        raise JobFileError(f"input.where: {found}")
    tokens = _tokens(text)
    _check(tokens, text)
    try:
        tree = ast.parse(" ".join(token.placeholder for token in tokens), mode="eval")
    except (SyntaxError, MemoryError, RecursionError):  # the order of tokens is right
        raise _too_deep() from None
    return _condition(tree.body, {token.placeholder: token for token in tokens}, 1)


def where_columns(text: str | None) -> tuple[str, ...]:
    """Return the names of the columns that a filter reads; errors as in `parse_where`."""
    return parse_where(text).columns if text is not None else ()


class _Token(NamedTuple):
    """A word of a filter: what it is to `_EXPECTED`, how it is spelt, where, and its value."""

    kind: str
    word: str
    place: int
    value: Literal = ""

    @property
    def placeholder(self) -> str:
        """What Python's parser sees of it."""
        if self.kind in ("column", "literal"):
            return f"_{self.place}"
        return self.word


def _tokens(text: str) -> list[_Token]:
    tokens = []
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        match = _TOKEN.match(text, place)
        if match is None:
            raise JobFileError(
                f"input.where: unexpected {text[place]!r} at character {place + 1}: {text}"
            )
        tokens.append(_token(str(match.lastgroup), match.group(), place))
        place = match.end()
    return [*tokens, _Token("end", "", len(text))]


def _token(group: str, word: str, place: int) -> _Token:
    if group == "number":
        number = int(word) if re.fullmatch(r"[+-]?\d{1,30}", word) else float(word)
        return _Token("literal", word, place, number)
    if group == "text":
        return _Token("literal", word, place, re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.DOTALL))
    if group == "quoted":
        return _Token("column", word, place, word[1:-1])
    if group == "name" and word in _TRUTHS:
        return _Token("literal", word, place, _TRUTHS[word])
    if group == "name" and word not in ("and", "or", "not", "in"):
        return _Token("column", word, place, word)
    return _Token("compare" if word in _COMPARE else word, word, place)


def _check(tokens: list[_Token], text: str) -> None:
    """Raise `JobFileError` at the first token that can't stand where it does."""
    at, depth = "condition", 0
    for token in tokens:
        expected, following = _EXPECTED[at]
        if at == "done" and depth:
            expected = "')'"
        unbalanced = depth > 0 if token.kind == "end" else token.kind == ")" and not depth
        if unbalanced or token.kind not in following:
            found = "the end" if token.kind == "end" else repr(token.word)
            raise JobFileError(
                f"input.where: expected {expected} at character {token.place + 1}, "
                f"found {found}: {text}"
            )
        depth += (token.kind == "(") - (token.kind == ")")
        at = following[token.kind]


def _condition(node: ast.expr, tokens: Mapping[str, _Token], depth: int) -> Condition:
    if depth > _DEEPEST:
        raise _too_deep()
    if isinstance(node, ast.BoolOp):
        parts = tuple(_condition(part, tokens, depth + 1) for part in node.values)
        return Condition("and" if isinstance(node.op, ast.And) else "or", parts)
    if isinstance(node, ast.UnaryOp):
        return Condition("not", (_condition(node.operand, tokens, depth + 1),))
    assert isinstance(node, ast.Compare)  # `_check` lets nothing else pass
    [operator] = node.ops
    names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    column, *values = (tokens[name].value for name in names)
    kind = _OPERATORS.get(type(operator), "in")
    condition = Condition(kind, column=str(column), values=tuple(values))
    return Condition("not", (condition,)) if isinstance(operator, ast.NotIn) else condition


def _too_deep() -> JobFileError:
    return JobFileError("input.where is nested too deeply")


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
            f"input.where compares column {name!r} ({kind}) with {shown(literal)}, which is of "
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


def _moment(text: str, kind: pa.DataType) -> pa.Scalar:
    """Return a date or time from text; one without a zone is in UTC where a zone is needed."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        with suppress(pa.ArrowInvalid):
            return pa.scalar(text).cast(pa.timestamp(kind.unit)).cast(kind)
    return pa.scalar(text).cast(kind)
