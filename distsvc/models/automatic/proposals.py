"""Proposals: the partitions of the pilot rows among which the default algorithm chooses."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from distsvc.models.mixture.population import PopulationRows, Quality, quality_of
from distsvc.models.rules.rule import Rule
from distsvc.models.support_vector.level_tree.level_sets import LevelSets

LEVEL_TREE, GRAPH, CENTRES, MIXTURE = "support-vector", "graph", "centres", "mixture"
"""Names of the views, as in `AutoClustering.algorithm_`."""

FOLLOWED = "The clusters of the previous run were found again and kept."


@dataclass
class PartitionProposal:
    """A partition of the first m pilot rows that one view proposes.

    Populations are fitted to the clusters in `drawn`. Populations of the likeliest clusters
    (`labels`) would lack tails where clusters overlap.
    """

    view: str  # `LEVEL_TREE`, `GRAPH`, `CENTRES` or `MIXTURE`
    labels: np.ndarray  # (m,) int: clusters of the rows
    drawn: np.ndarray  # (m,) int: clusters drawn by posteriors; `labels` if there are none
    make: Callable[[], Rule]  # returns the rule that labels all rows
    levels: LevelSets | None = None  # set if a level tree made the partition
    quality: Quality = field(default_factory=lambda: Quality(np.zeros(0), 0))  # set by `measure`
    support: float = 1.0  # share of the models, or of the runs of k-means, that find the partition
    found_again: float = 1.0  # for a mixture: agreement with partitions from halves of the rows
    agreement: float = 0.0  # probability that another sample has this answer; set by `decide`
    preferred: float = 0.0  # share of other samples that prefer this proposal; set by `decide`

    @property
    def n_clusters(self) -> int:
        return len(np.unique(self.labels))

    def measure(self, rows: PopulationRows) -> None:
        """Compute `quality` from `rows`, the first pilot rows; drop the labels of later rows."""
        m = len(rows)
        self.labels, self.drawn = self.labels[:m], self.drawn[:m]
        self.quality = quality_of(rows, np.unique(self.drawn, return_inverse=True)[1])
