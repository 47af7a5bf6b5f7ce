"""Choosing among the cuts of several models' level trees without labels, by a vote.

The proposal that agrees best with those of all models wins, unless it cuts through clusters. A
split that the rows hold shows at several widths of the kernel and in several subspaces; one that a
sample's accidents made does not. What is proposed, and what speaks for it besides the votes, is in
`proposals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from distsvc.models.rows.mass import FLAT
from distsvc.models.support_vector.level_tree.proposals import (
    Proposal,
    VoteRows,
    cuts_into,
    proposals,
)
from distsvc.models.support_vector.level_tree.tree import LevelTree

VOTE_ROWS = 700
"""Rows on which candidates are compared with each other."""

AGREEMENT = 0.8
"""The adjusted Rand index above which two clusterings are the same answer."""

LOW_SUPPORT = 0.5
"""Share of the members that find the answer, up to which it is doubtful."""

LEAST_STANDING = 0.1
"""Of a winner, below which the answer is one cluster: rows without clusters give less."""

FLAT_STANDING, LOWEST_STANDING = 2.5, 0.04
"""The same in 2 or 3 columns, times the root of the number of rows; and never less."""

STANDING_OF_MANY = 0.45
"""There, times the number of clusters, it is enough: fine partitions are never as alike."""

CLEAR_Z = 3.5
"""Of the clearest split in one column, below which it is one cluster: there few neighbours are
parted by any cut, and all models see the same accidents."""

EVEN_STANDING, STEEPNESS = 0.45, 2.6
"""Of a winner, with which another sample gives the same answer as often as not; and how fast that
chance grows with the standing: by this power, in odds."""

EVEN_NEARNESS, STEEPNESS_OF_ONE = 0.5, 1.5
"""The same of one cluster, by how near a winner came to what it needs."""

LISTED = 12
"""Most numbers of clusters that an answer tells of."""

REFERENCE_ROWS = {"coarse": 3_000, "default": 30_000, "fine": 2**62}
"""Rows that z is scaled down to: the fewer, the fewer splits are significant."""


class Candidate(TypedDict):
    """The best proposal for a number of clusters."""

    n_clusters: int
    standing: float  # a share of the winner's
    votes: float  # a share of the most that any has
    separated: float  # of `VoteRows`
    support: float
    z: float
    winner: bool


@dataclass(frozen=True)
class Rival:
    """The best candidate that is another answer; `share` is its standing, of the winner's."""

    n_clusters: int
    share: float


@dataclass(frozen=True)
class Answer:
    """The winner of a vote: the branches (b,) bool of a model's tree that are `kept` as clusters.

    `support` is the share of the members with a candidate whose adjusted Rand index with the winner
    is above 0.8; 1 where nothing is significant in any of them. `z` is that of the least
    significant split that is kept; NaN for one cluster. `supporters` says of each member whether it
    supports the answer. `standing` is the winner's, a member; that of a winner which was too low is
    told, too. `rival` is the best candidate whose adjusted Rand index with the winner is not above
    0.8. `agreement` is the chance that another sample of as many rows gives this answer, up to that
    index, as it was between halves of labelled sets; the support where the number of clusters is
    given.
    """

    member: int
    kept: np.ndarray
    support: float
    z: float
    candidates: list[Candidate]
    supporters: list[bool]
    standing: float
    rival: Rival | None
    agreement: float

    @property
    def n_clusters(self) -> int:
        """Clusters."""
        return int(self.kept.sum())


def elect(
    trees: Sequence[LevelTree],
    rows: VoteRows,
    n_rows: int,
    reference: int,
    n_clusters: int | None = None,
    least_standing: float = LEAST_STANDING,
) -> Answer:
    """Let the trees vote, with z scaled from n_rows to `reference` rows.

    The votes of a candidate p are sum_q w_q max(ARI(p, q), 0)^3 over all candidates q. The winner
    has the highest standing, its votes times its merit: sqrt(entropy) / (1 + separated / 0.03).
    Candidates are the `proposals` of the trees, or their `cuts_into` a number of clusters. Without
    that number the answer is one cluster where nothing is significant, and where the winner's
    standing, a tree, is too low: below `least_standing`; in 2 or 3 columns below 2.5 / sqrt(n), and
    below 0.45 / k for k clusters. In one column the clearest split decides, by its z >= 3.5.
    """
    scale = float(np.sqrt(min(1.0, reference / n_rows)))
    if n_clusters is None:
        found = proposals(trees, scale, rows)
    else:
        found = cuts_into(trees, n_clusters, scale, rows)
    if not found:
        return _one_cluster(trees, [], [True] * len(trees), 0.0, 0.0)
    agreement = rand_indices([candidate.labels[:VOTE_ROWS] for candidate in found])
    votes = np.maximum(agreement, 0.0) ** 3 @ np.array([c.weight for c in found])
    owner = np.array([candidate.member for candidate in found])
    supported = agreement > AGREEMENT
    support = np.array([np.unique(owner[row]).size for row in supported]) / len(trees)
    standing = votes * np.array([candidate.merit for candidate in found])
    best = int(np.argmax(standing))
    winner = found[best]
    table = _listed(found, standing / standing[best], votes / votes.max(), support, best)
    highest = float(standing[best]) / len(trees)
    d = rows.view.shape[1]
    if d == 1:
        clearest = np.sort(trees[winner.member].z[winner.kept])[-2:][0]
        nearness = float(scale * clearest) / CLEAR_Z
    elif d <= FLAT:
        least = max(FLAT_STANDING / np.sqrt(n_rows), LOWEST_STANDING)
        nearness = highest / min(least, STANDING_OF_MANY / winner.n_clusters)
    else:
        nearness = highest / least_standing
    if n_clusters is None and nearness < 1.0:
        none = [row | {"winner": False} for row in table]
        return _one_cluster(trees, none, [], highest, nearness)
    supporters = np.isin(np.arange(len(trees)), owner[supported[best]]).tolist()
    z = winner.z if winner.n_clusters > 1 else float("nan")
    found_support = float(support[best])
    others = np.where(supported[best], -1.0, standing / standing[best])
    second, rival = int(np.argmax(others)), None
    if others[second] > 0.0:
        rival = Rival(found[second].n_clusters, float(others[second]))
    chance = found_support if n_clusters else _chance(highest / EVEN_STANDING, STEEPNESS)
    return Answer(
        winner.member, winner.kept, found_support, z, table, supporters, highest, rival, chance
    )


def _chance(times: float, power: float) -> float:
    """Return the chance whose odds are a power of what is so many times the even one."""
    odds = times**power
    return odds / (1.0 + odds)


def _listed(
    found: Sequence[Proposal],
    standing: np.ndarray,
    votes: np.ndarray,
    support: np.ndarray,
    best: int,
) -> list[Candidate]:
    """Return what `Answer.candidates` tells of candidates, by number of clusters."""
    counts = np.array([candidate.n_clusters for candidate in found])
    table: list[Candidate] = []
    for k in np.unique(counts).tolist():
        of_k = np.flatnonzero(counts == k)
        i = int(of_k[np.argmax(standing[of_k])])
        table.append(
            {
                "n_clusters": k,
                "standing": float(standing[i]),
                "votes": float(votes[i]),
                "separated": found[i].separated,
                "support": float(support[i]),
                "z": found[i].z,
                "winner": i == best,
            }
        )
    table.sort(key=lambda row: -row["standing"])
    return sorted(table[:LISTED], key=lambda row: row["n_clusters"])


def _one_cluster(
    trees: Sequence[LevelTree],
    table: list[Candidate],
    supporters: list[bool],
    standing: float,
    nearness: float,
) -> Answer:
    middle = len(trees) // 2
    kept = trees[middle].parents < 0
    share = float(np.mean(supporters)) if supporters else 0.0
    none = [False] * len(trees)
    chance = 1.0 - _chance(nearness / EVEN_NEARNESS, STEEPNESS_OF_ONE)
    z = float("nan")
    return Answer(middle, kept, share, z, table, supporters or none, standing, None, chance)


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
