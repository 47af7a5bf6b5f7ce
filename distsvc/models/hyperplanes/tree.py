"""Trees of hyperplanes: the complete tree that learns, and the tree with rows that is cut.

The nodes of the first are numbered by level from 0, with children 2 j + 1 and 2 j + 2 (the paper
counts from 1, so that they are 2 i and 2 i + 1). The second keeps only nodes with rows to
split or to label, in the same order, with the paper's numbers.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import numpy as np

from distsvc.kernels.hyperplane import add_rows, bandwidth_decays, ends_of, learn, route
from distsvc.models.rules.fields import ArrayField, ChildrenField

SMALLEST_LONGEST_CURVE = 10
CURVES = 30
GUARD = 1e-10
HALF_A_ROW = 0.5
"""A node with fewer rows left after forgetting counts as empty."""

MOST_DECAYS = 2**20
"""Rows of a node whose bandwidth is looked up, at most: 8 MiB, and as much for all powers below."""

FEWEST_ROWS = 10
WINDOWS_A_SIDE = 160
REACH = 4.0


@dataclass
class GrowingTree:
    """A complete tree of hyperplanes that learns from a stream of rows.

    The first five arrays are the state of `distsvc.kernels.hyperplane.learn`; node k starts along
    feature k mod d. The others are number, sum and sum of ||x||^2 of the rows that `count` sent to
    every bottom node.
    """

    means: Annotated[np.ndarray, ArrayField("float32", "nodes d")]
    V: Annotated[np.ndarray, ArrayField("float32", "nodes d")]
    b: Annotated[np.ndarray, ArrayField("float64", "nodes")]
    variances: Annotated[np.ndarray, ArrayField("float64", "nodes", least=0.0)]
    visits: Annotated[np.ndarray, ArrayField("int64", "nodes", least=0)]
    counts: Annotated[np.ndarray, ArrayField("float64", "nodes", least=0.0)]
    sums: Annotated[np.ndarray, ArrayField("float64", "nodes d")]
    squares: Annotated[np.ndarray, ArrayField("float64", "nodes", least=0.0)]

    @classmethod
    def start(cls, depth: int, d: int) -> GrowingTree:
        """Return a tree of 2^depth - 1 nodes that has seen nothing."""
        n = 2**depth - 1
        V = np.zeros((n, d), np.float32)
        V[np.arange(n), np.arange(n) % d] = 1.0
        numbers = (np.zeros(n) for _ in range(4))
        b, variances, counts, squares = numbers
        means, visits, sums = np.zeros((n, d), np.float32), np.zeros(n, np.int64), np.zeros((n, d))
        return cls(means, V, b, variances, visits, counts, sums, squares)

    def learn(
        self,
        X: np.ndarray,
        alpha: float,
        penalty: float,
        bandwidth: float,
        most_visits: int,
        clip: float,
    ) -> None:
        """Learn from the rows of X (n, d) float32, in their order."""
        state = self.means, self.V, self.b, self.variances, self.visits
        decays = _decays(int(self.visits[0]) + len(X))
        learn(X, *state, alpha, penalty, bandwidth, most_visits, clip, decays)

    def ends(self, X: np.ndarray) -> np.ndarray:
        """Return the bottom nodes (n,) int32 of the rows of X (n, d) float32."""
        V, thresholds, _ = self.hyperplanes()
        return ends_of(X, V, thresholds, self.children())

    def count(self, X: np.ndarray) -> None:
        """Send the rows of X (n, d) float32 down the tree as it is now, and add them up."""
        add_rows(X, self.ends(X), self.counts, self.sums, self.squares)

    def forget(self, share: float) -> None:
        """Keep a share of the sums so far."""
        for total in (self.counts, self.sums, self.squares):
            total *= share

    def hyperplanes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return V, the thresholds of V.x and the standard deviations of V.x, never 0."""
        offsets = np.einsum("kd,kd->k", self.V, self.means, dtype=np.float64)
        spreads = np.sqrt(self.variances)
        return self.V, self.b + offsets, np.where(spreads > 0.0, spreads, 1.0)

    def children(self) -> np.ndarray:
        """Return the children (nodes, 2) int32 of every node; -1 in the bottom level."""
        children = np.full((len(self.b), 2), -1, np.int32)
        inner = np.arange(len(self.b) // 2)
        children[inner] = np.column_stack([2 * inner + 1, 2 * inner + 2])
        return children

    def with_rows(self, growth: str) -> ClusterTree:
        """Return the nodes that split the counted rows, and the order in which to split them.

        A node with all its rows on one side is passed over. A sum of squares is taken about the
        mean that its node learned, as the author's code does, not about that of the rows counted.
        """
        counts, sums, squares = self.counts.copy(), self.sums.copy(), self.squares.copy()
        for j in range(len(counts) - 1, 0, -1):
            for total in (counts, sums, squares):
                total[(j - 1) // 2] += total[j]
        counts[counts < HALF_A_ROW] = 0.0
        means = self.means.astype(np.float64)
        squares += counts * (means**2).sum(axis=1) - 2.0 * (sums * means).sum(axis=1)
        stands_for = np.arange(len(counts))
        children = self.children()
        for j in range(len(counts) // 2 - 1, -1, -1):
            filled = [k for k in children[j] if counts[k] > 0.0]
            if len(filled) == 1:
                stands_for[j] = stands_for[filled[0]]
            children[j] = stands_for[children[j]]
        kept = _reached(stands_for[0], children, counts)
        place = np.full(len(counts) + 1, -1, np.int32)
        place[kept] = np.arange(len(kept))
        V, thresholds, spreads = self.hyperplanes()
        nodes = {"numbers": kept + 1, "V": V[kept], "thresholds": thresholds[kept]}
        nodes |= {"spreads": spreads[kept], "b": self.b[kept], "counts": counts[kept]}
        inner = place[children[kept]]
        inner[(inner < 0).any(axis=1)] = -1
        splits, curve = split_order(inner, squares[kept], growth)
        return ClusterTree(
            **nodes, sums_of_squares=squares[kept], children=inner, splits=splits, curve=curve
        )


def _decays(n_rows: int) -> np.ndarray:
    """Return the decays (m,) of the bandwidth of a node that sees at most `n_rows`."""
    return _decays_of(min(2 ** int(n_rows).bit_length(), MOST_DECAYS))


@cache
def _decays_of(size: int) -> np.ndarray:
    decays = np.empty(size)
    bandwidth_decays(decays)
    return decays


def _reached(root: int, children: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the nodes below and with `root`, ascending, that have rows."""
    found, waiting = [int(root)], [int(root)]
    while waiting:
        below, above = children[waiting.pop()]
        if below >= 0 and counts[below] > 0.0 and counts[above] > 0.0:
            found += [int(below), int(above)]
            waiting += [int(below), int(above)]
    return np.sort(found)


def split_order(
    children: np.ndarray, sums_of_squares: np.ndarray, growth: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the splits (L - 1,) int32 by importance, and the curve (L,) of the sums of squares.

    The first K - 1 splits make the model of K clusters, H_K, whose sum of squares is curve[K - 1].
    With "prune" (section 3) the split whose removal adds least to the sum of squares goes last, and
    so on upwards; with "forward" the leaf whose split takes most from it is split next, downwards.
    Equals are taken in the order of nodes. A sum of squares may grow with K, since a node's is
    about a learned mean.
    """
    inner = np.flatnonzero(children[:, 0] >= 0)
    costs = {int(j): float(sums_of_squares[j] - sums_of_squares[children[j]].sum()) for j in inner}
    parents = {int(k): int(j) for j in inner for k in children[j]}
    order: list[int] = []
    if growth == "forward":
        waiting = [(-costs[j], j) for j in costs if j not in parents]
        while waiting:
            _, j = heapq.heappop(waiting)
            order.append(j)
            for k in map(int, children[j]):
                if k in costs:
                    heapq.heappush(waiting, (-costs[k], k))
    else:
        unmerged = {j: sum(int(k) in costs for k in children[j]) for j in costs}
        waiting = [(costs[j], j) for j, n in unmerged.items() if n == 0]
        heapq.heapify(waiting)
        while waiting:
            _, j = heapq.heappop(waiting)
            order.append(j)
            if j in parents:
                unmerged[parents[j]] -= 1
                if unmerged[parents[j]] == 0:
                    heapq.heappush(waiting, (costs[parents[j]], parents[j]))
        order.reverse()
    falls = np.cumsum([0.0] + [costs[j] for j in order])
    return np.array(order, np.int32), float(sums_of_squares[0]) - falls


@dataclass(frozen=True)
class ClusterTree:
    """A learned tree, ready to be cut into any number of clusters up to that of its leaves.

    `numbers` are the nodes' in the complete tree, the paper's: 1 is the root, below i are 2 i and
    2 i + 1. Nodes that do not split any rows are left out, so `children`, which are positions in
    these arrays and -1 for leaves, may skip levels. V are unit normals; a row x goes to the first
    child when V.x < threshold; `spreads` are standard deviations of V.x, `b` the thresholds
    relative to the nodes' means. Sums of squares of the `counts` rows are about the nodes' learned
    means. `splits` are the inner nodes by importance: read backwards, the sequence of merges.
    curve[K - 1] is the within-cluster sum of squares of K clusters.
    """

    numbers: Annotated[np.ndarray, ArrayField("int64", "m", least=1)]
    V: Annotated[np.ndarray, ArrayField("float32", "m d")]
    thresholds: Annotated[np.ndarray, ArrayField("float64", "m")]
    spreads: Annotated[np.ndarray, ArrayField("float64", "m", above=0.0)]
    b: Annotated[np.ndarray, ArrayField("float64", "m")]
    counts: Annotated[np.ndarray, ArrayField("float64", "m", least=0.0)]
    sums_of_squares: Annotated[np.ndarray, ArrayField("float64", "m")]
    children: Annotated[np.ndarray, ChildrenField("int32", "m 2")]
    splits: Annotated[np.ndarray, ArrayField("int32", "s", may_be_empty=True)]
    curve: Annotated[np.ndarray, ArrayField("float64", "L")]

    @property
    def n_leaves(self) -> int:
        """The most clusters that the tree can be cut into."""
        return len(self.curve)

    def cut(self, n_clusters: int) -> Cut:
        """Return the model of `n_clusters` clusters, or of all leaves where those are fewer."""
        inner = self.splits[: max(n_clusters - 1, 0)]
        children = np.full_like(self.children, -1)
        children[inner] = self.children[inner]
        leaves = np.setdiff1d(np.concatenate([[0], children[inner].ravel()]), inner)
        labels = np.full(len(children), -1, np.int32)
        labels[leaves[np.argsort(-self.counts[leaves], kind="stable")]] = np.arange(len(leaves))
        return Cut(self, children, labels)


@dataclass(frozen=True)
class Cut:
    """A tree cut into clusters.

    `children` (m, 2) int32 are the tree's, but -1 for clusters and everything below; `labels` (m,)
    int32 are the nodes' clusters, 0 the largest, -1 for nodes that are none.
    """

    tree: ClusterTree
    children: np.ndarray
    labels: np.ndarray

    @property
    def n_clusters(self) -> int:
        """Clusters, all of which have rows."""
        return int(self.labels.max()) + 1

    def label(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return labels (n,) int32 and margins (n,) float32 of the rows of X (n, d) float32.

        A margin is the distance to the nearest hyperplane on the row's path, in that node's
        standard deviations along its normal; infinity where there is one cluster.
        """
        tree = self.tree
        ends, margins = route(X, tree.V, tree.thresholds, tree.spreads, self.children)
        return self.labels[ends], margins

    def labels_of(self, X: np.ndarray) -> np.ndarray:
        """Return the labels (n,) int32 of the rows of X (n, d) float32, those of `label`, alone."""
        return self.labels[ends_of(X, self.tree.V, self.tree.thresholds, self.children)]

    def projections(self, X: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield every split's node, its rows' places in X (n, d) float32 and their positions.

        Positions are V.x - threshold, float64, below 0 for the first child. Splits come by
        importance, so parents before children.
        """
        places = {0: np.arange(len(X))}
        for node in map(int, self.tree.splits[: self.n_clusters - 1]):
            rows = places.pop(node)
            positions = np.einsum("nd,d->n", X[rows], self.tree.V[node], dtype=np.float64)
            positions -= self.tree.thresholds[node]
            below = positions < 0.0
            for child, side in zip(self.children[node], (below, ~below), strict=True):
                places[int(child)] = rows[side]
            yield node, rows, positions


def valley(positions: np.ndarray) -> tuple[float, float]:
    """Return how clearly a split at 0 lies in a valley of the density: z, and the relative height.

    `positions` (n,) are those of a node's rows relative to its hyperplane. Rows are counted in
    windows of half-width h = 1.06 s n^-1/5, with s their standard deviation: n_0 about the split,
    n_1 the lesser of the highest numbers of the two sides up to 4 s away. z = (n_1 - n_0) /
    sqrt(n_1 + n_0 + 1), a standard normal's order of magnitude for equal densities; the height is
    n_0 / n_1.
    """
    n = len(positions)
    if n < FEWEST_ROWS or np.ptp(positions) == 0.0:
        return 0.0, 1.0
    spread = float(positions.std())
    half = 1.06 * spread * n**-0.2
    ordered = np.sort(positions)

    def rows_about(centres: np.ndarray) -> np.ndarray:
        return np.searchsorted(ordered, centres + half) - np.searchsorted(ordered, centres - half)

    away = np.linspace(0.0, REACH * spread, WINDOWS_A_SIDE + 1)
    at = int(rows_about(np.zeros(1))[0])
    peak = int(min(rows_about(-away).max(), rows_about(away).max()))
    return (peak - at) / float(np.sqrt(peak + at + 1.0)), at / peak if peak else 1.0


def elbow(curve: np.ndarray, rule: str) -> int:
    """Return the number of clusters at the elbow of a curve of sums of squares.

    Section 3, eq. (22): K is chosen on the first K_max points of the curve for 30 values of K_max
    from 10 to all; the most frequent K is the answer, the lowest of several. "angle" is eq. (22),
    for which K = 1 and K = K_max are never the answer. "weighted" is what the author's code uses
    since 2022: the angle between the two segments times the squares of the triangle's sides.
    """
    n = len(curve)
    if n <= SMALLEST_LONGEST_CURVE:
        return _elbow(curve, rule)
    lengths = np.ceil(np.linspace(SMALLEST_LONGEST_CURVE, n, CURVES)).astype(int)
    return int(np.argmax(np.bincount([_elbow(curve[:length], rule) for length in lengths])))


def _elbow(curve: np.ndarray, rule: str) -> int:
    """Return the elbow K of one curve."""
    height = curve.max() - curve.min()
    if len(curve) < 3 or height <= 0.0:
        return int(np.argmin(curve)) + 1
    x = np.linspace(0.0, 1.0, len(curve))
    y = (curve - curve.min()) / height
    angle = np.arctan(x / (1.0 - y + GUARD)) + np.arctan(y / (1.0 - x + GUARD))
    if rule == "angle":
        return int(np.argmin(angle[1:-1])) + 2
    sides = 2.0 + x**2 + y**2 + (1.0 - x) ** 2 + (1.0 - y) ** 2
    return int(np.argmin((angle + np.pi / 2.0) * sides)) + 1
