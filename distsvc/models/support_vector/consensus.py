"""Choosing among the cuts of several models' level trees without labels, by a vote.

Every tree proposes the numbers of clusters after which its splits become clearly less significant;
the proposal that agrees best with those of all models wins. A split that the rows hold shows at
several widths of the kernel and in several subspaces; one that a sample's accidents made does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distsvc.models.support_vector.level_tree import LevelTree

VOTE_ROWS = 700
PROPOSALS = 6
"""Most candidates of one member."""

LEAST_Z, ENOUGH_Z = 1.0, 3.0
"""A split below the first is never proposed; above the second, all are equally good."""

AGREEMENT = 0.8
"""The adjusted Rand index above which two clusterings are the same answer."""

LOW_SUPPORT = 0.5
"""Share of the members that find the answer, up to which it is doubtful."""

CLEAR_Z = 2.0
"""Of the clearest split of a doubtful answer, below which the answer is one cluster."""

LISTED = 12
"""Most numbers of clusters that an answer tells of."""

REFERENCE_ROWS = {"coarse": 3_000, "default": 30_000, "fine": 2**62}
"""Rows that z is scaled down to: the fewer, the fewer splits are significant."""


@dataclass(frozen=True)
class Candidate:
    """A proposal of one member: so many clusters, with the branches that make them."""

    member: int
    n_clusters: int
    weight: float
    z: float
    kept: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Answer:
    """The winner of a vote.

    Attributes
    ----------
    member : int
        Its model.
    kept : ndarray of shape (b,), bool
        The branches that are clusters.
    support : float
        Share of the members with a candidate whose adjusted Rand index with the winner is above
        0.8; 1 where nothing is significant in any of them.
    z : float
        Of the least significant split that is kept; NaN for one cluster.
    candidates : list of dict
        The best candidate for each number of clusters: ``n_clusters``, ``votes`` (its share of the
        winner's score), ``support``, ``z``, ``winner``.
    supporters : list of bool
        Which members support it.

    """

    member: int
    kept: np.ndarray
    support: float
    z: float
    candidates: list[dict[str, Any]]
    supporters: list[bool]

    @property
    def n_clusters(self) -> int:
        """Clusters."""
        return int(self.kept.sum())


def elect(trees: Sequence[LevelTree], pilot: np.ndarray, n_rows: int, rows: int) -> Answer:
    """Let the trees vote on rows of the pilot (m, q), with z scaled from n_rows to `rows` rows.

    A tree's splits are ranked by z. Keeping the first k - 1 is a candidate when the last of them
    has z >= 1, with the weight log((min(z_k, 3) + 1/2) / (min(z_{k+1}, 3) + 1/2)): how clearly
    they are set apart from the next one. The winner p maximises sum_q w_q max(ARI(p, q), 0)^3 over
    all candidates q. Nothing significant anywhere, or a winner that few support and none of whose
    splits has z >= 2, is one cluster.
    """
    scale = np.sqrt(min(1.0, rows / n_rows))
    view = pilot[:VOTE_ROWS]
    found = [
        candidate
        for number, tree in enumerate(trees)
        for candidate in _propose(number, tree, scale, view)
    ]
    if not found:
        return _one_cluster(trees, [], [True] * len(trees))
    agreement = rand_indices([candidate.labels for candidate in found])
    scores = np.maximum(agreement, 0.0) ** 3 @ np.array([c.weight for c in found])
    owner = np.array([candidate.member for candidate in found])
    supported = agreement > AGREEMENT
    support = np.array([np.unique(owner[row]).size for row in supported]) / len(trees)
    best = int(np.argmax(scores))
    winner = found[best]
    table = []
    for k in sorted({candidate.n_clusters for candidate in found}):
        of_k = [i for i, candidate in enumerate(found) if candidate.n_clusters == k]
        i = max(of_k, key=lambda i: scores[i])
        table.append(
            {
                "n_clusters": k,
                "votes": float(scores[i] / scores[best]),
                "support": float(support[i]),
                "z": found[i].z,
                "winner": k == winner.n_clusters,
            }
        )
    table.sort(key=lambda row: -row["votes"])
    table = sorted(table[:LISTED], key=lambda row: row["n_clusters"])
    strongest = scale * np.sort(trees[winner.member].z[winner.kept])[-2]
    if support[best] <= LOW_SUPPORT and strongest < CLEAR_Z:
        return _one_cluster(trees, [row | {"winner": False} for row in table], [])
    supporters = np.isin(np.arange(len(trees)), owner[supported[best]]).tolist()
    return Answer(winner.member, winner.kept, float(support[best]), winner.z, table, supporters)


def _one_cluster(
    trees: Sequence[LevelTree], table: list[dict[str, Any]], supporters: list[bool]
) -> Answer:
    middle = len(trees) // 2
    kept = trees[middle].parents < 0
    share = float(np.mean(supporters)) if supporters else 0.0
    return Answer(middle, kept, share, float("nan"), table, supporters or [False] * len(trees))


def _propose(number: int, tree: LevelTree, scale: float, view: np.ndarray) -> Iterator[Candidate]:
    ranked = np.append(scale * np.sort(tree.z)[::-1], 0.0)
    strength = np.log(np.clip(ranked, 0.0, ENOUGH_Z) + 0.5)
    weights = strength[:-1] - strength[1:]
    weights[0] = 0.0  # one cluster is no candidate: too weak a model always proposes it
    weights[ranked[:-1] < LEAST_Z] = 0.0
    rows = np.ascontiguousarray(view[:, : tree.S.shape[0]])
    for i in np.argsort(-weights, kind="stable")[:PROPOSALS]:
        if weights[i] > 1e-6:
            k = int(i) + 1
            kept = tree.most_significant(k)
            labels = tree.voter(kept)(rows)[0]
            yield Candidate(number, k, float(weights[i]), float(ranked[i]), kept, labels)


def rand_indices(labels: Sequence[np.ndarray]) -> np.ndarray:
    """Return the adjusted Rand index (m, m) float64 of all pairs of labellings of the same rows.

    Labels are small non-negative integers. As scikit-learn's, which would take a hundred times as
    long to check its input for every pair.
    """
    n, m = len(labels[0]), len(labels)
    sizes = [int(label.max()) + 1 for label in labels]
    together = np.empty((m, m))
    for i, label in enumerate(labels):
        for j in range(i + 1):
            counts = np.bincount(sizes[j] * label + labels[j])
            together[i, j] = together[j, i] = (counts * (counts - 1)).sum() / 2
    own = np.diag(together)
    expected = np.outer(own, own) / (n * (n - 1) / 2)
    most = (own[:, None] + own) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(most == expected, 1.0, (together - expected) / (most - expected))
