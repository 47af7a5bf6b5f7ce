"""Filling a matrix with features, at the speed of memory."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from distsvc.storage.rows.features import Feature

_TILE_ROWS = 8_192

_MANY, _TURNED_ROWS, _TURNED_AT_ONCE = 24, 4_096, 256
"""Columns that are many, and rows that are put aside and turned, both small beside a cache."""

_LINE_BYTES = 64
"""Between columns put aside: without, their values of a row would compete for a few cache lines."""


def fill(X: np.ndarray, features: Sequence[Feature], arrays: Sequence[pa.Array]) -> None:
    """Write features into a matrix X (n, d) of floats, from the values of each one's column."""
    k = 0
    several = (f.values(a) for f, a in zip(features, arrays, strict=True))
    for (ndim, _), alike in itertools.groupby(several, lambda v: (v.ndim, v.dtype)):
        group = list(alike)
        width = len(group) if ndim == 1 else sum(values.shape[1] for values in group)
        part = X[:, k : k + width]
        if ndim == 1:
            _fill_columns(part, group)
        else:
            np.concatenate(group, axis=1, out=part, casting="unsafe")
        k += width


def _fill_columns(X: np.ndarray, columns: Sequence[np.ndarray]) -> None:
    """Write columns (n,) of one dtype into X (n, d).

    A tile of X stays in the cache while columns are written into it one after another. Where they
    are many, each row of a tile is far from the next, so they are put side by side first, and
    turned a few rows at a time.
    """
    many = len(columns) >= _MANY
    rows = _TURNED_ROWS if many else _TILE_ROWS
    kind = columns[0].dtype
    apart = min(rows, len(X)) + _LINE_BYTES // kind.itemsize
    aside = np.empty((len(columns), apart), kind) if many else None
    for first in range(0, len(X), rows):
        tile = X[first : first + rows]
        if aside is None:
            for j, column in enumerate(columns):
                tile[:, j] = column[first : first + rows]
            continue
        for j, column in enumerate(columns):
            aside[j, : len(tile)] = column[first : first + rows]
        for start in range(0, len(tile), _TURNED_AT_ONCE):
            stop = min(start + _TURNED_AT_ONCE, len(tile))
            tile[start:stop] = aside[:, start:stop].T
