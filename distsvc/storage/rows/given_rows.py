"""A user's arrays and tables as blocks; columns are found by name in tables, else by position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from distsvc.errors import DataError
from distsvc.inputs.given import rows_of
from distsvc.inputs.rows import Input, Reading, UserData, not_rows_error
from distsvc.storage.rows.blocks import Block, fill, plain_values
from distsvc.storage.rows.columns import plain_type, truncated
from distsvc.storage.rows.features import (
    Feature,
    Numeric,
    Time,
    UnusableValueError,
    Vector,
    names_of,
    without_sentinels,
)
from distsvc.storage.rows.numeric_text import is_text

NAME = "the rows"
"""The name of the rows in messages."""

_EMPTY_TYPES = pa.float64(), pa.list_(pa.float64()), pa.duration("s"), pa.string()
"""Types for a column without any value; the first one that its feature takes is used."""


def given_rows(X: UserData, features: Sequence[Feature], block_rows: int) -> Input:
    """Return the reader of an array with `array_columns`, or of a table with named columns."""
    rows = rows_of(X, Reading(NAME, block_rows, index=True))
    if rows is None:
        raise not_rows_error(X, NAME)
    columns = array_columns(features)
    if rows.shape is not None and (len(rows.shape) != 2 or rows.shape[1] != len(columns)):
        raise DataError(
            f"{NAME}: expected an array of {len(columns)} columns ({truncated(columns)}), found "
            f"one of shape {tuple(rows.shape)}"
        )
    return rows


def given_blocks(
    rows: Input,
    features: Sequence[Feature],
    id_name: str | None = None,
    missing_values: Sequence[float] = (),
) -> Iterator[Block]:
    """Yield all rows of `given_rows` in order; the column `id_name`, if there, becomes the ids."""
    row = rows.first
    for piece in rows.pieces():
        try:
            X = _numbers(piece, features, missing_values)
        except UnusableValueError as error:
            raise DataError(
                f"{rows.shown}: column {error.column!r}, row {row + error.place}: {error}"
            ) from None
        ids = None
        types: tuple[str, ...] = ()
        if not isinstance(piece, np.ndarray):
            types = tuple(str(piece.schema.field(f.column).type) for f in features)
            if piece.schema.names.count(id_name) == 1:
                ids = piece.column(id_name)
        rows_of_piece = np.arange(row, row + len(X), dtype=np.int64)
        yield Block(rows_of_piece, X, ids, None, types=types)
        row += len(X)


def array_columns(features: Sequence[Feature]) -> tuple[str, ...]:
    """Return the names of an array's columns: the stored ones, and each value of a vector."""
    each = (f.places if isinstance(f, Vector) else (f.column,) for f in features)
    return tuple(name for names in each for name in names)


def _numbers(
    piece: np.ndarray | pa.RecordBatch, features: Sequence[Feature], missing_values: Sequence[float]
) -> np.ndarray:
    if isinstance(piece, np.ndarray):
        stored = (isinstance(f, Numeric) or (isinstance(f, Vector) and not f.log) for f in features)
        if all(stored) and not missing_values:
            return np.ascontiguousarray(piece, dtype=np.float64)
        arrays = _of_array(piece, features)
    else:
        names = piece.schema.names
        missing = [f.column for f in features if names.count(f.column) != 1]
        if missing:
            raise DataError(
                f"{NAME}: expected the model's {len(features)} columns, each once; missing or "
                f"there twice: {truncated(missing)}; found: {truncated(names)}"
            )
        arrays = [_plain(piece.column(feature.column), feature) for feature in features]
    X = np.empty((len(piece), len(names_of(features))))
    fill(X, features, [without_sentinels(array, missing_values) for array in arrays])
    return X


def _of_array(piece: np.ndarray, features: Sequence[Feature]) -> list[pa.Array]:
    """Return the columns of an array (n, d), and its vectors, as Arrow arrays."""
    arrays: list[pa.Array] = []
    first = 0
    for feature in features:
        width = feature.width if isinstance(feature, Vector) else 1
        part = pa.array(np.ascontiguousarray(piece[:, first : first + width]).ravel())
        if isinstance(feature, Vector):
            part = pa.FixedSizeListArray.from_arrays(part, width)
        elif not feature.takes(part.type):
            raise DataError(
                f"{NAME}: column {feature.column!r} holds {feature.expected}, which an array of "
                "numbers does not: expected a table with named columns"
            )
        arrays.append(part)
        first += width
    return arrays


def _plain(array: pa.Array, feature: Feature) -> pa.Array:
    """Return the plain values for a feature; `DataError` for values of another kind."""
    kind = plain_type(array.type)
    if pa.types.is_null(kind):
        return pa.nulls(len(array), next(k for k in _EMPTY_TYPES if feature.takes(k)))
    if not feature.takes(kind):
        shown = "text" if is_text(kind) else str(kind)
        of_time = is_text(kind) and isinstance(feature, Time)
        hint = "; convert it by pandas.to_datetime or to_timedelta" if of_time else ""
        raise DataError(
            f"{NAME}: column {feature.column!r} is {shown}, expected {feature.expected}{hint}"
        )
    return plain_values(array)
