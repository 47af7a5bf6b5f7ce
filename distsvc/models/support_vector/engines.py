"""The choice of the engine that fits a table, and its steps in one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from distsvc.errors import ParameterError
from distsvc.job.constraints import is_several
from distsvc.job.parameters import IN_MEMORY, check_parameters, check_streams
from distsvc.models.rows import sampling
from distsvc.models.rows.phases import Phases
from distsvc.models.rows.sampling import PILOT_ROWS
from distsvc.models.support_vector.boundary.base import Parameters
from distsvc.models.support_vector.boundary.engine import BoundaryEngine
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine

if TYPE_CHECKING:
    from distsvc.inputs.rows import Input
    from distsvc.models.rows.passes import Passes

EitherEngine = LevelTreeEngine | BoundaryEngine

LABELLING_PARAMETERS = (
    "labelling", "bridging", "segment_samples", "boundary_size", "ball_radius", "merge_radius",
    "noise",
)  # fmt: skip
"""Parameters that can change after training."""


def engine_for(parameters: Mapping[str, Any], seed: int) -> EitherEngine:
    """Return the engine for the parameters of `SupportVectorClustering`, by name.

    ``labelling="auto"`` is the level tree if a number of clusters or a list of gammas is given, or
    if gamma is "auto" and the solver ``bsgd``.

    Raises
    ------
    ParameterError
        A parameter is out of range, or does not fit another.

    """
    check_parameters("support-vector", parameters)
    given = Parameters.of(parameters)
    by_default = (
        given.n_clusters is not None
        or is_several(given.gamma)
        or (given.solver, given.gamma) == ("bsgd", "auto")
    )
    if given.labelling == "level-tree" or (given.labelling == "auto" and by_default):
        return LevelTreeEngine(given, seed)
    return BoundaryEngine(given, seed)


def engine_for_blocks(parameters: Mapping[str, Any], seed: int) -> BoundaryEngine:
    """Return the engine for a stream of blocks, which labels by equilibria.

    Raises
    ------
    ParameterError
        As `engine_for`, or the parameters need all rows at once.

    """
    check_parameters("support-vector", parameters)
    check_streams(parameters)
    return BoundaryEngine(Parameters.of(parameters), seed)


def fit_array(engine: EitherEngine, X: np.ndarray, phases: Phases) -> tuple[np.ndarray, float]:
    """Fit rows X (n, d); return them in the engine's coordinates, and the time after training."""
    keys = sampling.row_keys(engine.seed, np.arange(len(X)))
    engine.set_pilot(X[sampling.lowest(keys, PILOT_ROWS)], len(X))
    rows = engine.seen(X)
    engine.learn(rows, keys, len(X))
    trained = phases.ended("training")
    engine.find_clusters([(rows, keys)], len(X))
    phases.ended("clusters")
    return rows, trained


def fit_source(engine: EitherEngine, source: Input, phases: Phases) -> tuple[Passes, float]:
    """Fit the rows of an input in two passes; return the passes, and the time after training.

    Raises
    ------
    ParameterError
        The labelling needs all rows at once.

    """
    from distsvc.models.rows.passes import Passes  # needs scikit-learn; workers do without

    labelling = engine.parameters.labelling
    if labelling in IN_MEMORY:
        raise ParameterError(
            f"labelling={labelling!r} needs all rows at once: give a NumPy array, or a sample"
        )
    passes = Passes(source, engine.seed)
    X, keys = passes.draw(engine.sample_ranges)
    phases.ended(f"sample of {passes.n_rows:,} rows")
    engine.set_pilot(passes.pilot, passes.n_rows)
    rows = engine.seen(X)
    del X
    engine.learn(rows, keys, passes.n_rows)
    del rows, keys
    trained = phases.ended("training")
    parts = ((engine.seen(block), keys) for block, keys in passes.again())
    engine.find_clusters(parts, passes.n_rows)
    phases.ended("clusters")
    return passes, trained
