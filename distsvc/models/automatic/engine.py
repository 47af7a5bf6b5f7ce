"""The level tree and iMDH beside each other on one table, and the choice of one, without labels.

The level tree follows clusters of any form, where density divides them; hyperplanes divide what
overlaps, and many columns. The models of the level tree say themselves whether they agree: where
they do not, hyperplanes are the better guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from distsvc.models.automatic.rule import ScoredTreeRule
from distsvc.models.engine import Engine
from distsvc.models.hyperplanes.engine import TreeEngine
from distsvc.models.rows.mass import FLAT
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rules.fields import Facts
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.boundary.base import Parameters
from distsvc.models.support_vector.level_tree.consensus import LOW_SUPPORT
from distsvc.models.support_vector.level_tree.density_score import DensityScore
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine

LEVEL_TREE, HYPERPLANES = "support-vector", "imdh"


class AutomaticEngine(Engine):
    """Holds both engines; `choose` settles which of them has the answer.

    `parameters` are all those of both, by algorithm, in range.
    """

    centre: np.ndarray  # (d,) float64, the origin of the rows, the same for both
    # Set by `choose`:
    chosen: str  # "support-vector" or "imdh"
    support: float  # share of the level tree's models that find its answer
    likeness: float | None  # adjusted Rand index of both answers on the pilot, if both were asked
    rule: Rule  # clusters of the answer; scores of the level tree, whichever it is

    def __init__(self, parameters: Mapping[str, dict[str, Any]], seed: int):
        self.parameters_of = parameters
        self.levels = LevelTreeEngine(Parameters.of(parameters[LEVEL_TREE]), seed)
        self.trees = TreeEngine(parameters[HYPERPLANES], seed)
        self.notes: list[str] = []

    def key_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the level tree's sample; the trees' is a part of it."""
        return self.levels.key_ranges(n_rows)

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        """Settle what follows from pilot rows (m, d) of a table of `n_rows`, in order of keys."""
        self.levels.set_pilot(pilot, n_rows)
        self.trees.set_pilot(pilot, n_rows)
        self.centre = self.levels.centre

    @property
    def asks_trees(self) -> bool:
        """Whether hyperplanes are asked: a level tree sees 3 columns whole."""
        return self.levels.pilot.shape[1] > FLAT

    def learn_trees(self, X: np.ndarray, keys: np.ndarray, n_rows: int) -> None:
        """Learn trees from the rows X (m, d) of a table of `n_rows`, in the order of keys (m,)."""
        trees = self.trees
        trees.choose(trees.grow_all(trees.centred(X), keys, n_rows))

    def choose(self) -> None:
        """Choose the answer of one of the two fitted engines, and make its rule."""
        from sklearn.metrics import adjusted_rand_score

        levels = self.levels.levels
        self.support = levels.answer.support
        self.chosen, self.likeness, self.rule = LEVEL_TREE, None, self.levels.rule
        self.notes = self.levels.notes
        if not self.asks_trees:
            return
        labels = self.trees.cut.label(self.trees.pilot)[0]
        own = levels.voter(levels.rows(levels.pilot))[0]
        self.likeness = float(adjusted_rand_score(own, labels))
        if self.support > LOW_SUPPORT or self.trees.n_clusters == 1:
            return
        self.chosen, self.notes = HYPERPLANES, self.trees.notes
        score = DensityScore.of(levels.trees, levels.pilot, labels, levels.nu)
        tree = vars(self.trees.cluster_tree)
        scored = ScoredTreeRule.fields_of(levels.ensemble.components, score)
        self.rule = ScoredTreeRule(**tree, cut_into=self.trees.n_clusters, **scored)

    def cut(self, n_clusters: int) -> Rule:
        """Return the rule of the chosen engine for another number of clusters."""
        if self.chosen == LEVEL_TREE:
            return self.levels.rule_of(self.levels.levels.cut(n_clusters))
        return self.trees.rule_of(n_clusters)

    def counts(self) -> dict[str, int]:
        """Return the clusters that each found, by algorithm."""
        found = {LEVEL_TREE: self.levels.levels.answer.n_clusters}
        return found | ({HYPERPLANES: self.trees.n_clusters} if self.asks_trees else {})

    def why(self) -> str:
        """Return the reason of the choice, in sentences."""
        if not self.asks_trees:
            return (
                f"With up to {FLAT} columns the level tree of support vector clustering sees the "
                "table whole, and no other algorithm is asked."
            )
        share = f"{100 * self.support:.0f} % of the level tree's models find its answer"
        if self.support > LOW_SUPPORT:
            return f"{share}: more than half, so it is trusted."
        if self.chosen == LEVEL_TREE:
            return f"{share}, half or less, but hyperplanes find nothing to divide: it stands."
        return f"{share}: half or less, so hyperplanes through regions of low density are."

    def fitted_facts(self) -> Facts:
        """Return the numbers that the chosen fit arrived at, for its report."""
        chosen = self.levels if self.chosen == LEVEL_TREE else self.trees
        facts = chosen.fitted_facts()
        facts |= {"chosen": self.chosen, "support": self.support}
        return facts if self.likeness is None else facts | {"likeness": self.likeness}
