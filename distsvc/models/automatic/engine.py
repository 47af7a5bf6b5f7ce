"""The engine of the default algorithm: models of columns, views of the rows, and the choice.

Two views are level trees. One sees rows along a few directions of their columns: clusters are hills
of density. The other sees the diffusion coordinates of a graph of near rows: clusters hang together
from neighbour to neighbour. In each view several models vote on an answer.

If columns are modelled, a mixture is the third view, and `distsvc.models.automatic.decision`
chooses among the proposals of all views. If columns stay as stored, the view whose winner has the
higher standing is chosen. With a number of clusters k-means is a third proposal there, and the
highest merit decides: even clusters that separate few near rows.

A run that continues another prefers that run's clusters. They are replaced only if another answer
is clearly better, since answers that are nearly as good would otherwise alternate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from distsvc.job.parameters import check_parameters, completed
from distsvc.kernels.projection import project
from distsvc.models.automatic.centres import about_centres
from distsvc.models.automatic.decision import (
    PartitionProposal,
    ViewDecision,
    decide,
    mixture_proposals,
)
from distsvc.models.automatic.rule import MixtureRule, of_latent
from distsvc.models.columns.maps import GivenColumn
from distsvc.models.columns.model import ColumnModel
from distsvc.models.engine import Engine
from distsvc.models.graph.coordinates import Without
from distsvc.models.graph.engine import GraphEngine
from distsvc.models.graph.landmarks import LandmarkRule
from distsvc.models.mixture.density import NormalMixture
from distsvc.models.rows.mass import FLAT, few_points
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rules.fields import Facts
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.boundary.base import Parameters
from distsvc.models.support_vector.level_tree.consensus import (
    AGREEMENT,
    EVEN,
    Answer,
    chance_of_one,
)
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine
from distsvc.models.support_vector.level_tree.level_sets import NEAR_ROWS, LevelSets
from distsvc.models.support_vector.level_tree.neighbour_score import NeighbourScore
from distsvc.models.support_vector.level_tree.proposals import (
    VoteRows,
    entropy,
    merit_of,
    rand_index,
)
from distsvc.models.support_vector.level_tree.rule import Scored

LEVEL_TREE, GRAPH, CENTRES, MIXTURE = "support-vector", "graph", "centres", "mixture"

OF_EACH = 5
"""Minimum number of pilot rows per cluster, below which k-means is not tried."""

DIVIDED = {
    LEVEL_TREE: "along few directions of the columns",
    GRAPH: "along a graph of near rows",
    CENTRES: "about centres",
    MIXTURE: "by a mixture of normals and categories",
}

CLEAR = 1.0
"""Standing from which the columns' winner is chosen whatever the graph's standing is."""

ENOUGH = 1.2
"""Minimum sum of relative standings for several clusters, if there are columns and a graph.

A relative standing is a winner's standing over what its view would need alone. The sum varies less
between samples than one view does.
"""

ENOUGH_ALONE = 3.5
"""Minimum relative standing of the columns if there is no graph.

Most such tables are lattices, where independent columns of few values reach high standings.
"""

ENOUGH_IN_PIECES = 0.5 * ENOUGH
"""Minimum relative standing of the columns if the graph is in pieces.

Half of `ENOUGH`: no graph of a sample without clusters is in pieces.
"""

NO_GRAPH = {
    Without.FEW: "Few rows differ, so there is no graph of near rows.",
    Without.LATTICE: (
        "Columns have few values, and many rows are equally near to each other, so there is no "
        "graph of near rows."
    ),
    Without.PIECES: (
        "The graph of near rows is in more pieces than a view of it can show, so the columns alone "
        "divide the table."
    ),
}


@dataclass(frozen=True)
class Division:
    """A partition into a given number of clusters, of columns that stay as stored.

    Attributes
    ----------
    labels : ndarray of shape (m,), int
        Clusters of the pilot's first rows.
    support : float
        Share of the models, or of the runs of k-means, that find the partition.
    make : callable
        Returns the rule.

    """

    labels: np.ndarray
    support: float
    make: Callable[[], Rule]

    @property
    def n_clusters(self) -> int:
        """Number of clusters with rows."""
        return len(np.unique(self.labels))


FEW_VALUES = 32
"""Maximum number of distinct values of a column that is not continuous."""

MAX_MODELLED = 100
"""Maximum number of columns that are modelled: the time of a mixture grows with its square."""

SAME_LENGTH = 1e-2
"""Maximum range of the squared lengths of rows that are vectors, relative to their variance."""


def stays_as_stored(X: np.ndarray, nominal: np.ndarray) -> bool:
    """Return whether the columns of rows X (m, d) are learned from without models.

    These are up to `FLAT` columns if one of them is continuous, vectors of one length, more than
    `MAX_MODELLED` columns, and a few points that are many rows each but not all combinations of
    the columns' values. Categories and missing values are always modelled.
    """
    if nominal.any() or np.isnan(X).any():
        return False
    points = few_points(X)
    if points is not None and len(points) < np.prod([len(np.unique(x)) for x in points.T]):
        return True
    if X.shape[1] > FLAT:
        squares = (X**2).sum(axis=1)
        variance = float(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
        one_length = float(np.ptp(squares)) <= SAME_LENGTH * variance
        return X.shape[1] > MAX_MODELLED or one_length
    return any(len(np.unique(x)) > FEW_VALUES for x in X.T)


class AutomaticEngine(Engine):
    """The engines of all views; `choose` decides among them."""

    centre: np.ndarray  # (d,) float64, the origin of the rows, the same for both
    trees: dict[str, Any]  # all parameters of the level trees, by name
    # Set by `choose`:
    chosen: str  # "support-vector", "graph", "mixture" or "centres"
    support: float  # share of the chosen family's models that find its answer
    agreement: float  # chance that another sample gives the answer; its support if K is given
    merits: dict[str, float]  # of the divisions into the clusters that are given, by family
    likeness: float | None  # adjusted Rand index of both answers on the graph's rows
    rule: Rule  # clusters of the answer; scores of the level tree, whichever it is
    evidence: float  # for clusters, of both families together; there are clusters from 1 on
    followed: bool  # whether the answer is that of the run before, cut again
    columns: ColumnModel | None = None  # of the stored columns, where these are modelled
    decision: ViewDecision | None = None  # how the answer was chosen, where columns are modelled

    def __init__(self, parameters: Mapping[str, Any], seed: int):
        check_parameters("auto", parameters)
        self.trees = completed("support-vector", parameters)
        given = Parameters.of(self.trees)
        self.n_clusters = given.n_clusters
        self.levels = LevelTreeEngine(given, seed)
        self.graph = GraphEngine(given, seed)
        self.notes: list[str] = []
        self.before: np.ndarray | None = None
        self.n_jobs: int | None = 1
        self._cuts: dict[int, Rule] = {}

    def key_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the rows that the level tree learns from."""
        return self.levels.key_ranges(n_rows)

    def sample_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the level tree's sample; the graph's is a part of it."""
        return self.levels.sample_ranges(n_rows)

    def go_on_from(self, labels: np.ndarray) -> None:
        """Prefer the previous run's answer, its `labels` (m,) of the first pilot rows."""
        self.before = labels
        self.levels.go_on_from(labels)
        self.graph.before = labels
        self.levels.follow = False  # both are asked before one is followed

    def model_columns(
        self,
        X: np.ndarray,
        keys: np.ndarray,
        nominal: np.ndarray,
        given: Sequence[GivenColumn] | None = None,
    ) -> ColumnModel | None:
        """Model the columns of stored pilot rows X (m, d) with keys (m,).

        Return None if the columns stay as stored (`stays_as_stored`), or none of them varies. With
        a model, `set_pilot` takes the pilot's latent variables. `nominal` (d,) bool marks columns
        that hold codes of categories. `given` are kinds and scales from the job file.
        """
        if stays_as_stored(X, nominal):
            return None
        columns = ColumnModel.of(X, nominal, given)
        if not len(columns.layout.latent):
            return None
        self.columns = columns
        rows = columns.prepared(X, keys)
        self._mixed = columns.layout.mixed(rows)
        numbers = columns.layout.numbers
        self._draws, self._values = rows[:, numbers], columns.prepared(X)[:, numbers]
        return columns

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Prepare the views, by pilot rows (m, d) in the order of keys of a table of `n_rows`."""
        self.levels.set_pilot(pilot, n_rows)
        self.centre = self.levels.centre
        if self.asks_graph:
            self.graph.set_pilot(self.levels.pilot)

    def learned(self, X: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Return stored rows X (n, d) with keys (n,) as learners see them: draws if modelled."""
        return X if self.columns is None else self.columns.latent(X, keys)

    @property
    def origin(self) -> np.ndarray:
        """The origin (D,) float64 of the rows that the rule takes."""
        return self.centre if self.columns is None else self.columns.origin(self.centre)

    @property
    def asks_graph(self) -> bool:
        """Whether a graph is tried: not for up to `FLAT` columns, nor for a few repeated points."""
        return self.levels.pilot.shape[1] > FLAT and not self.levels.ensemble.ties

    def learn_graph(self, X: np.ndarray, keys: np.ndarray) -> None:
        """Learn the graph of rows X (m, d) in the order of their keys (m,)."""
        self.graph.place(self.levels.centred(X), keys)
        self.graph.learn()

    @property
    def _trees(self) -> dict[str, LevelTreeEngine]:
        """The level trees of the views that were tried, by name."""
        found = {LEVEL_TREE: self.levels}
        if self.asks_graph and self.graph.coordinates is not None:
            found[GRAPH] = self.graph.tree
        return found

    @property
    def answers(self) -> dict[str, Answer]:
        """The answers of the level trees with their own number of clusters, by view."""
        return {name: tree.levels.blind for name, tree in self._trees.items()}

    def choose(self) -> None:
        """Choose the answer, and make its rule."""
        self._weigh()
        if self.columns is not None:
            self._decide(self.n_clusters)
            return
        winners = self.answers
        self.chosen = self._clearest(winners)
        self.followed = self.n_clusters is None and self._follow(winners)
        self.likeness = None
        if GRAPH in self.answers:
            self.likeness = rand_index(*self._labels_of_both().values())
        if self.n_clusters is None:
            self.merits = {}
            self.support, self.rule = self.found.answer.support, self._rule_of(self.chosen)
            self.agreement = self._agreement(self.answers)
        else:
            divisions = self._divisions(self.n_clusters)
            self.merits = self._merits(divisions)
            self.chosen = max(self.merits, key=self.merits.__getitem__)
            best = divisions[self.chosen]
            self.agreement = self.support = best.support
            self.rule = best.make()
        if self.chosen != CENTRES:
            self.notes += [note for note in self.tree.notes if note not in self.notes]

    def _decide(self, n_clusters: int | None) -> None:
        """Choose among the proposals of all views by `decide`."""
        decision = self._decision(n_clusters)
        best = decision.best
        self.decision, self.chosen, self.rule = decision, best.view, best.make()
        self.followed = decision.followed
        self.agreement = self.support = decision.agreement
        self.merits, self.likeness = {}, decision.likeness
        if best.n_clusters == 1:
            self.notes.append("one population describes the table best: the answer is one cluster")
        elif best.view != MIXTURE:
            self.notes += [note for note in self.tree.notes if note not in self.notes]

    def _decision(self, n_clusters: int | None) -> ViewDecision:
        mixtures = mixture_proposals(
            self._mixed,
            self.levels.pilot,
            self.levels.seed,
            n_clusters,
            self.n_jobs,
            self._mixture_rule,
            self.before,
        )
        trees = self._tree_proposals(n_clusters)
        return decide(
            mixtures, trees, self._mixed, self._draws, self._values, n_clusters, self.before
        )

    def _mixture_rule(
        self, mixture: NormalMixture, cluster: np.ndarray, labels: np.ndarray
    ) -> MixtureRule:
        assert self.columns is not None
        layout, scored = self.columns.layout, self._scored(labels)
        return MixtureRule.of(mixture, layout, self.origin, cluster, scored)

    def _tree_proposals(self, n_clusters: int | None) -> list[PartitionProposal]:
        """Return the partitions of the trees of columns and graph."""
        found = []
        for name, tree in self._trees.items():
            levels = tree.levels if n_clusters is None else tree.levels.cut(n_clusters)
            if n_clusters is None and levels.answer.n_clusters == 1:
                continue
            labels = (
                self._columns_labels(levels) if name == LEVEL_TREE else self._graph_labels(levels)
            )
            found.append(
                PartitionProposal(name, labels, labels, partial(self._tree_rule, name, levels))
            )
        return found

    def _tree_rule(self, name: str, levels: LevelSets) -> Rule:
        assert self.columns is not None
        graph = name == GRAPH
        rule: Rule = self._graph_rule(levels) if graph else self.levels.rule_of(levels)
        return of_latent(rule, self.columns.layout)

    @property
    def tree(self) -> LevelTreeEngine:
        """The graph's level tree if the graph was chosen, else that of the columns."""
        return self.graph.tree if self.chosen == GRAPH else self.levels

    @property
    def found(self) -> LevelSets:
        """The level sets of `tree`, and their answer."""
        return self.tree.levels

    @property
    def numbers(self) -> np.ndarray | None:
        """Labels (k,) in the rule of the clusters of `found`; None if they are the same."""
        return self.graph.numbers(self.found) if self.chosen == GRAPH else None

    def cut(self, n_clusters: int) -> Rule:
        """Return the rule that a fit with this `n_clusters` would have; results are cached."""
        if n_clusters not in self._cuts and self.columns is not None:
            self._cuts[n_clusters] = self._decision(n_clusters).best.make()
        if n_clusters not in self._cuts:
            divisions = self._divisions(n_clusters)
            merits = self._merits(divisions)
            best = divisions[max(merits, key=merits.__getitem__)]
            self._cuts[n_clusters] = best.make()
        return self._cuts[n_clusters]

    def counts(self) -> dict[str, int]:
        """Return the number of clusters of each view's best proposal."""
        if self.decision is not None:
            return self.decision.counts()
        if self.merits:
            return {self.chosen: self.rule.n_clusters}
        return {name: answer.n_clusters for name, answer in self.answers.items()}

    def why(self) -> str:
        """Return the reason of the choice, in sentences."""
        if self.decision is not None:
            return self.decision.why()
        answers = self.answers
        if self.merits:
            told = ", ".join(f"{merit:.2f} {DIVIDED[name]}" for name, merit in self.merits.items())
            return (
                f"{self.rule.n_clusters} clusters are wanted. Divisions into so many are measured "
                "by how even the clusters are and how few near rows they part: higher is better. "
                f"The best are {DIVIDED[self.chosen]} ({told})."
            )
        if not self.asks_graph:
            return (
                "The level tree of support vector clustering sees a table of few columns, or of "
                "few different rows, whole, and nothing else is asked."
            )
        if GRAPH not in answers:
            assert self.graph.without is not None
            return NO_GRAPH[self.graph.without]
        if self.followed:
            return "The clusters are those of the run before, found again in tonight's rows."
        own, other = answers[LEVEL_TREE].standing, answers[GRAPH].standing
        told = f"the columns stand at {own:.2f}, the graph at {other:.2f}"
        if all(answer.n_clusters == 1 for answer in answers.values()):
            return f"Neither view shows clusters that can be told from chance: {told}."
        if self.chosen == GRAPH:
            return f"Rows hang together along a graph of near rows: {told}."
        clear = "clearly" if own >= CLEAR else "more clearly than the graph"
        return f"Density along few directions divides the table {clear}: {told}."

    def fitted_facts(self) -> Facts:
        """Return the numbers that the chosen fit arrived at, for its report."""
        facts = {} if self.chosen in (CENTRES, MIXTURE) else self.tree.fitted_facts()
        facts |= {"n_clusters": self.rule.n_clusters}
        facts |= {"chosen": self.chosen, "support": self.support, "agreement": self.agreement}
        if self.levels.before is not None:
            facts["followed"] = self.followed
        return facts if self.likeness is None else facts | {"likeness": self.likeness}

    def _clearest(self, answers: Mapping[str, Answer]) -> str:
        """Return the columns if their standing is `CLEAR`, else the view that stands highest."""
        standing = {name: one.standing for name, one in answers.items() if one.n_clusters > 1}
        if not standing or standing.get(LEVEL_TREE, 0.0) >= CLEAR:
            return LEVEL_TREE
        return max(standing, key=standing.__getitem__)

    def _agreement(self, answers: Mapping[str, Answer]) -> float:
        """Return the probability that another sample gives the chosen answer."""
        own = answers[self.chosen]
        if own.n_clusters > 1 or not self.asks_graph:
            return own.agreement
        return chance_of_one(self.evidence)

    def _follow(self, winners: Mapping[str, Answer]) -> bool:
        """Choose the previous run's answer if no other is clearly better; return whether it is.

        The view with the highest adjusted Rand index to the previous labels is chosen. A new answer
        replaces them if that view's models prefer another answer, too, or if both views agree on
        the new answer and one of them prefers it clearly.
        """
        like = {name: one.likeness for name, one in winners.items() if one.likeness is not None}
        if not like:
            return False
        won, nearest = winners[self.chosen], max(like, key=like.__getitem__)
        clear = won.clear if won.n_clusters > 1 else self._agreement(winners) >= EVEN
        if (clear and winners[nearest].clear) or self._see_the_same(winners):
            return False
        self.chosen = nearest
        self.tree.settle(replace(self.found, follow=True))
        return True

    def _see_the_same(self, winners: Mapping[str, Answer]) -> bool:
        """Return whether both winners agree, and one is clearly better than the previous answer."""
        counts = [one.n_clusters for one in winners.values()]
        if len(counts) == 1 or counts[0] == 1 or counts[0] != counts[1]:
            return False
        if not any(one.clear for one in winners.values()):
            return False
        return rand_index(*self._labels_of_both().values()) > AGREEMENT

    @property
    def _enough(self) -> float:
        """The minimum sum of relative standings for several clusters."""
        if GRAPH in self._trees:
            return ENOUGH
        return ENOUGH_IN_PIECES if self.graph.without == Without.PIECES else ENOUGH_ALONE

    def _weigh(self) -> None:
        """Decide by the standings of both views whether there are several clusters.

        Without a graph to try, the level tree of the columns decides alone.
        """
        if not self.asks_graph:
            return
        trees = self._trees.values()
        nearness = [tree.levels.blind.standing / tree.least_standing for tree in trees]
        self.evidence = sum(nearness) / self._enough
        several = self.evidence >= 1.0
        for tree in trees:
            if (tree.levels.blind.n_clusters > 1) != several:
                least = 0.0 if several else np.inf
                tree.settle(replace(tree.levels, least_standing=least))

    def _divisions(self, n_clusters: int) -> dict[str, Division]:
        """Return the partitions into a number of clusters by level trees and k-means."""
        columns = self.levels.levels.cut(n_clusters)
        found = {
            LEVEL_TREE: Division(
                self._columns_labels(columns),
                columns.answer.support,
                lambda: self.levels.rule_of(columns),
            )
        }
        if GRAPH in self.answers:
            graph = self.graph.tree.levels.cut(n_clusters)
            labels, support = self._graph_labels(graph), graph.answer.support
            found[GRAPH] = Division(labels, support, lambda: self._graph_rule(graph))
        points = project(self.levels.pilot, self._axes)
        if n_clusters * OF_EACH > len(points):
            return found
        centres, labels, support = about_centres(points, n_clusters, self.levels.seed)

        def about() -> Rule:
            number = np.arange(len(centres), dtype=np.int32)
            scored = self._scored(labels)
            return LandmarkRule.of(self._axes, centres, number, points, labels, scored)

        return found | {CENTRES: Division(labels, support, about)}

    def _merits(self, divisions: Mapping[str, Division]) -> dict[str, float]:
        """Return the merit (`merit_of`) of each partition with the most clusters.

        Near rows are neighbours in all columns among the pilot's first rows.
        """
        most = max(one.n_clusters for one in divisions.values())
        n_rows = min(NEAR_ROWS, *(len(one.labels) for one in divisions.values()))
        rows = VoteRows(project(self.levels.pilot[:n_rows], self._axes))
        return {
            name: merit_of(entropy(one.labels[:n_rows]), rows.separated(one.labels[:n_rows]))
            for name, one in divisions.items()
            if one.n_clusters == most
        }

    def _labels_of_both(self) -> dict[str, np.ndarray]:
        """Return the labels of the same pilot rows by the winners of both level trees."""
        return {
            LEVEL_TREE: self._columns_labels(self.levels.levels),
            GRAPH: self._graph_labels(self.graph.tree.levels),
        }

    @property
    def _axes(self) -> np.ndarray:
        """The axes (p, d) float32 on which near rows are searched."""
        d = self.levels.pilot.shape[1]
        return self.graph.axes if self.asks_graph else np.eye(d, dtype=np.float32)

    def _rule_of(self, family: str) -> Rule:
        if family == GRAPH:
            return self._graph_rule(self.graph.tree.levels)
        return self.levels.rule_of(self.levels.levels)

    def _graph_rule(self, found: LevelSets) -> Rule:
        labels = self.graph.labels(found)
        return self.graph.rule(labels, self._scored(labels[self.graph.point_of]))

    def _scored(self, labels: np.ndarray) -> dict[str, Any]:
        """Return the fields of `Scored` for clusters, given labels (m,) of the first pilot rows."""
        levels = self.levels.levels
        pilot = levels.pilot[: len(labels)]
        score = NeighbourScore.of(levels.trees, pilot, labels[: len(pilot)], levels.nu)
        return Scored.fields_of(levels.ensemble.components, score)

    def _columns_labels(self, found: LevelSets) -> np.ndarray:
        """Return the labels by the columns of the pilot rows, or of the graph's rows if fewer."""
        asked = GRAPH in self.answers
        rows = found.pilot[: len(self.graph.point_of)] if asked else found.pilot
        return found.voter.labels(found.rows(rows))

    def _graph_labels(self, found: LevelSets) -> np.ndarray:
        """Return the labels by the graph of the same rows."""
        return self.graph.labels(found)[self.graph.point_of[: len(self.levels.pilot)]]
