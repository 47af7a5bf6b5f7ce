"""Answer of the level trees: the winner of the vote among their cuts, and the labels of rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from distsvc.models.rows.numbering import ranks_by_size
from distsvc.models.support_vector.level_tree.ensemble import Ensemble
from distsvc.models.support_vector.level_tree.neighbour_score import NeighbourScore
from distsvc.models.support_vector.level_tree.proposals import (
    LEAST_STANDING,
    LOW_SUPPORT,
    REFERENCE_ROWS,
    Answer,
    VoteRows,
    elect,
)
from distsvc.models.support_vector.level_tree.tree import LevelTree

NEAR_ROWS = 3_000
"""Maximum number of pilot rows on which proposed cuts are compared."""

LOWEST_LEVEL = 0.1
"""Level of g at which f is 0, relative to the median birth level of the clusters. It is used if no
level is given, or if g is below the given level everywhere."""

NEARLY = 0.8
"""Minimum score, relative to the answer's, from which the report mentions the best other answer."""

FAR_APART = 0.14
"""Value of `LevelSets.unclear` above which a note reports unclear borders."""


@dataclass(frozen=True)
class LevelSets:
    """Tested trees of several models, and the cut that wins their vote."""

    ensemble: Ensemble
    trees: Sequence[LevelTree]  # tested trees of the ensemble's members, in their order
    pilot: np.ndarray  # (m, q) float32: pilot rows along the leading directions
    n_rows: int  # number of rows to which the trees' z are scaled
    granularity: str  # key of `REFERENCE_ROWS`
    level: float | None  # level of g at which f is 0; None: set by `LOWEST_LEVEL`
    nu: float | None  # share of the pilot outside; None: the limit of `NeighbourScore`
    nearest: bool = False  # whether rows get the label of their nearest support vector
    n_clusters: int | None = None  # number of clusters; None: votes decide
    least_standing: float = LEAST_STANDING  # minimum score; below it: one cluster
    previous_labels: np.ndarray | None = (
        None  # (n,): the first pilot rows' labels in the previous answer
    )
    n_jobs: int | None = 1
    granularities: Sequence[str] = tuple(REFERENCE_ROWS)  # keys of `answers`
    voting: VoteRows = field(default=None, compare=False)  # type: ignore[assignment]
    """Rows on which cuts are compared. Copies of the level sets share the cache of these rows."""

    def __post_init__(self) -> None:
        if self.voting is None:
            object.__setattr__(self, "voting", VoteRows(self.pilot[:NEAR_ROWS], self.n_jobs))

    @cached_property
    def answers(self) -> dict[str, Answer]:
        """Answer at each of `granularities`; all are equal if the table has few rows."""
        rows = {name: min(REFERENCE_ROWS[name], self.n_rows) for name in self.granularities}
        settings = self.n_clusters, self.least_standing, self.previous_labels
        found = {
            n: elect(self.trees, self.voting, self.n_rows, n, *settings)
            for n in dict.fromkeys(rows.values())
        }
        return {name: found[n] for name, n in rows.items()}

    @property
    def answer(self) -> Answer:
        """Answer at `granularity`: the winner, or the cut like the previous answer if `follows`."""
        last = self.winner.last if self.follows else None
        return last or self.winner

    @property
    def winner(self) -> Answer:
        return self.answers[self.granularity]

    @property
    def follows(self) -> bool:
        """Whether the answer is the cut most like the previous answer, not the winner."""
        return self.winner.last is not None and not self.winner.clear

    @property
    def tree(self) -> LevelTree:
        return self.trees[self.answer.member]

    def labels(self, view: np.ndarray) -> np.ndarray:
        """Return the labels (n,) int32 of rows `view` (n, q) along the leading directions."""
        return self.tree.voter(self.part, self.nearest).labels(self.tree.seen(view))

    @cached_property
    def boundary(self) -> float:
        """Level of the density g at the outlier limit, where the decision function f is 0."""
        if self.level is not None and float(self.tree.heights.max()) >= self.level:
            return self.level
        return LOWEST_LEVEL * float(np.median(self.tree.births[self.answer.kept]))

    @cached_property
    def score(self) -> NeighbourScore:
        """Outlier score fitted to the pilot rows and their labels; it is negative outside."""
        return NeighbourScore.of(self.pilot, self.labels(self.pilot), self.nu)

    @cached_property
    def part(self) -> np.ndarray:
        """Cluster (B,) of every support vector of the answer's tree."""
        return self.numbered(self.answer.kept)

    def numbered(self, kept: np.ndarray) -> np.ndarray:
        """Return the cluster (B,) of each support vector in a cut of the answer's tree.

        The branches `kept` (b,) bool are the clusters. Cluster 0 has the most pilot rows.
        """
        part = self.tree.parts(kept)
        label = self.tree.voter(part, self.nearest).labels(self.tree.seen(self.pilot))
        sizes = np.bincount(label, minlength=int(kept.sum()))
        return ranks_by_size(sizes).astype(np.int64)[part]

    def highest(self) -> np.ndarray:
        """Return each cluster's support vector with the highest g, (k, q) float32."""
        order = np.lexsort((-self.tree.heights, self.part))
        first = np.unique(self.part[order], return_index=True)[1]
        return np.ascontiguousarray(self.tree.S[:, order[first]].T)

    def cut(self, n_clusters: int) -> Self:
        """Return a copy in which only cuts into `n_clusters` can win. Copies are cached."""
        if n_clusters not in self._cuts:
            own = [self.granularity]
            self._cuts[n_clusters] = replace(self, n_clusters=n_clusters, granularities=own)
        return self._cuts[n_clusters]

    @cached_property
    def _cuts(self) -> dict[int, Self]:
        return {}

    @cached_property
    def blind(self) -> Answer:
        """Answer of the vote without a wanted number of clusters."""
        if self.n_clusters is None:
            return self.answer
        return replace(self, n_clusters=None, granularities=[self.granularity]).answer

    @cached_property
    def unclear(self) -> float:
        """Share of pilot rows that are not in the cluster of their nearest support vector."""
        rows = self.tree.seen(self.pilot)
        nearest, vote = (self.tree.voter(self.part, by).labels(rows) for by in (True, False))
        return float((nearest != vote).mean())

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
                f"{100 * self.unclear:.0f} % of the rows have their nearest support vector in "
                "another cluster: the clusters have no clear borders"
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
