"""The answer of the level tree: the models, the vote among their cuts, and the labels of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from distsvc.models.support_vector.boundary.labelling import Nearest
from distsvc.models.support_vector.level_tree.consensus import (
    LEAST_STANDING,
    LOW_SUPPORT,
    REFERENCE_ROWS,
    Answer,
    elect,
)
from distsvc.models.support_vector.level_tree.ensemble import Ensemble
from distsvc.models.support_vector.level_tree.neighbour_score import NeighbourScore
from distsvc.models.support_vector.level_tree.proposals import VoteRows
from distsvc.models.support_vector.level_tree.tree import LevelTree, Voter

NEAR_ROWS = 3_000
"""Rows among which a cut is looked at for near ones that it separates."""

LOWEST = 0.1
"""Share of the median level at which the clusters were born, which is the level 0 of f."""

NEARLY = 0.8
"""Share of the winner's standing, from which on the best other answer is told."""

FAR_APART = 0.14
"""Share of rows that kernel vote and nearest support vector label differently, from which on
clusters have no clear borders."""


@dataclass(frozen=True)
class LevelSets:
    """The tested trees of several models, and the answer that won.

    `level` is that of g at which f is 0, where g reaches it; None for a tenth of the median of the
    levels at which the clusters were born. `nu` is the share of the pilot that lies outside; None
    for rows as `NeighbourScore` sees them. With `nearest` rows take the cluster of their nearest
    support vector, not that of the vote. `before` (m,) are the labels of the pilot's first rows in
    the answer of the run before, which is left only for one that is clearly better; `follow` says
    that it is taken, or not, whatever the vote. `voting` are the rows of the vote, which remember
    what they were asked, for other answers of the same trees; None makes them.
    """

    ensemble: Ensemble
    trees: Sequence[LevelTree]
    pilot: np.ndarray  # (m, q) float32, viewed
    n_rows: int  # that the trees' z is for
    granularity: str  # a key of `REFERENCE_ROWS`
    level: float | None
    nu: float | None
    nearest: bool = False
    n_clusters: int | None = None  # wanted; None to find their number
    least_standing: float = LEAST_STANDING  # of a winner, below which there is one cluster
    before: np.ndarray | None = None
    follow: bool | None = None
    n_jobs: int | None = 1
    asked: Sequence[str] = tuple(REFERENCE_ROWS)  # granularities
    voting: VoteRows = field(default=None, compare=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.voting is None:
            rows = VoteRows(self.pilot[:NEAR_ROWS], self.n_jobs)
            object.__setattr__(self, "voting", rows)

    @cached_property
    def answers(self) -> dict[str, Answer]:
        """The answer for every granularity asked; equal ones where the table has few rows."""
        found: dict[int, Answer] = {}
        answers = {}
        for name in self.asked:
            rows = min(REFERENCE_ROWS[name], self.n_rows)
            if rows not in found:
                found[rows] = elect(
                    self.trees, self.voting, self.n_rows, rows, self.n_clusters,
                    self.least_standing, self.before,
                )  # fmt: skip
            answers[name] = found[rows]
        return answers

    @property
    def answer(self) -> Answer:
        """The answer for the granularity asked for."""
        winner = self.winner
        return winner.last if self.follows and winner.last is not None else winner

    @property
    def winner(self) -> Answer:
        """The answer that won the vote."""
        return self.answers[self.granularity]

    @property
    def follows(self) -> bool:
        """Whether the answer is that of the run before, cut again."""
        follow = not self.winner.clear if self.follow is None else self.follow
        return follow and self.winner.last is not None

    @property
    def tree(self) -> LevelTree:
        """The winner's tree."""
        return self.trees[self.answer.member]

    def rows(self, view: np.ndarray) -> np.ndarray:
        """Return the components of viewed rows (n, q) that the winner sees."""
        return np.ascontiguousarray(view[:, : self.tree.S.shape[0]])

    @cached_property
    def boundary(self) -> float:
        """The level of g at which f is 0."""
        tree = self.tree
        highest = float(tree.heights.max())
        if self.level is not None and highest >= self.level:
            return self.level
        return LOWEST * float(np.median(self.tree.births[self.answer.kept]))

    @cached_property
    def score(self) -> NeighbourScore:
        """The score of rows, negative outside."""
        labels = self.voter.labels(self.rows(self.pilot))
        return NeighbourScore.of(self.pilot, labels, self.nu)

    @cached_property
    def part(self) -> np.ndarray:
        """Cluster (B,) of every support vector of the winner."""
        return self.numbered(self.answer.kept)

    @cached_property
    def voter(self) -> Voter:
        """The answer's labels of the winner's rows."""
        return self.labeller(self.part)

    def labeller(self, part: np.ndarray) -> Voter:
        """Return the voter for the winner's rows by clusters (B,) of its support vectors."""
        tree = self.tree
        return Voter(tree.S, tree.a, tree.gamma, part, nearest=self.nearest)

    def numbered(self, kept: np.ndarray) -> np.ndarray:
        """Return clusters (B,) of the support vectors, 0 the largest as counted on the pilot."""
        part = self.tree.parts(kept)
        label = self.labeller(part).labels(self.rows(self.pilot))
        sizes = np.bincount(label, minlength=int(kept.sum()))
        number = np.empty(sizes.size, np.int64)
        number[np.argsort(-sizes, kind="stable")] = np.arange(sizes.size)
        return number[part]

    def highest(self) -> np.ndarray:
        """Return the highest support vector (k, q) float32 of every cluster."""
        order = np.lexsort((-self.tree.heights, self.part))
        first = np.unique(self.part[order], return_index=True)[1]
        return np.ascontiguousarray(self.tree.S[:, order[first]].T)

    def cut(self, n_clusters: int) -> LevelSets:
        """Return the answer of the vote among all models' cuts into so many clusters.

        It is kept for the next who asks.
        """
        if n_clusters not in self._cuts:
            self._cuts[n_clusters] = replace(self, n_clusters=n_clusters, asked=[self.granularity])
        return self._cuts[n_clusters]

    @cached_property
    def _cuts(self) -> dict[int, LevelSets]:
        return {}

    @cached_property
    def blind(self) -> Answer:
        """The answer if no number of clusters were given."""
        if self.n_clusters is None:
            return self.answer
        return replace(self, n_clusters=None, asked=[self.granularity]).answer

    def kept_by(self, level: float | None, significance: float | None) -> np.ndarray:
        """Return the branches (b,) bool of the winner's tree that a cut keeps.

        Give one: the components of {x : f(x) >= level}, or all whose z is at least `significance`.
        """
        if significance is not None:
            return self.tree.z >= significance
        assert level is not None
        return self.tree.components_at((level + 1.0) * self.boundary)

    @cached_property
    def unclear(self) -> float:
        """Share of the pilot whose nearest support vector has another label than the vote."""
        tree, rows = self.tree, self.rows(self.pilot)
        nearest = Nearest(np.ascontiguousarray(tree.S.T))(rows)
        vote = Voter(tree.S, tree.a, tree.gamma, self.part).labels(rows)
        return float((self.part[nearest] != vote).mean())

    def doubts(self) -> list[str]:
        """Return doubts about the answer, in sentences; the last says what to try."""
        answer, found = self.answer, []
        split = answer.n_clusters > 1
        if split and answer.support <= LOW_SUPPORT:
            found.append(
                f"Weak evidence: only {100 * answer.support:.0f} % of the models agree; these "
                "clusters may not be real."
            )
        if split and self.unclear > FAR_APART:
            found.append(
                f"{100 * self.unclear:.0f} % of the rows lie nearest to a support vector of "
                "another cluster than their own: the clusters have no clear borders"
            )
        counts = {name: other.n_clusters for name, other in self.answers.items()}
        if min(counts.values()) * 2 <= max(counts.values()):
            listed = ", ".join(f"{k} ({name})" for name, k in counts.items())
            found.append(f"the number of clusters depends on the granularity: {listed}")
        if split and answer.support <= LOW_SUPPORT / 2:
            found.append(
                "density clustering may not suit this table (overlapping groups or few distinct "
                "values)"
            )
        return found
