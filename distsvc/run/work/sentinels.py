"""Numbers in a table's columns that may stand for missing values, and other frequent numbers."""

from collections.abc import Iterator, Sequence

import numpy as np

from distsvc.models.rows.sentinels import Sentinel, find_sentinels, find_spike, undone_log
from distsvc.storage.rows.columns import truncated
from distsvc.storage.rows.features import (
    Feature,
    Log,
    Numeric,
    TextNumber,
    Vector,
    names_of,
    placed,
)

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


def sentinel_notes(
    X: np.ndarray,
    features: Sequence[Feature],
    known: Sequence[float] | None = None,
    missing: str = "",
) -> list[str]:
    """Return at most one note on possible sentinels in stored rows X (m, d).

    `known` are the sentinels that the job names, and `missing` is its policy for missing values. If
    `known` is None, a saved model labels the rows. Then only the first `MAX_EXAMINED_ROWS` rows are
    examined.
    """
    found = list(sentinels_of(X if known is not None else X[:MAX_EXAMINED_ROWS], features))
    if not found:
        return []
    names, advice = names_of(features), "give null in their place"
    named = [
        f"{number_words(one.value)} in {names[k]!r} ({one.share:.1%} of the rows; nearly all "
        f"others lie from {one.low:,.6g} to {one.high:,.6g})"
        for k, one in found
    ]
    if known is not None:
        values = sorted({one.value for _, one in found}.union(known))
        more = " and missing = 'median' (or 'drop')" if missing == "error" else ""
        listed = ", ".join(map(number_words, values))
        advice = f"give missing_values = [{listed}]{more} in [preprocess]"
    return [f"numbers that may stand for missing values: {truncated(named)}; if they do, {advice}"]


def spike_notes(X: np.ndarray, features: Sequence[Feature]) -> list[str]:
    """Return at most one note on unusually frequent numbers in the columns of stored rows (m, d).

    Zeros, limits of a column's range, and sentinels are left out.
    """
    named = []
    sentinels = {(k, one.value) for k, one in sentinels_of(X, features)}
    for feature, places in placed(features):
        if isinstance(feature, Numeric | TextNumber):
            k = places.start
            spike = find_spike(X[~np.isnan(X[:, k]), k])
            if spike is not None and spike.is_odd and (k, spike.value) not in sentinels:
                named.append(
                    f"{number_words(spike.value)} in {feature.column!r} ({spike.share:.1%} of the "
                    f"known values, {spike.times:.0f} times as many as any other value)"
                )
    if not named:
        return []
    return [
        f"numbers that are unusually frequent: {truncated(named)}; is a sensor stuck, or were "
        "values filled in?"
    ]


def number_words(value: float) -> str:
    """Return a number as it is written in a job file."""
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
