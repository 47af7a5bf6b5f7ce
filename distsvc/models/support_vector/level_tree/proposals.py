"""The cuts that level trees of several models propose, with their weights and merits.

Every tree ranks its splits twice, by how significant and by how deep they are, and proposes the
numbers of clusters after which the next split is clearly weaker. What a cut does to rows that are
near to each other tells more: a cut through a cluster separates many of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from distsvc.kernels.agreement import parted
from distsvc.models.rows.agreement import rand_indices
from distsvc.models.rows.threads import on_threads
from distsvc.models.support_vector.level_tree.tree import LevelTree

PROPOSALS = 6
"""Most candidates of one member by each of its two rankings."""

LEAST_Z, ENOUGH_Z = 1.0, 3.0
"""A split below the first is never proposed; above the second, all are equally good."""

DEPTH_WEIGHT = 0.3
"""The weight of a proposal by depth, where one by significance weighs 1."""

LEAST_WEIGHT = 1e-6
FAINT_Z = 0.05

NEAREST = 10
"""Neighbours of a row that a cut may separate from it."""

LARGE_SHARE = 0.03
"""Share of the near pairs that a cut separates, of all pairs that it does, which halves its
standing."""


class VoteRows:
    """The viewed pilot rows (m, q) float32, m > 1, on which candidates are compared; it caches.

    Trees are asked on `n_jobs` threads.
    """

    def __init__(self, view: np.ndarray, n_jobs: int | None = 1):
        self.view, self.n_jobs = view, n_jobs
        self._asked: dict[tuple[int, bytes], tuple[np.ndarray, float, float]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: not what can be found again."""
        return {"view": self.view, "n_jobs": self.n_jobs, "_asked": {}}

    def under(self, number: int, tree: LevelTree, kept: bytes) -> tuple[np.ndarray, float, float]:
        """Return the labels (m,) int32 under a cut of a tree, `separated` and `entropy`."""
        if (number, kept) not in self._asked:
            seen = np.ascontiguousarray(self.view[:, : tree.S.shape[0]])
            labels = tree.voter(np.frombuffer(kept, bool)).labels(seen)
            self._asked[number, kept] = labels, self.separated(labels), entropy(labels)
        return self._asked[number, kept]

    @cached_property
    def near(self) -> np.ndarray:
        """The numbers (m, k) int64 of the rows nearest to each, 10 where there are so many."""
        k = min(NEAREST + 1, len(self.view))
        near = cKDTree(self.view).query(self.view, k=k)[1].reshape(len(self.view), k)
        return np.ascontiguousarray(near[:, 1:])

    def separated(self, labels: np.ndarray) -> float:
        """Return how much nearer than others pairs of rows are that labels (m,) keep together.

        The share of the near pairs that they separate, of the share of all pairs that they do: 1
        for labels by chance, 0 where clusters lie apart.
        """
        shares = np.bincount(labels) / len(labels)
        all_pairs = 1.0 - float((shares * shares).sum())
        near_pairs = parted(labels.astype(np.int32), self.near) / max(self.near.size, 1)
        return near_pairs / max(all_pairs, 1e-3)


def entropy(labels: np.ndarray) -> float:
    """Return the entropy of clusters' shares of the rows, in nats, from labels (m,)."""
    shares = np.bincount(labels) / len(labels)
    shares = shares[shares > 0.0]
    return float(-(shares * np.log(shares)).sum())


def merit_of(entropy: float, separated: float) -> float:
    """Return sqrt(entropy) / (1 + separated / 0.03).

    It is more for several clusters, and less for a cut through one.
    """
    return float(np.sqrt(max(entropy, 1e-3)) / (1.0 + separated / LARGE_SHARE))


@dataclass(frozen=True)
class Proposal:
    """A cut that a member proposes.

    Its vote has a `weight`; `z` is that of the least significant split kept, infinite for one
    cluster. `kept` (b,) bool are the branches that are clusters, `labels` (m,) int32 the clusters
    of the vote's rows, `separated` and `entropy` those of the labels.
    """

    member: int
    weight: float
    z: float
    kept: np.ndarray
    labels: np.ndarray
    separated: float
    entropy: float

    @property
    def n_clusters(self) -> int:
        """Clusters."""
        return int(self.kept.sum())

    @property
    def merit(self) -> float:
        """The factor of its votes, `merit_of`."""
        return merit_of(self.entropy, self.separated)


def proposals(trees: Sequence[LevelTree], scale: float, rows: VoteRows) -> list[Proposal]:
    """Return the cuts that trees propose, their z multiplied by `scale`.

    Splits ranked by z: keeping the first k - 1 is a candidate when the last of them has z >= 1,
    with the weight log((min(z_k, 3) + 1/2) / (min(z_{k+1}, 3) + 1/2)): how clearly they are set
    apart from the next one. Splits with z >= 1 ranked by depth: the weight is 0.3 times what the
    last is deeper than the next. What both propose has both weights.
    """

    def proposed(number: int) -> list[Proposal]:
        tree = trees[number]
        offered = [*_by_significance(tree, scale), *_by_depth(tree, scale)]
        return _candidates(number, tree, offered, scale, rows)

    return _of_all(proposed, trees, rows)


def cuts_into(
    trees: Sequence[LevelTree], n_clusters: int, scale: float, rows: VoteRows
) -> list[Proposal]:
    """Return the trees' cuts into so many clusters, or the most that any tree has.

    Each offers three: its most significant splits; those that are left when of all with z >= 1 the
    smallest clusters are joined to others; and the deepest. A cut weighs as much as the z of the
    least significant split that it keeps, the last 0.3 times that.
    """
    n_clusters = min(n_clusters, max(tree.n_branches for tree in trees))

    def proposed(number: int) -> list[Proposal]:
        tree = trees[number]
        if tree.n_branches < n_clusters:
            return []
        cuts = (
            (tree.most_significant(n_clusters), 1.0),
            (_joined(number, tree, n_clusters, scale, rows), 1.0),
            (_first(tree, _deep(tree, scale), n_clusters), DEPTH_WEIGHT),
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
    """Return what all trees propose, by their numbers."""
    _ = rows.near  # found once, before threads want it
    found = on_threads(proposed, range(len(trees)), rows.n_jobs)
    return list(chain.from_iterable(found))


def _candidates(
    number: int,
    tree: LevelTree,
    offered: Sequence[tuple[np.ndarray, float]],
    scale: float,
    rows: VoteRows,
) -> list[Proposal]:
    """Return the cuts that a member offers with their weights; those of one cut are added up."""
    found: list[Proposal] = []
    weights: dict[bytes, float] = {}
    for kept, weight in offered:
        weights[kept.tobytes()] = weights.get(kept.tobytes(), 0.0) + weight
    for key, weight in weights.items():
        kept = np.frombuffer(key, bool)
        labels, separated, entropy = rows.under(number, tree, key)
        z = scale * float(tree.z[kept].min())
        found.append(Proposal(number, weight, z, kept, labels, separated, entropy))
    return found


def most_like(
    trees: Sequence[LevelTree], labels: np.ndarray, scale: float, rows: VoteRows
) -> tuple[Proposal, float]:
    """Return the cut of any tree that is most like `labels` (m,) of the first rows; it has no vote.

    And their adjusted Rand index. Of each tree as many clusters are joined as make pairs of rows
    more alike, and those that cost least until there are no more than labels.
    """
    labels = np.unique(labels[: len(rows.view)], return_inverse=True)[1]
    found: list[tuple[Proposal, float]] = []
    for number, tree in enumerate(trees):
        kept = _with_rows(number, tree, _joined_like(number, tree, labels, rows), rows)
        [cut] = _candidates(number, tree, [(kept, 0.0)], scale, rows)
        found.append((cut, rand_index(cut.labels[: len(labels)], labels)))
    return max(found, key=lambda pair: pair[1])


def _with_rows(number: int, tree: LevelTree, kept: np.ndarray, rows: VoteRows) -> np.ndarray:
    """Return the branches (b,) bool without those of clusters to which no row goes.

    A cluster of few support vectors can lose all its rows to one that others were joined to.
    """
    while True:
        sizes = np.bincount(rows.under(number, tree, kept.tobytes())[0], minlength=kept.sum())
        if sizes.all():
            return kept
        own = np.flatnonzero(kept & (tree.parents >= 0))
        ends = tree.parts(kept)[tree.edges[tree.joints[own]]]
        kept = kept.copy()
        kept[own[np.argmax((sizes[ends] == 0).any(axis=1))]] = False


def _joined_like(number: int, tree: LevelTree, labels: np.ndarray, rows: VoteRows) -> np.ndarray:
    """Return the branches (b,) bool whose cut is like labels (m,), joined two by two."""
    kept = np.ones(tree.n_branches, bool)
    part = rows.under(number, tree, kept.tobytes())[0][: len(labels)]
    k = int(labels.max()) + 1
    counts = np.bincount(part * k + labels, minlength=len(kept) * k).reshape(-1, k).astype(float)
    own = np.flatnonzero(tree.parents >= 0)
    ends = tree.parts(kept)[tree.edges[tree.joints[own]]]
    open_ = np.ones(len(own), bool)
    while open_.any():
        one, other = counts[ends[open_, 0]], counts[ends[open_, 1]]
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
    """Yield the branches of the cuts that weigh most; all but one cluster, the first.

    That is no candidate, because a model that is too narrow or too wide always proposes it.
    """
    weights[0] = 0.0
    for i in np.argsort(-weights, kind="stable")[:PROPOSALS]:
        if weights[i] > LEAST_WEIGHT:
            yield _first(tree, order, int(i) + 1), float(weights[i])


def _deep(tree: LevelTree, scale: float) -> np.ndarray:
    """Return the branches by falling depth, those with z >= 1 before all others."""
    faint = scale * tree.z < LEAST_Z
    return np.lexsort((-tree.depths, faint))


def _joined(
    number: int, tree: LevelTree, n_clusters: int, scale: float, rows: VoteRows
) -> np.ndarray:
    """Return the branches left of all with z >= 1 when small clusters are joined to others.

    The smallest is joined across its highest saddle, until there are `n_clusters`; a few rows of
    noise then take no cluster of the number given.
    """
    clear = int((scale * tree.z >= LEAST_Z).sum())
    kept = tree.most_significant(max(n_clusters, clear))
    labels = rows.under(number, tree, kept.tobytes())[0]
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


def _first(tree: LevelTree, order: np.ndarray, n_clusters: int) -> np.ndarray:
    kept = np.zeros(tree.n_branches, bool)
    kept[order[:n_clusters]] = True
    return kept
