"""The default algorithm for modelled columns: a graph and mixtures propose, `decision` chooses.

Mixtures and the graph are fitted to the pilot rows, in which numbers are random draws from their
cells: the values that round to the stored number. Rules label rows by the medians of their cells.
If the previous run's answer came from landmarks (points of its graph), it is proposed here, too.
"""

from dataclasses import replace
from functools import cached_property, partial

import numpy as np
from scipy.spatial import cKDTree

from distsvc.kernels.rows import project
from distsvc.models.automatic.decision import ViewDecision, decide
from distsvc.models.automatic.mixture_proposals import (
    DECISION_ROWS,
    Mixtures,
    mixture_proposals,
)
from distsvc.models.automatic.modelled_rows import ModelledRows
from distsvc.models.automatic.previous import PreviousAnswer
from distsvc.models.automatic.proposals import GRAPH, PartitionProposal
from distsvc.models.automatic.rule import (
    FlooredLandmarkRule,
    MixtureRule,
    mixture_fields,
    of_latent,
)
from distsvc.models.automatic.views import ViewAnswer, Views
from distsvc.models.graph.engine import GraphEngine
from distsvc.models.graph.landmarks import LandmarkRule
from distsvc.models.mixture.density import NormalMixture, Prior
from distsvc.models.mixture.search import possible_shape
from distsvc.models.rows.min_cluster_size import least_mass
from distsvc.models.rows.numbering import ranks_by_size
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.level_tree.level_sets import LevelSets


class ModelledViews(Views):
    """The views of modelled columns: mixtures, and a graph that must learn before `choose`.

    `pilot` (m, r) float32 are centred draws of the latent variables of `rows`. Rules label prepared
    rows minus `origin` (D,). `previous` is the previous run's answer.
    """

    def __init__(
        self,
        rows: ModelledRows,
        pilot: np.ndarray,
        origin: np.ndarray,
        graph: GraphEngine,
        nu: float | None,
        previous: PreviousAnswer | None,
    ):
        super().__init__(pilot, graph, nu)
        self.rows, self.origin, self.previous = rows, origin, previous
        medians = (rows.prepared - origin)[:, rows.columns.layout.latent].astype(np.float32)
        if nu is not None:
            self.medians = medians
        if not np.array_equal(medians, pilot):
            graph.medians = project(medians, graph.axes)
        self._mixtures: dict[int | None, Mixtures] = {}
        self.decision_rows = rows.populations(min(len(pilot), DECISION_ROWS), graph.n_jobs)

    def choose(self, n_clusters: int | None) -> ViewAnswer:
        decision = self._decision(n_clusters)
        best, other, notes = decision.best, decision.alternative, []
        if best.n_clusters > 1 and best.levels is not None:
            notes = self.graph.tree.notes
        return ViewAnswer(
            view=best.view,
            make=best.make,
            agreement=best.agreement,
            support=best.agreement,
            why=decision.why(),
            counts=decision.counts(),
            likeness=None if other is None else other.likeness,
            followed=decision.followed,
            levels=best.levels,
            notes=notes,
            decision=decision,
        )

    def cut(self, n_clusters: int) -> Rule:
        return self._decision(n_clusters).best.make()

    def mixtures(self, n_clusters: int | None) -> Mixtures:
        """Return the proposals of mixtures, with qualities; cached. No graph is needed."""
        if n_clusters not in self._mixtures:
            start, previous = None, self.previous
            if previous is not None and n_clusters is None and not previous.by_landmarks:
                first = self.rows.draws.take(np.arange(min(len(self.pilot), DECISION_ROWS)))
                start = previous.start(first, self.rows.columns)
            found = mixture_proposals(
                self.rows,
                self.pilot,
                n_clusters,
                self.graph.n_jobs,
                self._mixture_rule,
                start,
            )
            for each in (found.one, *found.proposals):
                each.measure(self.decision_rows)
            self._mixtures[n_clusters] = found
        return self._mixtures[n_clusters]

    def _decision(self, n_clusters: int | None) -> ViewDecision:
        rows, mixtures = self.rows, self.mixtures(n_clusters)
        graph = self._graph_proposals(n_clusters)
        for each in graph:
            each.measure(self.decision_rows)
        labels = None if self.previous is None else self.previous.labels
        all_rows = partial(rows.populations, len(rows.draws), self.graph.n_jobs)
        return decide(mixtures, graph, rows.row_numbers, n_clusters, labels, all_rows)

    @cached_property
    def _rule_rows(self) -> np.ndarray:
        """Prepared pilot rows (m, D) float32 minus the origin, which rules can label."""
        return (self.rows.prepared - self.origin).astype(np.float32)

    def _mixture_rule(
        self, mixture: NormalMixture, cluster: np.ndarray, labels: np.ndarray
    ) -> MixtureRule:
        layout, scored = self.rows.columns.layout, self.scored(labels)
        fields = mixture_fields(mixture, layout, self.origin)
        rule = MixtureRule(**fields, cluster=cluster.astype(np.int32), **scored)
        return of_latent(rule, layout).with_floors(self._rule_rows)

    def _graph_proposals(self, n_clusters: int | None) -> list[PartitionProposal]:
        """Return the graph's proposals: its level tree's partition, and the previous partition.

        The level tree proposes one cluster only if `n_clusters` is given. The previous partition is
        proposed if `n_clusters` is None, and if the previous rule labels rows by landmarks.
        """
        if not self.has_graph:
            return []
        levels = self.graph.tree.levels
        if n_clusters is not None:
            levels = levels.cut(n_clusters)
        proposals = []
        if n_clusters is not None or levels.answer.n_clusters > 1:
            labels = self.graph_labels(levels)
            make = partial(self.graph_rule, levels)
            proposals.append(PartitionProposal(GRAPH, labels, labels, make, levels))
        previous = self.previous
        if previous is not None and previous.by_landmarks and n_clusters is None:
            labels, numbers = drop_small(previous.labels, self.pilot, previous.rule.n_clusters)
            continued = partial(self._previous_rule, previous, labels, numbers)
            proposals.append(PartitionProposal(GRAPH, labels, labels, continued))
        return proposals

    def _previous_rule(
        self, previous: PreviousAnswer, labels: np.ndarray, numbers: np.ndarray
    ) -> Rule:
        """Return a rule that labels rows by landmarks with the clusters of the previous partition.

        If all columns kept their models, the previous landmarks are moved to tonight's origin.
        Otherwise the landmarks are the points of tonight's graph, with the `labels` (m,) of the
        first pilot rows. `numbers` (k,) are the new labels of the previous clusters, -1 for dropped
        clusters.
        """
        first = np.unique(self.graph.point_of, return_index=True)[1]
        own = labels[first[first < len(labels)]]
        columns, rule = self.rows.columns, previous.rule
        found = self._floored(self.graph.rule(own, self.scored(labels)), labels)
        if not previous.takes_rows_of(columns):
            return found
        assert isinstance(rule, LandmarkRule)
        stays = numbers[rule.cluster] >= 0
        moved = rule.landmarks + rule.axes @ (previous.origin - self.origin)
        return replace(
            found,
            axes=rule.axes,
            landmarks=moved[stays].astype(np.float32),
            cluster=numbers[rule.cluster[stays]],
            gamma=rule.gamma,
        )

    def graph_rule(self, found: LevelSets) -> FlooredLandmarkRule:
        return self._floored(super().graph_rule(found), self.graph_labels(found))

    def _floored(self, rule: LandmarkRule, labels: np.ndarray) -> FlooredLandmarkRule:
        """Convert a rule of latent variables to a rule of prepared rows, and add density floors.

        The densities are from a mixture with one component for each cluster. It is fitted to the
        first pilot rows and their `labels` (m,).
        """
        layout, rows = self.rows.columns.layout, self.rows.draws.take(np.arange(len(labels)))
        found = of_latent(rule, layout)
        posterior = np.eye(found.n_clusters)[labels] + np.finfo(float).eps
        mixture = NormalMixture.from_posteriors(
            rows, posterior, Prior.of(rows), possible_shape(rows, found.n_clusters)
        )
        fields = mixture_fields(mixture, layout, self.origin)
        floored = FlooredLandmarkRule(**found.field_values(), **fields)
        return floored.with_floors(self._rule_rows)


def drop_small(labels: np.ndarray, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Drop clusters that are too small, and number the other clusters by size, the largest first.

    `labels` (m,), from 0 to k - 1, are the clusters of the first m `rows` (n, d). A cluster with
    fewer than `least_mass` rows is dropped unless it is the largest: each of its rows gets the
    label of the nearest row in a larger cluster. Return the new labels (m,), and the new numbers
    (k,) int32, -1 for dropped clusters.
    """
    sizes = np.bincount(labels, minlength=k)
    stays = sizes >= min(least_mass(len(labels), 1), sizes.max())
    kept, found = stays[labels], labels.copy()
    if not kept.all():
        nearest = cKDTree(rows[: len(labels)][kept]).query(rows[: len(labels)][~kept])[1]
        found[~kept] = labels[kept][nearest]
    numbers = np.full(len(sizes), -1, np.int32)
    numbers[stays] = ranks_by_size(np.bincount(found, minlength=len(sizes))[stays])
    return numbers[found], numbers
