"""A tree of hyperplanes that learns from a stream, block by block."""

from __future__ import annotations

import numpy as np

from distsvc.models.hyperplanes.engine import TreeEngine
from distsvc.models.rows.sampling import PILOT_ROWS, Reservoir


class TreeStream:
    """One tree, and the rows of the stream that a choice of clusters needs.

    Rows are counted as they come, under the tree of that moment.

    Parameters
    ----------
    engine : TreeEngine
        With its centre settled.
    n_features : int

    Attributes
    ----------
    growing : GrowingTree
    pilot : ndarray of shape (m, d), float32
        Centred rows of the stream: the latest where old ones are forgotten, else a sample of all.

    """

    def __init__(self, engine: TreeEngine, n_features: int):
        self.engine = engine
        self.growing = engine.seedling(n_features)
        self.pilot = np.zeros((0, n_features), np.float32)
        self._sample = Reservoir.empty(engine.seed, n_features)

    @property
    def n_rows(self) -> int:
        """Rows so far."""
        return self._sample.n_seen

    def add(self, X: np.ndarray) -> None:
        """Learn from the next rows X (n, d), in their order, and count them."""
        Z = self.engine.centred(X)
        self.engine.learn(self.growing, Z)
        self.growing.count(Z)
        self._sample.add(Z)
        most = self.engine.parameters["max_effective_samples"]
        if most is None:
            self.pilot = self._sample.rows
        else:
            self.growing.forget(min(1.0, most / float(self.growing.counts.sum())))
            self.pilot = np.concatenate([self.pilot, Z])[-min(most, PILOT_ROWS) :]

    def choose(self) -> None:
        """Let the engine choose the clusters of the tree as it is now."""
        self.engine.pilot, self.engine.notes = self.pilot, []
        self.engine.choose([self.growing])
