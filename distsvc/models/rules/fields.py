"""What the arrays and facts of a saved model have to be, before anything is computed with them.

Kernels read memory without looking at bounds, so that an index out of range is not an error there
but another answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from distsvc.errors import DataError

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
LARGEST_FLOAT64 = float(np.finfo(np.float64).max)
SMALLEST_FLOAT32 = float(np.finfo(np.float32).tiny)


class Field(Protocol):
    """A field of a rule, or of what belongs to it."""

    kind: str

    def check(self, value: Any, sizes: dict[str, int]) -> None:
        """Raise ValueError for a value of another form; sizes of dimensions agree, by name."""


@dataclass(frozen=True)
class Array:
    """An array of finite numbers.

    Parameters
    ----------
    dtype : str
        The type, to the bit: a kernel has one compiled form.
    shape : str
        The names of the dimensions, apart from each other by spaces, or their sizes. Those of one
        name are equal in all arrays of a rule, and at least 1.
    above, least : float
        What all values are above, or at least; nothing where it is -infinity.
    row_major : bool
        Whether the values have to lie row by row.
    may_be_empty : bool
        Whether a dimension may be 0.

    """

    dtype: str
    shape: str
    above: float = -np.inf
    least: float = -np.inf
    row_major: bool = True
    may_be_empty: bool = False
    kind = "array"

    def check(self, value: Any, sizes: dict[str, int]) -> None:
        """Raise ValueError for an array of another form."""
        expected = self._shape(sizes)
        if not isinstance(value, np.ndarray) or value.dtype != np.dtype(self.dtype):
            raise ValueError(f"expected {self.dtype}, found {_described(value)}")
        fits = len(expected) == value.ndim and all(
            found == size if isinstance(size, int) else found > 0 or self.may_be_empty
            for size, found in zip(expected, value.shape, strict=True)
        )
        if not fits:
            shown = ", ".join(map(str, expected)) + ("," if len(expected) == 1 else "")
            raise ValueError(f"expected the shape ({shown}), found {value.shape}")
        if self.row_major and not value.flags.c_contiguous:
            raise ValueError("expected values row by row, found them column by column")
        sizes |= {n: k for n, k in zip(expected, value.shape, strict=True) if isinstance(n, str)}
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError("expected finite numbers, found NaN or infinity")
        if value.size:
            _check_range(value.min(), value.max(), self.above, self.least)

    def _shape(self, sizes: Mapping[str, int]) -> list[int | str]:
        return [int(n) if n.isdigit() else sizes.get(n, n) for n in self.shape.split()]


@dataclass(frozen=True)
class Clusters(Array):
    """Clusters, numbered from 0 without gaps; -1 where there is none, if `least` is."""

    least: float = 0

    def check(self, value: Any, sizes: dict[str, int]) -> None:
        """Raise ValueError for an array of another form, or with a gap in its numbers."""
        super().check(value, sizes)
        found = np.unique(value[value >= 0])
        if not np.array_equal(found, np.arange(len(found))) or not len(found):
            raise ValueError("expected every cluster from 0 to the last, found a gap")


@dataclass(frozen=True)
class Children(Array):
    """The children (m, 2) of each node of a binary tree, or (-1, -1): the root, 0, comes first."""

    def check(self, value: Any, sizes: dict[str, int]) -> None:
        """Raise ValueError for what is no tree: a cycle, a node that has two parents or none."""
        super().check(value, sizes)
        inner = np.flatnonzero((value != -1).any(axis=1))
        below = value[inner]
        if (below <= inner[:, None]).any() or (below >= len(value)).any():
            raise ValueError("expected (-1, -1) or two nodes that come later, found others")
        if not np.array_equal(np.sort(below, axis=None), np.arange(1, len(value))):
            raise ValueError("expected one parent of each node but the root, found others")


@dataclass(frozen=True)
class Number:
    """A finite float, in some range."""

    above: float = -np.inf
    least: float = -np.inf
    most: float = np.inf
    kind = "fact"

    def check(self, value: Any, sizes: dict[str, int]) -> None:
        """Raise ValueError for anything else; whole numbers are floats too, but not true, false."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(f"expected a number, found {_described(value)}")
        if not abs(value) <= LARGEST_FLOAT64:
            raise ValueError(f"expected a finite number, found {_described(value)}")
        _check_range(value, value, self.above, self.least, self.most)


@dataclass(frozen=True)
class Count:
    """A whole number from `least` to `most`."""

    least: int
    most: int
    kind = "fact"

    def check(self, value: Any, sizes: dict[str, int]) -> None:
        """Raise ValueError for anything else, true and false included."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"expected a whole number, found {_described(value)}")
        _check_range(value, value, -np.inf, self.least, self.most)


@dataclass(frozen=True)
class Flag:
    """True or false, or only one of them."""

    only: bool | None = None
    kind = "fact"

    def check(self, value: Any, sizes: dict[str, int]) -> None:
        """Raise ValueError for anything else, 0 and 1 included."""
        if not isinstance(value, bool) or self.only not in (None, value):
            expected = "true or false" if self.only is None else str(self.only).lower()
            raise ValueError(f"expected {expected}, found {_described(value)}")


@dataclass(frozen=True)
class Word:
    """One of some words."""

    words: tuple[str, ...]
    kind = "fact"

    def check(self, value: Any, sizes: dict[str, int]) -> None:
        """Raise ValueError for anything else."""
        if not isinstance(value, str) or value not in self.words:
            raise ValueError(f"expected {' or '.join(self.words)}, found {_described(value)}")


def check_fields(
    fields: Mapping[str, Field], values: Mapping[str, Any], sizes: dict[str, int]
) -> None:
    """Check values against the fields of the same names; `sizes` takes those of dimensions.

    Raises
    ------
    DataError
        A value is missing or has another form; names the field.

    """
    for name, field in fields.items():
        if name not in values:
            raise DataError(f"{field.kind} {name} is missing")
        try:
            field.check(values[name], sizes)
        except ValueError as error:
            raise DataError(f"{field.kind} {name}: {error}") from None


def _check_range(low: Any, high: Any, above: float, least: float, most: float = np.inf) -> None:
    if not low > above:
        raise ValueError(f"expected values above {above:g}, found {_described(low)}")
    if not low >= least:
        raise ValueError(f"expected values of at least {least:g}, found {_described(low)}")
    if not high <= most:
        raise ValueError(f"expected values of at most {most:g}, found {_described(high)}")


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{str(value.dtype)[:40]} of shape {value.shape}"
    if isinstance(value, str | list | dict):
        return type(value).__name__
    return str(value)[:40]
