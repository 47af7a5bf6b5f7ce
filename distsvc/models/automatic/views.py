"""Base class of the choice among views of a table, and the answer that is chosen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from distsvc.kernels.rows import project
from distsvc.models.automatic.decision import ViewDecision
from distsvc.models.graph.engine import GraphEngine
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.level_tree.directions import leading_directions
from distsvc.models.support_vector.level_tree.level_sets import LevelSets
from distsvc.models.support_vector.level_tree.neighbour_score import NeighbourScore
from distsvc.models.support_vector.level_tree.rule import Scored


@dataclass(frozen=True)
class ViewAnswer:
    """The answer of the chosen view (level tree, graph, mixture or centres)."""

    view: str  # "support-vector", "graph", "mixture" or "centres"
    make: Callable[[], Rule]
    agreement: float  # `AutoClustering.agreement_`
    support: float  # share of the models that find the answer; the agreement, if modelled
    why: str  # reason for the choice, in sentences
    counts: Mapping[str, int]  # number of clusters of each view's best proposal
    likeness: float | None = None  # `AutoClustering.likeness_`
    followed: bool = False  # whether the previous run's answer was kept
    levels: LevelSets | None = None  # level sets of the chosen tree; None for mixture and centres
    notes: list[str] = field(default_factory=list)  # remarks on the answer
    decision: ViewDecision | None = None  # set if columns are modelled


class Views:
    """Base class of `StoredViews` and `ModelledViews`: pilot rows and their neighbour graph.

    Pilot rows (m, d) float32 are centred; the graph may use only the first of them. Outlier scores
    depend on distances along their `leading_directions`. `nu` is the share of the pilot rows
    outside; None for the default limit.
    """

    def __init__(self, pilot: np.ndarray, graph: GraphEngine, nu: float | None):
        self.pilot, self.graph, self.nu = pilot, graph, nu
        self.components = leading_directions(pilot)  # (q, d) float32
        # If pilot rows are random draws: the same rows (m, d) float32 by medians of cells.
        self.values: np.ndarray | None = None

    @property
    def has_graph(self) -> bool:
        return self.graph.coordinates is not None

    def scored(self, labels: np.ndarray) -> dict[str, Any]:
        """Fit outlier scores to the first pilot rows with labels (m,); return `Scored` fields."""
        first = project(self.pilot[: len(labels)], self.components)
        values = self.values
        if values is not None:
            values = project(values[: len(first)], self.components)
        score = NeighbourScore.of(first, labels[: len(first)], self.nu, values)
        return Scored.fields_of(self.components, score)

    def graph_labels(self, found: LevelSets) -> np.ndarray:
        """Return labels of the pilot rows that are in the graph, in a cut of the graph's tree."""
        return self.graph.labels(found)[self.graph.point_of[: len(self.pilot)]]

    def graph_rule(self, found: LevelSets) -> Rule:
        """Return the rule of a cut of the graph's level tree."""
        labels = self.graph.labels(found)
        return self.graph.rule(labels, self.scored(labels[self.graph.point_of]))
