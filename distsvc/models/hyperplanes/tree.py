"""Trees of hyperplanes: a `GrowingTree` learns from rows, and a `TreeRule` labels rows.

A `GrowingTree` is complete, while a `TreeRule` has only the nodes that rows reach. The root of a
`GrowingTree` is node 0, and node j has the children 2 j + 1 and 2 j + 2. In the paper, the root is
node 1, and node i has the children 2 i and 2 i + 1.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from distsvc.errors import DataError
from distsvc.kernels.hyperplanes import add_rows, bandwidth_decays, learn, path_shares, route
from distsvc.models.rows.numbering import ranks_by_size
from distsvc.models.rules.fields import ArrayField, ChildrenField, Facts, whole
from distsvc.models.rules.membership import BY_HYPERPLANES, SPLIT_SOFTNESS
from distsvc.models.rules.rule import Rule, ScoreWords

MIN_CURVE = 10
"""Smallest K_max in section 3 of Hofmeyr (2021): an elbow is searched on the first K_max points."""


@dataclass
class GrowingTree:
    """A complete tree of hyperplanes that learns from a stream of rows.

    The kernel `distsvc.kernels.hyperplanes.learn` updates and explains the arrays from `means` to
    `visits`. At first, the hyperplane of node k is normal to feature k mod d. `counts`, `sums` and
    `squares` are sums of 1, x and ||x||^2 over the rows that were counted in a bottom node.
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
    def start(cls, depth: int, d: int) -> Self:
        """Return a tree of 2^depth - 1 nodes that has not learned yet."""
        n = 2**depth - 1
        V = np.zeros((n, d), np.float32)
        V[np.arange(n), np.arange(n) % d] = 1.0
        b, variances, counts, squares = np.zeros((4, n))
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
        n_rows = int(self.visits[0]) + len(X)
        # At most 8 MiB; the cached smaller powers of 2 add up to as much.
        decays = _decays(min(2 ** n_rows.bit_length(), 2**20))
        learn(X, *state, alpha, penalty, bandwidth, most_visits, clip, decays)

    def count(self, X: np.ndarray) -> None:
        """Add the rows of X (n, d) float32 to the sums of their bottom nodes."""
        ends, _ = route(X, *self.hyperplanes(), self.children())
        add_rows(X, ends, self.counts, self.sums, self.squares)

    def forget(self, share: float) -> None:
        for total in (self.counts, self.sums, self.squares):
            total *= share

    def hyperplanes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return normals V, thresholds of V.x, and standard deviations of V.x (1 in place of 0)."""
        offsets = np.einsum("kd,kd->k", self.V, self.means, dtype=np.float64)
        spreads = np.sqrt(self.variances)
        return self.V, self.b + offsets, np.where(spreads > 0.0, spreads, 1.0)

    def children(self) -> np.ndarray:
        """Return the children (nodes, 2) int32 of all nodes; -1 in the bottom level."""
        children = np.full((len(self.b), 2), -1, np.int32)
        inner = np.arange(len(self.b) // 2)
        children[inner] = np.column_stack([2 * inner + 1, 2 * inner + 2])
        return children

    def with_rows(self, growth: str) -> "TreeRule":
        """Return the tree as a rule, without the nodes in which `count` has counted no rows.

        `growth` is as in `split_order`. A node with all its rows on one side is replaced by its
        child on that side. As in the author's code, sums of squares are about the means that the
        nodes learned, not the means of the counted rows.
        """
        counts, sums, squares = self.counts.copy(), self.sums.copy(), self.squares.copy()
        for j in range(len(counts) - 1, 0, -1):
            for total in (counts, sums, squares):
                total[(j - 1) // 2] += total[j]
        counts[counts < 0.5] = 0.0  # forgetting leaves fractions of rows
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
        nodes |= {"sums_of_squares": squares[kept], "children": inner}
        return TreeRule(**nodes, splits=splits, curve=curve, cut_into=len(curve))


@cache
def _decays(size: int) -> np.ndarray:
    decays = np.empty(size)
    bandwidth_decays(decays)
    return decays


def _reached(root: int, children: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return `root` and the nodes below it that have rows, ascending."""
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
    """Return the splits (L - 1,) int32 by importance, and the curve (L,) of sums of squares.

    The first K - 1 splits are the model of K clusters, H_K. Its sum of squares is curve[K - 1].
    With `growth` "prune" (section 3), splits are removed from the bottom up, each time the split
    whose removal adds least to the sum of squares. With "forward", splits are added from the root
    down, each time the split that reduces the sum most. Ties are broken by node number. The sum may
    grow with K, because sums of squares are about learned means, not the rows' means.
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
class TreeRule(Rule):
    """Rule that labels a row by its path in a tree cut into `cut_into` clusters.

    A row x goes to a node's first child if V.x < threshold. The score is the distance to the
    nearest hyperplane on the row's path, in standard deviations of that node's rows along its
    normal. Rows are float32, relative to the centre of the fit. Nodes are sorted by level.
    """

    form: ClassVar[str] = "imdh"
    shared: ClassVar[str] = BY_HYPERPLANES
    meanings: ClassVar[Mapping[str, str]] = {
        "label": "int32, >= 0: the cluster; on a first run, 0 is the largest cluster of a sample",
        "score": "float32, >= 0: distance to the nearest hyperplane on the row's path through the "
        "tree, in standard deviations of the rows that the hyperplane splits, along its normal; "
        "infinity if there is only one cluster",
        "outlier": "bool: always false, since every row lies in a leaf of the tree",
    }
    words: ClassVar[ScoreWords] = ScoreWords(
        has_outliers=False,
        meaning="Every row lies in a leaf of the tree of hyperplanes, so no row is an "
        "outlier. The score is the row's distance to the nearest hyperplane on its path, in "
        "standard deviations of the rows that the hyperplane splits, along its normal.",
        heading="Distance to the nearest hyperplane",
        axis="distance to the nearest hyperplane on the row's path, in standard deviations",
        boundary=None,
    )

    numbers: Annotated[np.ndarray, ArrayField("int64", "m", least=1)]  # the paper's, 1 is the root
    V: Annotated[np.ndarray, ArrayField("float32", "m d")]  # unit normals
    thresholds: Annotated[np.ndarray, ArrayField("float64", "m")]
    spreads: Annotated[np.ndarray, ArrayField("float64", "m", above=0.0)]  # deviation of V.x
    b: Annotated[np.ndarray, ArrayField("float64", "m")]  # thresholds relative to the nodes' means
    counts: Annotated[np.ndarray, ArrayField("float64", "m", least=0.0)]  # numbers of rows
    sums_of_squares: Annotated[np.ndarray, ArrayField("float64", "m")]  # about learned means
    children: Annotated[np.ndarray, ChildrenField("int32", "m 2")]  # indices, -1 in leaves
    splits: Annotated[np.ndarray, ArrayField("int32", "s", may_be_empty=True)]  # see `split_order`
    curve: Annotated[np.ndarray, ArrayField("float64", "L")]  # see `split_order`
    cut_into: Annotated[int, whole(1, 2**31)]

    @property
    def n_clusters(self) -> int:
        return self.cut_into

    @property
    def n_leaves(self) -> int:
        return len(self.curve)

    def cut(self, n_clusters: int) -> Self:
        """Return the rule of `n_clusters` clusters, or of fewer if the tree has fewer leaves."""
        return replace(self, cut_into=min(max(n_clusters, 1), self.n_leaves))

    @cached_property
    def cut_children(self) -> np.ndarray:
        """`children` (m, 2) int32 of the cut tree: -1 for its leaves and the nodes below them."""
        children, inner = np.full_like(self.children, -1), self.splits[: self.cut_into - 1]
        children[inner] = self.children[inner]
        return children

    @cached_property
    def clusters(self) -> np.ndarray:
        """Cluster (m,) int32 of each leaf of the cut tree, 0 the largest; -1 for other nodes."""
        inner = self.splits[: self.cut_into - 1]
        leaves = np.setdiff1d(np.append(self.cut_children[inner], 0), inner)
        clusters = np.full(len(self.children), -1, np.int32)
        clusters[leaves] = ranks_by_size(self.counts[leaves])
        return clusters

    def label(self, Z: np.ndarray) -> dict[str, np.ndarray]:
        ends, margins = route(Z, self.V, self.thresholds, self.spreads, self.cut_children)
        return {"label": self.clusters[ends], "score": margins, "outlier": np.zeros(len(Z), bool)}

    def shares(self, Z: np.ndarray) -> np.ndarray:
        shares = np.zeros((len(Z), self.cut_into), np.float32)
        nodes = self.V, self.thresholds, SPLIT_SOFTNESS * self.spreads
        path_shares(Z, *nodes, self.cut_children, self.clusters, shares)
        return shares

    def projections(self, X: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield (node, rows, positions) for each split of the cut tree, in the order of `splits`.

        `rows` are the indices of the node's rows in X (n, d) float32. Their positions are
        V.x - threshold, float64, below 0 for the first child. Parents precede children.
        """
        places = {0: np.arange(len(X))}
        for node in map(int, self.splits[: self.cut_into - 1]):
            rows = places.pop(node)
            positions = np.einsum("nd,d->n", X[rows], self.V[node], dtype=np.float64)
            positions -= self.thresholds[node]
            below = positions < 0.0
            for child, side in zip(self.children[node], (below, ~below), strict=True):
                places[int(child)] = rows[side]
            yield node, rows, positions

    def facts(self) -> Facts:
        return {"n_clusters": self.cut_into}

    @classmethod
    def restored(
        cls, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray], d: int | None = None
    ) -> Self:
        return super().restored({**facts, "cut_into": facts.get("n_clusters")}, arrays, d)

    def check(self) -> None:
        """Raise DataError if `splits`, `curve` or `cut_into` do not fit the nodes."""
        inner = np.flatnonzero(self.children[:, 0] >= 0)
        if not np.array_equal(np.sort(self.splits), inner):
            raise DataError(
                "array splits: expected every node with children once, found missing, repeated or "
                "other nodes"
            )
        place = np.full(len(self.children), len(inner))
        place[self.splits] = np.arange(len(inner))
        if (place[self.children[inner]] < place[inner, None]).any():
            raise DataError("array splits: expected parents before children, found a child first")
        if len(self.curve) != len(inner) + 1:
            raise DataError(
                f"array curve: expected {len(inner) + 1} values, found {len(self.curve)}"
            )
        if self.cut_into > len(self.curve):
            raise DataError(
                f"fact n_clusters: expected {len(self.curve)} at most, found {self.cut_into}"
            )


def valley(positions: np.ndarray) -> tuple[float, float]:
    """Return the significance z of a valley of the density at 0, and its relative height.

    `positions` (n,) are the signed distances of a node's rows from its hyperplane, with standard
    deviation s. Rows are counted in windows of half-width 1.06 s n^-1/5. n_0 is the count at 0.
    Each side has a highest count, at most 4 s away; n_1 is the lower of these two. The height is
    n_0 / n_1. z = (n_1 - n_0) / sqrt(n_1 + n_0 + 1) is about standard normal for equal densities.
    """
    n = len(positions)
    if n < 10 or np.ptp(positions) == 0.0:
        return 0.0, 1.0
    spread = float(positions.std())
    half = 1.06 * spread * n**-0.2
    ordered = np.sort(positions)

    def rows_about(centres: np.ndarray) -> np.ndarray:
        return np.searchsorted(ordered, centres + half) - np.searchsorted(ordered, centres - half)

    away = np.linspace(0.0, 4.0 * spread, 161)
    at = int(rows_about(np.zeros(1))[0])
    peak = int(min(rows_about(-away).max(), rows_about(away).max()))
    return (peak - at) / float(np.sqrt(peak + at + 1.0)), at / peak if peak else 1.0


def elbow(curve: np.ndarray, rule: str) -> int:
    """Return the number of clusters at the elbow of a curve of sums of squares.

    As in section 3 of Hofmeyr (2021), K is chosen on the first K_max points of the curve, for 30
    values of K_max from 10 to all. The most frequent K is returned, the smallest if several are
    equally frequent. The `rule` "angle" is eq. (22), which never yields K = 1 or K = K_max. The
    rule "weighted" is from the author's code since 2022. It multiplies the angle by the sum of the
    squared sides of a triangle, whose corners are the elbow and the two ends of the curve.
    """
    n = len(curve)
    if n <= MIN_CURVE:
        return _elbow(curve, rule)
    lengths = np.ceil(np.linspace(MIN_CURVE, n, 30)).astype(int)
    return int(np.argmax(np.bincount([_elbow(curve[:length], rule) for length in lengths])))


def _elbow(curve: np.ndarray, rule: str) -> int:
    height = curve.max() - curve.min()
    if len(curve) < 3 or height <= 0.0:
        return int(np.argmin(curve)) + 1
    x = np.linspace(0.0, 1.0, len(curve))
    y = (curve - curve.min()) / height
    guard = 1e-10  # against division by 0
    angle = np.arctan(x / (1.0 - y + guard)) + np.arctan(y / (1.0 - x + guard))
    if rule == "angle":
        return int(np.argmin(angle[1:-1])) + 2
    sides = 2.0 + x**2 + y**2 + (1.0 - x) ** 2 + (1.0 - y) ** 2
    return int(np.argmin((angle + np.pi / 2.0) * sides)) + 1
