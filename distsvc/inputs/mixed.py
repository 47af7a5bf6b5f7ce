"""Tables of numbers, categories and missing values as arrays of float64."""

import re
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import UnusableRowsError
from distsvc.inputs.given import has_values, is_numeric, is_text, numbers, rows_of, type_words
from distsvc.inputs.rows import Reading, UserData, not_rows_error

MOST_LEVELS = 32
"""Maximum number of values of a categorical column that have separate codes or columns."""

MAX_LEVEL_LENGTH = 256
"""Maximum number of characters of a categorical value; longer values are free text."""

BUCKET = "other"
"""Name of the bucket for a categorical column's values that have no separate code."""


_INTEGER_OR_BOOLEAN = re.compile(r"[+-]?\d+|true|false")
"""Pattern of the texts of integers and booleans."""

_NUMBER = re.compile(r"\s*[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?\s*")
"""Pattern of the texts of decimal numbers, with a decimal point or comma."""


def are_words(known: Sequence[str]) -> bool:
    """Return True if no value of a category reads as an integer or a boolean; False if empty."""
    return bool(known) and not any(_INTEGER_OR_BOOLEAN.fullmatch(one) for one in known)


def frequent(counts: Mapping[str, int]) -> list[str]:
    """Return the values of a column that are frequent enough for a code of their own.

    The most frequent value comes first; ties are in alphabetical order. A value needs 10 rows and
    a thousandth of all rows, and has at most `MAX_LEVEL_LENGTH` characters.
    """
    least = max(10, 0.001 * max(sum(counts.values()), 1))
    order = sorted(counts, key=lambda value: (-counts[value], value))
    return [value for value in order if counts[value] >= least and len(value) <= MAX_LEVEL_LENGTH]


def bucket_name(known: Collection[str]) -> str:
    """Return the name under which all values without a code are counted together.

    This is "other", or "(other)" if the column has a value "other" with its own code.
    """
    name = BUCKET
    while name in known:
        name = f"({name})"
    return name


def texts_of(array: pa.Array) -> pa.Array:
    """Return categories as text; True and TRUE become "true", and False and FALSE "false"."""
    texts = array.cast(pa.string())
    truth = pc.match_substring_regex(texts, "^(True|TRUE|False|FALSE)$")
    return pc.if_else(pc.fill_null(truth, False), pc.utf8_lower(texts), texts)


def text_counts(array: pa.Array) -> Counter[str]:
    """Return the number of rows by value (as text) of a categorical column, without null."""
    found, counts = pc.value_counts(array.drop_null()), Counter[str]()
    texts = texts_of(found.field(0)).to_pylist()
    for text, n in zip(texts, found.field(1).to_pylist(), strict=True):
        counts[text] += n
    return counts


def places(array: pa.Array, known: Sequence[str]) -> np.ndarray:
    """Return the position (n,) int64 of each value of `array` in the list `known`.

    With k known values, any other value gets position k, and null gets k + 1.
    """
    encoded = array.dictionary_encode()
    found = pc.index_in(texts_of(encoded.dictionary), texts_of(pa.array(known, pa.string())))
    of_values = pc.fill_null(found, len(known)).to_numpy(zero_copy_only=False)
    indices = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return np.append(of_values.astype(np.int64), len(known) + 1)[indices]


@dataclass(frozen=True)
class Levels:
    """The codes of a categorical column: code i stands for the value `known[i]`.

    If `has_bucket` is true, all values that are not in `known` share one further code.
    """

    known: tuple[str, ...]
    has_bucket: bool

    @classmethod
    def of(cls, words: pa.Array) -> "Levels":
        """Return the levels of a column of texts: its `frequent` values."""
        counts = text_counts(words)
        known = tuple(frequent(counts)[:MOST_LEVELS])
        return cls(known, has_bucket=len(known) < len(counts))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The value of each code, as text; the code of the bucket is last, such as "other"."""
        return (*self.known, bucket_name(self.known)) if self.has_bucket else self.known

    def codes(self, array: pa.Array) -> np.ndarray:
        """Return the codes (n,) float32 of categories; NaN for null and values without a code."""
        bucket = len(self.known) if self.has_bucket else np.nan
        each = np.array([*range(len(self.known)), bucket, np.nan], np.float32)
        return each[places(array, self.known)]


@dataclass(frozen=True)
class MixedTable:
    """Rows of a table whose categories are replaced by codes, so that all columns are numbers."""

    rows: np.ndarray  # (n, d) float64: numbers, and codes of categories; NaN where missing
    levels: tuple[Levels | None, ...]  # None for a column of numbers
    names: tuple[str, ...] | None  # names of the columns of a table; None for an array

    @property
    def nominal(self) -> np.ndarray:
        """Mask (d,) bool of the columns of categories."""
        return np.array([of is not None for of in self.levels], bool)


def mixed_rows(
    X: UserData,
    levels: Sequence[Levels | None] | None = None,
    names_of_fit: Sequence[str] | None = None,
) -> MixedTable:
    """Return the rows of X, all in memory; text columns are categories, booleans are numbers.

    X is an array or a table, as in `distsvc.inputs.given.rows_of`, or a list of rows. `levels` are
    the levels of each column in fit; None finds them in X. `UnusableRowsError` is raised for other
    types of X, and for columns that differ from `levels` or `names_of_fit`. It is also raised for
    values that are infinite, or neither numbers nor text.
    """
    columns, names = _columns(X)
    if levels is not None and len(levels) != len(columns):
        raise UnusableRowsError(
            f"X has {len(columns)} columns, expected {len(levels)}, as in fit"
            f"{_differing(names or (), names_of_fit or ())}"
        )
    if names is not None and names_of_fit is not None and names != tuple(names_of_fit):
        raise UnusableRowsError(
            f"X has the columns {', '.join(names)}; expected {', '.join(names_of_fit)}, in "
            "the order of fit"
        )
    known: list[Levels | None] = []
    rows = np.empty((len(columns[0]), len(columns)))
    for k, column in enumerate(columns):
        shown = repr(names[k]) if names is not None else str(k)
        of = levels[k] if levels is not None else None
        has_text = is_text(column.type)
        if isinstance(of, Levels) or (levels is None and has_text):
            if not has_values(column):  # pandas stores missing texts as NaN
                column = pa.nulls(len(column), pa.string())
            kind = column.type
            is_level = pa.types.is_integer(kind) and not (of and are_words(of.known))
            if not (is_level or is_text(kind) or pa.types.is_null(kind)):
                found = type_words(kind)
                raise UnusableRowsError(f"X: column {shown} is {found}, expected text, as in fit")
            words = texts_of(column) if has_text else column.cast(pa.string())
            if of is None:
                of = Levels.of(words)
                if of.has_bucket:
                    _warn_of_numbers(text_counts(words), shown)
            rows[:, k] = of.codes(words)
        elif has_text:
            raise UnusableRowsError(f"X: column {shown} holds text, expected numbers, as in fit")
        elif not is_numeric(column.type):
            raise UnusableRowsError(
                f"X: column {shown} is {type_words(column.type)}, expected numbers, booleans or "
                "text: leave the column out, or convert it to numbers"
            )
        else:
            rows[:, k] = numbers(column)
        known.append(of)
    infinite = np.isinf(rows)
    if infinite.any():
        row, k = map(int, np.unravel_index(infinite.argmax(), rows.shape))
        shown = repr(names[k]) if names is not None else str(k)
        raise UnusableRowsError(
            f"X: column {shown}, row {row}: expected a finite number or a missing value, "
            f"found {rows[row, k]}"
        )
    return MixedTable(rows, tuple(known), names)


def _warn_of_numbers(counts: Mapping[str, int], shown: str) -> None:
    """Warn if a category has too many values for its codes, and most of its rows are numbers."""
    odd = {value: n for value, n in counts.items() if not _NUMBER.fullmatch(value)}
    if len(counts) > MOST_LEVELS and 2 * sum(odd.values()) < sum(counts.values()):
        which, rest = "its", ""
        if odd:
            which = "most of its"
            rest = f"; others, such as {max(odd, key=odd.__getitem__)!r}, are not"
        warnings.warn(
            f"X: column {shown} is text and was read as a category, though {which} values are "
            f"numbers{rest}: convert the column to numbers",
            UserWarning,
            stacklevel=2,
        )


def _differing(names: Collection[str], names_of_fit: Collection[str]) -> str:
    """Return a list of missing and additional columns for a message; "" without column names."""
    if not names or not names_of_fit:
        return ""
    missing = [repr(one) for one in names_of_fit if one not in names]
    further = [repr(one) for one in names if one not in names_of_fit]
    lists = {"missing": missing, "not in fit": further}
    return "".join(f"; {word}: {', '.join(some)}" for word, some in lists.items() if some)


def _columns(X: UserData) -> tuple[list[pa.Array], tuple[str, ...] | None]:
    """Return the columns of X as Arrow arrays, and their names if X is a table, else None.

    `UnusableRowsError` if X has no rows or no columns.
    """
    holds_objects = isinstance(X, np.ndarray) and X.dtype.kind in "OUS"
    source = None if holds_objects else rows_of(X, Reading("X"))
    if source is None:
        if not (isinstance(X, (list, tuple)) or holds_objects):
            raise not_rows_error(X, "X")
        return _of_array(X), None
    if source.shape is not None:
        source.columns()  # which checks the shape
    pieces = list(source.pieces())
    if not pieces or not len(pieces[0]):
        raise UnusableRowsError("X has no rows")
    if isinstance(pieces[0], np.ndarray):
        return [pa.array(x) for x in np.ascontiguousarray(np.concatenate(pieces).T)], None
    table = pa.Table.from_batches(pieces)
    if not table.num_columns:
        raise UnusableRowsError("X has no columns, expected at least 1")
    arrays = [pa.concat_arrays(column.unify_dictionaries().chunks) for column in table.columns]
    for k, array in enumerate(arrays):
        if pa.types.is_dictionary(array.type):  # categories of a frame become text
            words = array.dictionary.cast(pa.string())
            arrays[k] = pa.DictionaryArray.from_arrays(array.indices, words).dictionary_decode()
        elif is_text(array.type):
            arrays[k] = array.cast(pa.string())
    return arrays, tuple(table.column_names)


def _of_array(X: UserData) -> list[pa.Array]:
    """Return the columns of a list of rows, or of an array of objects."""
    try:
        rows = np.asarray(X, object)
    except ValueError:
        rows = np.empty(0, object)
    if rows.ndim != 2 or not rows.size:
        raise UnusableRowsError(
            f"X: expected rows by columns (n, d), at least 1 of each, found the shape {rows.shape}"
        )
    try:
        return [pa.array(x, from_pandas=True) for x in rows.T]
    except pa.ArrowException as error:
        raise UnusableRowsError(
            f"X: expected numbers or text in each column: {str(error).splitlines()[0]}"
        ) from error
