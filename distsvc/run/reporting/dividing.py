"""Columns of two values, or of categories, that alone divide clusters which are otherwise alike.

Two values leave a gap between them, so whatever a boolean says, it may divide every cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distsvc.run.algorithms.algorithm import PilotRows
from distsvc.storage.rows.columns import some
from distsvc.storage.rows.features import Feature

FEWEST_ROWS = 10
"""Of a cluster that is compared with others."""

MOST_NUMBERS = 2**21
"""Of clusters, compared two by two in every column; of more clusters the largest."""

PURE = 0.98
"""Share of a cluster's rows that have its usual value."""

ALIKE = 2.0
"""Squared distance of the means of clusters that are alike, in deviations of their rows."""

UNLIKE = 1e6
SHOWN = 4
"""Columns, and pairs of clusters of each, that a note names."""


def told_of_dividers(rows: PilotRows, features: Sequence[Feature], ids: np.ndarray) -> list[str]:
    """Return a note, or none, about columns that alone divide clusters, by the labelled pilot.

    `ids` (k,) are those of the labels.
    """
    numbers, counts = np.unique(rows.labels, return_counts=True)
    most = int((MOST_NUMBERS / rows.X.shape[1]) ** 0.5)
    large = numbers[np.argsort(-counts, kind="stable")][:most]
    clusters = np.sort(large[np.isin(large, numbers[counts >= FEWEST_ROWS])])
    if len(clusters) < 2:
        return []
    apart, noise = _apart(rows, clusters)
    found, first = [], 0
    for feature in features:
        own = slice(first, first + len(feature.names))
        first = own.stop
        usual = _usual_values(rows, clusters, own, feature.one_hot)
        if usual is None:
            continue
        rest = apart.sum(axis=2) - apart[:, :, own].sum(axis=2) - noise
        known = (usual[:, None] >= 0) & (usual >= 0) & (usual[:, None] != usual)
        pairs = np.argwhere(np.triu(known & (rest <= ALIKE)))
        if len(pairs):
            told = [" and ".join(str(int(ids[clusters[i]])) for i in pair) for pair in pairs]
            found.append(f"{feature.column!r} alone divides clusters {some(told, SHOWN)}")
    if not found:
        return []
    return [
        f"{'; '.join(found[:SHOWN])}{'; ...' * (len(found) > SHOWN)}: these are alike in all other "
        "columns; leave a column out of input.columns if it should not divide"
    ]


def _apart(rows: PilotRows, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances (k, k, d) of clusters' means, and how large they are by chance.

    The unit is the variance of the rows in both; the latter (k, k) is the sum over all columns.
    """
    members = [rows.X[rows.labels == c].astype(np.float64) for c in clusters]
    means = np.array([X.mean(axis=0) for X in members])
    variances = np.array([X.var(axis=0) for X in members])
    shares = 1.0 / np.array([len(X) for X in members])
    squares = (means[:, None] - means) ** 2
    within = (variances[:, None] + variances) / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(squares > 0.0, np.minimum(squares / within, UNLIKE), 0.0)
    return apart, (shares[:, None] + shares) * rows.X.shape[1]


def _usual_values(
    rows: PilotRows, clusters: np.ndarray, own: slice, one_hot: bool
) -> np.ndarray | None:
    """Return the number (k,) of the value that a column has in each cluster, -1 where in none.

    None where the column has more than two values, and they are no categories.
    """
    raw = rows.raw[:, own]
    known = ~np.isnan(raw).any(axis=1)
    if one_hot:
        codes = raw.argmax(axis=1)
    elif raw.shape[1] == 1:
        values, codes = np.unique(raw[:, 0], return_inverse=True)
        if np.count_nonzero(~np.isnan(values)) != 2:
            return None
    else:
        return None
    usual = np.full(len(clusters), -1)
    for k, c in enumerate(clusters):
        counts = np.bincount(codes[known & (rows.labels == c)])
        if counts.size and counts.max() >= PURE * counts.sum():
            usual[k] = counts.argmax()
    return usual
