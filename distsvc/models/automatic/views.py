"""Base class of `StoredViews` and `ModelledViews`, and the answer that they choose."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from distsvc.kernels.rows import project
from distsvc.models.automatic.decision import ViewDecision
from distsvc.models.graph.engine import GraphEngine
from distsvc.models.graph.landmarks import LandmarkRule
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.level_tree.directions import leading_directions
from distsvc.models.support_vector.level_tree.level_sets import LevelSets
from distsvc.models.support_vector.level_tree.neighbour_score import NeighbourScore
from distsvc.models.support_vector.level_tree.rule import Scored


@dataclass(frozen=True)
class ViewAnswer:
    """The chosen clusters, the reason for the choice, and measures of its reliability."""

    view: str  # "support-vector", "graph", "mixture" or "centres"
    make: Callable[[], Rule]
    agreement: float  # `AutoClustering.agreement_`
    support: float  # share of the models that find the answer; `agreement` for modelled columns
    why: str  # reason for the choice, in sentences
    counts: Mapping[str, int]  # number of clusters of each view's best proposal
    likeness: float | None = None  # `AutoClustering.likeness_`
    followed: bool = False  # whether the previous run's answer was kept
    levels: LevelSets | None = None  # level sets of the chosen tree; None for mixture and centres
    notes: list[str] = field(default_factory=list)  # remarks on the answer
    decision: ViewDecision | None = None  # set if columns are modelled


class Views:
    """Base class of `StoredViews` and `ModelledViews`, which choose the answer among views.

    `pilot` (m, d) float32 are centred pilot rows; the `graph` may use only the first of them.
    Outlier scores are distances to near rows along the pilot's `leading_directions`. `nu` is
    the share of pilot rows that are outliers; None for the default limit.
    """

    def __init__(self, pilot: np.ndarray, graph: GraphEngine, nu: float | None):
        self.pilot, self.graph, self.nu = pilot, graph, nu
        self.components = leading_directions(pilot)  # (q, d) float32
        # Set with `nu`, if pilot rows are draws: these rows (m, d) float32 with medians of cells.
        self.medians: np.ndarray | None = None

    @property
    def has_graph(self) -> bool:
        return self.graph.coordinates is not None

    def scored(self, labels: np.ndarray) -> dict[str, Any]:
        """Fit outlier scores to the first m pilot rows, and return them as fields of `Scored`.

        `labels` (m,) are the clusters of these rows.
        """
        first = project(self.pilot[: len(labels)], self.components)
        medians = self.medians
        if medians is not None:
            medians = project(medians[: len(first)], self.components)
        score = NeighbourScore.of(first, labels[: len(first)], self.nu, medians)
        return Scored.fields_of(self.components, score)

    def graph_labels(self, found: LevelSets) -> np.ndarray:
        """Return the labels of the graph's pilot rows in `found`, a cut of its level tree."""
        return self.graph.labels(found)[self.graph.point_of[: len(self.pilot)]]

    def graph_rule(self, found: LevelSets) -> LandmarkRule:
        """Return the rule of `found`, a cut of the graph's level tree."""
        labels = self.graph.labels(found)
        return self.graph.rule(labels, self.scored(labels[self.graph.point_of]))
