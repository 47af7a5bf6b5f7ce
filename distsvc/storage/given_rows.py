"""Rows that are given in memory, or as a stream, as the blocks that a table's rows come in.

Tables come through Arrow, batch by batch, whoever made them: pyarrow, polars, pandas, DuckDB. Their
columns are found by name. Arrays have the columns in the model's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from distsvc.errors import DataError
from distsvc.storage.blocks import Block
from distsvc.storage.columns import plain, some
from distsvc.storage.features import (
    Feature,
    UnusableValueError,
    Vector,
    is_as_stored,
    names_of,
)
from distsvc.storage.filling import fill
from distsvc.storage.pieces import NAME, pieces

__all__ = ["NAME", "array_columns", "given_blocks"]

_KINDS = pa.float64(), pa.list_(pa.float64()), pa.duration("s"), pa.string()
"""Of these types a feature takes one, whatever it is, where a column has no value at all."""


def given_blocks(
    X: Any, features: Sequence[Feature], block_rows: int, id_name: str | None = None
) -> Iterator[Block]:
    """Yield all rows of X in order, in blocks of at most so many; none is empty.

    Parameters
    ----------
    X
        What `pieces` takes: an array with `array_columns`, or a table that has the stored columns
        by name.
    features
        How stored columns become numbers.
    block_rows
        At least 1.
    id_name
        The column that becomes the blocks' ids, where X is a table that has it.

    Raises
    ------
    DataError
        X is nothing of that, lacks columns, or has one with values that a feature can't take.

    """
    row = 0
    for piece in pieces(X, array_columns(features), block_rows):
        if isinstance(piece, np.ndarray):
            block = Block(_rows(row, len(piece)), _from_array(row, piece, features), None, None)
        else:
            block = _from_table(row, piece, features, id_name)
        row += len(block.rows)
        yield block


def array_columns(features: Sequence[Feature]) -> tuple[str, ...]:
    """Return the names of an array's columns: the stored ones, and each value of a vector."""
    each = (f.places if isinstance(f, Vector) else (f.column,) for f in features)
    return tuple(name for names in each for name in names)


def _rows(first: int, n: int) -> np.ndarray:
    return np.arange(first, first + n, dtype=np.int64)


def _from_array(row: int, piece: np.ndarray, features: Sequence[Feature]) -> np.ndarray:
    """Return the numbers (n, d) float64 of columns (n, d) as they are stored."""
    if all(is_as_stored(feature) for feature in features):
        return np.ascontiguousarray(piece, dtype=np.float64)
    arrays: list[pa.Array] = []
    first = 0
    for feature in features:
        width = feature.width if isinstance(feature, Vector) else 1
        arrays.append(_stored(np.ascontiguousarray(piece[:, first : first + width]), feature))
        first += width
    return _filled(row, len(piece), features, arrays)


def _stored(part: np.ndarray, feature: Feature) -> pa.Array:
    """Return a column, or the values of a vector (n, width), as Arrow holds what is stored."""
    if isinstance(feature, Vector):
        return pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), feature.width)
    array = pa.array(part[:, 0])
    if not feature.takes(array.type):
        raise DataError(
            f"{NAME}: column {feature.column!r} holds {feature.expected}, which an array of "
            "numbers does not: expected a table with named columns"
        )
    return array


def _plain(array: pa.Array, feature: Feature) -> pa.Array:
    """Return the values that a feature takes, without dictionary; `DataError` for others."""
    kind = plain(array.type)
    if pa.types.is_null(kind):
        return pa.nulls(len(array), next(k for k in _KINDS if feature.takes(k)))
    if not feature.takes(kind):
        raise DataError(f"{NAME}: column {feature.column!r} is {kind}, expected {feature.expected}")
    if pa.types.is_dictionary(array.type):  # Arrow takes no views by their places
        array = pa.DictionaryArray.from_arrays(array.indices, array.dictionary.cast(kind))
    return array.cast(kind) if kind != array.type else array


def _filled(
    row: int, n_rows: int, features: Sequence[Feature], arrays: Sequence[pa.Array]
) -> np.ndarray:
    X = np.empty((n_rows, len(names_of(features))))
    try:
        fill(X, features, arrays)
    except UnusableValueError as error:
        raise DataError(
            f"{NAME}: column {error.column!r}, row {row + error.place}: {error}"
        ) from None
    return X


def _from_table(
    row: int, batch: pa.RecordBatch, features: Sequence[Feature], id_name: str | None
) -> Block:
    names = batch.schema.names
    missing = [f.column for f in features if names.count(f.column) != 1]
    if missing:
        raise DataError(
            f"{NAME}: expected the model's {len(features)} columns, each once; missing or there "
            f"twice: {some(missing)}; found: {some(names)}"
        )
    arrays = [_plain(batch.column(feature.column), feature) for feature in features]
    X = _filled(row, batch.num_rows, features, arrays)
    ids = batch.column(id_name) if id_name is not None and names.count(id_name) == 1 else None
    return Block(_rows(row, batch.num_rows), X, ids, None)
