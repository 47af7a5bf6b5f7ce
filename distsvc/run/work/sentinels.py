"""Numbers in a table's columns that may stand for missing values, such as -9999."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from distsvc.models.rows.sentinels import Sentinel, find_sentinels, undone_log
from distsvc.storage.rows.columns import truncated
from distsvc.storage.rows.features import Feature, Log, Numeric, Vector, names_of

MAX_EXAMINED_ROWS = 1024
"""Maximum number of rows that are examined before a saved model labels a table."""


def sentinels_of(X: np.ndarray, features: Sequence[Feature]) -> Iterator[tuple[int, Sentinel]]:
    """Yield the index of a column and a possible sentinel in it, from stored rows X (m, d)."""
    of_columns = [feature for feature in features for _ in feature.names]
    logs = [
        k
        for k, feature in enumerate(of_columns)
        if isinstance(feature, Log) or (isinstance(feature, Vector) and feature.log)
    ]
    if logs:
        X = X.copy()
        X[:, logs] = undone_log(X[:, logs])
    for k, feature in enumerate(of_columns):
        if isinstance(feature, Numeric | Log | Vector):
            values = X[:, k]
            for one in find_sentinels(values[~np.isnan(values)]):
                yield k, one


def sentinel_words(found: Iterable[tuple[int, Sentinel]], features: Sequence[Feature]) -> str:
    """Return sentinels, as `sentinels_of` yields them, in words."""
    names = names_of(features)
    named = [
        f"{number_words(one.value)} in {names[k]} ({one.share:.1%} of the rows; nearly all others "
        f"lie from {one.low:,.6g} to {one.high:,.6g})"
        for k, one in found
    ]
    return truncated(named)


def sentinel_warnings(X: np.ndarray, features: Sequence[Feature]) -> list[str]:
    """Return at most one warning about possible sentinels in rows X (m, d) that are labelled."""
    found = list(sentinels_of(X, features))
    if not found:
        return []
    return [
        f"numbers that may stand for missing values: {sentinel_words(found, features)}; if they "
        "do, give null in their place"
    ]


def number_words(value: float) -> str:
    """Return a number as it is written in a job file."""
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
