"""Tree of the level sets of g: clusters at every level, and the significance of each split.

g(x) = sum_j a_j K(s_j, x) is the weighted kernel sum over the support vectors of one decision
function f = g - 1; `f.sums` computes g. The components of {x : g(x) >= level}, over all levels,
form a tree. Classical support vector clustering is its cut at level 1.

The vertices are the support vectors. Edges join each vertex to near vertices. The height of an edge
is the lowest value of g found on it. A cut into another number of clusters needs no new training.

| here | meaning |
|---|---|
| branch | a component, from the level where it has `least_mass` rows to the level where it merges |
| joint, saddle | the edge at which a branch merges, and the lowest point of that edge |
| peak | the highest support vector of a branch |
| z | density at the peak minus density at the saddle, in standard errors |
| depth | minus the logarithm of the density at the saddle, relative to the peak |
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from scipy.spatial import cKDTree

from distsvc.kernels import level_tree as kernels
from distsvc.models.support_vector.boundary.labelling import DecisionFunction, Nearest
from distsvc.models.support_vector.boundary.rule import grouped

TREE_NEIGHBOURS = 10
"""Number of nearest neighbours to which each support vector is joined."""

EDGE_PLACES = 0.25, 0.5, 0.625
"""Positions on an edge, from 0 to 1, at which g is evaluated.

The last is not 0.75, because rows can lie on a lattice. All quarters of an edge of four lattice
steps are lattice points, at which g is high."""

EMPTY = 0.05
"""Number added to the ratio of densities, saddle / peak; it limits the depth of empty saddles."""


class Voter:
    """Labels rows by the cluster with the largest kernel sum.

    Support vectors S (q, B) float32 have the weights a (B,) float32 and the clusters `part` (B,).
    With `nearest`, rows get the cluster of their nearest support vector instead.
    """

    def __init__(
        self, S: np.ndarray, a: np.ndarray, gamma: float, part: np.ndarray, nearest: bool = False
    ):
        order, ends = grouped(part)
        # Support vectors and weights sorted by cluster, and the end of each cluster.
        self.groups = np.ascontiguousarray(S[:, order]), np.ascontiguousarray(a[order]), ends
        self._gamma = float(gamma)
        self._nearest = Nearest(np.ascontiguousarray(S.T)) if nearest else None
        self._part = part.astype(np.int32)

    def labels(self, X: np.ndarray) -> np.ndarray:
        """Return the clusters (n,) int32 of the rows X (n, q) float32."""
        if self._nearest is not None:
            return self._part[self._nearest(X)]
        return kernels.vote(X, *self.groups, self._gamma)


@dataclass(frozen=True)
class LevelTree:
    """Tree of the level sets of one decision function.

    Arrays have an entry for each vertex (B,), edge (B - 1,) or branch (b,). The root's parent is
    -1. `z` and `depths` are infinite for the root, and empty until `tested` computes them. A depth
    is -log(saddle / peak + `EMPTY`), from kernel density estimates at both points.
    """

    S: np.ndarray  # (q, B) float32: support vectors (the vertices), feature by feature
    a: np.ndarray  # (B,) float32: weights of the support vectors
    gamma: float
    heights: np.ndarray  # (B,) float32: g at the vertices
    edges: np.ndarray  # (B - 1, 2) int64: spanning tree of the vertices, highest edge first
    edge_heights: np.ndarray  # (B - 1,) float32: lowest value of g found on each edge
    births: np.ndarray  # (b,) float32: highest level of g at which a branch is separate
    deaths: np.ndarray  # (b,) float32: lowest level of g at which it is separate; 0 for the root
    masses: np.ndarray  # (b,) float64: share of the rows in a branch when it dies
    peaks: np.ndarray  # (b,) int64: highest vertex of each branch
    parents: np.ndarray  # (b,) int64: branch that each branch merges into
    joints: np.ndarray  # (b,) int64: edge at which each branch merges, -1 for the root
    saddles: np.ndarray  # (q, b) float32: lowest point of each joint; for the root, its peak
    z: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (b,) float64
    depths: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (b,) float64

    @classmethod
    def grow(cls, f: DecisionFunction, rows: np.ndarray, least_mass: float) -> Self:
        """Build the tree of f, whose branches have at least `least_mass` rows.

        Each of the rows (n, q) float32 is in the branches that contain its nearest support vector.
        """
        V = np.ascontiguousarray(f.S.T)
        heights = f.sums(V)
        mass = np.bincount(Nearest(V)(rows), minlength=len(V)).astype(np.float64)
        pairs = neighbours(V)
        edge_heights, lowest = _lowest_points(f, V, heights, pairs)
        order = np.argsort(-edge_heights, kind="stable")
        falling = np.argsort(-heights, kind="stable")
        tree, births, peaks, masses, parents, joints = kernels.merge_components(
            heights, falling, mass, pairs[order], edge_heights[order], float(least_mass)
        )
        used = order[tree]
        root = joints < 0
        saddles = V[peaks].T.copy()
        saddles[:, ~root] = lowest[used[joints[~root]]].T
        deaths = np.zeros_like(births)
        deaths[~root] = edge_heights[used[joints[~root]]]
        masses = masses / max(len(rows), 1)
        return cls(
            f.S, f.a, f.gamma, heights, pairs[used], edge_heights[used],
            births, deaths, masses, peaks, parents, joints, saddles,
        )  # fmt: skip

    @property
    def n_branches(self) -> int:
        """Number of branches, with the root: the maximum number of clusters of a cut."""
        return len(self.births)

    def add_differences(self, X: np.ndarray, sums: np.ndarray, ties: bool = False) -> None:
        """Add rows X (n, >= q) float32 to the `sums` (4, b) int64 that `tested` takes.

        For each branch, D, D^2, 1 and K(peak, x) are summed over rows x, in fixed-point units, with
        D = K(peak, x) - K(saddle, x). Rows exactly at the peak or saddle are added only with
        `ties`.
        """
        peaks = np.ascontiguousarray(self.S[:, self.peaks])
        kernels.add_differences(self.seen(X), peaks, self.saddles, self.gamma, sums, ties)

    def seen(self, view: np.ndarray) -> np.ndarray:
        """Return the first q columns of rows `view` (n, >= q), on which the tree is built."""
        return np.ascontiguousarray(view[:, : len(self.S)])

    def first(self, order: np.ndarray, n_clusters: int) -> np.ndarray:
        """Return a mask (b,) bool of the first `n_clusters` branches of `order` (b,)."""
        kept = np.zeros(self.n_branches, bool)
        kept[order[:n_clusters]] = True
        return kept

    def most_significant(self, n_clusters: int) -> np.ndarray:
        """Return a mask (b,) bool of the `n_clusters` branches with the largest z."""
        return self.first(np.argsort(-self.z, kind="stable"), n_clusters)

    def components_at(self, level: float) -> np.ndarray:
        """Return a mask (b,) bool of the branches that are components of {x : g(x) >= level}.

        The root is always included, even if g is below the level everywhere.
        """
        alive = (self.births >= level) & (self.deaths < level)
        return alive | (self.parents < 0)

    def parts(self, kept: np.ndarray) -> np.ndarray:
        """Return the cluster (B,) int32 of each support vector in a cut.

        The clusters are the branches `kept` (b,) bool, which must include the root. They are
        numbered by their first support vectors.
        """
        joined = np.ones(len(self.edges), bool)
        joined[self.joints[kept & (self.parents >= 0)]] = False
        return kernels.forest_parts(len(self.heights), self.edges, joined)

    def voter(self, part: np.ndarray, nearest: bool = False) -> Voter:
        """Return a `Voter` that labels rows by the clusters `part` (B,) of the support vectors."""
        return Voter(self.S, self.a, self.gamma, part, nearest)

    def tested(self, sums: np.ndarray, n_rows: int) -> Self:
        """Return the tree with the z statistic and depth of each branch, from sums (4, b).

        z = mean(D) / se(D), with D and the sums as in `add_differences`. The standard error se is
        scaled to a sample of `n_rows` rows.
        """
        differences, squares, counts, at_peak = sums  # see `add_differences`
        n, root = np.maximum(counts, 1), self.parents < 0
        mean = differences / kernels.FIXED_POINT_UNITS / n
        variance = squares / kernels.FIXED_POINT_UNITS / n - mean * mean
        error = np.sqrt(np.where(variance > 0.0, variance, np.inf) / n_rows)
        peak = at_peak / kernels.FIXED_POINT_UNITS / n
        saddle = np.divide(peak - mean, peak, out=np.ones_like(peak), where=peak > 0.0)
        depths = -np.log(np.maximum(saddle, 0.0) + EMPTY)
        z = np.where(root, np.inf, mean / error)
        return replace(self, z=z, depths=np.where(root, np.inf, depths))


def neighbours(V: np.ndarray) -> np.ndarray:
    """Return the edges (m, 2) int64 of a connected nearest-neighbour graph of vertices V (n, q).

    Each vertex is joined to its `TREE_NEIGHBOURS` nearest vertices. While there are several
    components, the shortest edge joins the smallest component to the rest.
    """
    n = len(V)
    k = min(TREE_NEIGHBOURS + 1, n)
    near = cKDTree(V).query(V, k=k)[1].reshape(n, k)
    ends = np.column_stack([np.repeat(np.arange(n), k), near.ravel()])
    low, high = np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1).T  # undirected, without loops
    pairs = np.column_stack(np.divmod(np.unique(low * n + high), n))
    while True:
        part = kernels.forest_parts(n, pairs, np.ones(len(pairs), bool))
        sizes = np.bincount(part)
        if len(sizes) == 1:
            return pairs
        smallest = int(np.argmin(sizes))
        inside, outside = np.flatnonzero(part == smallest), np.flatnonzero(part != smallest)
        distance, nearest = cKDTree(V[outside]).query(V[inside])
        i = int(np.argmin(distance))
        pairs = np.vstack([pairs, [inside[i], outside[nearest[i]]]])


def _lowest_points(
    f: DecisionFunction, V: np.ndarray, heights: np.ndarray, pairs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest value of g on each edge (m,) float32, and its position (m, q) float32.

    Edge i joins the vertices `pairs[i]`, rows of V (B, q), at which g is `heights` (B,). The value
    is the lowest one at the two ends and at the inner points `EDGE_PLACES`.
    """
    start, end = V[pairs[:, 0]], V[pairs[:, 1]]
    at_end = heights[pairs[:, 1]] < heights[pairs[:, 0]]
    lowest = np.where(at_end, heights[pairs[:, 1]], heights[pairs[:, 0]])
    place = np.where(at_end[:, None], end, start)
    for share in EDGE_PLACES:
        inner = start + np.float32(share) * (end - start)
        height = f.sums(inner)
        lower = height < lowest
        lowest = np.where(lower, height, lowest)
        place[lower] = inner[lower]
    return lowest, place
