"""Checks of the arrays and JSON values of a saved model, before they are used.

Kernels don't check bounds, so an index out of range would silently give a wrong answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Annotated, Any, TypeAlias, get_type_hints

import numpy as np
import pydantic

from distsvc.errors import DataError
from distsvc.errors.forms import worded

Facts: TypeAlias = dict[str, Any]
"""JSON values by name, which are saved beside the arrays of a rule, a fit or a column."""

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class ArrayField:
    """Check of an array of finite numbers: dtype, shape and bounds.

    `shape` lists the dimensions by size or by name, separated by spaces, such as "n 2". A name
    stands for one size in all arrays of a rule, at least 1.
    """

    dtype: str  # exact dtype, because a kernel is compiled for one
    shape: str
    above: float = -np.inf  # exclusive lower bound of all values
    least: float = -np.inf  # inclusive lower bound of all values
    row_major: bool = True  # whether the array must be in C order
    may_be_empty: bool = False  # whether a dimension may be 0
    kind = "array"

    def check(self, value: Any, sizes: dict[str, int]) -> None:
        expected = [int(n) if n.isdigit() else sizes.get(n, n) for n in self.shape.split()]
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
            raise ValueError("expected an array in C order, found another order")
        sizes |= {n: k for n, k in zip(expected, value.shape, strict=True) if isinstance(n, str)}
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError("expected finite numbers, found NaN or infinity")
        if value.size and not value.min() > self.above:
            raise ValueError(f"expected values above {self.above:g}, found {value.min()}")
        if value.size and not value.min() >= self.least:
            raise ValueError(f"expected values of at least {self.least:g}, found {value.min()}")


@dataclass(frozen=True)
class ClustersField(ArrayField):
    """Check of cluster numbers, from 0 without gaps; with `least` = -1, also -1 for no cluster."""

    least: float = 0

    def check(self, value: Any, sizes: dict[str, int]) -> None:
        super().check(value, sizes)
        found = np.unique(value[value >= 0])
        if not np.array_equal(found, np.arange(len(found))) or not len(found):
            raise ValueError("expected every cluster from 0 to the last, found a gap")


@dataclass(frozen=True)
class ChildrenField(ArrayField):
    """Check of a binary tree, whose array has the two children (m, 2) of each node.

    A leaf has (-1, -1) instead of children. Node 0 is the root, and parents precede children.
    """

    def check(self, value: Any, sizes: dict[str, int]) -> None:
        super().check(value, sizes)
        inner = np.flatnonzero((value != -1).any(axis=1))
        below = value[inner]
        if (below <= inner[:, None]).any() or (below >= len(value)).any():
            raise ValueError(
                "expected two later nodes or (-1, -1) for each node, found an earlier or no node"
            )
        if not np.array_equal(np.sort(below, axis=None), np.arange(1, len(value))):
            raise ValueError(
                "expected one parent of each node except the root, found none or several"
            )


@dataclass(frozen=True)
class Fact:
    """Check of a JSON value against a `type`, by pydantic."""

    type: Any
    kind = "fact"

    def check(self, value: Any, sizes: dict[str, int]) -> None:
        try:
            self._adapter.validate_python(value, strict=True)
        except pydantic.ValidationError as error:
            raise ValueError(worded(error.errors(include_url=False)[0])) from None

    @cached_property
    def _adapter(self) -> pydantic.TypeAdapter[Any]:
        return pydantic.TypeAdapter(self.type)


Field = ArrayField | Fact
"""Check of one field of a rule, or of other saved data."""

FLAG = Fact(bool)


def real(gt: float | None = None, ge: float | None = None, le: float | None = None) -> Fact:
    """Return the check of a finite number with pydantic's bounds."""
    bounds = pydantic.Field(allow_inf_nan=False, gt=gt, ge=ge, le=le)
    return Fact(Annotated[float, bounds])


def whole(least: int, most: int) -> Fact:
    """Return the check of a whole number from `least` to `most`."""
    return Fact(Annotated[int, pydantic.Field(ge=least, le=most)])


@cache
def forms_of(cls: Any) -> dict[str, Field]:
    """Return the checks of a class's fields, from their annotations ``Annotated[type, check]``."""
    hints = get_type_hints(cls, include_extras=True)
    return {name: of.__metadata__[0] for name, of in hints.items() if hasattr(of, "__metadata__")}


def check_fields(
    fields: Mapping[str, Field], values: Mapping[str, Any], sizes: dict[str, int]
) -> None:
    """Check the values of all fields by name; raise DataError for the first missing or wrong one.

    `sizes` maps names of dimensions to known sizes. Sizes found in the arrays are added to it.
    """
    for name, field in fields.items():
        if name not in values:
            raise DataError(f"{field.kind} {name} is missing")
        try:
            field.check(values[name], sizes)
        except ValueError as error:
            raise DataError(f"{field.kind} {name}: {error}") from None


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{str(value.dtype)[:40]} of shape {value.shape}"
    return type(value).__name__
