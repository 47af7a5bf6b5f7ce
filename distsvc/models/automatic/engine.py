"""Two families of views beside each other on one table, and the choice of one, without labels.

The level tree sees rows along a few directions of their columns: clusters are where density divides
them. It sees the diffusion coordinates of a graph of near rows, too: clusters are what hangs
together in many columns, wherever it winds. In either family the models vote among cuts of their
trees. The family whose winner stands higher, a model, has the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from distsvc.job.parameters import check_parameters, completed
from distsvc.models.engine import Engine
from distsvc.models.graph.engine import GraphEngine
from distsvc.models.rows.mass import FLAT
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rules.fields import Facts
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.boundary.base import Parameters
from distsvc.models.support_vector.level_tree.consensus import AGREEMENT, Answer, rand_indices
from distsvc.models.support_vector.level_tree.density_score import DensityScore
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine
from distsvc.models.support_vector.level_tree.level_sets import LevelSets
from distsvc.models.support_vector.level_tree.rule import Scored

LEVEL_TREE, GRAPH = "support-vector", "graph"

CLEAR = 1.0
"""Standing of the columns' winner, from which on it has the answer whatever the graph's is."""

CONFIRMED = 0.05
"""Standing of winners that are enough where both families have the same answer."""


class AutomaticEngine(Engine):
    """Holds the engines of both families; `choose` settles which of them has the answer."""

    centre: np.ndarray  # (d,) float64, the origin of the rows, the same for both
    trees: dict[str, Any]  # all parameters of the level trees, by name
    # Set by `choose`:
    chosen: str  # "support-vector" or "graph"
    support: float  # share of the chosen family's models that find its answer
    likeness: float | None  # adjusted Rand index of both answers on the graph's rows
    rule: Rule  # clusters of the answer; scores of the level tree, whichever it is
    confirmed: bool  # whether both have the same answer, of winners too low by themselves

    def __init__(self, parameters: Mapping[str, Any], seed: int):
        check_parameters("auto", parameters)
        self.trees = completed("support-vector", parameters)
        given = Parameters.of(self.trees)
        self.levels = LevelTreeEngine(given, seed)
        self.graph = GraphEngine(given, seed)
        self.notes: list[str] = []

    def key_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the level tree's sample; the graph's is a part of it."""
        return self.levels.key_ranges(n_rows)

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Settle what follows from pilot rows (m, d) of a table of `n_rows`, in order of keys."""
        self.levels.set_pilot(pilot, n_rows)
        self.centre = self.levels.centre
        if self.asks_graph:
            self.graph.set_pilot(self.levels.pilot)

    @property
    def asks_graph(self) -> bool:
        """Whether a graph is asked: a level tree sees 3 columns whole, and a few points as such."""
        return self.levels.pilot.shape[1] > FLAT and not self.levels.ensemble.ties

    def learn_graph(self, X: np.ndarray, keys: np.ndarray) -> None:
        """Learn the graph of rows X (m, d) in the order of their keys (m,)."""
        self.graph.place(self.levels.centred(X), keys)
        self.graph.learn()

    @property
    def answers(self) -> dict[str, Answer]:
        """The answers without a number of clusters given, by the families that were asked."""
        found = {LEVEL_TREE: self.levels.levels.blind}
        if self.asks_graph and self.graph.coordinates is not None:
            found[GRAPH] = self.graph.tree.levels.blind
        return found

    def choose(self) -> None:
        """Choose the answer of one of the two fitted engines, and make its rule."""
        self.confirmed = self._confirm()
        answers = self.answers
        split = {name: one.standing for name, one in answers.items() if one.n_clusters > 1}
        self.chosen = self._clearest(split)
        self.likeness = None
        if GRAPH in answers:
            found = self.levels.levels, self.graph.tree.levels
            several = self._columns_labels(found[0]), self._graph_labels(found[1])
            self.likeness = float(rand_indices(several)[0, 1])
        self.support = self.found.answer.support
        self.notes += [note for note in self.tree.notes if note not in self.notes]
        self.rule = self._rule(self.found)

    @property
    def tree(self) -> LevelTreeEngine:
        """The level tree of the chosen family."""
        return self.graph.tree if self.chosen == GRAPH else self.levels

    @property
    def found(self) -> LevelSets:
        """The trees of the chosen family, and its answer."""
        return self.tree.levels

    def cut(self, n_clusters: int) -> Rule:
        """Return the rule of the chosen family for another number of clusters."""
        return self._rule(self.found.cut(n_clusters))

    def counts(self) -> dict[str, int]:
        """Return the clusters that each family found without being given their number."""
        return {name: answer.n_clusters for name, answer in self.answers.items()}

    def why(self) -> str:
        """Return the reason of the choice, in sentences."""
        answers = self.answers
        if not self.asks_graph:
            return (
                "The level tree of support vector clustering sees a table of few columns, or of "
                "few different rows, whole, and nothing else is asked."
            )
        if GRAPH not in answers:
            return "Few rows differ, or all are equally near, so there is no graph of near rows."
        own, other = answers[LEVEL_TREE].standing, answers[GRAPH].standing
        told = f"the columns stand at {own:.2f}, the graph at {other:.2f}"
        if self.confirmed:
            return f"Both views have the same clusters, though neither is clear by itself: {told}."
        if all(answer.n_clusters == 1 for answer in answers.values()):
            return f"Neither view shows clusters that can be told from chance: {told}."
        if self.chosen == GRAPH:
            return f"Rows hang together along a graph of near rows: {told}."
        clear = "clearly" if own >= CLEAR else "more clearly than the graph"
        return f"Density along few directions divides the table {clear}: {told}."

    def fitted_facts(self) -> Facts:
        """Return the numbers that the chosen fit arrived at, for its report."""
        facts = self.tree.fitted_facts()
        facts |= {"chosen": self.chosen, "support": self.support}
        return facts if self.likeness is None else facts | {"likeness": self.likeness}

    def _clearest(self, standing: Mapping[str, float]) -> str:
        """Return the family that has the answer, by the standing of those that found clusters."""
        if not standing or standing.get(LEVEL_TREE, 0.0) >= CLEAR:
            return LEVEL_TREE
        return max(standing, key=standing.__getitem__)

    def _confirm(self) -> bool:
        """Take winners that stand too low by themselves, where both have nearly the same labels."""
        answers = self.answers
        if GRAPH not in answers or any(answer.n_clusters > 1 for answer in answers.values()):
            return False
        trees = self.levels, self.graph.tree
        lower = [replace(tree.levels, least_standing=CONFIRMED) for tree in trees]
        if any(found.blind.n_clusters == 1 for found in lower):
            return False
        blind = [replace(found, n_clusters=None) for found in lower]
        several = self._columns_labels(blind[0]), self._graph_labels(blind[1])
        if rand_indices(several)[0, 1] <= AGREEMENT:
            return False
        for tree, found in zip(trees, lower, strict=True):
            tree.settle(found)
        return True

    def _rule(self, found: LevelSets) -> Rule:
        levels = self.levels.levels
        if self.chosen == LEVEL_TREE:
            return self.levels.rule_of(found)
        labels = self.graph.labels(found)
        of_rows = labels[self.graph.point_of]
        pilot = levels.pilot[: len(of_rows)]
        score = DensityScore.of(levels.trees, pilot, of_rows[: len(pilot)], levels.nu)
        scored = Scored.fields_of(levels.ensemble.components, score)
        return self.graph.rule(labels, scored)

    def _columns_labels(self, found: LevelSets) -> np.ndarray:
        """Return the labels of the pilot rows, or the graph's if fewer, by the level tree."""
        rows = found.pilot[: len(self.graph.point_of)]
        return found.voter(found.rows(rows))[0]

    def _graph_labels(self, found: LevelSets) -> np.ndarray:
        """Return the labels of the same rows by the graph."""
        return self.graph.labels(found)[self.graph.point_of[: len(self.levels.pilot)]]
