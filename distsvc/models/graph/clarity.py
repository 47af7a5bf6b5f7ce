"""Score of the graph's answer, which chooses between two scalings."""

from __future__ import annotations

import numpy as np

from distsvc.job.parameters import completed
from distsvc.models.graph.engine import GraphEngine
from distsvc.models.support_vector.boundary.base import Parameters

ROWS = 3_000
"""Maximum number of rows in the graph."""


def clarity(rows: np.ndarray, seed: int) -> float:
    """Return the score of the answer from a graph of the first of the rows (m, d) float64.

    Rows are in random order. 0 if the answer is one cluster or there is no graph.
    """
    engine = GraphEngine(Parameters.of(completed("support-vector", {})), seed)
    some = rows[:ROWS]
    some = (some - some.mean(axis=0)).astype(np.float32)
    engine.set_pilot(some)
    engine.place(some, np.arange(len(some), dtype=np.uint64))
    engine.learn()
    if engine.coordinates is None:
        return 0.0
    answer = engine.tree.levels.blind
    return answer.standing if answer.n_clusters > 1 else 0.0
