"""Columns of two values, or of categories, that alone divide clusters which are otherwise alike.

Two values leave a gap between them, so whatever a boolean says, it may divide every cluster.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from distsvc.run.algorithms.algorithm import PilotRows
from distsvc.run.learning.preparation import Preparation
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


@dataclass(frozen=True)
class DividingColumn:
    """A column that alone divides pairs of clusters, which have these ids."""

    column: str
    pairs: list[tuple[int, int]]

    @property
    def clause(self) -> str:
        """What it divides, as a clause: "clusters 0 and 1 differ only in premium"."""
        if len(self.pairs) == 1:
            return (
                f"clusters {self.pairs[0][0]} and {self.pairs[0][1]} differ only in {self.column}"
            )
        return f"{len(self.pairs):,} pairs of clusters differ only in {self.column}"

    @property
    def note(self) -> str:
        """The clause as a sentence, with the option that leaves the column out."""
        option = shlex.join(["--exclude", self.column])
        return f"{self.clause[0].upper()}{self.clause[1:]}. To ignore it: {option}"


def dividing_columns(
    rows: PilotRows, features: Sequence[Feature], ids: np.ndarray, preparation: Preparation
) -> list[DividingColumn]:
    """Return the columns that alone divide clusters, by the labelled pilot.

    `ids` (k,) are those of the labels.
    """
    Z, owners = _learned_columns(rows, preparation)
    numbers, counts = np.unique(rows.labels, return_counts=True)
    most = int((MOST_NUMBERS / Z.shape[1]) ** 0.5)
    large = numbers[np.argsort(-counts, kind="stable")][:most]
    clusters = np.sort(large[np.isin(large, numbers[counts >= FEWEST_ROWS])])
    if len(clusters) < 2:
        return []
    apart, noise = _apart(Z, rows.labels, clusters)
    found, first = [], 0
    for feature in features:
        own = slice(first, first + len(feature.names))
        first = own.stop
        usual = _usual_values(rows, clusters, own, feature)
        if usual is None:
            continue
        mine = (owners >= own.start) & (owners < own.stop)
        rest = apart[:, :, ~mine].sum(axis=2) - noise
        known = (usual[:, None] >= 0) & (usual >= 0) & (usual[:, None] != usual)
        pairs = np.argwhere(np.triu(known & (rest <= ALIKE))).tolist()
        if pairs:
            named = [(int(ids[clusters[a]]), int(ids[clusters[b]])) for a, b in pairs]
            found.append(DividingColumn(feature.column, named))
    return found


def _learned_columns(rows: PilotRows, preparation: Preparation) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows (m, r) as learners see them, and the stored column (r,) of each column."""
    if preparation.columns is None:
        return rows.X, np.arange(rows.X.shape[1])
    latent = preparation.columns.layout.latent
    owners = np.searchsorted(preparation.firsts, latent, side="right") - 1
    return rows.X[:, latent], owners


def _apart(
    Z: np.ndarray, labels: np.ndarray, clusters: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances (k, k, d) of clusters' means, and how large they are by chance.

    The unit is the variance of the rows in both; the latter (k, k) is the sum over all columns.
    """
    members = [Z[labels == c].astype(np.float64) for c in clusters]
    means = np.array([X.mean(axis=0) for X in members])
    variances = np.array([X.var(axis=0) for X in members])
    shares = 1.0 / np.array([len(X) for X in members])
    squares = (means[:, None] - means) ** 2
    within = (variances[:, None] + variances) / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(squares > 0.0, np.minimum(squares / within, UNLIKE), 0.0)
    return apart, (shares[:, None] + shares) * Z.shape[1]


def _usual_values(
    rows: PilotRows, clusters: np.ndarray, own: slice, feature: Feature
) -> np.ndarray | None:
    """Return the number (k,) of the value that a column has in each cluster, -1 where in none.

    None where the column has more than two values, and they are no categories.
    """
    raw = rows.raw[:, own]
    known = ~np.isnan(raw).any(axis=1)
    if feature.one_hot:
        codes = raw.argmax(axis=1)
    elif feature.nominal:
        codes = np.where(known, raw[:, 0], 0.0).astype(np.int64)
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
