"""iMDH: a divisive tree of minimum-density hyperplanes, learned in streaming passes.

| Hofmeyr (2021) | here |
|---|---|
| D, the depth of the model | ``depth`` |
| C, alpha (in units of sigma), eq. (3) | ``penalty``, ``alpha`` |
| delta of section 4.2.2; h^(t) | ``bandwidth`` |
| (v_i, b_i), mu_i, t_i, Algorithm 1 | `distsvc.models.hyperplanes.tree.GrowingTree` |
| SS(i), P(H), H_K, eq. (22) | `distsvc.models.hyperplanes.tree.ClusterTree` |
| iMDH, iMDH_k | ``n_clusters=None``, an integer |
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.metrics import normalized_mutual_info_score
from sklearn.utils.validation import check_is_fitted, validate_data

from distsvc.errors import UnusableRowsError
from distsvc.models import sampling
from distsvc.models.hyperplanes.tree import ClusterTree, Cut, GrowingTree, elbow, valley
from distsvc.models.sampling import PILOT_ROWS, Reservoir, seed_of
from distsvc.parameters import COUNT, check_parameters

Ranges = list[tuple[int, int]]

PUBLISHED = {"alpha": 0.1, "clip": 0.0, "passes": 1, "n_init": 1, "elbow": "angle", "valley": 0.0}
"""The parameters of the paper's experiments (section 4), where they are not the defaults."""

CHOSEN = (
    "cut_", "cluster_tree_", "n_clusters_", "labels_", "leaves_",
    "valleys_", "clearest_valley_", "agreement_", "restart_",
)  # fmt: skip
"""What `choose` and `fit` find out, and what more rows make untrue."""

CACHED_VALUES = 2**18
ROWS_WANTED = 250_000
MOST_PASSES = 5
"""Beyond some 500 the first steps of an unclipped b multiply up past the largest float64."""


class IncrementalMDH(ClusterMixin, BaseEstimator):
    """Clusters are the leaves of a tree of hyperplanes through regions of low density.

    A complete binary tree is learned from a stream of rows: every node turns its hyperplane by
    stochastic gradient descent towards low density along it. The tree is then pruned by the
    within-cluster sum of squares to the elbow of its curve, or to a given number of clusters.
    Features should have variances of about 1: the published steps, which are ours, depend on the
    unit, and far from it hyperplanes hardly move or never settle.

    Parameters
    ----------
    depth : int
        Levels of the tree, 1 to 16: 2^(depth - 1) leaves, the most clusters there can be. (The
        paper says 256 clusters at depth 8; by its own formula, and in its code, there are 128.)
    n_clusters : int or None
        Clusters wanted (iMDH_k), or None for the elbow (iMDH). Fewer are returned when fewer leaves
        have rows, with a warning.
    alpha : float
        A hyperplane farther than alpha standard deviations of the projections from its node's mean
        is penalised. The paper has 0.1.
    penalty : float
        C of eq. (3), at most 100. Below 1 or so it no longer holds hyperplanes near their means.
    bandwidth : float
        Kernel bandwidth at a node's t-th row, in units of sigma (t + 1)^-1/5.
    clip : float
        b is kept within clip * alpha * sigma. 0 does not, as the paper; then the first steps, with
        their high rates, can leave a hyperplane beyond all rows for good.
    passes : int or None
        Passes over the rows, each in another order. None: as many as it takes to learn from 250,000
        rows, 1 to 5. The paper has 1.
    max_effective_samples : int or None
        A row weighs at least 1 / max_effective_samples in its nodes, so that old rows are forgotten
        and the tree follows a drifting stream. None never forgets.
    n_init : int
        Trees learned from other orders of the rows. The one whose clusters agree best with those of
        the others, by the mean normalised mutual information, is kept. The paper has 1.
    growth : {"prune", "forward"}
        How the models H_K are found: by removing splits from the full tree (section 3), or by
        adding them from the root, the best first (a later option of the author's code).
    elbow : {"weighted", "angle"}
        Rule for the number of clusters: `distsvc.models.hyperplanes.tree.elbow`.
    valley : float
        The answer is one cluster where, on up to 10,000 rows, none of the splits at the elbow, in
        any restart, has a z of at least this much (`distsvc.models.hyperplanes.tree.valley`). 0
        does not ask, as the paper. Only with ``n_clusters=None``.
    max_samples : int or None
        Most rows that are learned from and counted, about, drawn at random; at least 100. None for
        all.
    random_state : int, RandomState or None
        Decides the order of rows.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        Cluster of every row, 0 the largest (as counted on the rows learned from). Equal to
        ``predict(X)``.
    n_clusters_ : int
    cluster_tree_ : ClusterTree of distsvc.models.hyperplanes.tree
        The nodes with their hyperplanes, rows and sums of squares, and the order of splits. Rows
        are relative to ``centre_``.
    agreement_ : float
        Mean normalised mutual information of the chosen tree's clusters with those of the other
        restarts, 0 to 1; NaN with one restart. Low: another order of the rows, other clusters.
    valleys_ : ndarray of shape (n_clusters_ - 1,), float64
        z of every split of the answer, by importance.
    centre_ : ndarray of shape (d,), float64
        What is subtracted from the rows first.
    n_samples_ : int
        Rows learned from.
    notes_ : list of str
        What is remarkable about the fit; also issued as warnings by `fit`.

    Notes
    -----
    Departures from the paper, which its author's code shares: the density's constant 1 / sqrt(2 pi)
    is left out of the gradients; rates are sqrt(d) / (t + 1) and 1 / (t + 1); means and variances
    start with one observation at 0; node k starts along feature k mod d. Ours: a node whose rows
    all have the same projection takes the direction of its next row; nodes with all rows on one
    side are not splits, so all clusters have rows; with ``n_clusters=None`` one cluster can be the
    answer; the rows are shuffled. `PUBLISHED` in this module has the parameters of the paper's
    procedure. There is no outlier: a tree of hyperplanes divides all of space.

    """

    centre_: np.ndarray
    pilot_: np.ndarray
    notes_: list[str]
    cut_: Cut
    cluster_tree_: ClusterTree

    def __init__(
        self,
        depth: int = 8,
        n_clusters: int | None = None,
        *,
        alpha: float = 0.5,
        penalty: float = 10.0,
        bandwidth: float = 1.0,
        clip: float = 5.0,
        passes: int | None = None,
        max_effective_samples: int | None = None,
        n_init: int = 5,
        growth: str = "prune",
        elbow: str = "weighted",
        valley: float = 4.0,
        max_samples: int | None = 1_000_000,
        random_state: Any = None,
    ):
        self.depth = depth
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.penalty = penalty
        self.bandwidth = bandwidth
        self.clip = clip
        self.passes = passes
        self.max_effective_samples = max_effective_samples
        self.n_init = n_init
        self.growth = growth
        self.elbow = elbow
        self.valley = valley
        self.max_samples = max_samples
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> IncrementalMDH:
        """Cluster the rows of X (n, d), float32 or float64, n >= 2.

        Raises
        ------
        ValueError
            For NaN or infinity in X, fewer than 2 rows, or a parameter out of range.

        """
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        keys = sampling.row_keys(self.begin(), np.arange(len(X)))
        ranges = self.key_ranges(len(X))
        order = sampling.lowest(keys, len(X))
        self.set_pilot(X[order[:PILOT_ROWS]], len(X))
        ranked_keys = keys[order]
        n = sampling.slice_by_key(ranked_keys, *ranges[-1]).stop
        ranked = np.empty((n, X.shape[1]), np.float32)
        for part in _parts(n, X.shape[1]):
            self.centred(X[order[part]], out=ranked[part])
        grown = [
            self.grow(
                restart,
                len(X),
                lambda epoch, some: sampling.memory_blocks(
                    ranked, ranked_keys[:n], some, self.seed_, epoch
                ),
            )
            for restart in range(self.n_init)
        ]
        self.choose([tree for tree, _ in grown])
        whole = self.cluster_tree_.cut(self.cluster_tree_.n_leaves)
        if n == len(X):
            self.leaves_ = np.empty(n, np.int32)
            self.leaves_[order] = whole.labels_of_bottom(2**self.depth)[grown[self.restart_][1]]
        else:
            self.leaves_ = self._label(whole, X)[0]
        self.labels_ = _labels_of_leaves(whole, self.cut_)[self.leaves_]
        for note in self.notes_:
            warnings.warn(note, UserWarning, stacklevel=2)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> IncrementalMDH:
        """Learn one tree from the rows of a block X (n, d), in their order and in one pass.

        Rows should come in random order. The first block decides the centre. What pruning needs is
        counted as the rows come, under the tree of that moment.
        """
        first = not hasattr(self, "growing_")
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=first)
        if first:
            self.begin()
            self.set_pilot(X[:PILOT_ROWS], len(X))
            self.pilot_ = self.pilot_[:0]
            self.growing_ = GrowingTree.start(self.depth, X.shape[1])
            self.reservoir_ = Reservoir.empty(self.seed_, X.shape[1])
        Z = self.centred(X)
        self._learn(self.growing_, Z)
        self.growing_.count(Z)
        if self.max_effective_samples is not None:
            n = float(self.growing_.counts.sum())
            self.growing_.forget(min(1.0, self.max_effective_samples / n))
        self.reservoir_.add(Z)
        if self.max_effective_samples is None:
            self.pilot_ = self.reservoir_.rows
        else:
            latest = min(self.max_effective_samples, PILOT_ROWS)
            self.pilot_ = np.concatenate([self.pilot_, Z])[-latest:]
        self.n_samples_ = self.n_rows_ = self.reservoir_.n_seen
        for name in CHOSEN:
            self.__dict__.pop(name, None)
        self.notes_ = []
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the cluster (n,) int32 of every row of X (n, d)."""
        return self._label(self._checked_cut(), self._checked(X))[0]

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the distance (n,) float64 of every row of X (n, d) to the nearest hyperplane.

        Of those on the row's path, in units of that node's standard deviation along its normal:
        near 0 the row could have gone to another cluster. Infinity where there is one cluster.
        """
        return self._label(self._checked_cut(), self._checked(X))[1].astype(np.float64)

    def cut(self, n_clusters: int, X: Any = None) -> np.ndarray:
        """Return labels (n,) int32 for another number of clusters, without learning again.

        They are those of the rows of X (n, d), or of the rows that `fit` was given.
        """
        COUNT.check("n_clusters", n_clusters)
        tree = self._checked_cut().tree
        cut = tree.cut(n_clusters)
        if X is not None:
            return self._label(cut, self._checked(X))[0]
        if not hasattr(self, "leaves_"):
            raise ValueError("rows were learned by partial_fit and not kept: give X")
        whole = tree.cut(tree.n_leaves)
        return _labels_of_leaves(whole, cut)[self.leaves_]

    # The phases that `fit` and the distributed job have in common, in the order of their use.

    def begin(self) -> int:
        """Check the parameters, forget an earlier fit and return the seed of the row keys."""
        check_parameters("imdh", self.get_params())
        for name in ("growing_", "reservoir_", *CHOSEN):
            self.__dict__.pop(name, None)
        self.seed_ = seed_of(self.random_state)
        self.notes_ = []
        return self.seed_

    def key_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the blocks of a pass over at most `max_samples` of the rows."""
        return sampling.key_blocks(n_rows, min(n_rows, self.max_samples or n_rows))

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Settle the centre from pilot rows (m, d) of n_rows, in the order of their keys."""
        self.n_rows_ = n_rows
        self.centre_ = pilot.mean(axis=0, dtype=np.float64)
        self.pilot_ = self.centred(pilot)

    def centred(self, X: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the rows as the kernels want them: centred, float32, C order."""
        out = np.empty(X.shape, np.float32) if out is None else out
        return np.subtract(X, self.centre_, out=out, dtype=np.float64, casting="unsafe")

    def n_passes(self, n_rows: int) -> int:
        """Return the number of passes over the sample of a table of so many rows."""
        n = min(n_rows, self.max_samples or n_rows)
        return self.passes or min(max(-(-ROWS_WANTED // n), 1), MOST_PASSES)

    def grow(
        self, restart: int, n_rows: int, blocks: Callable[[int, Ranges], Iterable[np.ndarray]]
    ) -> tuple[GrowingTree, np.ndarray]:
        """Learn a tree and count its rows; ``blocks(epoch, ranges)`` are centred rows of a pass.

        Every pass of every restart takes the ranges in another order, and the rows of a range too.
        Returns the tree, and the bottom node (n,) int32 of every row in the order of keys.
        """
        tree: GrowingTree | None = None
        ranges, passes = self.key_ranges(n_rows), self.n_passes(n_rows)
        for number in range(restart * passes, (restart + 1) * passes):
            order = sampling.epoch_order(self.seed_, number, len(ranges), len(ranges))
            for block in blocks(number, [ranges[i] for i in order]):
                tree = tree or GrowingTree.start(self.depth, block.shape[1])
                self._learn(tree, block)
        assert tree is not None
        return tree, np.concatenate([tree.count(block) for block in blocks(0, ranges)])

    def choose(self, trees: Sequence[GrowingTree]) -> None:
        """Prune the trees; keep the one whose clusters of the pilot agree most with the others."""
        grown = [tree.with_rows(self.growth) for tree in trees]
        if not all(np.isfinite(tree.curve).all() for tree in grown):
            raise UnusableRowsError("sums of squares are not finite in float32; scale the features")
        cuts = [tree.cut(self.n_clusters or elbow(tree.curve, self.elbow)) for tree in grown]
        valleys = [self._valleys(cut) for cut in cuts]
        best, self.agreement_ = most_agreeing([cut.label(self.pilot_)[0] for cut in cuts])
        cut = cuts[best]
        self.clearest_valley_ = float(max(z.max(initial=0.0) for z in valleys))
        too_shallow = self.clearest_valley_ < self.valley
        if self.n_clusters is None and cut.n_clusters > 1 and too_shallow:
            self._note(
                f"the answer is one cluster: none of the {cut.n_clusters - 1} splits at the elbow, "
                "in any restart, passes through a valley of the density (the clearest has z = "
                f"{self.clearest_valley_:.1f}, less than valley = {self.valley:g})"
            )
            cut = cut.tree.cut(1)
        if self.n_clusters is not None and cut.n_clusters < self.n_clusters:
            self._note(
                f"{self.n_clusters} clusters were asked for, but only {cut.n_clusters} leaves of "
                "the tree have rows"
            )
        self.restart_ = best
        if not hasattr(self, "growing_"):
            self.n_samples_ = round(float(trees[best].counts.sum()))
        self.cut_, self.cluster_tree_, self.n_clusters_ = cut, cut.tree, cut.n_clusters
        self.valleys_ = valleys[best][: self.n_clusters_ - 1]

    def fitted_facts(self) -> dict[str, Any]:
        """Return the numbers that the fit arrived at."""
        return {
            "n_clusters": self.n_clusters_,
            "n_leaves": self.cluster_tree_.n_leaves,
            "n_samples": self.n_samples_,
            "n_passes": 1 if hasattr(self, "growing_") else self.n_passes(self.n_rows_),
            "share_sampled": self.n_samples_ / self.n_rows_,
            "agreement": None if np.isnan(self.agreement_) else self.agreement_,
            "restart": self.restart_,
            "clearest_valley": self.clearest_valley_,
        }

    def _learn(self, tree: GrowingTree, Z: np.ndarray) -> None:
        most = self.max_effective_samples or 2**62
        clip = float(self.clip) or np.inf
        alpha, penalty, bandwidth = map(float, (self.alpha, self.penalty, self.bandwidth))
        tree.learn(Z, alpha, penalty, bandwidth, int(most), clip)

    def _valleys(self, cut: Cut) -> np.ndarray:
        return np.array([valley(positions)[0] for _, _, positions in cut.projections(self.pilot_)])

    def _checked_cut(self) -> Cut:
        if hasattr(self, "growing_") and not hasattr(self, "cut_"):
            self.choose([self.growing_])
        check_is_fitted(self, "cut_")
        return self.cut_

    def _checked(self, X: Any) -> np.ndarray:
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=False)

    def _label(self, cut: Cut, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return labels and margins of raw rows X (n, d), block by block to need little memory."""
        found = [cut.label(self.centred(X[part])) for part in _parts(*X.shape)]
        labels, margins = zip(*found, strict=True)
        return np.concatenate(labels), np.concatenate(margins)

    def _note(self, text: str) -> None:
        if text not in self.notes_:
            self.notes_.append(text)


def _parts(n: int, d: int) -> Iterator[slice]:
    """Yield slices of n rows of d float32 that stay in a processor's cache."""
    step = max(CACHED_VALUES // d, 1)
    for first in range(0, n, step):
        yield slice(first, min(first + step, n))


def most_agreeing(partitions: Sequence[np.ndarray]) -> tuple[int, float]:
    """Return which labels (n,) agree most with the others, and their mean agreement with them.

    Agreement is the mutual information normalised by the geometric mean of the entropies.
    """
    n = len(partitions)
    if n == 1:
        return 0, float("nan")
    agreement = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            agreement[i, j] = agreement[j, i] = normalized_mutual_info_score(
                partitions[i], partitions[j], average_method="geometric"
            )
    mean = (agreement.sum(axis=1) / (n - 1)).round(12)
    best = int(np.argmax(mean))
    return best, float(mean[best])


def _labels_of_leaves(whole: Cut, cut: Cut) -> np.ndarray:
    """Return the cluster in `cut` of every leaf, by its label in `whole`, the cut of all leaves."""
    labels = cut.labels.copy()
    for node in whole.tree.splits:
        below = whole.children[node]
        labels[below] = np.where(labels[node] >= 0, labels[node], labels[below])
    leaves = np.flatnonzero(whole.labels >= 0)
    return labels[leaves[np.argsort(whole.labels[leaves])]]
