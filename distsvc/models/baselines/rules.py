"""Rules of fitted baselines, which divide all of space into cells with flat borders.

A row's score is its distance to the nearest border of its cell, in the unit of the columns. It is
infinite if there is only one cell.

The cells of a tree are its leaves. A row x goes from node i to ``children[i, 0]`` if
``directions[i]`` . x is at most ``thresholds[i]``, else to ``children[i, 1]``. Leaves have the
children (-1, -1). Node 0 is the root.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

import numpy as np
from scipy.spatial.distance import cdist

from distsvc.errors import DataError
from distsvc.kernels.hyperplanes import path_shares
from distsvc.kernels.rows import project
from distsvc.models.rows.numbering import ranks_by_size
from distsvc.models.rows.scaling import subtract_centre
from distsvc.models.rules.fields import ArrayField, ChildrenField, ClustersField
from distsvc.models.rules.membership import BY_HYPERPLANES, SPLIT_SOFTNESS
from distsvc.models.rules.rule import Rule, ScoreWords

DISTANCE_BLOCK_ROWS = 4096
NO_CHILD = -1

Nodes = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Nodes of a tree: directions (m, d) float32, thresholds (m,) float64, children (m, 2) int64."""


@dataclass(frozen=True)
class Centres(Rule):
    """Rule that labels a row by its nearest centre, the first if several are equally near.

    `centres` (k, d) float64 has a row for each cluster, the largest cluster first. A cell's borders
    are the hyperplanes midway to the other centres.
    """

    form: ClassVar[str] = "centres"
    shared: ClassVar[str] = (
        "1 / r^4 divided by its sum over all clusters, where r is the distance to a cluster's "
        "centre"
    )
    float64: ClassVar[bool] = True
    meanings: ClassVar[Mapping[str, str]] = {
        "label": "int32, >= 0: the cluster with the nearest centre; on a first run, 0 is "
        "the largest cluster of a sample",
        "score": "float32, >= 0: distance to the nearest hyperplane midway between the row's "
        "centre and another centre, in the unit of the scaled columns; infinity if there is only "
        "one cluster",
        "outlier": "bool: always false, since every row has a nearest centre",
    }
    words: ClassVar[ScoreWords] = ScoreWords(
        has_outliers=False,
        meaning="Every row has a nearest centre, so no row is an outlier. The "
        "score is the row's distance to the nearest hyperplane midway between its centre and "
        "another centre, in the unit of the scaled columns.",
        heading="Distance to the border of the cluster",
        axis="distance to the nearest hyperplane midway between two centres",
        boundary=None,
    )

    centres: Annotated[np.ndarray, ArrayField("float64", "k d")]

    @classmethod
    def by_size(cls, centres: np.ndarray, X: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Return the rule of centres (k, d), sorted by cluster size, the largest first.

        A cluster's size is its number of rows X (n, d), or the sum of their `weights` (n,).
        """
        sizes = np.bincount(cls(centres).labels(X), weights, len(centres))
        return cls(centres[np.argsort(-sizes, kind="stable")])

    @property
    def n_clusters(self) -> int:
        return len(self.centres)

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        labels, scores = np.empty(len(Z), np.int32), np.empty(len(Z), np.float32)
        apart = cdist(self.centres, self.centres)
        for part, squared in self._squared_distances(Z):
            nearest = squared.argmin(axis=1)
            # From a row x near a, the border with b is (|x - b|^2 - |x - a|^2) / (2 |a - b|) away.
            beyond = squared - squared.min(axis=1, keepdims=True)
            gaps = 2.0 * apart[nearest]
            borders = np.divide(beyond, gaps, out=np.zeros_like(beyond), where=gaps > 0.0)
            borders[np.arange(len(nearest)), nearest] = np.inf
            labels[part], scores[part] = nearest, borders.min(axis=1)
        return {"label": labels, "score": scores, "outlier": np.zeros(len(Z), bool)}

    def labels(self, Z: np.ndarray) -> np.ndarray:
        labels = np.empty(len(Z), np.int32)
        for part, squared in self._squared_distances(Z):
            labels[part] = squared.argmin(axis=1)
        return labels

    def shares(self, Z: np.ndarray) -> np.ndarray:
        """Return shares (n, k) float32 proportional to 1 / r^4, with r the distance to a centre."""
        shares = np.empty((len(Z), self.n_clusters), np.float32)
        for part, squared in self._squared_distances(Z):
            shares[part] = memberships_of(squared, 1.5)
        return shares

    def groups(self, sizes: np.ndarray, k: int) -> np.ndarray:
        """Merge m clusters into k groups; return each cluster's group (m,) int64, 0 to k - 1.

        Ward's method: repeatedly merge the groups a and b whose merger raises the sum of squares
        least, by |a| |b| / (|a| + |b|) ||mean_a - mean_b||^2. Ties go to the first pair. `sizes`
        (m,) are the clusters' numbers of rows, which may be 0.
        """
        means, sizes = self.centres.astype(np.float64), sizes.astype(np.float64)
        groups = np.arange(len(means))
        alive = np.ones(len(means), bool)
        squared = cdist(means, means, "sqeuclidean")
        while alive.sum() > k:
            both = sizes[:, np.newaxis] + sizes
            product = sizes[:, np.newaxis] * sizes
            share = np.divide(product, both, out=np.zeros_like(both), where=both > 0.0)
            costs = np.where(np.triu(np.outer(alive, alive), 1), share * squared, np.inf)
            kept, gone = divmod(int(costs.argmin()), len(means))
            total = sizes[kept] + sizes[gone]
            weight = sizes[gone] / total if total > 0.0 else 0.5
            means[kept] += weight * (means[gone] - means[kept])
            sizes[kept], alive[gone] = total, False
            groups[groups == gone] = kept
            squared[kept] = squared[:, kept] = ((means - means[kept]) ** 2).sum(axis=1)
        return np.unique(groups, return_inverse=True)[1].ravel()

    def _squared_distances(self, Z: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield slices of rows with their squared distances (m, k) to the centres."""
        for first in range(0, len(Z), DISTANCE_BLOCK_ROWS):
            part = slice(first, first + DISTANCE_BLOCK_ROWS)
            yield part, cdist(Z[part], self.centres, "sqeuclidean")


def memberships_of(squared: np.ndarray, m: float) -> np.ndarray:
    """Return the memberships (n, k) of fuzzy c-means for squared distances (n, k) to centres.

    A membership is proportional to (least squared distance / squared distance)^(1 / (m - 1)). The
    quotient is at most 1, so that the power does not overflow for m near 1.
    """
    least = squared.min(axis=1, keepdims=True)
    nearness = np.divide(least, squared, out=np.ones_like(squared), where=squared > 0.0)
    nearness **= 1.0 / (m - 1.0)
    return nearness / nearness.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Splits(Rule):
    """Rule of the trees of `DePDDP` and `SPDC`, in which each leaf is a cluster."""

    form: ClassVar[str] = "splits"
    shared: ClassVar[str] = BY_HYPERPLANES
    float64: ClassVar[bool] = True
    meanings: ClassVar[Mapping[str, str]] = {
        "label": "int32, >= 0: the cluster; on a first run, 0 is the largest cluster of a sample",
        "score": "float32, >= 0: distance to the nearest hyperplane on the row's path through the "
        "tree, in the unit of the scaled columns; infinity where there is one cluster",
        "outlier": "bool: always false, since every row lies in a leaf of the tree",
    }
    words: ClassVar[ScoreWords] = ScoreWords(
        has_outliers=False,
        meaning="Every row lies in a leaf of the tree of hyperplanes, so no row is an "
        "outlier. The score is the row's distance to the nearest hyperplane on its path, in the "
        "unit of the scaled columns.",
        heading="Distance to the nearest hyperplane",
        axis="distance to the nearest hyperplane on the row's path",
        boundary=None,
    )

    directions: Annotated[np.ndarray, ArrayField("float32", "m d")]
    thresholds: Annotated[np.ndarray, ArrayField("float64", "m")]
    children: Annotated[np.ndarray, ChildrenField("int64", "m 2")]
    clusters: Annotated[np.ndarray, ClustersField("int32", "m", least=NO_CHILD)]
    mean: Annotated[np.ndarray, ArrayField("float64", "d")]  # origin of the rows
    spreads: Annotated[np.ndarray, ArrayField("float64", "m", above=0.0)]  # of the projections

    @property
    def n_clusters(self) -> int:
        return int(self.clusters.max()) + 1

    def check(self) -> None:
        """Raise DataError unless every leaf has a cluster of its own and inner nodes have none."""
        leaves = self.children[:, 0] == NO_CHILD
        if not np.array_equal(self.clusters >= 0, leaves) or self.n_clusters != leaves.sum():
            raise DataError("array clusters: expected a cluster of its own for each leaf")

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        labels, margins = np.empty(len(Z), np.int32), np.full(len(Z), np.inf, np.float32)
        nodes = self.directions, self.thresholds, self.children
        for node, rows, positions in walk(nodes, subtract_centre(Z, self.mean)):
            if positions is None:
                labels[rows] = self.clusters[node]
            else:
                away = np.abs(positions - float(self.thresholds[node]))  # float32
                margins[rows] = np.minimum(margins[rows], away)
        return {"label": labels, "score": margins, "outlier": np.zeros(len(Z), bool)}

    def shares(self, Z: np.ndarray) -> np.ndarray:
        shares = np.zeros((len(Z), self.n_clusters), np.float32)
        nodes = self.directions, self.thresholds, SPLIT_SOFTNESS * self.spreads
        ends = self.children.astype(np.int32), self.clusters
        path_shares(subtract_centre(Z, self.mean), *nodes, *ends, shares)
        return shares

    def groups(self, k: int) -> np.ndarray:
        """Merge m clusters into k groups; return each cluster's group (m,) int64, 0 to k - 1.

        The groups are the leaves of the tree after its first k - 1 splits. Nodes are numbered in
        the order of splits.
        """
        children, clusters = self.children, self.clusters
        splits = np.flatnonzero(children[:, 0] != NO_CHILD)
        splits = splits[np.argsort(children[splits, 0])]  # parents come first
        groups = np.arange(len(children))
        for node in splits[k - 1 :].tolist():
            groups[children[node]] = groups[node]
        leaves = np.flatnonzero(clusters >= 0)
        order = leaves[np.argsort(clusters[leaves])]
        return np.unique(groups[order], return_inverse=True)[1].ravel()


def walk(nodes: Nodes, Z: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
    """Send rows Z (n, d) float32 down a tree, and yield every node with the rows that reach it.

    A node is yielded as its number, the row numbers, and the rows' projections on its direction. A
    leaf has no direction, so its projections are None.
    """
    directions, thresholds, children = nodes
    waiting = [(0, np.arange(len(Z)))]
    while waiting:
        node, rows = waiting.pop()
        left, right = children[node].tolist()
        if left == NO_CHILD:
            yield node, rows, None
            continue
        positions = positions_along(take_rows(Z, rows), directions[node])
        yield node, rows, positions
        below = positions <= float(thresholds[node])  # compared in float32
        waiting += [(left, rows[below]), (right, rows[~below])]


def leaves_by_size(children: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the cluster (m,) int32 of each leaf, and -1 for inner nodes.

    The leaf with the most rows, by `counts` (m,), is cluster 0. Of leaves with equally many rows,
    the leaf with the lowest number comes first.
    """
    leaves = np.flatnonzero(children[:, 0] == NO_CHILD)
    numbers = np.full(len(children), NO_CHILD, np.int32)
    numbers[leaves] = ranks_by_size(counts[leaves])
    return numbers


def take_rows(Z: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return Z[rows] for ascending row numbers; Z itself if these are all rows."""
    return Z if len(rows) == len(Z) else Z[rows]


def spread(positions: np.ndarray) -> float:
    """Return the standard deviation of positions (m,), or 1 if they are all equal."""
    if not len(positions) or np.ptp(positions) == 0.0:
        return 1.0
    return float(positions.std(dtype=np.float64))


def positions_along(Z: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Return the projections (n,) float32 of rows Z (n, d) float32 on a direction (d,) float32."""
    return project(Z, direction[np.newaxis])[:, 0]


def by_size(groups: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the groups (m,) int32 of m clusters, renumbered so that group 0 is the largest.

    A group's size is the sum of its clusters' `sizes` (m,). Ties go to the group with the first
    cluster.
    """
    rows = np.bincount(groups, weights=sizes)
    first = np.unique(groups, return_index=True)[1]
    numbers = np.empty(len(rows), np.int32)
    numbers[np.lexsort((first, -rows))] = np.arange(len(rows))
    return numbers[groups]
