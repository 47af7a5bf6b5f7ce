"""The base of all features."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict

from distsvc.errors.forms import Form


class UnusableValueError(ValueError):
    """A value that a feature can't use; `place` is its position in the array."""

    def __init__(self, column: str, place: int, message: str):
        super().__init__(message)
        self.column, self.place = column, place


class Feature:
    """One or several numeric columns that are made from one stored column.

    `wants` names the column's values in a message. With `one_hot` each numeric column is an
    indicator of a value. If `nominal`, the numbers are codes of categories, without order.
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
    def whole(self) -> str | None:
        """Common name of all numeric columns if reports show them as one feature, else None."""
        return None

    @property
    def levels(self) -> tuple[str, ...]:
        """The text of each code 0, 1, ... of a nominal feature; () for other features."""
        return ()

    def takes(self, kind: pa.DataType) -> bool:
        """Return True if values of an Arrow type can be converted."""
        raise NotImplementedError

    def fits_float32(self, kind: str) -> bool:
        """Return True if float32 is exact for this feature's numbers; `kind` is an Arrow type."""
        return False

    def values(self, array: pa.Array) -> np.ndarray:
        """Return the numbers, (n,) or (n, len(names)), of Arrow values; null is NaN.

        `UnusableValueError` for a value that can't be converted.
        """
        raise NotImplementedError


class DescribedFeature(Form, Feature):
    """A feature that JSON stores as its fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    column: str
