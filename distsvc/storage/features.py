"""Features: how the stored columns of a table become columns of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

_TILE_ROWS = 8_192


class Feature(Protocol):
    """What is made of one stored column: one column of numbers, or several."""

    @property
    def column(self) -> str:
        """The stored column."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of numbers."""
        ...

    def values(self, array: pa.Array) -> np.ndarray:
        """Return some rows' numbers, (n,) or (n, len(names)), of their Arrow values; null is NaN.

        The dtype is any whose values float64 holds, as far as the stored ones do.
        """
        ...


@dataclass(frozen=True, slots=True)
class Number:
    """A column that holds numbers: integers, floats, decimals or booleans."""

    column: str

    @property
    def names(self) -> tuple[str, ...]:
        """The column's own name."""
        return (self.column,)

    def values(self, array: pa.Array) -> np.ndarray:
        """Return the numbers (n,)."""
        kind = array.type
        if array.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            array = array.cast(pa.float64(), safe=False)
        return array.to_numpy(zero_copy_only=False)


def names_of(features: Iterable[Feature]) -> tuple[str, ...]:
    """Return the names of all columns of numbers, in order."""
    return tuple(name for feature in features for name in feature.names)


def described(features: Iterable[Feature]) -> list[str]:
    """Return features as what JSON can hold; a number is its column's name."""
    return [feature.column for feature in features]


def restored(content: Sequence[str]) -> tuple[Feature, ...]:
    """Return the features that `described` described."""
    return tuple(Number(column) for column in content)


def fill(X: np.ndarray, features: Sequence[Feature], arrays: Sequence[pa.Array]) -> None:
    """Write features into a matrix X (n, d) float64, from the values of each one's column."""
    several = [f.values(a) for f, a in zip(features, arrays, strict=True)]
    # A tile of X stays in the cache while the columns are written into it one after another.
    for first in range(0, len(X), _TILE_ROWS):
        tile, k = X[first : first + _TILE_ROWS], 0
        for values in several:
            part = values[first : first + _TILE_ROWS]
            if part.ndim == 1:
                tile[:, k] = part
                k += 1
            else:
                tile[:, k : k + part.shape[1]] = part
                k += part.shape[1]
