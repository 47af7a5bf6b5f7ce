"""SPDC-style clustering: dePDDP's tree of cuts grows row by row from a stream.

The paper, Tasoulis, Tasoulis and Plagianakos (2012), has no public code. A node's first principal
direction is computed by CCIPCA (Weng, Zhang and Hwang 2003). The window, the test of a minimum and
the limits on splits are our own.
"""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from distsvc.job.parameters import RandomState
from distsvc.kernels.baselines import stream_rows
from distsvc.models.baselines.density import lowest_minimum, normal_bandwidth
from distsvc.models.baselines.estimator import StreamBaseline, TreeBaseline
from distsvc.models.baselines.rules import Nodes, spread, walk
from distsvc.models.hyperplanes.tree import valley
from distsvc.models.rows.sampling import BLOCK_ROWS, seed_of
from distsvc.models.rows.scaling import subtract_centre


class StreamState:
    """SPDC's growing tree, stored in arrays with an entry for every possible node."""

    n_used = 1  # nodes so far

    def __init__(self, n_nodes: int, n_features: int, window: int):
        self.directions = np.zeros((n_nodes, n_features), np.float32)
        self.thresholds = np.zeros(n_nodes)
        self.children = np.full((n_nodes, 2), -1)
        self.means = np.zeros((n_nodes, n_features))
        self.leading = np.zeros((n_nodes, n_features))
        self.counts = np.zeros(n_nodes, np.int64)
        self.windows = np.zeros((n_nodes, window), np.float32)
        self.filled = np.zeros(n_nodes, np.int64)

    def nodes(self) -> Nodes:
        """Return the directions, thresholds and children of the nodes so far, as copies."""
        arrays = self.directions, self.thresholds, self.children
        directions, thresholds, children = (array[: self.n_used].copy() for array in arrays)
        return directions, thresholds, children


@dataclass(eq=False, repr=False)
class SPDC(StreamBaseline, TreeBaseline):
    """Clusters are the leaves of a tree of cuts at density minima, which grows from a stream.

    A leaf updates the mean and the first principal component of its rows, row by row. It collects
    projections of rows in a window, and estimates their density whenever the window is full. If the
    density has a clear minimum, the leaf is split there for good, and its two children start empty.
    Features should have variances of about 1.

    Parameters
    ----------
    window : int, default=500
        Number of projections from which a leaf's density is estimated, at least 50. A leaf's first
        window is not tested, because the leaf's direction is still changing.
    valley : float, default=2.0
        Significance z that a density minimum needs to split a leaf. It is computed by
        `distsvc.models.hyperplanes.tree.valley`. A leaf is tested many times, so some minimum
        appears by chance.
    bandwidth : float, default=1.06
        Standard deviation of the kernel, as in `DePDDP` for a node of ``window`` rows.
    amnesia : float, default=2.0
        Amnesic parameter l of CCIPCA, at least 0. A new row has 1 + l times the weight that it
        would have in a plain mean.
    max_clusters : int, default=128
        Maximum number of leaves. Memory is O(max_clusters (d + window)).
    n_jobs : int or None, default=None
        Threads for blocks of rows; as in `SupportVectorClustering`.
    random_state : int, RandomState or None, default=None
        Seed of the order of rows in `fit`.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        Cluster of every row of `fit`, 0 the largest. Equal to ``predict(X)``.
    n_clusters_ : int
        Number of leaves. A leaf that was added near the end of the stream may have no rows.
    directions_, thresholds_, children_, probabilities_, outlier_scores_ : ndarrays
        As in `DePDDP`.
    centre_ : ndarray of shape (d,), float64
        The origin of the rows: the mean of the first block.

    Notes
    -----
    The page "Departures from the papers" says where the defaults come from. `fit` takes the rows
    once, in random order. After `partial_fit`, clusters are numbered by the number of rows that the
    leaves learned from.

    See Also
    --------
    DePDDP : The same cuts, from all rows at once.

    References
    ----------
    Tasoulis, Tasoulis and Plagianakos (2012), "Clustering of High Dimensional Data Streams".

    Examples
    --------
    >>> from distsvc.baselines import SPDC
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(6000, centers=[[0, 0], [9, 0]], random_state=0)
    >>> SPDC(random_state=0).fit(X).n_clusters_
    2

    """

    window: int = 500
    _: KW_ONLY
    valley: float = 2.0
    bandwidth: float = 1.06
    amnesia: float = 2.0
    max_clusters: int = 128
    n_jobs: int | None = None
    random_state: RandomState = None

    algorithm = "spdc"

    def _fit_rows(self, X: np.ndarray) -> None:
        self._begin(X)
        seed = seed_of(self.random_state)
        order = self._order(len(X), seed)[np.random.default_rng(seed).permutation(len(X))]
        Z = subtract_centre(X, self.centre_)
        for first in range(0, len(X), BLOCK_ROWS):
            self._learn(Z[order[first : first + BLOCK_ROWS]])
        nodes, ends = self.tree_.nodes(), np.zeros(len(Z), np.int64)
        spreads = np.ones(self.tree_.n_used)
        for node, rows, positions in walk(nodes, Z):
            if positions is None:
                ends[rows] = node
            else:
                spreads[node] = spread(positions)
        self._take_tree(nodes, np.bincount(ends, minlength=len(spreads)), spreads)
        self.labels_ = self.clusters_[ends]
        self._hold_rows(X)

    def _add(self, X: np.ndarray) -> None:
        self._learn(subtract_centre(X, self.centre_))
        n = self.tree_.n_used
        self._take_tree(self.tree_.nodes(), self.tree_.counts[:n], np.ones(n))

    def _begin(self, X: np.ndarray) -> None:
        self.centre_ = X.mean(axis=0, dtype=np.float64)
        n_nodes = 2 * int(self.max_clusters) - 1
        self.tree_ = StreamState(n_nodes, X.shape[1], int(self.window))

    def _learn(self, Z: np.ndarray) -> None:
        state, done = self.tree_, 0
        while done < len(Z):
            done, leaf = stream_rows(
                Z, done, state.directions, state.thresholds, state.children, state.means,
                state.leading, state.counts, state.windows, state.filled, float(self.amnesia),
            )  # fmt: skip
            if leaf >= 0:
                self._try_split(leaf)

    def _try_split(self, leaf: int) -> None:
        """Split a leaf if the density of its full window has a clear minimum; empty the window."""
        state, window = self.tree_, int(self.window)
        state.filled[leaf] = 0
        if state.n_used == len(state.counts) or state.counts[leaf] <= window:
            return
        positions = state.windows[leaf].astype(np.float64)
        width = normal_bandwidth(positions, self.bandwidth)
        if width == 0.0:
            return
        # The grid and the share on each side of a split are the defaults of `DePDDP`.
        found = lowest_minimum(positions, width, 512, max(int(np.ceil(0.01 * window)), 1))
        if found is None or valley(positions - found[0])[0] < self.valley:
            return
        leading = state.leading[leaf]
        direction = leading / np.sqrt(leading @ leading)
        threshold = float(direction @ state.means[leaf] + found[0])
        state.directions[leaf], state.thresholds[leaf] = direction, threshold
        state.children[leaf] = state.n_used, state.n_used + 1
        state.n_used += 2
