"""Cuts that the level trees of several models propose, with weights and merits.

Every tree ranks its splits by significance, and again by depth. It proposes cuts after which the
next split is clearly weaker. A cut that separates many near rows has less merit, because it
probably cuts through a cluster.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from distsvc.kernels.rows import separated_pairs
from distsvc.models.rows.agreement import rand_indices
from distsvc.models.rows.neighbours import nearest_others
from distsvc.models.rows.threads import map_threads, one_thread
from distsvc.models.support_vector.level_tree.tree import LevelTree

PROPOSALS = 6
"""Maximum number of candidates of one model from each ranking."""

LEAST_Z, ENOUGH_Z = 1.0, 3.0
"""Minimum z of a split in a proposal, and z above which splits count as equally significant."""

DEPTH_WEIGHT = 0.3
"""Factor on the weight of a proposal by depth, relative to a proposal by significance."""

FAINT_Z = 0.05
"""Lower bound of z in the weight of a cut into a given number of clusters."""

VOTE_NEIGHBOURS = 10
"""Number of nearest neighbours of each row for `VoteRows.separated`."""

LARGE_SHARE = 0.03
"""Value of `VoteRows.separated` that halves a proposal's merit."""


class VoteRows:
    """Pilot rows on which cuts are compared, with a cache of their labels in each cut.

    `view` (m, q) float32 are the rows along the components, m > 1. Trees label them on `n_jobs`
    threads.
    """

    def __init__(self, view: np.ndarray, n_jobs: int | None = 1):
        self.view, self.n_jobs = view, n_jobs
        self._cache: dict[tuple[int, bytes], tuple[np.ndarray, float, float]] = {}

    def __getstate__(self) -> dict[str, object]:
        return {"view": self.view, "n_jobs": self.n_jobs, "_cache": {}}

    def cut(self, number: int, tree: LevelTree, kept: bytes) -> tuple[np.ndarray, float, float]:
        """Return labels (m,) int32 in a cut of tree `number`, and their `separated` and `entropy`.

        `kept` are the bytes of the cut's branches (b,) bool.
        """
        if (number, kept) not in self._cache:
            voter = tree.voter(tree.parts(np.frombuffer(kept, bool)))
            labels = voter.labels(tree.seen(self.view))
            self._cache[number, kept] = labels, self.separated(labels), entropy(labels)
        return self._cache[number, kept]

    @cached_property
    def near(self) -> np.ndarray:
        """Indices (m, k) int64 of the rows nearest to each row, k <= `VOTE_NEIGHBOURS`."""
        k = min(VOTE_NEIGHBOURS, len(self.view) - 1)
        with one_thread():
            return nearest_others(self.view, k, self.n_jobs)[1]

    def separated(self, labels: np.ndarray) -> float:
        """Return the share of near pairs of rows that labels (m,) separate, relative to all pairs.

        It is about 1 for random labels, and 0 if every row has its neighbours' label.
        """
        shares = np.bincount(labels) / len(labels)
        all_pairs = 1.0 - float((shares * shares).sum())
        near_pairs = separated_pairs(labels.astype(np.int32), self.near) / max(self.near.size, 1)
        return near_pairs / max(all_pairs, 1e-3)


def entropy(labels: np.ndarray) -> float:
    """Return the entropy, in nats, of the clusters' sizes by labels (m,)."""
    shares = np.bincount(labels) / len(labels)
    shares = shares[shares > 0.0]
    return float(-(shares * np.log(shares)).sum())


def merit_of(entropy: float, separated: float) -> float:
    """Return sqrt(entropy) / (1 + separated / 0.03): high for even clusters with clear borders."""
    return float(np.sqrt(max(entropy, 1e-3)) / (1.0 + separated / LARGE_SHARE))


@dataclass(frozen=True)
class Proposal:
    """Cut that a model proposes."""

    member: int  # index of the model
    weight: float  # weight of its vote
    z: float  # z of its least significant split; infinite for one cluster
    kept: np.ndarray  # (b,) bool: branches that are clusters
    labels: np.ndarray  # (m,) int32: clusters of the rows of `VoteRows`
    separated: float  # `VoteRows.separated` of the labels
    entropy: float  # `entropy` of the labels

    @property
    def n_clusters(self) -> int:
        return int(self.kept.sum())

    @property
    def merit(self) -> float:
        return merit_of(self.entropy, self.separated)


def proposals(trees: Sequence[LevelTree], scale: float, rows: VoteRows) -> list[Proposal]:
    """Return the cuts that trees propose, with their z multiplied by `scale`.

    Splits are ranked by z, and again by depth. A proposal is the first k - 1 splits of a ranking,
    all with z >= 1. Its weight is the gap to the next split. By z, the gap is
    log((min(z_k, 3) + 1/2) / (min(z_{k+1}, 3) + 1/2)). By depth, it is 0.3 times the difference in
    depth. The weights of a cut from both rankings are added.
    """

    def proposed(number: int) -> list[Proposal]:
        tree = trees[number]
        offered = [*_by_significance(tree, scale), *_by_depth(tree, scale)]
        return _candidates(number, tree, offered, scale, rows)

    return _of_all(proposed, trees, rows)


def cuts_into(
    trees: Sequence[LevelTree], n_clusters: int, scale: float, rows: VoteRows
) -> list[Proposal]:
    """Return the trees' cuts into `n_clusters`, or fewer if no tree has so many branches.

    Each tree offers three cuts. The first keeps the most significant splits. The second starts from
    all splits with z >= 1 and merges the smallest clusters. The third keeps the deepest splits. The
    weight of a cut is the z of its least significant split, and 0.3 z for the third cut.
    """
    n_clusters = min(n_clusters, max(tree.n_branches for tree in trees))

    def proposed(number: int) -> list[Proposal]:
        tree = trees[number]
        if tree.n_branches < n_clusters:
            return []
        cuts = (
            (tree.most_significant(n_clusters), 1.0),
            (_joined(number, tree, n_clusters, scale, rows), 1.0),
            (tree.first(_deep(tree, scale), n_clusters), DEPTH_WEIGHT),
        )
        offered = []
        for kept, share in cuts:
            least = max(scale * float(tree.z[kept].min()), FAINT_Z) if n_clusters > 1 else 1.0
            offered.append((kept, share * least))
        return _candidates(number, tree, offered, scale, rows)

    return _of_all(proposed, trees, rows)


def _of_all(
    proposed: Callable[[int], list[Proposal]], trees: Sequence[LevelTree], rows: VoteRows
) -> list[Proposal]:
    _ = rows.near  # fill the cache before threads start
    found = map_threads(proposed, range(len(trees)), rows.n_jobs)
    return list(chain.from_iterable(found))


def _candidates(
    number: int,
    tree: LevelTree,
    offered: Sequence[tuple[np.ndarray, float]],
    scale: float,
    rows: VoteRows,
) -> list[Proposal]:
    """Return proposals for `offered` cuts and weights; the weights of equal cuts are added."""
    found: list[Proposal] = []
    weights: dict[bytes, float] = {}
    for kept, weight in offered:
        weights[kept.tobytes()] = weights.get(kept.tobytes(), 0.0) + weight
    for key, weight in weights.items():
        kept = np.frombuffer(key, bool)
        labels, separated, entropy = rows.cut(number, tree, key)
        z = scale * float(tree.z[kept].min())
        found.append(Proposal(number, weight, z, kept, labels, separated, entropy))
    return found


def most_like(
    trees: Sequence[LevelTree], labels: np.ndarray, scale: float, rows: VoteRows
) -> tuple[Proposal, float]:
    """Return the cut most like `labels` (m,) of the first rows, and its adjusted Rand index.

    In each tree, clusters are merged in pairs, each time the pair that makes most pairs of rows
    agree with `labels`. Merging ends when agreement would fall and there are no more clusters than
    labels. The returned cut has weight 0.
    """
    labels = np.unique(labels[: len(rows.view)], return_inverse=True)[1]
    found: list[tuple[Proposal, float]] = []
    for number, tree in enumerate(trees):
        kept = _with_rows(number, tree, _joined_like(number, tree, labels, rows), rows)
        [cut] = _candidates(number, tree, [(kept, 0.0)], scale, rows)
        found.append((cut, rand_index(cut.labels[: len(labels)], labels)))
    return max(found, key=lambda pair: pair[1])


def _with_rows(number: int, tree: LevelTree, kept: np.ndarray, rows: VoteRows) -> np.ndarray:
    """Return `kept` (b,) bool without clusters that have no rows.

    A cluster of few support vectors can lose all its rows when its neighbours are merged.
    """
    while True:
        sizes = np.bincount(rows.cut(number, tree, kept.tobytes())[0], minlength=kept.sum())
        if sizes.all():
            return kept
        own = np.flatnonzero(kept & (tree.parents >= 0))
        ends = tree.parts(kept)[tree.edges[tree.joints[own]]]
        kept = kept.copy()
        kept[own[np.argmax((sizes[ends] == 0).any(axis=1))]] = False


def _joined_like(number: int, tree: LevelTree, labels: np.ndarray, rows: VoteRows) -> np.ndarray:
    kept = np.ones(tree.n_branches, bool)
    part = rows.cut(number, tree, kept.tobytes())[0][: len(labels)]
    k = int(labels.max()) + 1
    counts = np.bincount(part * k + labels, minlength=len(kept) * k).reshape(-1, k).astype(float)
    own = np.flatnonzero(tree.parents >= 0)
    ends = tree.parts(kept)[tree.edges[tree.joints[own]]]
    open_ = np.ones(len(own), bool)
    while open_.any():
        one, other = counts[ends[open_, 0]], counts[ends[open_, 1]]
        # Pairs of rows that a merge makes agree, minus pairs that it makes disagree.
        gain = 2.0 * (one * other).sum(axis=1) - one.sum(axis=1) * other.sum(axis=1)
        best = int(np.argmax(gain))
        if gain[best] < 0.0 and kept.sum() <= k:
            break
        i = int(np.flatnonzero(open_)[best])
        low, high = ends[i]
        counts[low] += counts[high]
        counts[high] = 0.0
        ends[ends == high] = low
        kept[own[i]] = open_[i] = False
    return kept


def rand_index(labels: np.ndarray, others: np.ndarray) -> float:
    """Return the adjusted Rand index of two labellings (m,) of the same rows."""
    return float(rand_indices([labels, others])[0, 1])


def _by_significance(tree: LevelTree, scale: float) -> Iterator[tuple[np.ndarray, float]]:
    order = np.argsort(-tree.z, kind="stable")
    ranked = np.append(scale * tree.z[order], 0.0)
    strength = np.log(np.clip(ranked, 0.0, ENOUGH_Z) + 0.5)
    weights = strength[:-1] - strength[1:]
    weights[ranked[:-1] < LEAST_Z] = 0.0
    yield from _strongest(tree, order, weights)


def _by_depth(tree: LevelTree, scale: float) -> Iterator[tuple[np.ndarray, float]]:
    order = _deep(tree, scale)
    order = order[(scale * tree.z[order] >= LEAST_Z) & (tree.depths[order] > 0.0)]
    ranked = np.append(tree.depths[order[1:]], 0.0)
    weights = np.append(0.0, ranked[:-1] - ranked[1:])
    yield from _strongest(tree, order, DEPTH_WEIGHT * weights)


def _strongest(
    tree: LevelTree, order: np.ndarray, weights: np.ndarray
) -> Iterator[tuple[np.ndarray, float]]:
    """Yield the cuts of largest weight into at least two clusters.

    One cluster is not proposed, because models with too narrow or too wide kernels always would.
    """
    weights[0] = 0.0
    for i in np.argsort(-weights, kind="stable")[:PROPOSALS]:
        if weights[i] > 1e-6:
            yield tree.first(order, int(i) + 1), float(weights[i])


def _deep(tree: LevelTree, scale: float) -> np.ndarray:
    """Return the branches with z >= 1, then all others, each the deepest first."""
    faint = scale * tree.z < LEAST_Z
    return np.lexsort((-tree.depths, faint))


def _joined(
    number: int, tree: LevelTree, n_clusters: int, scale: float, rows: VoteRows
) -> np.ndarray:
    """Return the branches (b,) bool of a cut into `n_clusters`, made by merging small clusters.

    At first, all branches with z >= 1 are clusters. The smallest cluster merges across its highest
    saddle until `n_clusters` are left, so that a few rows of noise are no cluster.
    """
    clear = int((scale * tree.z >= LEAST_Z).sum())
    kept = tree.most_significant(max(n_clusters, clear))
    labels = rows.cut(number, tree, kept.tobytes())[0]
    sizes = np.bincount(labels, minlength=int(kept.sum())).astype(float)
    own = np.flatnonzero(kept & (tree.parents >= 0))
    ends = tree.parts(kept)[tree.edges[tree.joints[own]]]
    heights = tree.edge_heights[tree.joints[own]]
    for _ in range(int(kept.sum()) - n_clusters):
        smallest = int(np.argmin(sizes))
        at = np.flatnonzero((ends == smallest).any(axis=1) & kept[own])
        i = at[np.argmax(heights[at])]
        other = int(ends[i].sum()) - smallest
        sizes[other] += sizes[smallest]
        sizes[smallest] = np.inf
        ends[ends == smallest] = other
        kept[own[i]] = False
    return kept
