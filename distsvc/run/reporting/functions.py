"""Columns that are functions of each other: clusters may follow such a curve and not groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distsvc.models.rules.profiles import ranks
from distsvc.run.algorithms.algorithm import PilotRows
from distsvc.storage.rows.features import Feature, Numeric

FUNCTION_ROWS = 2000
"""Maximum number of pilot rows on which columns are compared."""

MIN_FUNCTION_VALUES = 32
"""Minimum number of different values of a column that is compared."""

MIN_RANK_CORRELATION = 0.999
"""Absolute rank correlation from which two columns are functions of each other."""


def function_pairs(rows: PilotRows, features: Sequence[Feature]) -> list[tuple[str, str]]:
    """Return the pairs of numeric columns that rank the pilot's rows alike, or in reverse."""
    names, columns, first = [], [], 0
    for feature in features:
        x = rows.raw[:FUNCTION_ROWS, first]
        first += len(feature.names)
        if isinstance(feature, Numeric) and len(np.unique(x)) >= MIN_FUNCTION_VALUES:
            r = ranks(np.where(np.isnan(x), np.nanmedian(x), x))
            names.append(feature.column)
            columns.append((r - r.mean()) / r.std())
    if not columns:
        return []
    R = np.array(columns)
    alike = np.abs(R @ R.T) / R.shape[1] >= MIN_RANK_CORRELATION
    return [(names[i], names[j]) for i, j in np.argwhere(np.triu(alike, 1)).tolist()]


def doubt_of_functions(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return a clause about pairs of columns, or none."""
    if not pairs:
        return []
    clause = f"{pairs[0][0]} and {pairs[0][1]} are functions of each other"
    if len(pairs) == 1:
        return [clause]
    more = len(pairs) - 1
    return [
        f"{clause}, as {'is 1 more pair' if more == 1 else f'are {more} more pairs'} of columns"
    ]
