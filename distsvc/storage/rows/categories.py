"""Categories: columns of text, booleans or integers, encoded as numbers.

Counts of all rows decide which values have a code (`tables.values`). Rare values, and values that
are new in another table, share a bucket.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self, get_args

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from distsvc.inputs.mixed import BUCKET, bucket_name, codes, frequent, places, texts_of
from distsvc.inputs.mixed import MOST_LEVELS as MOST_LEVELS
from distsvc.storage.rows.feature import DescribedFeature
from distsvc.storage.rows.numeric_text import is_text

AS_CODES, AS_ONE_HOT = "codes", "onehot"
"""Names of the two encodings that can be an algorithm's default."""

Words = Annotated[tuple[str, ...], Field(strict=False)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


def is_category(kind: pa.DataType) -> bool:
    """Return True if values of an Arrow type may be categories: text, booleans or integers."""
    return is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind)


class _Categories(DescribedFeature):
    """A column of categories; `kind` is the encoding."""

    kind: str
    wants: ClassVar[str] = "text, booleans or integers"

    def takes(self, kind: pa.DataType) -> bool:
        return is_category(kind)


class Category(_Categories):
    """A column of categories whose values are counted.

    `known` are the values with a code, the most frequent first, and `rest` is the share of non-null
    rows in the bucket when values were counted.
    """

    known: Words
    rest: Share

    @classmethod
    def of(cls, column: str, counts: dict[str, int], known: list[str]) -> Self:
        """Return the encoding by the counts of all values; only `known` values can have a code."""
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
            raise ValueError("expected known values, each once, found one twice")
        return self

    def fits_float32(self, kind: str) -> bool:
        return self.one_hot

    def in_bucket(self, X: np.ndarray) -> np.ndarray:
        """Return the mask (n,) bool of rows in the bucket, from the columns X (n, len(names))."""
        raise NotImplementedError

    @cached_property
    def _words(self) -> pa.Array:
        return texts_of(pa.array(self.known, pa.string()))

    def codes(self, array: pa.Array) -> np.ndarray:
        """Return positions (n,) among the known values; then come the bucket and null."""
        return places(array, self._words)


class OneHot(Category):
    """A column for every known value, and one for the bucket: 1 in rows with that value, else 0."""

    kind: Literal["onehot"] = "onehot"
    one_hot: ClassVar[bool] = True

    @cached_property
    def _names(self) -> tuple[str, ...]:
        values = (*self.known, bucket_name(self.known))
        return tuple(f"{self.column}={value}" for value in values)

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def values(self, array: pa.Array) -> np.ndarray:
        k = len(self.names)
        rows = np.vstack([np.eye(k, dtype=np.float32), np.full((1, k), np.nan, np.float32)])
        return rows[self.codes(array)]

    def in_bucket(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(X[:, -1] == 1.0)


class Frequency(Category):
    """The logarithm of the share of rows with the same value.

    `shares` are the shares of rows by known value. `rare` is the mean share of a value in the
    bucket, or the share of one row if the bucket is empty.
    """

    kind: Literal["frequency"] = "frequency"
    shares: Annotated[tuple[Annotated[float, Field(gt=0.0, le=1.0)], ...], Field(strict=False)]
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

    def in_bucket(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(X[:, 0] == np.log(self.rare))


class Codes(Category):
    """One column of codes, for learners that model categories themselves.

    The code of a known value is its position. The bucket has the next code if it had rows when
    values were counted; otherwise its values are NaN, like null.
    """

    kind: Literal["codes"] = "codes"
    nominal: ClassVar[bool] = True

    @property
    def levels(self) -> tuple[str, ...]:
        return (*self.known, bucket_name(self.known)) if self.rest else self.known

    def fits_float32(self, kind: str) -> bool:
        return True

    def values(self, array: pa.Array) -> np.ndarray:
        return codes(self.codes(array), len(self.known), has_bucket=self.rest > 0.0)

    def in_bucket(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(X[:, 0] == len(self.known))


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
        """Return the encoding by the counts of all values."""
        return ENCODINGS[self.kind].of(self.column, counts, frequent(counts))


def has_few_levels(counts: dict[str, int]) -> bool:
    """Return True if values are levels of a category: a few frequent ones cover 90 % of rows."""
    known = frequent(counts)[:MOST_LEVELS]
    return len(known) > 1 and _rest(counts, known) <= 0.1


def are_comparable(counts: dict[str, int]) -> bool:
    """Return True if values describe clusters: a few frequent ones cover half of the rows."""
    known = frequent(counts)[:MOST_LEVELS]
    return len(counts) > 1 and _rest(counts, known) <= 0.5


def _rest(counts: dict[str, int], known: list[str]) -> float:
    """Return the share of rows without a known value."""
    unknown = sum(counts.values()) - sum(counts[value] for value in known)
    return unknown / max(sum(counts.values()), 1)
