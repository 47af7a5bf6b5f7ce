"""Choice among views of a table whose columns stay as stored.

Level trees of the columns and of the graph each vote on an answer. The columns' answer is chosen if
its score (`Answer.standing`) reaches `CLEAR`, otherwise the answer with the higher score. If the
number of clusters is given, k-means is a third view, and the partition with the highest `merit_of`
is chosen. Clusters of even sizes that separate few near rows have a high merit.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from distsvc.kernels.rows import project
from distsvc.models.automatic.decision import (
    CENTRES,
    FOLLOWED,
    GRAPH,
    LEVEL_TREE,
    PartitionProposal,
)
from distsvc.models.automatic.views import ViewAnswer, Views
from distsvc.models.graph.coordinates import MOST_COORDINATES, NoGraphReason
from distsvc.models.graph.engine import GraphEngine
from distsvc.models.graph.landmarks import LandmarkRule
from distsvc.models.rows.agreement import SAME_ANSWER, rand_indices
from distsvc.models.rows.numbering import ranks_by_size
from distsvc.models.rows.threads import one_thread
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine
from distsvc.models.support_vector.level_tree.level_sets import NEAR_ROWS, LevelSets
from distsvc.models.support_vector.level_tree.proposals import (
    EVEN,
    Answer,
    VoteRows,
    chance_of_one,
    entropy,
    merit_of,
    rand_index,
)

OF_EACH = 5
"""Minimum number of pilot rows for each cluster of k-means; with fewer, k-means is not tried."""

STARTS = 10
"""Number of runs of k-means, with different random starts."""

METHODS = {LEVEL_TREE: "columns", GRAPH: "neighbour graph", CENTRES: "k-means"}

CLEAR = 1.0
"""Minimum score at which the columns' answer is chosen, whatever the graph's score is."""

ENOUGH = 1.2
"""Minimum sum of the relative scores of columns and graph; below it the answer is one cluster.

A relative score is divided by the minimum score that a winner needs in the view alone. The sum
varies less between samples than the score of one view.
"""

ENOUGH_ALONE = 3.5
"""Minimum relative score of the columns if there is no graph.

Most tables without a graph are lattices, where independent columns of few values score high.
"""

ENOUGH_IN_PIECES = 0.5 * ENOUGH
"""Minimum relative score of the columns if the graph is in pieces.

It is low, because the graph of a table without clusters is never in pieces.
"""

NO_GRAPH = {
    NoGraphReason.FEW: "The table has few distinct rows, so there is no neighbour graph.",
    NoGraphReason.LATTICE: (
        "Columns have few values, and many rows are equally near to each other, so there is no "
        "neighbour graph."
    ),
    NoGraphReason.PIECES: (
        f"The neighbour graph has more than {MOST_COORDINATES} pieces, so the columns decided "
        "alone."
    ),
}


class StoredViews(Views):
    """Level trees of the columns and of the graph, which have learned."""

    merits: Mapping[str, float]  # `merit_of` each view's partition into `n_clusters`
    score_ratio: float  # sum of relative scores, divided by its minimum; several clusters if >= 1

    def __init__(self, levels: LevelTreeEngine, graph: GraphEngine):
        super().__init__(levels.pilot, levels.ensemble.components, graph, levels.parameters.nu)
        self.levels = levels
        self._uses_graph = graph.placed

    @property
    def trees(self) -> dict[str, LevelTreeEngine]:
        found = {LEVEL_TREE: self.levels}
        return found | {GRAPH: self.graph.tree} if self.has_graph else found

    @property
    def answers(self) -> dict[str, Answer]:
        """Answers of the level trees without a given number of clusters, by view."""
        return {name: tree.levels.blind for name, tree in self.trees.items()}

    def choose(self, n_clusters: int | None) -> ViewAnswer:
        self._weigh()
        if n_clusters is not None:
            return self._answer_of(n_clusters)
        winners = self.answers
        view = self._clearest(winners)
        nearest = self._followed(view, winners)
        if nearest is not None:
            view = nearest
            self.trees[view].settle(replace(self.trees[view].levels, follow=True))
        tree = self.trees[view]
        return ViewAnswer(
            view=view,
            make=partial(self._rule_of, view, tree.levels),
            agreement=self._agreement(view, self.answers),
            support=tree.levels.answer.support,
            why=self._why(view, nearest is not None),
            counts={name: answer.n_clusters for name, answer in self.answers.items()},
            likeness=self.likeness,
            followed=nearest is not None,
            levels=tree.levels,
            notes=tree.notes,
        )

    def cut(self, n_clusters: int) -> Rule:
        return self._answer_of(n_clusters).make()

    @property
    def likeness(self) -> float | None:
        """Adjusted Rand index between the answers of columns and graph; None without a graph."""
        if not self.has_graph:
            return None
        columns = self._columns_labels(self.levels.levels)
        return rand_index(columns, self.graph_labels(self.graph.tree.levels))

    def _answer_of(self, n_clusters: int) -> ViewAnswer:
        """Return the partition into `n_clusters` with the highest merit, as an answer."""
        divisions = self._divisions(n_clusters)
        self.merits = self._merits(divisions)
        view = max(self.merits, key=self.merits.__getitem__)
        best = divisions[view]
        listed = ", ".join(f"{METHODS[name]} {merit:.2f}" for name, merit in self.merits.items())
        why = (
            f"You asked for {best.n_clusters}. Methods were compared by balance and by neighbours "
            f"separated, higher is better: {listed}."
        )
        return ViewAnswer(
            view=view,
            make=best.make,
            agreement=best.support,
            support=best.support,
            why=why,
            counts={view: best.n_clusters},
            likeness=self.likeness,
            levels=best.levels,
            notes=self.trees[view].notes if view in self.trees else [],
        )

    def _why(self, view: str, followed: bool) -> str:
        answers = self.answers
        if not self._uses_graph:
            return (
                "The table has few columns or few distinct rows, so the level tree of its columns "
                "decided alone."
            )
        if GRAPH not in answers:
            assert self.graph.without is not None
            return NO_GRAPH[self.graph.without]
        if followed:
            return FOLLOWED
        own, other = (f"{answers[name].standing:.2f}" for name in (LEVEL_TREE, GRAPH))
        if all(answer.n_clusters == 1 for answer in answers.values()):
            return (
                f"Neither the columns ({own}) nor the neighbour graph ({other}) showed clusters "
                "beyond chance."
            )
        if view == GRAPH:
            return f"The neighbour graph ({other}) decided; the columns scored {own}."
        return f"The columns ({own}) decided; the neighbour graph scored {other}."

    def _weigh(self) -> None:
        """Decide by the scores of both views whether there are several clusters."""
        if not self._uses_graph:
            return  # the level tree of the columns decided alone
        trees = self.trees.values()
        relative = [tree.levels.blind.standing / tree.least_standing for tree in trees]
        enough = ENOUGH
        if not self.has_graph:
            in_pieces = self.graph.without == NoGraphReason.PIECES
            enough = ENOUGH_IN_PIECES if in_pieces else ENOUGH_ALONE
        self.score_ratio = sum(relative) / enough
        several = self.score_ratio >= 1.0
        for tree in trees:
            if (tree.levels.blind.n_clusters > 1) != several:
                least = 0.0 if several else np.inf  # a minimum for several clusters, or for one
                tree.settle(replace(tree.levels, least_standing=least))

    def _clearest(self, answers: Mapping[str, Answer]) -> str:
        """Return the columns if their score reaches `CLEAR`, else the view of highest score."""
        standing = {name: one.standing for name, one in answers.items() if one.n_clusters > 1}
        if not standing or standing.get(LEVEL_TREE, 0.0) >= CLEAR:
            return LEVEL_TREE
        return max(standing, key=standing.__getitem__)

    def _agreement(self, view: str, answers: Mapping[str, Answer]) -> float:
        """Return the probability that another sample has the chosen answer."""
        own = answers[view]
        if own.n_clusters > 1 or not self._uses_graph:
            return own.agreement
        return chance_of_one(self.score_ratio)

    def _followed(self, view: str, winners: Mapping[str, Answer]) -> str | None:
        """Return the view that keeps the previous run's answer; None if it is replaced.

        This view's tree has the cut most like the previous labels. The previous answer is replaced
        if the winner is clearly better, and so is the winner in this view. It is also replaced if
        both views agree on the new answer and one of them clearly prefers it.
        """
        like = {name: one.likeness for name, one in winners.items() if one.likeness is not None}
        if not like:
            return None
        won, nearest = winners[view], max(like, key=like.__getitem__)
        clear = won.clear if won.n_clusters > 1 else self._agreement(view, winners) >= EVEN
        if clear and winners[nearest].clear:
            return None
        counts = {one.n_clusters for one in winners.values()}
        one_is_clear = any(one.clear for one in winners.values())
        if len(winners) > 1 and len(counts) == 1 and 1 not in counts and one_is_clear:
            likeness = self.likeness
            if likeness is not None and likeness > SAME_ANSWER:
                return None
        return nearest

    def _divisions(self, n_clusters: int) -> dict[str, PartitionProposal]:
        """Return the partitions of level trees and k-means into `n_clusters`, by view."""
        found = {}
        for name, tree in self.trees.items():
            levels = tree.levels.cut(n_clusters)
            own = self.graph_labels if name == GRAPH else self._columns_labels
            make = partial(self._rule_of, name, levels)
            labels, support = own(levels), levels.answer.support
            found[name] = PartitionProposal(name, labels, labels, make, levels, support=support)
        points = project(self.pilot, self.axes)
        if n_clusters * OF_EACH > len(points):
            return found
        centres, labels, support = best_k_means(points, n_clusters, self.levels.seed)

        def about() -> Rule:
            number = np.arange(len(centres), dtype=np.int32)
            scored = self.scored(labels)
            return LandmarkRule.of(self.axes, centres, number, points, labels, scored)

        centred = PartitionProposal(CENTRES, labels, labels, about, support=support)
        return found | {CENTRES: centred}

    def _merits(self, divisions: Mapping[str, PartitionProposal]) -> dict[str, float]:
        """Return the merit (`merit_of`) of each partition, by view, on the pilot's first rows.

        Partitions with fewer clusters than others are left out.
        """
        most = max(one.n_clusters for one in divisions.values())
        n_rows = min(NEAR_ROWS, *(len(one.labels) for one in divisions.values()))
        rows = VoteRows(project(self.pilot[:n_rows], self.axes))
        return {
            name: merit_of(entropy(one.labels[:n_rows]), rows.separated(one.labels[:n_rows]))
            for name, one in divisions.items()
            if one.n_clusters == most
        }

    @property
    def axes(self) -> np.ndarray:
        """Axes (p, d) float32 along which near rows are searched."""
        d = self.pilot.shape[1]
        return self.graph.axes if self._uses_graph else np.eye(d, dtype=np.float32)

    def _rule_of(self, view: str, levels: LevelSets) -> Rule:
        return self.graph_rule(levels) if view == GRAPH else self.levels.rule_of(levels)

    def _columns_labels(self, found: LevelSets) -> np.ndarray:
        """Return labels of pilot rows in a cut of the columns' tree; with a graph, of its rows."""
        rows = found.pilot[: len(self.graph.point_of)] if self.has_graph else found.pilot
        return found.labels(rows)


def best_k_means(
    rows: np.ndarray, n_clusters: int, seed: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return centres (k, p) float32 of rows (m, p), labels (m,) int32, and their support.

    They are from the run of k-means with the lowest inertia; the largest cluster is 0. The support
    is the share of runs with nearly the same labels. If there are fewer distinct rows than
    `n_clusters`, each is a cluster.
    """
    from sklearn.cluster import KMeans  # takes a second to import

    k = min(n_clusters, len(np.unique(rows, axis=0)))
    with one_thread():  # the last bits depend on the number of threads
        found = [
            KMeans(k, n_init=1, random_state=seed % 2**32 + start).fit(rows)
            for start in range(STARTS)
        ]
    best = int(np.argmin([one.inertia_ for one in found]))
    agreement = rand_indices([found[best].labels_, *(one.labels_ for one in found)])[0, 1:]
    number = ranks_by_size(np.bincount(found[best].labels_, minlength=k))
    order = np.argsort(number)
    centres = np.ascontiguousarray(found[best].cluster_centers_[order], np.float32)
    return centres, number[found[best].labels_], float((agreement > SAME_ANSWER).mean())
