"""Sentinels: numbers such as -9999 that mark missing values."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distsvc.inputs.arrow import numbers
from distsvc.storage.rows.features import is_numeric, is_vector


def without_sentinels(array: pa.Array, missing_values: Sequence[float]) -> pa.Array:
    """Return a column of numbers, or of lists of numbers, with null in place of `missing_values`.

    Values are compared in the column's type: 1e20 matches its float32, and 0.57 the decimal. Text,
    booleans, dates and times stay unchanged.
    """
    kind = array.type
    if not missing_values or pa.types.is_boolean(kind):
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
        short = pa.types.is_decimal(kind) and kind.bit_width < 128  # no kernel of Arrow takes them
        exact = pa.decimal128(kind.precision, kind.scale) if short else kind
        found = pc.is_in(array.cast(exact), _exactly(missing_values, exact))
    return pc.if_else(found, pa.scalar(None, kind), array) if pc.any(found).as_py() else array


def _exactly(missing_values: Sequence[float], kind: pa.DataType) -> pa.Array:
    """Return the numbers that a type of integers or decimals can hold exactly."""
    found = []
    for value in missing_values:
        with suppress(pa.ArrowException, OverflowError, ValueError):
            number = Decimal(repr(value))
            whole = int(number) if number == number.to_integral_value() else None
            found.append(pa.scalar(whole if pa.types.is_integer(kind) else number, kind))
    return pa.array([one.as_py() for one in found], kind)


def is_sentinel(x: np.ndarray, missing_values: Sequence[float]) -> np.ndarray:
    """Return the mask of sentinels in an array of any shape."""
    kind = x.dtype if np.issubdtype(x.dtype, np.floating) else np.dtype(np.float64)
    with np.errstate(over="ignore"):
        wanted = np.array(missing_values, np.float64).astype(kind)
    return np.isin(x, wanted[np.isfinite(wanted)])
