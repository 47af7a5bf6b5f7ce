"""Engine of the level tree: several models, the trees of their level sets, and a vote.

| step | where |
|---|---|
| decide which models are trained | `ensemble.make_ensemble` |
| train each model and grow its tree | `Ensemble.grow` |
| test the trees' splits on the table's rows | `LevelTree.add_differences` |
| vote among the trees' cuts | `LevelTreeEngine.choose` |
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from distsvc.models.rows import sampling
from distsvc.models.rows.sampling import Ranges
from distsvc.models.rows.threads import map_threads
from distsvc.models.rules.fields import Facts
from distsvc.models.support_vector.boundary import labelling
from distsvc.models.support_vector.boundary.base import Parts, SupportVectorEngine
from distsvc.models.support_vector.boundary.labelling import DecisionFunction
from distsvc.models.support_vector.level_tree.directions import shortest_rows
from distsvc.models.support_vector.level_tree.ensemble import (
    Ensemble,
    make_ensemble,
    rows_of_sample,
)
from distsvc.models.support_vector.level_tree.level_sets import LevelSets
from distsvc.models.support_vector.level_tree.rule import LevelRule
from distsvc.models.support_vector.level_tree.tree import LevelTree

Grown = tuple[LevelTree, np.ndarray]
"""A model's tree, and the sums (4, b) int64 from which `LevelTree.tested` computes z and depths."""


class LevelTreeEngine(SupportVectorEngine):
    """Trains several models, grows a tree of level sets for each, and cuts the tree that wins."""

    ensemble: Ensemble
    view: np.ndarray  # (m, q) float32: pilot rows along the leading directions
    levels: LevelSets  # the tested trees and the answer
    rule: LevelRule
    previous_labels: np.ndarray | None = None  # as in `LevelSets`
    _grown: Sequence[Grown]

    def set_pilot(self, pilot: np.ndarray, n_rows: int) -> None:
        super().set_pilot(pilot, n_rows)
        self.ensemble = make_ensemble(self.pilot, n_rows, self.parameters, self.seed, self.n_jobs)
        self.view = self.ensemble.view(self.pilot)

    def key_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of the blocks of an epoch, which has at most `max_iter` rows."""
        return sampling.key_blocks(n_rows, min(n_rows, self.parameters.max_iter))

    def sample_ranges(self, n_rows: int) -> Ranges:
        """Return the key ranges of all rows that models learn from or test splits on."""
        return sampling.key_blocks(n_rows, rows_of_sample(n_rows, self.parameters.max_iter))

    def choose(self, grown: Sequence[Grown]) -> None:
        """Let the trees of all models vote, and use the winner as the answer."""
        self._earlier = list(self.notes)
        self.settle(self._level_sets(range(len(grown)), grown))

    def choose_early(self, train: Callable[[int], Sequence[Grown]]) -> None:
        """Let a few models vote; if they do not agree, let all models vote.

        ``train(part)`` returns the trees of the models ``ensemble.rounds[part]``, part 0 or 1.
        Models agree if each has a cut like the winner, or if none has a significant split. Whether
        they agree is tested without `n_clusters`, so that it does not depend on the number wanted.
        """
        first, others = self.ensemble.rounds
        found = dict(zip(first, train(0), strict=True))
        levels = self._level_sets(first, list(found.values()))
        if others and replace(levels, n_clusters=None).winner.support < 1.0:
            found |= zip(others, train(1), strict=True)
            levels = self._level_sets(sorted(found), [found[i] for i in sorted(found)])
        self._earlier = list(self.notes)
        self.settle(levels)

    def _level_sets(self, numbers: Sequence[int], grown: Sequence[Grown]) -> LevelSets:
        """Return the level sets of the models with these numbers.

        z is scaled to the number of tested rows. If it were scaled to all rows of a large table,
        chance differences would be significant.
        """
        given, n_tested = self.parameters, self.ensemble.tested_rows
        members = [self.ensemble.members[number] for number in numbers]
        tested = [tree.tested(sums, n_tested) for tree, sums in grown]
        level = 1.0 if given.C is not None else None
        return LevelSets(
            replace(self.ensemble, members=members), tested, self.view, n_tested,
            given.granularity, level, given.nu, given.assignment == "nearest", given.n_clusters,
            previous_labels=self.previous_labels, n_jobs=self.n_jobs,
        )  # fmt: skip

    def settle(self, levels: LevelSets) -> None:
        """Use the answer of `levels` as this engine's answer, and set its rule and notes."""
        self.levels, self.notes = levels, list(self._earlier)
        tree, boundary = levels.tree, levels.boundary
        self.gamma, self.C = tree.gamma, levels.ensemble.members[levels.answer.member].C
        self.n_iter = self.ensemble.steps
        a = (tree.a / boundary).astype(np.float32)
        self.decision = DecisionFunction(tree.S, a, tree.gamma)
        self.rule = self.rule_of(levels)
        self.equilibria = self._unprojected(labelling.climb(self.decision, levels.highest()))
        self.equilibrium_labels = np.arange(levels.answer.n_clusters, dtype=np.int32)
        if levels.level is not None and boundary != levels.level:
            self.note(
                f"C = {self.C:g} is too small: it puts all rows outside; the boundary was set "
                "relative to the density of the clusters"
            )
        for doubt in levels.doubts():
            self.note(doubt)
        wanted, found = levels.n_clusters, levels.answer.n_clusters
        if wanted is not None and found < wanted:
            self.note(f"no model separates {wanted} clusters: {found} were found")
        elif wanted is None and found == 1:
            self.note("no split is significant: the answer is one cluster")

    def rule_of(self, levels: LevelSets, part: np.ndarray | None = None) -> LevelRule:
        """Return the rule that labels rows by the answer, or by another cut of the winner's tree.

        `part` (B,) are the clusters of the support vectors in the other cut. The scores of rows do
        not depend on the cut.
        """
        own, tree = levels.part if part is None else part, levels.tree
        scored = LevelRule.fields_of(self.ensemble.components, self.levels.score)
        return LevelRule(
            S=tree.S, a=tree.a, part=own, gamma=tree.gamma, nearest=levels.nearest, **scored
        )

    def cut(
        self, n_clusters: int | None, level: float | None, significance: float | None
    ) -> LevelRule:
        """Return the rule of another cut, as in `SupportVectorClustering.cut`.

        Exactly one of the three parameters is not None.
        """
        levels = self.levels
        if n_clusters is not None:
            return self.rule_of(levels.cut(n_clusters))
        if significance is not None:
            kept = levels.tree.z >= significance
        else:
            assert level is not None
            kept = levels.tree.components_at((level + 1.0) * levels.boundary)
        return self.rule_of(levels, levels.numbered(kept))

    @property
    def support_vectors(self) -> np.ndarray:
        return self._unprojected(self.levels.tree.S.T)

    def _unprojected(self, view: np.ndarray) -> np.ndarray:
        return shortest_rows(view, self.ensemble.components[: view.shape[1]])

    def fitted_facts(self) -> Facts:
        tree, answer = self.levels.tree, self.levels.answer
        facts: Facts = {} if self.previous_labels is None else {"followed": self.levels.follows}
        return facts | {
            "gamma": self.gamma,
            "C": self.C,
            "n_models": len(self.levels.ensemble.members),
            "agreement": answer.agreement,
            "support": answer.support,
            "n_components": len(tree.S),
            "n_support_vectors": len(tree.a),
            "n_branches": tree.n_branches,
            "n_clusters": answer.n_clusters,
        }

    # Methods for estimators in memory.

    def seen(self, X: np.ndarray) -> np.ndarray:
        return self.ensemble.view(self.centred(X))

    def learn(self, rows: np.ndarray, keys: np.ndarray, n_rows: int) -> None:
        blocks = partial(sampling.memory_blocks, rows, keys, self.seed)
        ensemble, ranges = self.ensemble, self.key_ranges(n_rows)

        def grown(number: int) -> Grown:
            tree = ensemble.grow(number, self.view, ranges, blocks)
            return tree, ensemble.test(number, tree, n_rows, blocks)

        self._grown = map_threads(grown, range(len(ensemble.members)), self.n_jobs)

    def find_clusters(self, parts: Parts) -> None:
        """Choose the clusters by a vote of the trees.

        `parts` is part of the interface and unused, since `learn` has tested the trees.
        """
        grown, self._grown = self._grown, []
        self.choose(grown)
