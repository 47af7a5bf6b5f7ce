"""Contents of clusters: rows by level of categories and flags, missing values, a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np

from distsvc.models.columns.model import CategoryColumn
from distsvc.models.rows.sampling import row_keys
from distsvc.run.learning.preparation import Preparation
from distsvc.run.work.plan import Plan
from distsvc.storage.rows.blocks import Block
from distsvc.storage.rows.features import Feature, Numeric, Vector


@dataclass(frozen=True)
class CountedLevels:
    """The levels of a stored column that are counted exactly.

    Attributes
    ----------
    column : str
    names : tuple of str
        Texts of the levels.
    codes : ndarray of shape (L,), float64
        Numbers that stand for the levels, ascending.
    places : slice
        Its columns of numbers; several if they are one-hot.

    """

    column: str
    names: tuple[str, ...]
    codes: np.ndarray
    places: slice

    def levels_of(self, X: np.ndarray) -> np.ndarray:
        """Return the level (n,) int64 of rows X (n, d): L for missing and other values."""
        own = X[:, self.places]
        if own.shape[1] > 1:
            return np.where(np.isnan(own[:, 0]), len(self.codes), own.argmax(axis=1))
        x = own[:, 0].astype(np.float64)
        place = np.minimum(np.searchsorted(self.codes, x), len(self.codes) - 1)
        return np.where(self.codes[place] == x, place, len(self.codes))


@dataclass
class ClusterContents:
    """Contents of each cluster in one partition or in all.

    Attributes
    ----------
    features, compared : list of CountedLevels
        Categories and flags among the features, and among the other columns.
    rows : dict of ndarray of shape (k, L + 1), int64
        Rows of each cluster by level, by column; the last entry has missing and other values.
    missing : ndarray of shape (k, d), int64
        Missing values of each cluster in each column of numbers.
    labels, sample : ndarray of shape (m,) and (m, b)
        Clusters and values of about 10,000 rows, in the columns that are no features.

    """

    features: list[CountedLevels]
    compared: list[CountedLevels]
    missing: np.ndarray
    width: int
    share: float
    rows: dict[str, np.ndarray] = field(default_factory=dict)
    labels: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    sample: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def empty(cls, plan: Plan, preparation: Preparation, n_clusters: int) -> ClusterContents:
        """Return the contents of no rows."""
        table, width = plan.table, len(plan.table.compared)
        features = levels_of_features(table.features, preparation, table.types)
        compared = levels_of_columns(table.compared)
        counted = [*features, *compared]
        rows = {c.column: np.zeros((n_clusters, len(c.codes) + 1), np.int64) for c in counted}
        missing = np.zeros((n_clusters, len(table.columns)), np.int64)
        share = min(1.0, 10_000 / max(table.n_rows, 1))
        return cls(features, compared, missing, width, share, rows, sample=np.zeros((0, width)))

    def add(self, block: Block, labels: np.ndarray, seed: int) -> None:
        """Count a block's rows, whose clusters are `labels` (n,)."""
        for counted in self.features:
            self._count(counted, block.X, labels)
        absent = np.isnan(block.X)
        for j in np.flatnonzero(absent.any(axis=0)):
            self.missing[:, j] += np.bincount(labels[absent[:, j]], minlength=len(self.missing))
        if block.compared is None:
            return
        for counted in self.compared:
            self._count(counted, block.compared, labels)
        if len(self.compared) < self.width:
            chosen = row_keys(seed, block.rows) < np.uint64(self.share * (2**64 - 2**12))
            self.labels = np.concatenate([self.labels, labels[chosen].astype(np.int64)])
            self.sample = np.concatenate([self.sample, block.compared[chosen]])

    def _count(self, counted: CountedLevels, X: np.ndarray, labels: np.ndarray) -> None:
        rows = self.rows[counted.column]
        cells = labels.astype(np.int64) * rows.shape[1] + counted.levels_of(X)
        rows += np.bincount(cells, minlength=rows.size).reshape(rows.shape)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays for `merge`."""
        flat = [of.ravel() for of in self.rows.values()]
        return {
            "level_rows": np.concatenate([*flat, np.zeros(0, np.int64)]),
            "missing_rows": self.missing,
            "compared_labels": self.labels,
            "compared_sample": self.sample,
        }

    def merge(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Add the contents of a partition."""
        first = 0
        for rows in self.rows.values():
            rows += arrays["level_rows"][first : first + rows.size].reshape(rows.shape)
            first += rows.size
        self.missing += arrays["missing_rows"]
        self.labels = np.concatenate([self.labels, arrays["compared_labels"]])
        self.sample = np.concatenate([self.sample, arrays["compared_sample"]])


def levels_of_columns(features: Sequence[Feature]) -> list[CountedLevels]:
    """Return the levels of nominal and one-hot features, in order."""
    found, first = [], 0
    for feature in features:
        places = slice(first, first + len(feature.names))
        first = places.stop
        names = feature.levels
        if feature.one_hot:
            names = tuple(name.partition("=")[2] for name in feature.names)
        if names:
            codes = np.arange(len(names), dtype=np.float64)
            found.append(CountedLevels(feature.column, names, codes, places))
    return found


def levels_of_features(
    features: Sequence[Feature], preparation: Preparation, types: Sequence[str] = ()
) -> list[CountedLevels]:
    """Return the known levels of categories and flags, in any order.

    `types` are the names of the Arrow types of the features' columns; with them, the levels of
    booleans are "false" and "true".
    """
    found = levels_of_columns(features)
    n_columns = sum(len(feature.names) for feature in features)
    models = preparation.columns.columns if preparation.columns else [None] * n_columns
    first = 0
    for feature, kind in zip_longest(features, types, fillvalue=""):
        assert isinstance(feature, Feature)
        places = slice(first, first + len(feature.names))
        model = models[first]
        first = places.stop
        if feature.nominal or feature.one_hot or isinstance(feature, Vector):
            continue
        if isinstance(model, CategoryColumn):
            codes = model.codes
        elif isinstance(feature, Numeric) and kind == "bool":
            codes = np.array([0.0, 1.0])
        else:
            continue
        is_truth = kind == "bool" and set(codes) <= {0.0, 1.0}
        names = tuple(("false", "true")[int(c)] if is_truth else f"{c:g}" for c in codes)
        found.append(CountedLevels(feature.column, names, codes, places))
    return found
