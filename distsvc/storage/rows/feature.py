"""The base of all features."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict

from distsvc.errors.forms import Form


class UnusableValueError(ValueError):
    """A value of a column that a feature can't take; `place` is that of its row, in the array."""

    def __init__(self, column: str, place: int, message: str):
        super().__init__(message)
        self.column, self.place = column, place


class Feature:
    """The numbers made of one stored column: one column of them, or several.

    `wants` names the column's values in a message. With `one_hot` each column of numbers stands
    for a value, and is 1 in the rows that have it. If `nominal`, the numbers are codes of
    categories, whose order and differences mean nothing.
    """

    __slots__ = ()
    wants: ClassVar[str]
    one_hot: ClassVar[bool] = False
    nominal: ClassVar[bool] = False
    if TYPE_CHECKING:

        @property
        def column(self) -> str:
            """The stored column."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of numbers."""
        return (self.column,)

    @property
    def shown(self) -> str:
        """The column in a list of the features that are used."""
        return self.column

    @property
    def expected(self) -> str:
        """The values that the stored column has to hold, in a message."""
        return self.wants

    @property
    def whole(self) -> str | None:
        """The name of all columns together, where they are one thing to readers."""
        return None

    @property
    def levels(self) -> tuple[str, ...]:
        """The text of each code 0, 1, ... of a nominal feature; empty for other features."""
        return ()

    def takes(self, kind: pa.DataType) -> bool:
        """Return whether values of an Arrow type can be turned into the numbers."""
        raise NotImplementedError

    def fits_float32(self, kind: str) -> bool:
        """Return whether float32 holds the numbers made of an Arrow type, given by its words."""
        return False

    def values(self, array: pa.Array) -> np.ndarray:
        """Return some rows' numbers, (n,) or (n, len(names)), of their Arrow values; null is NaN.

        The dtype is any whose values float64 holds, as far as the stored ones do. Raises
        `UnusableValueError` where a value can't be taken.
        """
        raise NotImplementedError


class DescribedFeature(Form, Feature):
    """A feature that JSON holds as its fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    column: str
