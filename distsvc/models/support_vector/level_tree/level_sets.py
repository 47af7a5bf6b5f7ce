"""Answer of the level tree: the vote among the cuts of all trees, and the labels of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from distsvc.models.rows.numbering import ranks_by_size
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
"""Maximum number of pilot rows on which proposed cuts are compared."""

LOWEST_LEVEL = 0.1
"""Level of g (module `tree`) at which f is 0, relative to the clusters' median birth level. Used if
g does not reach the configured level."""

NEARLY = 0.8
"""Minimum score of the second answer, relative to the winner's, to be in the report."""

FAR_APART = 0.14
"""Maximum share of pilot rows with another label than their nearest support vector. Above it, a
note reports unclear borders."""


@dataclass(frozen=True)
class LevelSets:
    """Tested trees of several models, and the cut that won."""

    ensemble: Ensemble
    trees: Sequence[LevelTree]  # with z and depths, in the order of the ensemble's members
    pilot: np.ndarray  # (m, q) float32: pilot rows along the leading directions
    n_rows: int  # number of rows to which the trees' z are scaled
    granularity: str  # key of `REFERENCE_ROWS`
    level: float | None  # level of g at which f is 0, if g reaches it; None: by `LOWEST_LEVEL`
    nu: float | None  # share of the pilot outside; None: the limit of `NeighbourScore`
    nearest: bool = False  # label rows by their nearest support vector instead of the vote
    n_clusters: int | None = None  # None to choose it
    least_standing: float = LEAST_STANDING  # minimum of a winner; below it: one cluster
    before: np.ndarray | None = None  # (n,): the first pilot rows' labels in the previous answer
    follow: bool | None = None  # whether the previous answer is used; None: votes decide
    n_jobs: int | None = 1
    granularities: Sequence[str] = tuple(REFERENCE_ROWS)  # for which answers are computed
    voting: VoteRows = field(default=None, compare=False)  # type: ignore[assignment]
    """Rows of the vote with their cache, shared by answers of the same trees."""

    def __post_init__(self) -> None:
        if self.voting is None:
            rows = VoteRows(self.pilot[:NEAR_ROWS], self.n_jobs)
            object.__setattr__(self, "voting", rows)

    @cached_property
    def answers(self) -> dict[str, Answer]:
        """Answer at each of `granularities`; all are equal if the table has few rows."""
        found: dict[int, Answer] = {}
        answers = {}
        for name in self.granularities:
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
        """Answer at the granularity of these settings."""
        winner = self.winner
        return winner.last if self.follows and winner.last is not None else winner

    @property
    def winner(self) -> Answer:
        return self.answers[self.granularity]

    @property
    def follows(self) -> bool:
        """Whether the answer is the previous one, cut again from these trees."""
        follow = not self.winner.clear if self.follow is None else self.follow
        return follow and self.winner.last is not None

    @property
    def tree(self) -> LevelTree:
        return self.trees[self.answer.member]

    def rows(self, view: np.ndarray) -> np.ndarray:
        """Return the columns of rows `view` (n, q) along components that the answer's tree uses."""
        return np.ascontiguousarray(view[:, : self.tree.S.shape[0]])

    @cached_property
    def boundary(self) -> float:
        """Level of g at which f is 0."""
        tree = self.tree
        highest = float(tree.heights.max())
        if self.level is not None and highest >= self.level:
            return self.level
        return LOWEST_LEVEL * float(np.median(self.tree.births[self.answer.kept]))

    @cached_property
    def score(self) -> NeighbourScore:
        """Outlier score of rows, negative outside."""
        labels = self.voter.labels(self.rows(self.pilot))
        return NeighbourScore.of(self.pilot, labels, self.nu)

    @cached_property
    def part(self) -> np.ndarray:
        """Cluster (B,) of every support vector of the answer's tree."""
        return self.numbered(self.answer.kept)

    @cached_property
    def voter(self) -> Voter:
        """Voter that labels rows by the answer."""
        return self.labeller(self.part)

    def labeller(self, part: np.ndarray) -> Voter:
        """Return a `Voter` of the answer's tree, given the cluster `part` (B,) of each vector."""
        tree = self.tree
        return Voter(tree.S, tree.a, tree.gamma, part, nearest=self.nearest)

    def numbered(self, kept: np.ndarray) -> np.ndarray:
        """Return clusters (B,) of the support vectors, numbered by falling size on the pilot."""
        part = self.tree.parts(kept)
        label = self.labeller(part).labels(self.rows(self.pilot))
        sizes = np.bincount(label, minlength=int(kept.sum()))
        return ranks_by_size(sizes).astype(np.int64)[part]

    def highest(self) -> np.ndarray:
        """Return the highest support vector (k, q) float32 of every cluster."""
        order = np.lexsort((-self.tree.heights, self.part))
        first = np.unique(self.part[order], return_index=True)[1]
        return np.ascontiguousarray(self.tree.S[:, order[first]].T)

    def cut(self, n_clusters: int) -> LevelSets:
        """Return the cached answer of a vote among all models' cuts into `n_clusters`."""
        if n_clusters not in self._cuts:
            own = [self.granularity]
            self._cuts[n_clusters] = replace(self, n_clusters=n_clusters, granularities=own)
        return self._cuts[n_clusters]

    @cached_property
    def _cuts(self) -> dict[int, LevelSets]:
        return {}

    @cached_property
    def blind(self) -> Answer:
        """Answer without a given number of clusters."""
        if self.n_clusters is None:
            return self.answer
        return replace(self, n_clusters=None, granularities=[self.granularity]).answer

    def kept_by(self, level: float | None, significance: float | None) -> np.ndarray:
        """Return the branches (b,) bool of the answer's tree that a cut keeps.

        Give either `level`, for the components of {x : f(x) >= level}, or `significance`, the
        minimum z.
        """
        if significance is not None:
            return self.tree.z >= significance
        assert level is not None
        return self.tree.components_at((level + 1.0) * self.boundary)

    @cached_property
    def unclear(self) -> float:
        """Share of pilot rows with another label than their nearest support vector."""
        tree, rows = self.tree, self.rows(self.pilot)
        nearest = Nearest(np.ascontiguousarray(tree.S.T))(rows)
        vote = Voter(tree.S, tree.a, tree.gamma, self.part).labels(rows)
        return float((self.part[nearest] != vote).mean())

    def doubts(self) -> list[str]:
        """Return doubts about the answer, in sentences."""
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
