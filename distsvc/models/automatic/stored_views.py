"""The default algorithm for columns that stay as stored: level trees decide.

A level tree splits the rows where the density has a valley. The trees of several models vote on
partitions. The best partition's score (`Answer.standing`) is high if many models have it, and if it
has a high merit (`merit_of`): clusters of even sizes that separate few near rows. The score decides
whether there are several clusters.

Level trees of the columns give the answer if their score is at least `CLEAR`, or if there is no
graph of near rows. Otherwise level trees of the graph give it. If the number of clusters is given,
k-means also makes a partition, and the partition with the highest merit is chosen.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from distsvc.kernels.rows import project
from distsvc.models.automatic.proposals import (
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
from distsvc.models.rows.min_cluster_size import FLAT
from distsvc.models.rows.numbering import ranks_by_size
from distsvc.models.rows.threads import one_thread
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine
from distsvc.models.support_vector.level_tree.level_sets import NEAR_ROWS, LevelSets
from distsvc.models.support_vector.level_tree.proposals import VoteRows, entropy, merit_of

OF_EACH = 5
"""Minimum number of pilot rows for each cluster of k-means; with fewer, k-means is not tried."""

STARTS = 10
"""Number of runs of k-means, each with its own random start."""

METHODS = {LEVEL_TREE: "columns", GRAPH: "neighbour graph", CENTRES: "k-means"}

LATTICE_STANDING = 0.35
"""Minimum score of the columns' answer if a table has too few distinct rows for a graph, or is a
lattice. In such tables even independent columns of few values score high."""

WITHOUT_GRAPH = {
    NoGraphReason.FEW: "The table has too few distinct rows for a neighbour graph.",
    NoGraphReason.LATTICE: (
        "There is no neighbour graph, because columns have few distinct values and many distances "
        "between rows are equal: the columns decided."
    ),
    NoGraphReason.PIECES: (
        f"The neighbour graph has more than {MOST_COORDINATES} pieces, so the columns decided."
    ),
}


class StoredViews(Views):
    """The views of stored columns: level trees of the columns or of the graph, and k-means.

    The `column_trees` have learned, and so has the graph if `AutomaticEngine.uses_graph`.
    """

    merits: Mapping[str, float]  # merit of each view's partition into `n_clusters`

    def __init__(self, column_trees: LevelTreeEngine, graph: GraphEngine):
        super().__init__(column_trees.pilot, graph, column_trees.parameters.nu)
        self.seed, self.on_few_points = column_trees.seed, column_trees.ensemble.ties
        self.view, self.tree = (GRAPH, graph.tree) if self.has_graph else (LEVEL_TREE, column_trees)
        if graph.without in (NoGraphReason.FEW, NoGraphReason.LATTICE):
            column_trees.settle(replace(column_trees.levels, least_standing=LATTICE_STANDING))

    def choose(self, n_clusters: int | None) -> ViewAnswer:
        if n_clusters is not None:
            return self._answer_of(n_clusters)
        levels = self.tree.levels
        return ViewAnswer(
            view=self.view,
            make=partial(self._rule_of, levels),
            agreement=levels.answer.agreement,
            support=levels.answer.support,
            why=self._why(levels),
            counts={self.view: levels.answer.n_clusters},
            followed=levels.follows,
            levels=levels,
            notes=self.tree.notes,
        )

    def cut(self, n_clusters: int) -> Rule:
        return self._answer_of(n_clusters).make()

    def _answer_of(self, n_clusters: int) -> ViewAnswer:
        """Return the answer with `n_clusters`: the partition with the highest merit."""
        proposals = self._proposals(n_clusters)
        self.merits = self._merits(proposals)
        view = max(self.merits, key=self.merits.__getitem__)
        best = proposals[view]
        listed = ", ".join(f"{METHODS[name]} {merit:.2f}" for name, merit in self.merits.items())
        why = (
            f"You asked for {best.n_clusters}. The method with the highest score decided (balanced "
            f"clusters raise a score, separated neighbours lower it): {listed}."
        )
        return ViewAnswer(
            view=view,
            make=best.make,
            agreement=best.support,
            support=best.support,
            why=why,
            counts={view: best.n_clusters},
            levels=best.levels,
            notes=self.tree.notes if view == self.view else [],
        )

    def _why(self, levels: LevelSets) -> str:
        if levels.follows:
            return FOLLOWED
        if self.graph.without is not None:
            return WITHOUT_GRAPH[self.graph.without]
        standing = levels.answer.standing
        if self.has_graph and levels.answer.n_clusters == 1:
            return f"The neighbour graph showed no clusters beyond chance (score {standing:.2f})."
        if self.has_graph:
            return f"The neighbour graph decided (score {standing:.2f})."
        if self.pilot.shape[1] <= FLAT or self.on_few_points:
            return "The table has few columns or few distinct rows, so its columns decided."
        return f"The columns decided (score {standing:.2f}); no neighbour graph was needed."

    def _proposals(self, n_clusters: int) -> dict[str, PartitionProposal]:
        """Return the partitions of the level trees and of k-means into `n_clusters`, by view."""
        levels = self.tree.levels.cut(n_clusters)
        labels, support = self._labels(levels), levels.answer.support
        make = partial(self._rule_of, levels)
        cut = PartitionProposal(self.view, labels, labels, make, levels, support=support)
        points = project(self.pilot, self.graph.axes)
        if n_clusters * OF_EACH > len(points):
            return {self.view: cut}
        centres, labels, support = best_k_means(points, n_clusters, self.seed)

        def centres_rule() -> Rule:
            number = np.arange(len(centres), dtype=np.int32)
            scored = self.scored(labels)
            return LandmarkRule.of(self.graph.axes, centres, number, points, labels, scored)

        centred = PartitionProposal(CENTRES, labels, labels, centres_rule, support=support)
        return {self.view: cut, CENTRES: centred}

    def _merits(self, proposals: Mapping[str, PartitionProposal]) -> dict[str, float]:
        """Return the merit (`merit_of`) of each view's partition on the first pilot rows.

        A partition with fewer clusters than another view's partition is left out.
        """
        most = max(one.n_clusters for one in proposals.values())
        n_rows = min(NEAR_ROWS, *(len(one.labels) for one in proposals.values()))
        rows = VoteRows(project(self.pilot[:n_rows], self.graph.axes))
        return {
            name: merit_of(entropy(one.labels[:n_rows]), rows.separated(one.labels[:n_rows]))
            for name, one in proposals.items()
            if one.n_clusters == most
        }

    def _rule_of(self, levels: LevelSets) -> Rule:
        return self.graph_rule(levels) if self.has_graph else self.tree.rule_of(levels)

    def _labels(self, levels: LevelSets) -> np.ndarray:
        """Return the labels of pilot rows in a cut; with a graph, only of rows that are in it."""
        return self.graph_labels(levels) if self.has_graph else levels.labels(levels.pilot)


def best_k_means(
    rows: np.ndarray, n_clusters: int, seed: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the best of several runs of k-means on rows (m, p): centres, labels and support.

    The best run has the lowest inertia. The centres (k, p) are float32 and the labels (m,) int32,
    with 0 for the largest cluster. The support is the share of runs that found nearly the same
    labels. k is `n_clusters`, or the number of distinct rows if it is lower.
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
