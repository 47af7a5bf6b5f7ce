"""A check for large integers whose differences float64 can't represent, as near 2^63."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distsvc.errors import UnusableRowsError

Number = int | Decimal


def is_narrow(least: np.ndarray | float, most: np.ndarray | float) -> np.ndarray:
    """Return True if float64 has too few steps between the extremes of any column.

    It represents all integers up to 2^53.
    """
    size = np.maximum(np.abs(least), np.abs(most))
    return (size > 2.0**53) & (most - least < 2**20 * np.spacing(size))


class Ends:
    """Exact extremes of the columns of 64-bit integers and decimals, by column position."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Number, Number]] = {}

    def add_array(self, X: np.ndarray) -> None:
        """Update the extremes from rows (n, d)."""
        if X.dtype.kind in "iu" and X.dtype.itemsize == 8 and len(X):
            for k in range(X.shape[1]):
                self._add(k, int(X[:, k].min()), int(X[:, k].max()))

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Update the extremes from a record batch."""
        for k, column in enumerate(batch.columns):
            if column.type in (pa.int64(), pa.uint64()) or pa.types.is_decimal(column.type):
                found = pc.min_max(column).as_py()
                if found["min"] is not None:
                    self._add(k, found["min"], found["max"])

    def _add(self, place: int, low: Number, high: Number) -> None:
        known = self._found.get(place, (low, high))
        self._found[place] = min(known[0], low), max(known[1], high)

    def check(self, name: str, names: Sequence[str] | None) -> None:
        """Raise `UnusableRowsError`, with the name of the rows, for a column that `is_narrow`."""
        for k, (low, high) in self._found.items():
            if low < high and is_narrow(float(low), float(high)):
                column = k if names is None else repr(names[k])
                raise UnusableRowsError(
                    f"{name}: column {column} holds numbers from {low} to {high}, which float64 "
                    f"can't tell apart: subtract {low}, or leave the column out"
                )
