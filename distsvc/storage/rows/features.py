"""Features: the conversion of stored columns to numeric columns.

A number stays one column. A vector becomes a column for each value, and categories (text, booleans
or integers) become one or several columns. Counts of all rows decide which categories have a code
(`tables.values`); rare and new values share a bucket. Features are saved with the model, which
reads other tables with them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, model_validator

from distsvc.errors import shown
from distsvc.errors.forms import Form
from distsvc.inputs import mixed
from distsvc.inputs.given import is_numeric, is_text, numbers
from distsvc.inputs.mixed import BUCKET as BUCKET
from distsvc.inputs.mixed import MOST_LEVELS as MOST_LEVELS
from distsvc.inputs.mixed import text_counts as text_counts
from distsvc.storage.rows.numeric_text import trimmed

MAX_WIDTH = 100_000
"""Maximum number of numeric columns, which limits the memory of blocks and statistics."""

_IN_FLOAT32 = {"halffloat", "float", "int8", "uint8", "int16", "uint16", "bool"}
"""Names of the Arrow types whose values float32 holds exactly."""

Unit = Literal["date", "time", "clock", "seconds"]
"""Unit of a column of dates, times or durations.

A "date" is in days and a "time" in seconds, since 1970. A "clock" is in seconds since midnight, and
"seconds" is a duration.
"""

_UNITS: tuple[tuple[str, Unit], ...] = (
    ("duration", "seconds"), ("time32", "clock"), ("time64", "clock"),
)  # fmt: skip
"""Pairs of a prefix of Arrow types' names and the unit of such columns."""

_PARTS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Parts of a second in each of Arrow's units of time."""

AS_CODES, AS_ONE_HOT = "codes", "onehot"
"""Default encodings of categories.

Codes are for algorithms that model categories themselves, and one-hot columns for all others.
"""

Words = Annotated[tuple[str, ...], Field(strict=False)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


MAX_UNKNOWN_SHARE = 0.05
"""Maximum increase in a column's share of new and rare values that causes no warning."""


def is_vector(kind: pa.DataType) -> bool:
    """Return True if an Arrow type is a list of numbers."""
    tests = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    is_list = any(test(kind) for test in tests)
    return is_list and is_numeric(kind.value_type) and not pa.types.is_null(kind.value_type)


def is_time(kind: pa.DataType) -> bool:
    """Return True if an Arrow type is a date, a time or a duration."""
    return pa.types.is_temporal(kind) and not pa.types.is_interval(kind)


def is_default(kind: pa.DataType) -> bool:
    """Return True if an Arrow type is a feature by default: numbers, durations and vectors.

    Dates and times are not: rows recorded at about the same time would become a cluster.
    """
    return is_numeric(kind) or pa.types.is_duration(kind) or is_vector(kind)


def is_usable(kind: pa.DataType) -> bool:
    """Return True if an Arrow type can be a feature."""
    return is_default(kind) or is_time(kind)


def is_category(kind: pa.DataType) -> bool:
    """Return True if values of an Arrow type may be categories: text, booleans or integers."""
    return is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


class UnusableValueError(ValueError):
    """A value that a feature can't use; `place` is its position in the array."""

    def __init__(self, column: str, place: int, message: str):
        super().__init__(message)
        self.column, self.place = column, place


class Feature:
    """One or several numeric columns that are made from one stored column."""

    __slots__ = ()
    wants: ClassVar[str]  # words for the stored values in messages
    tests: ClassVar[tuple[Callable[[pa.DataType], bool], ...]]  # one is True for types that fit
    one_hot: ClassVar[bool] = False  # whether each numeric column is the indicator of a value
    nominal: ClassVar[bool] = False  # whether the numbers are codes of categories, without order
    if TYPE_CHECKING:

        @property
        def column(self) -> str:
            """The stored column."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the numeric columns."""
        return (self.column,)

    @property
    def shown(self) -> str:
        """The name shown in lists of features."""
        return self.column

    @property
    def expected(self) -> str:
        """The values that the stored column must hold, for a message."""
        return self.wants

    @property
    def meaning(self) -> str:
        """Description of the numeric columns' values for messages, such as "categories"."""
        return "categories" if self.nominal else "numbers"

    @property
    def whole(self) -> str | None:
        """Name under which reports show all numeric columns as one; None if they don't."""
        return None

    @property
    def levels(self) -> tuple[str, ...]:
        """The text of each code 0, 1, ... of a nominal feature; () for other features."""
        return ()

    def takes(self, kind: pa.DataType) -> bool:
        """Return True if values of an Arrow type can be converted."""
        return any(test(kind) for test in self.tests)

    def values(self, array: pa.Array) -> np.ndarray:
        """Return the numbers, (n,) or (n, len(names)), of Arrow values; null is NaN."""
        raise NotImplementedError


class DescribedFeature(Form, Feature):
    """A feature whose JSON form is an object with its fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    column: str


@dataclass(frozen=True, slots=True)
class Numeric(Feature):
    """A column that holds numbers: integers, floats, decimals or booleans."""

    column: str
    wants: ClassVar[str] = "numbers"
    tests = (is_numeric,)

    def values(self, array: pa.Array) -> np.ndarray:
        return numbers(array)


class Log(DescribedFeature):
    """The logarithm of a number x: sign(x) log(1 + |x|), defined for all x."""

    kind: Literal["log"] = "log"
    wants: ClassVar[str] = "numbers"
    tests = (is_numeric,)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.shown,)

    @property
    def shown(self) -> str:
        return f"log({self.column})"

    def values(self, array: pa.Array) -> np.ndarray:
        return _logarithms(numbers(array))


def _logarithms(x: np.ndarray) -> np.ndarray:
    """Return sign(x) log(1 + |x|) in float64."""
    x = x.astype(np.float64)
    return np.copysign(np.log1p(np.abs(x)), x)


class Time(DescribedFeature):
    """A date or a time since 1970, a time of the day, or a duration, in days or in seconds."""

    kind: Literal["time"] = "time"
    unit: Literal["days", "seconds"]
    wants: ClassVar[str] = "dates, times or durations"
    tests = (is_time,)

    @property
    def meaning(self) -> str:
        return f"times in {self.unit}"

    @property
    def shown(self) -> str:
        return f"{self.column} ({self.unit})"

    def values(self, array: pa.Array) -> np.ndarray:
        if pa.types.is_date(array.type):
            array, in_a_day = array.cast(pa.date32()), 1
        else:
            in_a_day = 86_400 * _PARTS[array.type.unit]
        whole = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
        x = numbers(whole).astype(np.float64)
        return x / (in_a_day if self.unit == "days" else in_a_day / 86_400)


class Vector(DescribedFeature):
    """A column of lists of `width` numbers, such as embeddings; `log` takes their logarithms."""

    kind: Literal["vector"] = "vector"
    width: Annotated[int, Field(ge=1, le=MAX_WIDTH)]
    log: bool = False

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The names of the numbers in a list, such as ("e[0]", "e[1]") for the column "e"."""
        return tuple(f"{self.column}[{k}]" for k in range(self.width))

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(f"log({place})" for place in self.places) if self.log else self.places

    @property
    def whole(self) -> str:
        return f"log({self.column})" if self.log else self.column

    @property
    def shown(self) -> str:
        return f"{self.whole} ({self.width} numbers)"

    @property
    def expected(self) -> str:
        return f"vectors of {self.width} numbers"

    def takes(self, kind: pa.DataType) -> bool:
        fixed = pa.types.is_fixed_size_list(kind)
        return is_vector(kind) and (not fixed or kind.list_size == self.width)

    def values(self, array: pa.Array) -> np.ndarray:
        lengths = pc.list_value_length(array)
        wrong = pc.fill_null(pc.not_equal(lengths, self.width), False)
        place = pc.index(wrong, True).as_py()
        if place >= 0:
            expected = f"expected a list of {self.width} numbers, as in the first row"
            found = f"found a list of {lengths[place].as_py()}"
            raise UnusableValueError(self.column, place, f"{expected}, {found}")
        X = numbers(pc.list_flatten(array)).reshape(-1, self.width)
        if array.null_count:
            known = pc.is_valid(array).to_numpy(zero_copy_only=False)
            whole = np.full((len(array), self.width), np.nan, np.promote_types(X.dtype, np.float32))
            whole[known] = X
            X = whole
        return _logarithms(X) if self.log else X


class TextNumber(DescribedFeature):
    """A number that is stored as text."""

    kind: Literal["text"] = "text"
    wants: ClassVar[str] = "numbers, or text of numbers only"
    tests = (is_text, _is_number)

    @property
    def shown(self) -> str:
        return f"{self.column} (text read as numbers)"

    def values(self, array: pa.Array) -> np.ndarray:
        if _is_number(array.type):
            return numbers(array)
        words = trimmed(array)
        try:
            return words.cast(pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            place = next(k for k in range(len(words)) if not _is_readable(words.slice(k, 1)))
            message = f"expected a number, as in the first rows, found {words[place].as_py()!r}"
            raise UnusableValueError(self.column, place, message) from None


def _is_readable(words: pa.Array) -> bool:
    with suppress(pa.ArrowInvalid):
        words.cast(pa.float64())
        return True
    return False


class _Categories(DescribedFeature):
    """A column of categories; `kind` is the encoding."""

    kind: str
    wants: ClassVar[str] = "text, booleans or integers"
    tests = (is_category,)


class Category(_Categories):
    """A column of categories, encoded by how often its values occur."""

    known: Words  # values with a code, the most frequent first
    rest: Share  # share of the counted non-null rows that have no known value

    @classmethod
    def of(cls, column: str, counts: dict[str, int], known: list[str]) -> Self:
        """Return an encoding in which the first `MOST_LEVELS` values of `known` have own codes.

        All other values share one code, the bucket. `counts` has the number of rows of each value.
        """
        known = known[:MOST_LEVELS]
        return cls.model_validate(
            {"column": column, "known": tuple(known), "rest": _rest(counts, known)}
        )

    @property
    def whole(self) -> str | None:
        return self.column if self.one_hot else None

    @property
    def shown(self) -> str:
        values = f"{len(self.known)} value{'' if len(self.known) == 1 else 's'}"
        rest = f", {self.rest:.1%} {BUCKET}" if self.rest else ""
        return f"{self.column} ({values}{rest})"

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.known)) < len(self.known):
            raise ValueError("expected each known value once, found a value twice")
        return self

    def risen_rest(self, counts: Mapping[str, int]) -> float | None:
        """Return the share of rows without a known value if it has risen since learning, else None.

        It has risen if it exceeds `rest` by more than `MAX_UNKNOWN_SHARE`. `counts` has the number
        of rows of each value in the present table.
        """
        rest = _rest(counts, self.known)
        return rest if rest > self.rest + MAX_UNKNOWN_SHARE else None

    def change(self, counts: Mapping[str, int], n_rows: int) -> str | None:
        """Return a warning if many of the first `n_rows` rows have no known value, else None.

        `risen_rest` decides by `counts`, the number of these rows with each value.
        """
        rest = self.risen_rest(counts)
        if rest is None:
            return None
        return (
            f"{rest:.1%} of the values of {self.column!r} in the first {n_rows:,} rows are new to "
            f"the model, or rare, such as {self.commonest_unknown(counts)}: the column may have "
            "changed"
        )

    def commonest_unknown(self, counts: Mapping[str, int]) -> str:
        """Return the most frequent values without a code, for a message, from all counts."""
        rest = Counter({value: n for value, n in counts.items() if value not in self.known})
        return ", ".join(shown(value) for value, _ in rest.most_common(3))

    @property
    def expected(self) -> str:
        if mixed.are_words(self.known):
            return f"text such as {', '.join(map(repr, self.known[:2]))}"
        return self.wants

    def takes(self, kind: pa.DataType) -> bool:
        return is_text(kind) or (is_category(kind) and not mixed.are_words(self.known))

    def codes(self, array: pa.Array) -> np.ndarray:
        """Return each row's position in the k known values; k for other values, k + 1 for null."""
        return mixed.places(array, self.known)


class OneHot(Category):
    """A column for every known value, and one for the bucket: 1 in rows with that value, else 0."""

    kind: Literal["onehot"] = "onehot"
    one_hot: ClassVar[bool] = True

    @cached_property
    def names(self) -> tuple[str, ...]:
        values = (*self.known, mixed.bucket_name(self.known))
        return tuple(f"{self.column}={value}" for value in values)

    def values(self, array: pa.Array) -> np.ndarray:
        k = len(self.names)
        rows = np.vstack([np.eye(k, dtype=np.float32), np.full((1, k), np.nan, np.float32)])
        return rows[self.codes(array)]


class Frequency(Category):
    """The logarithm of the share of rows with the same value."""

    kind: Literal["frequency"] = "frequency"
    # The share of rows with each known value.
    shares: Annotated[tuple[Annotated[float, Field(gt=0.0, le=1.0)], ...], Field(strict=False)]
    # The mean share of a value in the bucket; if it is empty, the share of one row.
    rare: Annotated[float, Field(gt=0.0, le=1.0)]

    @classmethod
    def of(cls, column: str, counts: dict[str, int], known: list[str]) -> Self:
        n_rows, rest = max(sum(counts.values()), 1), _rest(counts, known)
        shares = tuple(counts[value] / n_rows for value in known)
        rare = rest / (len(counts) - len(known)) if rest else 1.0 / n_rows
        return cls(column=column, known=tuple(known), rest=rest, shares=shares, rare=rare)

    @model_validator(mode="after")
    def _one_each(self) -> Self:
        if len(self.shares) != len(self.known):
            raise ValueError(f"expected {len(self.known)} shares, found {len(self.shares)}")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        return (f"log(share({self.column}))",)

    def values(self, array: pa.Array) -> np.ndarray:
        return np.append(np.log([*self.shares, self.rare]), np.nan)[self.codes(array)]


class Codes(Category):
    """One column of codes, for learners that model categories themselves.

    The code of a known value is its position in `known`. If other values were counted, these and
    new values share the next code. Otherwise, new values are NaN, like null.
    """

    kind: Literal["codes"] = "codes"
    nominal: ClassVar[bool] = True

    @property
    def levels(self) -> tuple[str, ...]:
        return mixed.Levels(self.known, has_bucket=self.rest > 0.0).texts

    def values(self, array: pa.Array) -> np.ndarray:
        return mixed.Levels(self.known, has_bucket=self.rest > 0.0).codes(array)


Encoding = OneHot | Frequency | Codes
"""All encodings of categories."""

ENCODINGS: dict[str, type[Category]] = {
    of.model_fields["kind"].default: of for of in get_args(Encoding)
}


class Uncounted(_Categories):
    """A column of categories before its values are counted; it makes no columns yet."""

    names: ClassVar[tuple[str, ...]] = ()

    def values(self, array: pa.Array) -> np.ndarray:
        return np.empty((len(array), 0))

    def counted(self, counts: dict[str, int]) -> Category:
        """Return the encoding of this column, given the number of rows of each value."""
        return ENCODINGS[self.kind].of(self.column, counts, mixed.frequent(counts))


def has_few_levels(counts: dict[str, int]) -> bool:
    """Return True if values are levels of a category: a few frequent ones cover 90 % of rows."""
    known = mixed.frequent(counts)[:MOST_LEVELS]
    return len(known) > 1 and _rest(counts, known) <= 0.1


def are_comparable(counts: dict[str, int]) -> bool:
    """Return True if reports can compare clusters by the values of a column.

    A few frequent values must cover half of the rows.
    """
    known = mixed.frequent(counts)[:MOST_LEVELS]
    return len(counts) > 1 and _rest(counts, known) <= 0.5


def _rest(counts: Mapping[str, int], known: Sequence[str]) -> float:
    """Return the share of rows without a known value."""
    unknown = sum(counts.values()) - sum(counts.get(value, 0) for value in known)
    return unknown / max(sum(counts.values()), 1)


Described = Log | Time | Vector | TextNumber | Encoding
Description = str | Annotated[Described, Field(discriminator="kind")]
"""A feature in JSON: its fields, or only the name of a column of numbers."""

_DESCRIPTIONS: TypeAdapter[list[Any]] = TypeAdapter(list[Description])


def fits_float32(feature: Feature, kind: str) -> bool:
    """Return True if float32 is exact for a feature whose column has the Arrow type `kind`."""
    if isinstance(feature, Numeric) or (isinstance(feature, Vector) and not feature.log):
        return kind in _IN_FLOAT32
    return feature.one_hot or feature.nominal


def units_of(features: Iterable[Feature], types: Iterable[str]) -> dict[str, Unit]:
    """Return the unit of each column of dates, times or durations, from the Arrow types' names."""
    found: dict[str, Unit] = {}
    for feature, kind in zip(features, types, strict=True):
        if isinstance(feature, Time):
            of_seconds = next((unit for start, unit in _UNITS if kind.startswith(start)), None)
            found[feature.column] = "date" if feature.unit == "days" else of_seconds or "time"
    return found


def placed(features: Iterable[Feature]) -> Iterator[tuple[Feature, slice]]:
    """Yield each feature with the positions of its numeric columns."""
    first = 0
    for feature in features:
        last = first + len(feature.names)
        yield feature, slice(first, last)
        first = last


def one_hot_columns(features: Iterable[Feature]) -> list[slice]:
    """Return the positions of the numeric columns of each one-hot feature."""
    return [places for feature, places in placed(features) if feature.one_hot]


def nominal_columns(features: Iterable[Feature]) -> np.ndarray:
    """Return the mask (d,) bool of numeric columns that hold codes."""
    return np.array([feature.nominal for feature in features for _ in feature.names], bool)


def levels_of(features: Iterable[Feature]) -> dict[str, list[str]]:
    """Return the texts of the codes 0, 1, ... of each nominal column."""
    return {feature.column: list(feature.levels) for feature in features if feature.nominal}


def missing_values(features: Iterable[Feature], counts: np.ndarray) -> dict[str, int]:
    """Return the number of missing values of each column that has some.

    `counts` (d,) are the numbers of missing values in all numeric columns.
    """
    names, firsts = groups_of(features)
    found = zip(names, counts[firsts].tolist(), strict=True)
    return {name: n for name, n in found if n}


def names_of(features: Iterable[Feature]) -> tuple[str, ...]:
    """Return the names of all numeric columns, in order."""
    return tuple(name for feature in features for name in feature.names)


def groups_of(features: Iterable[Feature]) -> tuple[list[str], np.ndarray]:
    """Return the names of g columns, where a vector or a one-hot feature is one column.

    Also return the position (g,) of the first numeric column of each.
    """
    names: list[str] = []
    firsts: list[int] = []
    for feature, places in placed(features):
        own = list(feature.names) if feature.whole is None else [feature.whole]
        firsts.extend(range(places.start, places.start + len(own)))
        names.extend(own)
    return names, np.array(firsts)


def descriptions(features: Iterable[Feature]) -> list[str | dict[str, JsonValue]]:
    """Return features as JSON."""
    return [
        f.model_dump(mode="json") if isinstance(f, DescribedFeature) else f.column for f in features
    ]


def restore(content: Sequence[object]) -> tuple[Feature, ...]:
    """Return the features from their JSON form, which `descriptions` returns."""
    each = _DESCRIPTIONS.validate_python(content)
    return tuple(Numeric(one) if isinstance(one, str) else one for one in each)


def without_sentinels(array: pa.Array, missing_values: Sequence[float]) -> pa.Array:
    """Return a column of numbers, or of lists of numbers, with null in place of `missing_values`.

    Values are compared in the column's type: in float32, 1e20 matches the nearest number. Text,
    booleans, dates and times stay unchanged.
    """
    kind = array.type
    if not missing_values or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return array
    if is_vector(kind):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
        flat = without_sentinels(pc.list_flatten(array), missing_values)
        return pa.LargeListArray.from_arrays(ends, flat, mask=array.is_null())
    if not is_numeric(kind):
        return array
    if pa.types.is_floating(kind):
        found = pa.array(is_sentinel(numbers(array), missing_values))
    else:
        short = pa.types.is_decimal(kind) and kind.bit_width < 128  # Arrow can't compare them
        exact = pa.decimal128(kind.precision, kind.scale) if short else kind
        found = pc.is_in(array.cast(exact), _exactly(missing_values, exact))
    return pc.if_else(found, pa.scalar(None, kind), array) if pc.any(found).as_py() else array


def _exactly(missing_values: Sequence[float], kind: pa.DataType) -> pa.Array:
    """Return the numbers that an integer or decimal type represents exactly."""
    found = []
    for value in missing_values:
        with suppress(pa.ArrowException, OverflowError, ValueError):
            number = Decimal(repr(value))
            whole = int(number) if number == number.to_integral_value() else None
            found.append(pa.scalar(whole if pa.types.is_integer(kind) else number, kind))
    return pa.array([one.as_py() for one in found], kind)


def is_sentinel(x: np.ndarray, missing_values: Sequence[float]) -> np.ndarray:
    """Return the mask of values that are in `missing_values`, for an array of any shape."""
    kind = x.dtype if np.issubdtype(x.dtype, np.floating) else np.dtype(np.float64)
    with np.errstate(over="ignore"):
        wanted = np.array(missing_values, np.float64).astype(kind)
    return np.isin(x, wanted[np.isfinite(wanted)])
