"""A fit in one process: an engine's steps on rows in memory, or on those of an input."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from distsvc.errors import ParameterError
from distsvc.inputs.rows import Input
from distsvc.job.parameters import IN_MEMORY
from distsvc.models.rows import sampling
from distsvc.models.rows.passes import Passes
from distsvc.models.rows.sampling import PILOT_ROWS
from distsvc.models.support_vector.boundary.engine import BoundaryEngine
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine

Engine = LevelTreeEngine | BoundaryEngine


def fit_array(engine: Engine, X: np.ndarray) -> tuple[np.ndarray, float]:
    """Fit rows X (n, d); return them as the engine sees them, and when it was trained."""
    keys = sampling.row_keys(engine.seed, np.arange(len(X)))
    engine.set_pilot(X[sampling.lowest(keys, PILOT_ROWS)], len(X))
    rows = engine.seen(X)
    engine.learn(rows, keys, len(X))
    trained = perf_counter()
    engine.find_clusters([(rows, keys)], len(X))
    return rows, trained


def fit_source(engine: Engine, source: Input) -> tuple[Passes, np.ndarray | None, float]:
    """Fit the rows of an input in two passes; return what reads it, and when it was trained.

    Between them come the rows as the engine sees them, if the input is in memory, too.

    Raises
    ------
    ParameterError
        The labelling needs all rows at once.

    """
    labelling = engine.parameters.labelling
    if labelling in IN_MEMORY:
        raise ParameterError(
            f"labelling={labelling!r} needs all rows at once: give a NumPy array, or a sample"
        )
    passes = Passes(source, engine.seed)
    X, keys = passes.draw(engine.key_ranges)
    engine.set_pilot(passes.pilot, passes.n_rows)
    rows = engine.seen(X)
    del X
    engine.learn(rows, keys, passes.n_rows)
    del rows, keys
    trained = perf_counter()
    kept: list[np.ndarray] = []

    def seen(block: np.ndarray) -> np.ndarray:
        rows = engine.seen(block)
        if source.in_memory:
            kept.append(rows)
        return rows

    engine.find_clusters(((seen(block), keys) for block, keys in passes.again()), passes.n_rows)
    return passes, np.concatenate(kept) if kept else None, trained
