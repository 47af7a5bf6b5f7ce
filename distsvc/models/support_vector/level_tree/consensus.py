"""Choosing among the cuts of several models' level trees without labels, by a vote.

The proposal that agrees best with those of all models wins, unless it cuts through clusters. A
split that the rows hold shows at several widths of the kernel and in several subspaces; one that a
sample's accidents made does not. What is proposed, and what speaks for it besides the votes, is in
`proposals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np

from distsvc.models.rows.agreement import SAME_ANSWER, rand_indices
from distsvc.models.rows.mass import FLAT
from distsvc.models.support_vector.level_tree.proposals import (
    Proposal,
    VoteRows,
    cuts_into,
    most_like,
    proposals,
)
from distsvc.models.support_vector.level_tree.tree import LevelTree

VOTE_ROWS = 700
"""Rows on which candidates are compared with each other."""

AGREEMENT = SAME_ANSWER

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

EVEN, PREFERRED = 0.5, 0.9
"""What makes a winner clearly better than the answer of the run before: the chance that another
sample has it, and the share of the models that vote more for it."""

CERTAIN, FEWER = 0.9, 0.9
"""What makes it so even where fewer models do: that chance, and below how many times its votes the
answer of the run before has. Nights whose clusters only seem to change have .95 to 1.04 times."""

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

    Where there is an answer before, `last` is what a tree has of it, with the adjusted Rand index
    `likeness`; None where no tree can divide the rows so. `clear` is whether the winner is clearly
    better.
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
    last: Answer | None = None
    likeness: float | None = None
    clear: bool = True

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
    before: np.ndarray | None = None,
) -> Answer:
    """Let the trees vote, with z scaled from n_rows to `reference` rows.

    The votes of a candidate p are sum_q w_q max(ARI(p, q), 0)^3 over all candidates q. The winner
    has the highest standing, its votes times its merit: sqrt(entropy) / (1 + separated / 0.03).
    Candidates are the `proposals` of the trees, or their `cuts_into` a number of clusters. Without
    that number the answer is one cluster where nothing is significant, and where the winner's
    standing, a tree, is too low: below `least_standing`; in 2 or 3 columns below 2.5 / sqrt(n), and
    below 0.45 / k for k clusters. In one column the clearest split decides, by its z >= 3.5.

    `before` (m,) are the labels of the first rows in the answer of the run before. The cut of a
    tree that is most like them stands beside the winner, without a vote. Left for the winner is it
    only where another sample would rather have that than not, and nine in ten models vote more for
    it; or where another sample almost surely has it, and it has clearly more votes. Some models see
    few directions, in which a cluster that is new need not show.
    """
    scale = float(np.sqrt(min(1.0, reference / n_rows)))
    if n_clusters is None:
        found = proposals(trees, scale, rows)
    else:
        found = cuts_into(trees, n_clusters, scale, rows)
    if not found:
        return _one_cluster(trees, [], [True] * len(trees), 0.0, 0.0)
    vote = _Vote(trees, found, n_rows, scale, rows.view.shape[1], least_standing, n_clusters)
    if before is None or n_clusters is not None:
        return vote.answer
    cut, likeness = most_like(trees, before, scale, rows)
    winner = vote.answer
    if len(np.unique(before)) == 1:
        none = [row | {"winner": False} for row in winner.candidates]
        last = _one_cluster(trees, none, [], vote.highest, vote.nearness)
        clear = winner.n_clusters > 1 and winner.agreement >= EVEN
        return replace(winner, last=last, likeness=1.0, clear=clear)
    if likeness <= AGREEMENT:
        return winner
    beside = _Vote(trees, [*found, cut], n_rows, scale, vote.d, least_standing, None, len(found))
    clear = winner.agreement >= EVEN
    if winner.n_clusters > 1:
        certain = winner.agreement >= CERTAIN and beside.votes[-1] < FEWER * beside.votes[vote.best]
        clear &= certain or beside.preferring(vote.best, len(found)) >= PREFERRED
    return replace(winner, last=beside.answer, likeness=likeness, clear=clear)


class _Vote:
    """The votes of candidates, and the answer of the best one, or of a `given` one of them."""

    def __init__(
        self,
        trees: Sequence[LevelTree],
        found: Sequence[Proposal],
        n_rows: int,
        scale: float,
        d: int,
        least_standing: float,
        n_clusters: int | None,
        given: int | None = None,
    ):
        self.trees, self.found, self.d, self.given = trees, found, d, given
        self.n_rows, self.scale, self.n_clusters = n_rows, scale, n_clusters
        self.agreement = rand_indices([candidate.labels[:VOTE_ROWS] for candidate in found])
        self.weights = np.array([candidate.weight for candidate in found])
        self.asked = np.arange(len(found)) != given
        self.owner = np.array([candidate.member for candidate in found])
        self.shares = np.maximum(self.agreement, 0.0) ** 3
        self.votes = self.shares @ self.weights
        self.standing = self.votes * np.array([candidate.merit for candidate in found])
        self.best = int(np.argmax(self.standing)) if given is None else given
        self.highest = float(self.standing[self.best]) / len(trees)
        self.nearness = self._nearness(least_standing)

    def preferring(self, one: int, other: int) -> float:
        """Return the share of the models that vote more for a candidate than for another."""
        more = (self.shares[one] - self.shares[other]) * self.weights
        by_model = np.bincount(self.owner, weights=more)[np.unique(self.owner[self.asked])]
        return float(np.mean(by_model > 0.0))

    def _nearness(self, least_standing: float) -> float:
        """Return how near the best comes to what it needs."""
        winner = self.found[self.best]
        if self.d == 1:
            clearest = np.sort(self.trees[winner.member].z[winner.kept])[-2:][0]
            return float(self.scale * clearest) / CLEAR_Z
        if self.d <= FLAT:
            least = max(FLAT_STANDING / np.sqrt(self.n_rows), LOWEST_STANDING)
            return self.highest / float(min(least, STANDING_OF_MANY / winner.n_clusters))
        return self.highest / least_standing if least_standing else np.inf

    @property
    def answer(self) -> Answer:
        """The answer of the best candidate: one cluster where it does not stand high enough."""
        trees, found, best, standing = self.trees, self.found, self.best, self.standing
        winner, supported = found[best], (self.agreement > AGREEMENT) & self.asked
        support = np.array([np.unique(self.owner[row]).size for row in supported]) / len(trees)
        shares = standing / standing[best] if standing[best] else np.zeros(len(standing))
        table = _listed(found, shares, self.votes / self.votes.max(), support, best)
        if self.n_clusters is None and self.given is None and self.nearness < 1.0:
            none = [row | {"winner": False} for row in table]
            return _one_cluster(trees, none, [], self.highest, self.nearness)
        supporters = np.isin(np.arange(len(trees)), self.owner[supported[best]]).tolist()
        z = winner.z if winner.n_clusters > 1 else float("nan")
        found_support = float(support[best])
        others = np.where(self.agreement[best] > AGREEMENT, -1.0, shares)
        second, rival = int(np.argmax(others)), None
        if others[second] > 0.0:
            rival = Rival(found[second].n_clusters, float(others[second]))
        chance = found_support
        if self.n_clusters is None:
            chance = _chance(self.highest / EVEN_STANDING, STEEPNESS)
        return Answer(
            winner.member, winner.kept, found_support, z, table, supporters, self.highest, rival,
            chance,
        )  # fmt: skip


def _chance(times: float, power: float) -> float:
    """Return the chance whose odds are a power of what is so many times the even one."""
    odds = times**power
    return odds / (1.0 + odds)


def chance_of_one(nearness: float) -> float:
    """Return the chance that another sample has one cluster, too, by how near a winner came."""
    return 1.0 - _chance(nearness / EVEN_NEARNESS, STEEPNESS_OF_ONE)


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
        i = best if best in of_k else int(of_k[np.argmax(standing[of_k])])
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
    return Answer(
        middle, kept, share, float("nan"), table, supporters or none, standing, None,
        chance_of_one(nearness),
    )  # fmt: skip
