"""What a fitted baseline labels rows by: arrays alone, so that a job can save and share it.

Both rules divide all of space into cells with flat borders, one or more for each cluster. A row's
score is its distance to the nearest border of its cell, in the unit of the columns: near 0 the row
could have gone to another cluster. It is infinite where there is one cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from distsvc.models.baselines.split_tree import SplitTree, centred

BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Centres:
    """The cluster of the nearest centre; ``centres`` (k, d) float64, of the largest cluster first.

    A cell's borders are the hyperplanes midway to the other centres. Of equally near centres the
    first has the row; where two coincide its score is 0.
    """

    form: ClassVar[str] = "centres"
    centres: np.ndarray

    @classmethod
    def by_size(cls, centres: np.ndarray, labels: np.ndarray) -> Centres:
        """Return the rule of centres (k, d), the one that labels (n,) name most often first."""
        sizes = np.bincount(labels, minlength=len(centres))
        return cls(centres[np.argsort(-sizes, kind="stable")])

    @property
    def n_clusters(self) -> int:
        """Clusters, some of which may have no rows."""
        return len(self.centres)

    def label(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return labels (n,) int32 and scores (n,) float32 of rows X (n, d) float64."""
        labels, scores = np.empty(len(X), np.int32), np.empty(len(X), np.float32)
        apart = cdist(self.centres, self.centres)
        for first in range(0, len(X), BLOCK_ROWS):
            part = slice(first, first + BLOCK_ROWS)
            squared = cdist(X[part], self.centres, "sqeuclidean")
            nearest = squared.argmin(axis=1)
            beyond = squared - squared.min(axis=1, keepdims=True)
            gaps = 2.0 * apart[nearest]
            borders = np.divide(beyond, gaps, out=np.zeros_like(beyond), where=gaps > 0.0)
            borders[np.arange(len(nearest)), nearest] = np.inf
            labels[part], scores[part] = nearest, borders.min(axis=1)
        return labels, scores


@dataclass(frozen=True)
class Splits:
    """The cluster of the leaf that a row ends in: the arrays of `DePDDP` and `SPDC`.

    ``mean`` is their ``centre_``; ``clusters`` (n_nodes,) int32 is -1 in nodes that are no leaves.
    """

    form: ClassVar[str] = "splits"
    directions: np.ndarray
    thresholds: np.ndarray
    children: np.ndarray
    clusters: np.ndarray
    mean: np.ndarray

    @property
    def n_clusters(self) -> int:
        """Clusters, some of which may have no rows."""
        return int(self.clusters.max()) + 1

    def label(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return labels (n,) int32 and scores (n,) float32 of rows X (n, d) float64."""
        arrays = (self.directions, self.thresholds.tolist(), self.children.tolist())
        ends, margins = SplitTree(*map(list, arrays)).route(centred(X, self.mean))
        return self.clusters[ends], margins


Rule = Centres | Splits
RULES: dict[str, type[Rule]] = {rule.form: rule for rule in (Centres, Splits)}
"""The rules by the names that saved models have for them."""
