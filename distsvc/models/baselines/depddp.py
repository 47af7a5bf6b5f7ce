"""dePDDP: a divisive tree that cuts each cluster's first principal component at a density minimum.

Tasoulis, Tasoulis and Plagianakos, "Enhancing principal direction divisive clustering", 2010.

| the paper's | here |
|---|---|
| p, a node's rows projected on their first principal component | `positions_along` |
| f_hat(x; h), the kernel density estimate of the projections | `density.binned_density` |
| h | ``bandwidth``, in units of the projections' standard deviation times N^-1/5 |
| x*, the lowest local minimum of f_hat | `density.lowest_minimum` |
| the node with the lowest f_hat(x*) is split next | ``densities_`` |
"""

from __future__ import annotations

import heapq
import warnings
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from distsvc.errors import DataError
from distsvc.models.baselines.density import lowest_minimum, normal_bandwidth
from distsvc.models.baselines.estimator import TreeBaseline
from distsvc.models.baselines.split_tree import SplitTree, centred, positions_along, spread, those
from distsvc.models.rows.checkpoints import State
from distsvc.models.rows.scaling import check_finite
from distsvc.models.rules.fields import ArrayField, Facts, Field, check_fields

SCATTER_BLOCK_ROWS = 8192


class LeafSplit(NamedTuple):
    """The split that a node would get; the least, by density, is made first."""

    density: float
    node: int
    threshold: float


class DePDDP(TreeBaseline):
    """Clusters are the leaves of a tree of cuts at density minima along principal components.

    A node's rows are projected on their first principal component. Where a kernel density estimate
    of the projections has a minimum, the node is split at the lowest one; where it has none, the
    node is a cluster. Among nodes the one whose minimum has the lowest density is split first.
    Features should have variances of about 1. There is nothing random.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Clusters wanted at most. None: until no node has a minimum. Fewer are found where there are
        no more minima, with a warning.
    bandwidth : float, default=1.06
        The kernel's standard deviation, in units of s N^-1/5, with N the node's rows and s the
        standard deviation of their projections. 1.06, of normal rows the best, is Silverman's.
    trim : float, default=0.01
        A split leaves at least this share of the node's rows on each side, 0 to 0.5, so that a few
        outliers are no cluster.
    min_samples : int, default=5
        A split leaves at least so many rows on each side.
    grid_size : int, default=512
        Points of the grid on which the density is computed, at least 16. Doubled for a node until
        four steps fit into its bandwidth.
    n_jobs : int or None, default=None
        Threads, for blocks of rows to label; as in `SupportVectorClustering`.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        Cluster of every row, 0 the largest. Equal to ``predict(X)``.
    probabilities_ : ndarray of shape (n,), float32
        The share of its own cluster in every row: every hyperplane divides it between its sides.
    outlier_scores_ : ndarray of shape (n,), float64
        The distance of every row to the nearest hyperplane on its path, with its sign
        turned: high near another cluster. No row is outside, however far it is from all others.
    n_clusters_ : int
    directions_ : ndarray of shape (n_nodes, d), float32
        A node's first principal component, of unit length, its largest entry positive; 0 of a leaf.
    thresholds_ : ndarray of shape (n_nodes,), float64
        A row x with ``direction . (x - centre_)`` at most this goes to the first child.
    children_ : ndarray of shape (n_nodes, 2), int64
        The root is node 0; nodes are numbered as they were made; -1 in a leaf.
    densities_ : ndarray of shape (n_nodes,), float64
        The node's density (which integrates to 1) at its lowest minimum; infinity without one.
    counts_ : ndarray of shape (n_nodes,), int64
        Rows of every node.
    centre_ : ndarray of shape (d,), float64
        The origin of the rows.

    Notes
    -----
    The density is computed on a grid by a Fourier transform (`density.binned_density`), which
    takes O(n) instead of O(n^2). ``trim`` and ``min_samples`` are not the paper's: it stops where
    there is no minimum, however few rows lie beyond it; 0 and 1 do so. The defaults of these two
    and of ``bandwidth`` were chosen, of 24 combinations tried, as those with which the figures come
    out that the iMDH paper prints for dePDDP without saying its bandwidth. Other public code has
    a bandwidth of 0.9 or 0.53. Where several principal components have almost the same variance,
    the first is arbitrary, and so is the tree. Memory: a copy of X in float32 and d^2 float64;
    time: O(n d^2) for every level of the tree.

    See Also
    --------
    SPDC : The same cuts, of a stream.
    distsvc.IncrementalMDH : Hyperplanes in any direction.

    References
    ----------
    Tasoulis, Tasoulis and Plagianakos (2010), "Enhancing Principal Direction Divisive Clustering".

    Examples
    --------
    >>> from distsvc.baselines import DePDDP
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(300, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    >>> DePDDP().fit(X).n_clusters_
    3

    """

    algorithm = "depddp"
    _min_rows = 2

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        bandwidth: float = 1.06,
        trim: float = 0.01,
        min_samples: int = 5,
        grid_size: int = 512,
        n_jobs: int | None = None,
    ):
        self.n_clusters = n_clusters
        self.bandwidth = bandwidth
        self.trim = trim
        self.min_samples = min_samples
        self.grid_size = grid_size
        self.n_jobs = n_jobs

    def _fit_rows(self, X: np.ndarray) -> None:
        self.centre_ = X.mean(axis=0, dtype=np.float64)
        Z = centred(X, self.centre_)
        check_finite(Z)
        ends = self._grow(Z)
        self.clusters_ = self.tree_.numbering(self.counts_)
        self.labels_ = self.clusters_[ends]
        self._hold_rows(X)
        self.n_clusters_ = len(self.tree_.leaves)
        if self.n_clusters is not None and self.n_clusters_ < self.n_clusters:
            warnings.warn(
                f"{self.n_clusters} clusters were asked for, but only {self.n_clusters_} found: "
                "no node's density has another minimum",
                UserWarning,
                stacklevel=3,
            )

    def _grow(self, Z: np.ndarray) -> np.ndarray:
        """Make the tree of the rows Z (n, d) and return each row's leaf (n,) int64."""
        growth = Growth(Z, self)
        if self._checkpoint.last(growth.restore) is None:
            growth.consider(0)
        while growth.heap and (self.n_clusters is None or len(growth.members) < self.n_clusters):
            growth.split_next()
            self._checkpoint.keep(len(growth.splits), growth.state)
        self.tree_ = tree = growth.tree
        none = np.zeros(Z.shape[1], np.float32)
        self.directions_ = np.array([none if v is None else v for v in tree.directions])
        self.thresholds_ = np.array(tree.thresholds)
        self.children_ = np.array(tree.children)
        counts, found = growth.counts(), growth.found
        self.counts_ = counts
        self.densities_ = np.array(
            [found[node][1].density if node in found else np.inf for node in range(len(counts))]
        )
        self._spreads = growth.all_spreads()
        return growth.ends()


GROWTH_FIELDS: dict[str, Field] = {
    "nodes": ArrayField("int64", "m", least=0, may_be_empty=True),
    "directions": ArrayField("float32", "m d", may_be_empty=True),
    "thresholds": ArrayField("float64", "m", may_be_empty=True),
    "densities": ArrayField("float64", "m", least=0.0, may_be_empty=True),
    "splits": ArrayField("int64", "s", least=0),
    "ends": ArrayField("int64", "n", least=0),
}
"""The state of a `Growth`."""


class Growth:
    """A tree that grows on rows Z (n, d) float32, with the parameters of a `DePDDP`.

    `members` are the rows of every leaf, ascending; `found` has direction and split of every node
    that has one, `heap` the splits of leaves, `splits` the nodes that were split, in order.
    `positions` are those of the rows of leaves along their directions, and `spreads` belong to the
    nodes that were split; both lack what was there when a growth was restored.
    """

    def __init__(self, Z: np.ndarray, of: DePDDP):
        self.Z, self.of, self.tree = Z, of, SplitTree()
        self.members = {0: np.arange(len(Z))}
        self.found: dict[int, tuple[np.ndarray, LeafSplit]] = {}
        self.heap: list[LeafSplit] = []
        self.splits: list[int] = []
        self.positions: dict[int, np.ndarray] = {}
        self.spreads: dict[int, float] = {}

    def consider(self, node: int) -> None:
        """Find the split of a leaf."""
        of, rows = self.of, those(self.Z, self.members[node])
        fewest = max(int(of.min_samples), int(np.ceil(of.trim * len(rows))))
        if len(rows) < 2 * fewest or (direction := first_component(rows)) is None:
            return
        positions = positions_along(rows, direction)
        width = normal_bandwidth(positions, of.bandwidth)
        if width == 0.0:
            return
        lowest = lowest_minimum(positions, width, of.grid_size, fewest)
        if lowest is not None:
            candidate = LeafSplit(lowest[1], node, lowest[0])
            self.found[node], self.positions[node] = (direction, candidate), positions
            heapq.heappush(self.heap, candidate)

    def split_next(self) -> None:
        """Split the leaf with the lowest density, and consider its children."""
        _, node, threshold = heapq.heappop(self.heap)
        direction, rows = self.found[node][0], self.members.pop(node)
        positions = self.positions.pop(node, None)
        if positions is None:
            positions = positions_along(those(self.Z, rows), direction)
        self.spreads[node] = spread(positions)
        below = positions <= threshold
        children = self.tree.split(node, direction, threshold)
        self.splits.append(node)
        for child, part in zip(children, (below, ~below), strict=True):
            self.members[child] = rows[part]
            self.consider(child)

    def ends(self) -> np.ndarray:
        """Return the leaf (n,) int64 of every row."""
        ends = np.empty(len(self.Z), np.int64)
        for node, rows in self.members.items():
            ends[rows] = node
        return ends

    def all_spreads(self) -> np.ndarray:
        """Return the spread (n_nodes,) float64 of every node, 1 in leaves."""
        if len(self.spreads) < len(self.splits):
            return self.tree.ends_and_spreads(self.Z)[1]
        return np.array([self.spreads.get(node, 1.0) for node in range(len(self.tree.children))])

    def counts(self) -> np.ndarray:
        """Return the rows (n_nodes,) int64 of every node."""
        counts = np.bincount(self.ends(), minlength=len(self.tree.children))
        for node in reversed(self.splits):
            counts[node] = counts[list(self.tree.children[node])].sum()
        return counts

    def state(self) -> State:
        """Return facts and arrays of a tree that has splits; `restore` takes them back."""
        candidates = [candidate for _, candidate in self.found.values()]
        return {}, {
            "nodes": np.array(list(self.found), np.int64),
            "directions": np.array([direction for direction, _ in self.found.values()]),
            "thresholds": np.array([candidate.threshold for candidate in candidates], np.float64),
            "densities": np.array([candidate.density for candidate in candidates], np.float64),
            "splits": np.array(self.splits, np.int64),
            "ends": self.ends(),
        }

    def restore(self, facts: Facts, arrays: dict[str, np.ndarray]) -> Growth:
        """Go on from a tree of the same rows; `DataError` for what is none."""
        check_fields(GROWTH_FIELDS, arrays, dict(zip("nd", self.Z.shape, strict=True)))
        splits, ends, nodes = arrays["splits"].tolist(), arrays["ends"], arrays["nodes"].tolist()
        if not set(splits) <= set(nodes) or max(*nodes, ends.max()) > 2 * len(splits):
            raise DataError("expected a tree and the leaves of its rows, found others")
        values = zip(
            nodes, arrays["densities"].tolist(), arrays["thresholds"].tolist(), strict=True
        )
        candidates = [LeafSplit(density, node, threshold) for node, density, threshold in values]
        self.found = dict(
            zip(nodes, zip(arrays["directions"], candidates, strict=True), strict=True)
        )
        self.splits = splits
        for node in splits:
            self.tree.split(node, self.found[node][0], self.found[node][1].threshold)
        self.heap = [candidate for candidate in candidates if candidate.node not in splits]
        heapq.heapify(self.heap)
        self.members = {leaf: np.flatnonzero(ends == leaf) for leaf in self.tree.leaves.tolist()}
        return self


def first_component(rows: np.ndarray) -> np.ndarray | None:
    """Return the first principal component (d,) float32 of rows (n, d), None if all are equal.

    Of unit length, its largest entry positive.
    """
    n, d = rows.shape
    mean = rows.mean(axis=0, dtype=np.float64)
    if n <= d:
        centred_rows = rows - mean
        gram = centred_rows @ centred_rows.T
        vector = centred_rows.T @ _leading(gram)
    else:
        squares = np.zeros((d, d))
        for first in range(0, n, SCATTER_BLOCK_ROWS):
            block = rows[first : first + SCATTER_BLOCK_ROWS] - mean
            squares += block.T @ block
        if not squares.diagonal().any():
            return None
        vector = _leading(squares)
    length = float(np.sqrt(vector @ vector))
    if length == 0.0:
        return None
    vector /= length if vector[np.argmax(np.abs(vector))] > 0.0 else -length
    return vector.astype(np.float32)


def _leading(matrix: np.ndarray) -> np.ndarray:
    """Return the eigenvector of the largest eigenvalue of a symmetric matrix."""
    last = len(matrix) - 1
    return eigh(matrix, subset_by_index=[last, last])[1][:, 0]
