"""The default algorithm for modelled columns: a graph and mixtures propose, `decision` chooses.

Mixtures and the graph are fitted to the pilot rows, in which numbers are random draws from their
cells: the values that round to the stored number. Rules label rows by the medians of their cells.
If the previous run's answer came from landmarks (points of its graph), it is proposed here, too.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self

import numpy as np
from scipy.spatial import cKDTree

from distsvc.kernels.rows import project
from distsvc.models.automatic.decision import (
    DECISION_ROWS,
    GRAPH,
    Mixtures,
    PartitionProposal,
    ViewDecision,
    decide,
    mixture_proposals,
)
from distsvc.models.automatic.previous import PreviousAnswer
from distsvc.models.automatic.rule import (
    FlooredLandmarkRule,
    MixtureRule,
    mixture_fields,
    of_latent,
)
from distsvc.models.automatic.views import ViewAnswer, Views
from distsvc.models.columns.model import ColumnModel
from distsvc.models.graph.engine import GraphEngine
from distsvc.models.graph.landmarks import LandmarkRule
from distsvc.models.mixture.density import MixtureRows, NormalMixture, Prior
from distsvc.models.mixture.population import NumberCells, PopulationRows, ScaledNumbers
from distsvc.models.mixture.search import possible_shape
from distsvc.models.rows.min_cluster_size import least_mass
from distsvc.models.rows.numbering import ranks_by_size
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.level_tree.level_sets import LevelSets


@dataclass(frozen=True)
class ModelledRows:
    """Pilot rows in the forms that mixtures, populations and rules take."""

    columns: ColumnModel
    row_numbers: np.ndarray  # (m,) int64: the rows' numbers in the table
    mixed: MixtureRows  # draws of numbers, and levels of categories
    labelled: np.ndarray  # (m, D) float64: rows as rules label them, medians of cells
    scales: tuple[ScaledNumbers, ...]  # mapped, then stored numbers; components are only mapped
    cells: NumberCells | None = None  # cells of rounded numbers; None if no number is rounded

    @classmethod
    def of(cls, columns: ColumnModel, X: np.ndarray, rows: np.ndarray) -> Self:
        drawn, labelled, layout = columns.prepared(X, rows), columns.prepared(X), columns.layout
        mixed, draws = layout.mixed(drawn), drawn[:, layout.numbers]
        middles = np.where(np.isnan(mixed.X), 0.0, labelled[:, layout.numbers])
        mapped = ScaledNumbers(draws, middles)
        if columns.axes is not None:  # components are not stored
            return cls(columns, rows, mixed, labelled, (mapped,))
        indices, (stored, log_slopes, log_inside, chances), values = columns.draws(X, rows)
        scales = mapped, _as_stored(mapped, stored, values, log_slopes)
        cells = NumberCells(indices, log_inside, chances)
        is_rounded = bool((cells.indices >= 0).any())
        return cls(columns, rows, mixed, labelled, scales, cells if is_rounded else None)

    @cached_property
    def values(self) -> MixtureRows:
        """`mixed`, but with medians of cells instead of draws."""
        return self.columns.layout.mixed(self.labelled)

    def populations(self, m: int, n_jobs: int | None) -> PopulationRows:
        """Return the first m rows in the form that populations take."""
        rows, numbers = self.mixed, tuple(each.take(m) for each in self.scales)
        levels = rows.levels[:m].astype(np.int64)
        cells = None if self.cells is None else self.cells.take(m)
        present, flags = ~np.isnan(rows.X[:m]), self.columns.layout.flags
        return PopulationRows(numbers, present, levels, rows.n_levels, flags, n_jobs, cells)


def _as_stored(
    mapped: ScaledNumbers, draws: np.ndarray, values: np.ndarray, log_slopes: np.ndarray
) -> ScaledNumbers:
    """Return the stored numbers (n, p), standardised, as a second scale beside `mapped`.

    Missing numbers, and columns in which a number is infinite, have their mapped numbers instead.
    `draws` (n, p) are drawn from the cells of the stored `values` (n, p), and `log_slopes` (n, p)
    are the log derivatives of draws by mapped draws.
    """
    mean, sd = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        stored = (draws - mean) / sd, (values - mean) / sd, log_slopes - np.log(sd)
    missing = np.isnan(values)
    finite = np.all([(np.isfinite(one) | missing).all(axis=0) for one in stored], axis=0)
    taken = ~missing & finite
    return ScaledNumbers(
        np.where(taken, stored[0], mapped.draws),
        np.where(taken, stored[1], mapped.middles),
        np.where(taken, stored[2], 0.0),
    )


class ModelledViews(Views):
    """The views of modelled columns: mixtures, and a graph that must learn before `choose`.

    `pilot` (m, r) float32 are the centred draws that the graph takes. Rules take prepared rows
    minus `origin` (D,). `before` is the previous run's answer.
    """

    def __init__(
        self,
        rows: ModelledRows,
        pilot: np.ndarray,
        origin: np.ndarray,
        graph: GraphEngine,
        nu: float | None,
        before: PreviousAnswer | None,
    ):
        super().__init__(pilot, graph, nu)
        self.rows, self.origin, self.before = rows, origin, before
        values = (rows.labelled - origin)[:, rows.columns.layout.latent].astype(np.float32)
        if nu is not None:
            self.values = values
        if not np.array_equal(values, pilot):
            graph.values = project(values, graph.axes)
        self._mixtures: dict[int | None, Mixtures] = {}
        self.compared = rows.populations(min(len(pilot), DECISION_ROWS), graph.n_jobs)

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
            start, before = None, self.before
            if before is not None and n_clusters is None and not before.by_landmarks:
                first = self.rows.mixed.take(np.arange(min(len(self.pilot), DECISION_ROWS)))
                start = before.start(first, self.rows.columns)
            found = mixture_proposals(
                self.rows.mixed,
                self.rows.values,
                self.pilot,
                self.rows.row_numbers,
                n_clusters,
                self.graph.n_jobs,
                self._mixture_rule,
                start,
            )
            for each in (found.one, *found.proposals):
                each.describe(self.compared)
            self._mixtures[n_clusters] = found
        return self._mixtures[n_clusters]

    def _decision(self, n_clusters: int | None) -> ViewDecision:
        rows, mixtures = self.rows, self.mixtures(n_clusters)
        graph = self._graph_proposals(n_clusters)
        for each in graph:
            each.describe(self.compared)
        previous = None if self.before is None else self.before.labels
        everything = partial(rows.populations, len(rows.mixed), self.graph.n_jobs)
        return decide(mixtures, graph, rows.row_numbers, n_clusters, previous, everything)

    @cached_property
    def _labelled(self) -> np.ndarray:
        """Pilot rows (m, D) float32 in the form that rules take."""
        return (self.rows.labelled - self.origin).astype(np.float32)

    def _mixture_rule(
        self, mixture: NormalMixture, cluster: np.ndarray, labels: np.ndarray
    ) -> MixtureRule:
        layout, scored = self.rows.columns.layout, self.scored(labels)
        fields = mixture_fields(mixture, layout, self.origin)
        rule = MixtureRule(**fields, cluster=cluster.astype(np.int32), **scored)
        return of_latent(rule, layout).with_floors(self._labelled)

    def _graph_proposals(self, n_clusters: int | None) -> list[PartitionProposal]:
        """Return the graph's proposals: its level tree's partition, and the previous partition.

        The level tree proposes one cluster only if `n_clusters` is given. The previous partition is
        proposed if `n_clusters` is None, and if landmarks gave it.
        """
        if not self.has_graph:
            return []
        levels = self.graph.tree.levels
        if n_clusters is not None:
            levels = levels.cut(n_clusters)
        proposals = []
        if n_clusters is not None or levels.answer.n_clusters > 1:
            labels = self.graph_labels(levels)
            rule = partial(self._graph_rule, levels)
            proposals.append(PartitionProposal(GRAPH, labels, labels, rule, levels))
        before = self.before
        if before is not None and before.by_landmarks and n_clusters is None:
            labels, numbers = drop_small(before.labels, self.pilot, before.rule.n_clusters)
            rule = partial(self._rule_before, before, labels, numbers)
            proposals.append(PartitionProposal(GRAPH, labels, labels, rule))
        return proposals

    def _rule_before(self, before: PreviousAnswer, labels: np.ndarray, numbers: np.ndarray) -> Rule:
        """Return a rule that continues the previous partition by landmarks.

        The previous landmarks are kept, relative to tonight's origin, if all columns kept their
        models. Otherwise the points of tonight's graph are the landmarks, with the `labels` (m,) of
        the first pilot rows. `numbers` (k,) are the new labels of the previous clusters, -1 for
        dropped clusters.
        """
        first = np.unique(self.graph.point_of, return_index=True)[1]
        own = labels[first[first < len(labels)]]
        columns, rule = self.rows.columns, before.rule
        found = self._with_floors(self.graph.rule(own, self.scored(labels)), labels)
        if not before.takes_rows_of(columns):
            return found
        assert isinstance(rule, LandmarkRule)
        stays = numbers[rule.cluster] >= 0
        moved = rule.landmarks + rule.axes @ (before.origin - self.origin)
        return replace(
            found,
            axes=rule.axes,
            landmarks=moved[stays].astype(np.float32),
            cluster=numbers[rule.cluster[stays]],
            gamma=rule.gamma,
        )

    def _graph_rule(self, levels: LevelSets) -> Rule:
        rule = self.graph_rule(levels)
        assert isinstance(rule, LandmarkRule)
        return self._with_floors(rule, self.graph_labels(levels))

    def _with_floors(self, rule: LandmarkRule, labels: np.ndarray) -> FlooredLandmarkRule:
        """Return a rule of latent variables as a rule of prepared rows, with density floors.

        A mixture computes the densities, with one component for each cluster. It is fitted to the
        first pilot rows by their `labels` (m,).
        """
        layout, rows = self.rows.columns.layout, self.rows.mixed.take(np.arange(len(labels)))
        found = of_latent(rule, layout)
        posterior = np.eye(found.n_clusters)[labels] + np.finfo(float).eps
        mixture = NormalMixture.from_posteriors(
            rows, posterior, Prior.of(rows), possible_shape(rows, found.n_clusters)
        )
        fields = mixture_fields(mixture, layout, self.origin)
        floored = FlooredLandmarkRule(**found.field_values(), **fields)
        return floored.with_floors(self._labelled)


def drop_small(labels: np.ndarray, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Drop the small ones of k clusters, and number the others by size, the largest first.

    `labels` (m,) are of the first `rows` (n, d). A cluster with fewer than `least_mass` rows is
    dropped unless it is the largest: each of its rows gets the label of the nearest row in a larger
    cluster. Return the new labels (m,), and the new numbers (k,) int32, -1 for dropped clusters.
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
