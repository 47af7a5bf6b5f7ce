"""dePDDP: a divisive tree that cuts each cluster's first principal component at a density minimum.

Tasoulis, Tasoulis and Plagianakos (2010) write p for the projections of a node's rows, which
`positions_along` computes. `density.binned_density` estimates their density f_hat(x; h), and
`density.lowest_minimum` returns its lowest minimum x*.
"""

import heapq
import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from distsvc.models.baselines.density import lowest_minimum, normal_bandwidth
from distsvc.models.baselines.estimator import TreeBaseline
from distsvc.models.baselines.rules import NO_CHILD, positions_along, spread, take_rows
from distsvc.models.rows.sampling import BLOCK_ROWS
from distsvc.models.rows.scaling import check_finite, subtract_centre


@dataclass(eq=False, repr=False)
class DePDDP(TreeBaseline):
    """Clusters are the leaves of a tree of cuts at density minima along principal components.

    A node's rows are projected on their first principal component. If a kernel density estimate of
    the projections has minima, the node is split at the lowest minimum. Otherwise it is a cluster.
    The node whose minimum has the lowest density is split first. Features should have variances of
    about 1. The result does not depend on a seed.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Maximum number of clusters. None: split until no node has a minimum. `fit` warns if it finds
        fewer clusters.
    bandwidth : float, default=1.06
        Standard deviation of the kernel in units of s N^-1/5, for a node of N rows whose
        projections have the standard deviation s. 1.06 is Silverman's factor, which is optimal for
        normally distributed projections.
    trim : float, default=0.01
        Minimum share of the node's rows on each side of a split, 0 to 0.5. It keeps a few outliers
        from becoming a cluster.
    min_samples : int, default=5
        Minimum number of rows on each side of a split.
    grid_size : int, default=512
        Number of grid points of the density, at least 16. It is doubled for a node until four grid
        steps fit into the node's bandwidth.
    n_jobs : int or None, default=None
        Number of threads for blocks of rows; as in `SupportVectorClustering`.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        Cluster of every row, 0 the largest. Equal to ``predict(X)``.
    probabilities_ : ndarray of shape (n,), float32
        Share of every row in its own cluster. Near a hyperplane, clusters on its other side also
        have a share of the row.
    outlier_scores_ : ndarray of shape (n,), float64
        Minus the distance of every row to the nearest hyperplane on its path: high near another
        cluster. No row counts as outside, however far it is from all others.
    n_clusters_ : int
        Number of clusters.
    directions_ : ndarray of shape (n_nodes, d), float32
        A node's first principal component, of unit length. Its entry with the largest absolute
        value is positive. A leaf's direction is zero.
    thresholds_ : ndarray of shape (n_nodes,), float64
        A row x goes to the first child if ``direction . (x - centre_)`` is at most the threshold.
    children_ : ndarray of shape (n_nodes, 2), int64
        Numbers of the children, -1 in a leaf. Node 0 is the root; nodes are numbered as they were
        added.
    densities_ : ndarray of shape (n_nodes,), float64
        The node's density at its lowest minimum; infinity without a minimum. A density integrates
        to 1.
    counts_ : ndarray of shape (n_nodes,), int64
        Number of rows of every node.
    centre_ : ndarray of shape (d,), float64
        Mean of X, which is subtracted from rows.

    Notes
    -----
    The paper splits at every minimum, as ``trim=0`` and ``min_samples=1`` do. The page "Departures
    from the papers" says where the defaults come from. If several principal components have almost
    the same variance, the first is arbitrary, and so is the tree. Memory is a copy of X in float32
    and d^2 float64; time is O(n d^2) for each level of the tree.

    See Also
    --------
    SPDC : The same cuts, from a stream.
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

    n_clusters: int | None = None
    _: KW_ONLY
    bandwidth: float = 1.06
    trim: float = 0.01
    min_samples: int = 5
    grid_size: int = 512
    n_jobs: int | None = None

    algorithm = "depddp"
    _min_rows = 2

    def _fit_rows(self, X: np.ndarray) -> None:
        self.centre_ = X.mean(axis=0, dtype=np.float64)
        Z = subtract_centre(X, self.centre_)
        check_finite(Z)
        growth = Growth(Z, self)
        while growth.heap and (self.n_clusters is None or len(growth.members) < self.n_clusters):
            growth.split_next()
        of = {name: np.array([node[name] for node in growth.nodes]) for name in growth.nodes[0]}
        self.counts_, self.densities_ = of["count"], of["density"]
        nodes = of["direction"], of["threshold"], of["children"]
        self._take_tree(nodes, self.counts_, of["spread"])
        self.labels_ = np.empty(len(X), np.int32)
        for leaf, rows in growth.members.items():
            self.labels_[rows] = self.clusters_[leaf]
        self._hold_rows(X)
        if self.n_clusters is not None and self.n_clusters_ < self.n_clusters:
            warnings.warn(
                f"{self.n_clusters} clusters were asked for, but only {self.n_clusters_} found: "
                "the density of no remaining part has a minimum at which to split",
                UserWarning,
                stacklevel=3,
            )


class Growth:
    """A tree of `DePDDP` while it grows from centred rows Z (n, d) float32."""

    def __init__(self, Z: np.ndarray, parameters: DePDDP):
        self.Z, self.parameters = Z, parameters
        self.members: dict[int, np.ndarray] = {}  # row numbers of every leaf, ascending
        self.nodes: list[dict[str, Any]] = []
        # Leaves that can be split: density, node, direction, threshold and projections.
        self.heap: list[tuple[float, int, np.ndarray, float, np.ndarray]] = []
        self._add(np.arange(len(Z)))

    def split_next(self) -> None:
        """Split the leaf whose minimum has the lowest density."""
        _, node, direction, threshold, positions = heapq.heappop(self.heap)
        rows, below = self.members.pop(node), positions <= threshold
        inner = {"spread": spread(positions), "direction": direction, "threshold": threshold}
        self.nodes[node] |= inner | {"children": (len(self.nodes), len(self.nodes) + 1)}
        self._add(rows[below])
        self._add(rows[~below])

    def _add(self, members: np.ndarray) -> None:
        """Add a leaf of the rows `members` (m,). If it can be split, put the split on `heap`."""
        node, nothing = len(self.nodes), np.zeros(self.Z.shape[1], np.float32)
        self.members[node] = members
        of = {"direction": nothing, "threshold": 0.0, "children": (NO_CHILD, NO_CHILD)}
        self.nodes.append(of | {"count": len(members), "density": np.inf, "spread": 1.0})
        given, rows = self.parameters, take_rows(self.Z, members)
        fewest = max(int(given.min_samples), int(np.ceil(given.trim * len(rows))))
        if len(rows) < 2 * fewest or (direction := first_component(rows)) is None:
            return
        positions = positions_along(rows, direction)
        width = normal_bandwidth(positions, given.bandwidth)
        if width == 0.0:
            return
        lowest = lowest_minimum(positions, width, given.grid_size, fewest)
        if lowest is not None:
            threshold, density = lowest
            self.nodes[node]["density"] = density
            leaf = density, node, direction, threshold, positions
            heapq.heappush(self.heap, leaf)


def first_component(rows: np.ndarray) -> np.ndarray | None:
    """Return the first principal component (d,) float32 of rows (n, d); None if rows are equal.

    The component has unit length, and its largest entry is positive.
    """
    n, d = rows.shape
    mean = rows.mean(axis=0, dtype=np.float64)
    if n <= d:
        centred_rows = rows - mean
        gram = centred_rows @ centred_rows.T
        vector = centred_rows.T @ _leading(gram)
    else:
        squares = np.zeros((d, d))
        for first in range(0, n, BLOCK_ROWS):
            block = rows[first : first + BLOCK_ROWS] - mean
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
    last = len(matrix) - 1
    return eigh(matrix, subset_by_index=[last, last])[1][:, 0]
