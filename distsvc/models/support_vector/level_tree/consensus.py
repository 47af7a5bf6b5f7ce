"""Vote among the cuts of several models' level trees.

The cut that agrees best with the cuts of all models wins, unless it cuts through clusters. A real
split appears at several kernel widths and in several subspaces; a split by chance does not. Module
`proposals` makes the cuts and computes their other criteria.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np

from distsvc.models.rows.agreement import SAME_ANSWER, rand_indices
from distsvc.models.rows.min_cluster_size import FLAT
from distsvc.models.support_vector.level_tree.proposals import (
    Proposal,
    VoteRows,
    cuts_into,
    most_like,
    proposals,
)
from distsvc.models.support_vector.level_tree.tree import LevelTree

VOTE_ROWS = 700
"""Maximum number of rows on which candidates are compared with each other."""

LOW_SUPPORT = 0.5
"""Support of an answer (`Answer.support`) up to which a note reports weak evidence."""

LEAST_STANDING = 0.1
"""Minimum score of a winner per model; below it the answer is one cluster."""

FLAT_STANDING, LOWEST_STANDING = 2.5, 0.04
"""Minimum score per model in 2 or 3 columns: `FLAT_STANDING` / sqrt(rows), but at least
`LOWEST_STANDING`."""

STANDING_OF_MANY = 0.45
"""Upper bound of that minimum, times the number of clusters: cuts into many clusters agree less."""

CLEAR_Z = 3.5
"""Minimum z of the clearest split in one column; below it the answer is one cluster. Scores do not
decide there: any cut separates few neighbours, and all models use the same column."""

EVEN_STANDING, STEEPNESS = 0.45, 2.6
"""Score per model at which another sample has the same answer with probability 1/2, and exponent of
the score in the odds. Tuned on halves of labelled sets."""

EVEN_RATIO, STEEPNESS_OF_ONE = 0.5, 1.5
"""Ratio of the best score to its minimum at which another sample also has one cluster with
probability 1/2, and exponent of the ratio in the odds."""

EVEN, PREFERRED = 0.5, 0.9
"""Conditions to replace the previous answer: minimum probability that another sample has the
winner, and minimum share of models with more votes for the winner."""

CERTAIN, FEWER = 0.9, 0.9
"""Alternative to `PREFERRED`: minimum probability that another sample has the winner, and upper
bound of the previous answer's votes, relative to the winner's."""

REFERENCE_ROWS = {"coarse": 3_000, "default": 30_000, "fine": 2**62}
"""Maximum number of rows to which z is scaled, by granularity. With fewer rows, fewer splits are
significant."""


class Candidate(TypedDict):
    """Best proposal for a number of clusters."""

    n_clusters: int
    standing: float  # score, relative to the winner's
    votes: float  # relative to the maximum
    separated: float  # `VoteRows.separated`
    support: float  # share of the models with a proposal like it
    z: float  # z of the least significant split
    winner: bool


@dataclass(frozen=True)
class Rival:
    """Best candidate unlike the winner; `share` is its score relative to the winner's."""

    n_clusters: int
    share: float


@dataclass(frozen=True)
class Answer:
    """Winner of a vote."""

    member: int  # index of the model whose tree has the winner
    kept: np.ndarray  # (b,) bool: branches of the tree that are clusters
    support: float  # share of the models with a proposal like it; 1 if no split is significant
    z: float  # z of its least significant split; NaN for one cluster
    candidates: list[Candidate]  # best proposals, by number of clusters; at most 12
    supporters: list[bool]  # whether each model supports the answer
    standing: float  # score per model of the best proposal, even if the answer is one cluster
    rival: Rival | None
    agreement: float  # probability that another sample has this answer; `support` if k is given
    last: "Answer | None" = None  # cut most like the previous answer
    likeness: float | None = None  # adjusted Rand index of `last` with the previous answer
    clear: bool = True  # whether the winner is clearly better than `last`

    @property
    def n_clusters(self) -> int:
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
    """Return the winner of a vote of the trees, with z scaled from n_rows to `reference` rows.

    Candidates are the `proposals` of the trees, or with `n_clusters` their `cuts_into`. Candidate p
    has sum_q w_q max(ARI(p, q), 0)^3 votes, over all candidates q with weights w_q. Its score is
    its votes times its merit (`merit_of`); the highest score wins.

    Without `n_clusters`, the answer is one cluster if no split is significant, or if no candidate
    reaches its minimum score per model. The minimum is `least_standing`. For k clusters in 2 or 3
    columns it is min(max(2.5 / sqrt(n), 0.04), 0.45 / k). In one column the clearest split needs z
    >= 3.5 instead.

    `before` (m,) are the first rows' labels in the previous answer. The tree cut most like these
    labels is compared with the winner; it does not vote. The winner replaces this cut only if
    another sample has the winner with probability `EVEN`, and the share `PREFERRED` of the models
    has more votes for the winner. From the probability `CERTAIN` on, more votes in total are enough
    (`FEWER`), because models in few directions can miss a new cluster.
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
    if len(np.unique(before)) == 1:  # one cluster has no votes to compare
        last = _one_cluster(trees, winner.candidates, [], vote.highest, vote.score_ratio)
        clear = winner.n_clusters > 1 and winner.agreement >= EVEN
        return replace(winner, last=last, likeness=1.0, clear=clear)
    if likeness <= SAME_ANSWER:
        return winner
    beside = _Vote(trees, [*found, cut], n_rows, scale, vote.d, least_standing, None, len(found))
    clear = winner.agreement >= EVEN
    if winner.n_clusters > 1:
        certain = winner.agreement >= CERTAIN and beside.votes[-1] < FEWER * beside.votes[vote.best]
        clear &= certain or beside.preferring(vote.best, len(found)) >= PREFERRED
    return replace(winner, last=beside.answer, likeness=likeness, clear=clear)


class _Vote:
    """Votes for candidates, and the answer: the best candidate, or candidate number `given`."""

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
        self.proposed = np.arange(len(found)) != given
        self.owner = np.array([candidate.member for candidate in found])
        self.shares = np.maximum(self.agreement, 0.0) ** 3
        self.votes = self.shares @ self.weights
        self.standing = self.votes * np.array([candidate.merit for candidate in found])
        self.best = int(np.argmax(self.standing)) if given is None else given
        self.highest = float(self.standing[self.best]) / len(trees)
        self.score_ratio = self._score_ratio(least_standing)

    def preferring(self, one: int, other: int) -> float:
        """Return the share of the models with more votes for candidate `one` than for `other`."""
        more = (self.shares[one] - self.shares[other]) * self.weights
        by_model = np.bincount(self.owner, weights=more)[np.unique(self.owner[self.proposed])]
        return float(np.mean(by_model > 0.0))

    def _score_ratio(self, least_standing: float) -> float:
        """Return the largest ratio of a candidate's score to its minimum; in one column, of z."""
        if self.d == 1:
            winner = self.found[self.best]
            clearest = np.sort(self.trees[winner.member].z[winner.kept])[-2:][0]
            return float(self.scale * clearest) / CLEAR_Z
        if self.d <= FLAT:
            least = max(FLAT_STANDING / np.sqrt(self.n_rows), LOWEST_STANDING)
            counts = np.array([candidate.n_clusters for candidate in self.found])
            least = np.minimum(least, STANDING_OF_MANY / counts)
            return float((self.standing / len(self.trees) / least)[self.proposed].max())
        return self.highest / least_standing if least_standing else np.inf

    @property
    def answer(self) -> Answer:
        """The candidate's answer, or one cluster if all scores are too low."""
        trees, found, best, standing = self.trees, self.found, self.best, self.standing
        winner, supported = found[best], (self.agreement > SAME_ANSWER) & self.proposed
        support = np.array([np.unique(self.owner[row]).size for row in supported]) / len(trees)
        shares = standing / standing[best] if standing[best] else np.zeros(len(standing))
        table = _listed(found, shares, self.votes / self.votes.max(), support, best)
        if self.n_clusters is None and self.given is None and self.score_ratio < 1.0:
            return _one_cluster(trees, table, [], self.highest, self.score_ratio)
        supporters = np.isin(np.arange(len(trees)), self.owner[supported[best]]).tolist()
        z = winner.z if winner.n_clusters > 1 else float("nan")
        others = np.where(self.agreement[best] > SAME_ANSWER, -1.0, shares)
        second, rival = int(np.argmax(others)), None
        if others[second] > 0.0:
            rival = Rival(found[second].n_clusters, float(others[second]))
        agreement = found_support = float(support[best])
        if self.n_clusters is None:
            agreement = _chance(self.highest / EVEN_STANDING, STEEPNESS)
        return Answer(
            winner.member, winner.kept, found_support, z, table, supporters, self.highest, rival,
            agreement,
        )  # fmt: skip


def _chance(times: float, power: float) -> float:
    """Return x^p / (1 + x^p): logistic in log x."""
    odds = times**power
    return odds / (1.0 + odds)


def chance_of_one(score_ratio: float) -> float:
    """Return the probability that another sample also has one cluster.

    `score_ratio` is the largest ratio of a candidate's score to its minimum.
    """
    return 1.0 - _chance(score_ratio / EVEN_RATIO, STEEPNESS_OF_ONE)


def _listed(
    found: Sequence[Proposal],
    standing: np.ndarray,
    votes: np.ndarray,
    support: np.ndarray,
    best: int,
) -> list[Candidate]:
    """Return `Answer.candidates`: the best candidate for each number of clusters."""
    counts = np.array([candidate.n_clusters for candidate in found])
    table: list[Candidate] = []
    for k in np.unique(counts).tolist():
        of_k = np.flatnonzero(counts == k)
        i = best if best in of_k else int(of_k[np.argmax(standing[of_k])])
        candidate = Candidate(
            n_clusters=k,
            standing=float(standing[i]),
            votes=float(votes[i]),
            separated=found[i].separated,
            support=float(support[i]),
            z=found[i].z,
            winner=i == best,
        )
        table.append(candidate)
    table.sort(key=lambda row: -row["standing"])
    return sorted(table[:12], key=lambda row: row["n_clusters"])


def _one_cluster(
    trees: Sequence[LevelTree],
    table: list[Candidate],
    supporters: list[bool],
    standing: float,
    score_ratio: float,
) -> Answer:
    """Return the answer with one cluster: the root of the middle model's tree."""
    middle = len(trees) // 2
    kept = trees[middle].parents < 0
    share = float(np.mean(supporters)) if supporters else 0.0
    none, losers = [False] * len(trees), [row | {"winner": False} for row in table]
    return Answer(
        middle, kept, share, float("nan"), losers, supporters or none, standing, None,
        chance_of_one(score_ratio),
    )  # fmt: skip
