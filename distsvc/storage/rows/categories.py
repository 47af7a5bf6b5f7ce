"""Categories: text, booleans or integers as columns of numbers.

Which values of a column are told apart follows from counts of all its rows (`storage.counting`).
Rare values, and those that come up only later, share a bucket.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from distsvc.inputs.levels import BUCKET, bucket_name, codes, frequent, places, texts_of
from distsvc.inputs.levels import MOST_LEVELS as MOST_LEVELS
from distsvc.storage.rows.feature import DescribedFeature

MOST_REST = 0.1
"""Maximum share of rows with rare values in a text column that is a feature by default."""

MOST_REST_COMPARED = 0.5
"""Maximum share of rows with rare values in a column by which clusters are compared."""

CODES, ONE_HOT = "codes", "onehot"
"""Kinds of encodings that a job's algorithm decides between."""

Words = Annotated[tuple[str, ...], Field(strict=False)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


def is_category(kind: pa.DataType) -> bool:
    """Return whether values of an Arrow type may be categories: text, booleans or integers."""
    return (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
    )


class Category(DescribedFeature):
    """A column of categories whose values are counted; `kind` says how it is encoded.

    `known` are the values that are told apart, the most frequent first, and `rest` is the share
    of the rows that were in the bucket when values were counted, of those that had one.
    """

    kind: str
    known: Words
    rest: Share
    wants: ClassVar[str] = "text, booleans or integers"

    @classmethod
    def of(cls, column: str, counts: dict[str, int], known: list[str]) -> Any:
        """Return the encoding by the rows of each value, of which `known` may be told apart."""
        raise NotImplementedError

    @property
    def whole(self) -> str | None:
        """The column's own name, where it makes several."""
        return self.column if self.one_hot else None

    @property
    def shown(self) -> str:
        """The column, how many values are told apart, and the share of the bucket."""
        values = f"{len(self.known)} value{'' if len(self.known) == 1 else 's'}"
        return f"{self.column} ({values}, {self.rest:.1%} {BUCKET})"

    @model_validator(mode="after")
    def _each_once(self) -> Any:
        if len(set(self.known)) < len(self.known):
            raise ValueError("expected known values, each once, found one twice")
        return self

    def takes(self, kind: pa.DataType) -> bool:
        """Return whether the type is one of text, booleans or integers."""
        return is_category(kind)

    def fits_float32(self, kind: str) -> bool:
        """Return whether float32 holds the numbers: ones and zeros."""
        return self.one_hot

    def in_bucket(self, X: np.ndarray) -> np.ndarray:
        """Return which rows (n,) bool are in the bucket, by the columns X (n, len(names))."""
        raise NotImplementedError

    @cached_property
    def _words(self) -> pa.Array:
        return texts_of(pa.array(self.known, pa.string()))

    def codes(self, array: pa.Array) -> np.ndarray:
        """Return places (n,) among the known values; beyond them the bucket's, and that of null."""
        return places(array, self._words)


class OneHot(Category):
    """A column for every known value, and one for the bucket: 1 in the row's own, 0 elsewhere."""

    kind: Literal["onehot"] = "onehot"
    one_hot: ClassVar[bool] = True

    @classmethod
    def of(cls, column: str, counts: dict[str, int], known: list[str]) -> OneHot:
        """Return the encoding with the most frequent values, `MOST_LEVELS` at most."""
        known = known[:MOST_LEVELS]
        return cls(column=column, known=tuple(known), rest=_rest(counts, known))

    @cached_property
    def _names(self) -> tuple[str, ...]:
        values = (*self.known, bucket_name(self.known))
        return tuple(f"{self.column}={value}" for value in values)

    @property
    def names(self) -> tuple[str, ...]:
        """The column's name with a value behind it, such as ``country=DE``, the bucket last."""
        return self._names

    def values(self, array: pa.Array) -> np.ndarray:
        """Return ones and zeros (n, values + 1) float32; all of a null one is NaN."""
        k = len(self.names)
        rows = np.vstack([np.eye(k, dtype=np.float32), np.full((1, k), np.nan, np.float32)])
        return rows[self.codes(array)]

    def in_bucket(self, X: np.ndarray) -> np.ndarray:
        """Return which rows (n,) bool are in the bucket, by the columns X (n, values + 1)."""
        return np.asarray(X[:, -1] == 1.0)


class Frequency(Category):
    """The logarithm of the share of the rows that have the same value.

    `shares` are those of the known values, `rare` is the mean share of a value of the bucket;
    of one row, where there was none.
    """

    kind: Literal["frequency"] = "frequency"
    shares: Annotated[tuple[Annotated[float, Field(gt=0.0, le=1.0)], ...], Field(strict=False)]
    rare: Annotated[float, Field(gt=0.0, le=1.0)]

    @classmethod
    def of(cls, column: str, counts: dict[str, int], known: list[str]) -> Frequency:
        """Return the encoding with the shares of the values."""
        n_rows, rest = max(sum(counts.values()), 1), _rest(counts, known)
        shares = tuple(counts[value] / n_rows for value in known)
        rare = rest / (len(counts) - len(known)) if rest else 1.0 / n_rows
        return cls(column=column, known=tuple(known), rest=rest, shares=shares, rare=rare)

    @model_validator(mode="after")
    def _one_each(self) -> Any:
        if len(self.shares) != len(self.known):
            raise ValueError(f"expected {len(self.known)} shares, found {len(self.shares)}")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The column's name in ``log(share())``."""
        return (f"log(share({self.column}))",)

    def values(self, array: pa.Array) -> np.ndarray:
        """Return the logarithms (n,) float64."""
        return np.append(np.log([*self.shares, self.rare]), np.nan)[self.codes(array)]

    def in_bucket(self, X: np.ndarray) -> np.ndarray:
        """Return which rows (n,) bool are in the bucket, by the column X (n, 1)."""
        return np.asarray(X[:, 0] == np.log(self.rare))


class Codes(Category):
    """One column of codes for learners that model categories themselves.

    The code of a known value is its place among the known values. If the bucket had rows when the
    values were counted, its code is the next one, and values that come up later get it, too.
    Otherwise they are NaN, like null.
    """

    kind: Literal["codes"] = "codes"
    nominal: ClassVar[bool] = True

    @classmethod
    def of(cls, column: str, counts: dict[str, int], known: list[str]) -> Codes:
        """Return the codes of the most frequent values, at most `MOST_LEVELS`."""
        known = known[:MOST_LEVELS]
        return cls(column=column, known=tuple(known), rest=_rest(counts, known))

    @property
    def levels(self) -> tuple[str, ...]:
        """The text of each code: the known values, and the bucket if it had rows."""
        return (*self.known, bucket_name(self.known)) if self.rest else self.known

    def fits_float32(self, kind: str) -> bool:
        """Return True: codes are small whole numbers."""
        return True

    def values(self, array: pa.Array) -> np.ndarray:
        """Return the codes (n,) float32, NaN for null."""
        return codes(self.codes(array), len(self.known), has_bucket=self.rest > 0.0)

    def in_bucket(self, X: np.ndarray) -> np.ndarray:
        """Return whether each row is in the bucket, (n,) bool, by the column X (n, 1)."""
        return np.asarray(X[:, 0] == len(self.known))


Encoding = OneHot | Frequency | Codes
"""All encodings of categories."""

ENCODINGS: dict[str, type[Category]] = {
    of.model_fields["kind"].default: of for of in get_args(Encoding)
}


class Uncounted(DescribedFeature):
    """A column of categories whose values are still to be counted; it makes no columns yet."""

    kind: str
    wants: ClassVar[str] = Category.wants

    @property
    def names(self) -> tuple[str, ...]:
        """No names."""
        return ()

    def takes(self, kind: pa.DataType) -> bool:
        """Return whether the type is one of text, booleans or integers."""
        return is_category(kind)

    def values(self, array: pa.Array) -> np.ndarray:
        """Return no columns (n, 0)."""
        return np.empty((len(array), 0))

    def counted(self, counts: dict[str, int]) -> Category:
        """Return the feature of a column whose values have so many rows each.

        The most frequent values are told apart, those of equal counts in the order of their text.
        """
        return ENCODINGS[self.kind].of(self.column, counts, frequent(counts))


def has_few_levels(counts: dict[str, int]) -> bool:
    """Return whether values with so many rows each are the levels of a category.

    At least two values are frequent, and at most `MOST_LEVELS` of them leave few rows for others.
    """
    known = frequent(counts)[:MOST_LEVELS]
    return len(known) > 1 and _rest(counts, known) <= MOST_REST


def are_comparable(counts: dict[str, int]) -> bool:
    """Return whether the levels with so many rows each describe clusters: most rows have one."""
    known = frequent(counts)[:MOST_LEVELS]
    return len(counts) > 1 and _rest(counts, known) <= MOST_REST_COMPARED


def _rest(counts: dict[str, int], known: list[str]) -> float:
    """Return the share of the rows that have none of the known values."""
    unknown = sum(counts.values()) - sum(counts[value] for value in known)
    return unknown / max(sum(counts.values()), 1)
