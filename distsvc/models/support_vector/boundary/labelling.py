"""Phase two: from the decision function to clusters.

Clusters are found by Algorithm 3 of Pham, Le and Dang (2017). Tables in memory can also use the
complete graph of SVC, or the balls of FSVC.

| Pham, Le and Dang (2017) | here |
|---|---|
| f(x) = sum a_i K(x_i, x) - 1 | `DecisionFunction` |
| B_eps, the extended boundary | `Boundary` |
| P(x), trajectories | `climb` |
| E, the equilibrium points | `merge_equilibria` |
| m sample-point test | `connected_pairs`, `components` |
| line 9 | `clusters_of_points` |

| "Support Vector Clustering", Ben-Hur, Horn, Siegelmann and Vapnik 2001 | here |
|---|---|
| adjacency A_ij, eq. (18): R(y) <= R on the segment | f(y) >= 0 on it |
| points sampled on a segment | ``segment_samples`` |
| bounded support vectors: unclassified or assigned to the closest cluster | ``noise`` |

| "Fast support-based clustering method for large-scale problems", Jung, Lee and Lee 2010 | here |
|---|---|
| radius of the balls that the table is divided into | ``ball_radius`` |
| distance below which moving points are merged | ``merge_radius`` |
| descent of R^2 | ascent of f (trajectories with the same ends, since R^2 = const - 2 rho f) |
| points tested on a segment between two equilibria | `BALL_SAMPLES` |

The steps of FSVC follow the authors' public program. The page "Departures from the papers" lists
what differs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from distsvc.errors import ParameterError
from distsvc.kernels import boundary as kernels
from distsvc.kernels.nearest import nearest_point
from distsvc.kernels.rbf import weighted_sums
from distsvc.models.rows.scaling import check_finite

CLIMB_TOLERANCE = 1e-4
"""Maximum length of a trajectory's last step, in units of sigma = 1 / sqrt(2 gamma)."""

MERGE_TOLERANCE = 1e-2
"""Distance, in units of sigma, below which end points are one equilibrium."""

CLIMB_STEPS = 2000
PAIR_ROWS = 256
SEGMENT_TOLERANCE = 1e-5
"""Rounding of f in float32: points with f >= -`SEGMENT_TOLERANCE` count as inside."""

CELL_POINTS = 32
MOST_VERTICES = 100_000
LEAF_VERTICES = 32
"""Maximum number of vertices in a box that is not halved."""

BURST = 5
"""Number of steps that every point climbs before near points are merged again."""

ARRIVED = 1e-2
"""Maximum distance that a point moves in `BURST` steps if it has arrived, in units of sigma."""

BALL_SAMPLES = 9


@dataclass(frozen=True)
class DecisionFunction:
    """f(x) = sum_j a_j K(s_j, x) - 1 with K(s, x) = exp(-gamma ||s - x||^2).

    The columns of S (d, B) float32 are the support vectors. Their weights a (B,) float32 are
    positive, except that the algorithms in `boundary.printed` may also give negative weights.
    """

    S: np.ndarray
    a: np.ndarray
    gamma: float

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return f (n,) float32 at the rows of X (n, d) float32."""
        return self.sums(X) - np.float32(1.0)

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Return f (n,) float32 at the rows of X, with 0 for rows on the boundary.

        Rows with f from -`SEGMENT_TOLERANCE` to 0 are on the boundary, up to rounding.
        """
        f = self(X)
        return np.where((f >= -SEGMENT_TOLERANCE) & (f < 0.0), np.float32(0.0), f)

    def sums(self, X: np.ndarray) -> np.ndarray:
        """Return the kernel sums f + 1 (n,) float32 at the rows of X, precise even near 0."""
        return weighted_sums(X, self.S, self.a, self.gamma)

    @property
    def sigma(self) -> float:
        """The kernel's standard deviation, 1 / sqrt(2 gamma)."""
        return float(1.0 / np.sqrt(2.0 * self.gamma))


class Nearest:
    """Finds the nearest of fixed points (m, d) float32; ties go to the first point.

    Points are divided into cells of at most `CELL_POINTS` by repeated halving (`halves`). With the
    points' `clusters` (m,), a search ends as soon as the cluster of the nearest point is known.
    `clusters` is ignored if clusters have fewer than `CELL_POINTS` points on average, because many
    small cells would cost time.
    """

    def __init__(self, points: np.ndarray, clusters: np.ndarray | None = None):
        groups = [np.arange(len(points))]
        if clusters is not None and len(points) < CELL_POINTS * len(np.unique(clusters)):
            clusters = None
        if clusters is not None:
            groups = [np.flatnonzero(clusters == cluster) for cluster in np.unique(clusters)]
        cells = [cell for group in groups for cell in _halved(points, group.astype(np.int32))]
        n, d = len(cells), points.shape[1]
        self._points = np.full((n, d, CELL_POINTS), np.inf, np.float32)
        self._numbers = np.zeros((n, CELL_POINTS), np.int32)
        for c, numbers in enumerate(cells):
            self._points[c, :, : len(numbers)] = points[numbers].T
            self._numbers[c, : len(numbers)] = numbers
        lows = [points[numbers].min(axis=0) for numbers in cells]
        highs = [points[numbers].max(axis=0) for numbers in cells]
        self._low = np.ascontiguousarray(np.array(lows).reshape(n, d).T)
        self._high = np.ascontiguousarray(np.array(highs).reshape(n, d).T)
        self._cell_clusters = np.arange(n, dtype=np.int32)
        if clusters is not None:
            self._cell_clusters = np.array([clusters[cell[0]] for cell in cells], np.int32)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the index (n,) int32 of the point nearest to every row of X (n, d) float32.

        If the points have clusters, the result may be another point of the nearest point's cluster,
        since only the cluster counts then.
        """
        cells = self._points, self._numbers, self._cell_clusters, self._low, self._high
        return nearest_point(X, *cells)


def _halved(points: np.ndarray, numbers: np.ndarray) -> Iterator[np.ndarray]:
    """Divide the points `numbers` (n,) into cells, and yield the sorted numbers of each cell."""
    if numbers.size <= CELL_POINTS:
        yield numbers
        return
    for half in halves(points, numbers):
        yield from _halved(points, half)


def halves(points: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted point numbers of a cell's lower half and of its upper half.

    The cell is cut at the median of the feature in which the middle two thirds of its points have
    the widest range. Outliers thus do not determine the cut.
    """
    ranked = np.sort(points[numbers], axis=0)
    n = numbers.size
    spread = ranked[5 * n // 6] - ranked[n // 6]
    spread = spread if spread.any() else ranked[-1] - ranked[0]
    order = np.argsort(points[numbers, int(np.argmax(spread))], kind="stable")
    return np.sort(numbers[order[: n // 2]]), np.sort(numbers[order[n // 2 :]])


@dataclass(frozen=True)
class Boundary:
    """Sample of the extended boundary B_eps = {x_i : |f(x_i)| <= eps}.

    Trajectories start from the sampled rows. All rows of the table take the label of the nearest
    sampled row. If B_eps has at most `limit` rows, all are sampled. Otherwise they are grouped by
    their nearest support vector, so that every part of the domain has rows. Each group keeps the
    q rows with the lowest random keys, for the largest q >= 1 that fits `limit`.

    The samples of a table's blocks merge into exactly the sample of the table. No row is lost,
    because q of a block is never lower than q of the table.
    """

    X: np.ndarray  # (m, d) float32: the sampled rows
    keys: np.ndarray  # (m,) uint64: distinct keys of the sampled rows
    owner: np.ndarray  # (m,) int32: nearest support vector of each sampled row
    counts: np.ndarray  # (B,) int64: numbers of rows of B_eps, by nearest support vector
    least: np.ndarray  # (1,) float32: the smallest |f| in the table

    @classmethod
    def collect(
        cls,
        f: DecisionFunction,
        X: np.ndarray,
        keys: np.ndarray,
        epsilon: float,
        limit: int,
    ) -> Self:
        """Return the boundary of one block of rows X (n, d) float32 with keys (n,) uint64."""
        distance = np.abs(f(X))
        near = np.flatnonzero(distance <= epsilon)
        X, keys = X[near], keys[near]
        owner = Nearest(np.ascontiguousarray(f.S.T))(X)
        counts = np.bincount(owner, minlength=f.a.size)
        least = distance.min(initial=np.inf, keepdims=True)
        return cls(X, keys, owner, counts, least)._thinned(limit)

    @classmethod
    def empty(cls, f: DecisionFunction) -> Self:
        d, b = f.S.shape
        none = np.zeros(0, np.uint64), np.zeros(0, np.int32)
        nothing = np.zeros((0, d), np.float32), *none, np.zeros(b, np.int64)
        return cls(*nothing, np.full(1, np.inf, np.float32))

    def merge(self, other: Self, limit: int) -> Self:
        rows = {n: np.concatenate([vars(self)[n], vars(other)[n]]) for n in ("X", "keys", "owner")}
        counts, least = self.counts + other.counts, np.minimum(self.least, other.least)
        return replace(self, **rows, counts=counts, least=least)._thinned(limit)

    def _thinned(self, limit: int) -> Self:
        order = np.lexsort((self.keys, self.owner))
        owner = self.owner[order]
        rank = np.arange(order.size) - np.searchsorted(owner, owner)
        kept = order[rank < quota(self.counts, limit)]
        kept = kept[np.argsort(self.keys[kept])]
        return replace(self, X=self.X[kept], keys=self.keys[kept], owner=self.owner[kept])

    @property
    def n_rows(self) -> int:
        """Number of rows of B_eps, sampled or not."""
        return int(self.counts.sum())

    def check(self, epsilon: float) -> None:
        """Raise ParameterError if no row lies within epsilon of the boundary."""
        if not len(self.X):
            raise ParameterError(
                f"no row lies within epsilon = {epsilon:g} of the boundary: the smallest decision "
                f"value |f(x)| is {float(self.least[0]):.3g}; give a larger epsilon, or other "
                "values of gamma and C"
            )


def quota(counts: np.ndarray, limit: int) -> int:
    """Return the maximum number q of rows that each group keeps, from the groups' `counts`.

    q is the largest number with sum min(counts, q) <= limit, but at least 1.
    """
    low, high = 1, max(int(counts.max(initial=1)), 1)
    while low < high:
        middle = (low + high + 1) // 2
        if np.minimum(counts, middle).sum() <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def climb(f: DecisionFunction, X: np.ndarray) -> np.ndarray:
    """Return the ends (n, d) float32 of the trajectories from the rows of X (n, d) float32."""
    return kernels.climb(X, f.S, f.a, f.gamma, CLIMB_TOLERANCE, CLIMB_STEPS)


def merge_equilibria(
    f: DecisionFunction, ends: np.ndarray, push: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return the equilibria (M, d), and the equilibrium's index (n,) of each end point (n, d).

    "e not in E" (Algorithm 3, line 4) needs a tolerance, which the paper does not give. Here end
    points within `MERGE_TOLERANCE` sigma of each other, directly or through other end points, are
    one equilibrium. It lies at the end point with the highest f.

    A trajectory can also end on a saddle, which is not stable. With `push`, which is not in the
    paper, each equilibrium is moved by a tenth of sigma and climbs again.
    """
    ends, member = _merged(f, ends)
    if not push:
        return ends, member
    moves = np.random.default_rng(0).standard_normal(ends.shape).astype(np.float32)
    moves *= np.float32(0.1 * f.sigma) / np.linalg.norm(moves, axis=1, keepdims=True)
    again, second = _merged(f, climb(f, ends + moves))
    return again, second[member]


def _merged(f: DecisionFunction, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    check_finite(ends)
    radius = MERGE_TOLERANCE * f.sigma
    distinct, member = np.unique(ends, axis=0, return_inverse=True)
    pairs = cKDTree(distinct).query_pairs(radius, output_type="ndarray")
    group = components(pairs, len(distinct))
    height = f(distinct)
    best = np.lexsort((-height, group))
    first = np.searchsorted(group[best], np.arange(group.max() + 1))
    return distinct[best[first]], group[member.reshape(-1)]


def components(pairs: np.ndarray, n: int) -> np.ndarray:
    """Return the connected component (n,) int64 of each of n vertices; edges are pairs (m, 2)."""
    edges = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return connected_components(edges, directed=False)[1].astype(np.int64)


def connected_pairs(f: DecisionFunction, E: np.ndarray, block: int, samples: int) -> np.ndarray:
    """Return pairs (p, 2) of equilibria whose segment lies inside the domain of novelty.

    Equilibria are rows of E (M, d) float32, in blocks of 256. Each equilibrium of block number
    `block` is tested with all earlier equilibria, by f at `samples` points of their segment.
    Shortest segments come first, and pairs already connected through other equilibria are skipped.
    The pairs of all blocks together yield the same components as without skipping.
    """
    first = block * PAIR_ROWS
    last = min(first + PAIR_ROWS, len(E))
    found = np.zeros((0, 2), np.int64)
    todo = np.concatenate(
        [np.column_stack([np.full(i, i), np.arange(i)]) for i in range(first, last)]
    )
    length = ((E[todo[:, 0]] - E[todo[:, 1]]) ** 2).sum(axis=1)
    todo = todo[np.argsort(length, kind="stable")]
    level = np.float32(1.0 - SEGMENT_TOLERANCE)
    size = 4 * PAIR_ROWS
    while len(todo):
        batch, todo = todo[:size], todo[size:]
        lowest = kernels.lowest_on_segments(E, batch, f.S, f.a, f.gamma, samples, level)
        inside = batch[lowest >= level]
        if len(inside):
            found = np.concatenate([found, inside])
            group = components(found, len(E))
            todo = todo[group[todo[:, 0]] != group[todo[:, 1]]]
    return found


def pair_blocks(n_equilibria: int) -> int:
    """Return the number of blocks of `connected_pairs`."""
    return -(-n_equilibria // PAIR_ROWS)


def clusters_of_points(
    f: DecisionFunction,
    boundary: np.ndarray,
    member: np.ndarray,
    equilibria: np.ndarray,
    group: np.ndarray,
    reference: np.ndarray,
    keep_outside: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the points that label rows, their clusters, and the equilibria's clusters (M,) int32.

    Boundary point i climbs to equilibrium ``member[i]``, and so has the cluster of that
    equilibrium (Algorithm 3, line 9). `group` (M,) are the components of the equilibria. Clusters
    are numbered by their number of rows in `reference` (n, d) float32, the largest first.

    An equilibrium with f < 0 lies outside the domain of novelty. In the paper, and here with
    `keep_outside`, it forms a cluster of its own. Without `keep_outside`, it gets the cluster -1,
    and the boundary points that climb to it are dropped. If all equilibria are outside, none is
    dropped.
    """
    inside = f(equilibria) >= -SEGMENT_TOLERANCE
    if keep_outside or not inside.any():
        inside[:] = True
    kept = inside[member]
    points = boundary[kept]
    group_of_point = group[member[kept]]
    sizes = np.bincount(group_of_point[Nearest(points)(reference)], minlength=group.max() + 1)
    present = np.unique(group_of_point)
    order = present[np.argsort(-sizes[present], kind="stable")]
    number = np.full(group.max() + 1, -1, np.int32)
    number[order] = np.arange(order.size, dtype=np.int32)
    of_equilibrium = np.where(inside, number[group], -1).astype(np.int32)
    return points, number[group_of_point], of_equilibrium


def inside_rows(f: DecisionFunction, X: np.ndarray) -> np.ndarray:
    """Return the distinct rows (m, d) of X (n, d) float32 that are inside, sorted.

    A row is inside if f >= -`SEGMENT_TOLERANCE`, so that support vectors on the boundary are
    inside. If no row is inside, the rows with the highest f are returned.
    """
    values = f(X)
    inside = np.unique(X[values >= min(-SEGMENT_TOLERANCE, values.max())], axis=0)
    if len(inside) > MOST_VERTICES:
        raise ParameterError(
            f"labelling='complete-graph' takes at most {MOST_VERTICES} distinct rows inside the "
            f"boundary, found {len(inside)}; use 'equilibria' or 'balls'"
        )
    return inside


def joined_pairs(f: DecisionFunction, V: np.ndarray, samples: int) -> np.ndarray:
    """Return the edges (p, 2) of a spanning forest of the complete graph.

    The vertices are the distinct rows of V (n, d) float32. In the complete graph, two vertices have
    an edge if `samples` points of the segment between them are all inside. Memory grows with n, and
    time with the number of pairs that a bound on f cannot rule out.
    """
    order, first, last, child = _boxes(V)
    ranked = np.ascontiguousarray(V[order])
    low = np.array([ranked[i:j].min(axis=0) for i, j in zip(first, last, strict=True)])
    high = np.array([ranked[i:j].max(axis=0) for i, j in zip(first, last, strict=True)])
    n = len(ranked)
    # Nearest neighbours come first, since most of them are connected.
    k = min(8 + 1, n)
    distance, near = (found.reshape(n, k) for found in cKDTree(ranked).query(ranked, k=k))
    pairs = np.column_stack([np.repeat(np.arange(n), k), near.ravel()]).astype(np.int64)
    pairs = pairs[np.argsort(distance.ravel(), kind="stable")]
    level = np.float32(1.0 - SEGMENT_TOLERANCE)
    forest = kernels.spanning_forest(
        ranked, pairs, first, last, child, low, high, f.S, f.a, f.gamma, samples, level
    )
    return order[forest]


def _boxes(V: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return a tree of boxes around the vertices V (n, d), for `distsvc.kernels.boundary`.

    The result is order (n,), first, last and child (c,), all int64. Box i contains the vertices
    order[first[i] : last[i]]. Its halves are the boxes child[i] and child[i] + 1; child[i] is -1 in
    a leaf.
    """
    order = np.arange(len(V))
    parts, first, child = [order.copy()], [0], []
    for u, numbers in enumerate(parts):  # halves are appended, and visited later
        order[first[u] : first[u] + len(numbers)] = numbers
        child.append(len(parts) if len(numbers) > LEAF_VERTICES else -1)
        if child[u] > 0:
            parts += halves(V, numbers)
            first += [first[u], first[u] + len(parts[-2])]
    begin = np.array(first, np.int64)
    return order, begin, begin + [len(numbers) for numbers in parts], np.array(child, np.int64)


def ball_centres(X: np.ndarray, keys: np.ndarray, radius: float) -> np.ndarray:
    """Return the centres (m, d) float32 of balls that cover the rows X (n, d) float32.

    Centres are chosen among the rows, in the order of their random keys (n,) uint64.
    """
    shuffled = np.ascontiguousarray(X[np.argsort(keys)])
    return shuffled[kernels.ball_centres(shuffled, float(radius))]


def climb_together(f: DecisionFunction, X: np.ndarray, radius: float) -> np.ndarray:
    """Return the ends (m, d) of points X (m, d) float32 that climb f and merge on their way.

    After every `BURST` steps, if any point has arrived, points absorb neighbours nearer than
    `radius` (`distsvc.kernels.boundary.merge_neighbours`). As in the authors' program, f between
    two points is not tested: `radius` alone decides how near two equilibria may be.
    """
    points, member = X.copy(), np.arange(len(X))
    arrived = np.zeros(len(X), bool)
    for _ in range(CLIMB_STEPS // BURST):
        moving = np.flatnonzero(~arrived)
        if not moving.size:
            break
        before = points[moving]
        after = kernels.climb(before, f.S, f.a, f.gamma, CLIMB_TOLERANCE, BURST)
        points[moving] = after
        arrived[moving] = np.linalg.norm(after - before, axis=1) < ARRIVED * f.sigma
        if arrived.any():
            target = kernels.merge_neighbours(points, arrived, float(radius))
            remaining, target = np.unique(target, return_inverse=True)
            points, arrived, member = points[remaining], arrived[remaining], target[member]
    return points[member]
