"""Which engine fits a table: the tree of level sets, or the papers' boundary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distsvc.job.constraints import is_several
from distsvc.job.parameters import check_parameters, check_streams
from distsvc.models.support_vector.boundary.engine import BoundaryEngine
from distsvc.models.support_vector.engine import Parameters
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine

OF_THE_LABELLING = (
    "labelling", "bridging", "segment_samples", "boundary_size", "ball_radius", "merge_radius",
    "noise",
)  # fmt: skip
"""Parameters that can change once the model is trained."""


def engine_for(parameters: Mapping[str, Any], seed: int) -> LevelTreeEngine | BoundaryEngine:
    """Return what fits a table with the parameters of `SupportVectorClustering`, by name.

    ``labelling="auto"`` is the level tree unless gamma is a number or the solver is not ``bsgd``;
    and where a number of clusters is given.

    Raises
    ------
    ParameterError
        A parameter is out of range, or does not go with another.

    """
    check_parameters("support-vector", parameters)
    given = Parameters.of(parameters)
    counted = given.n_clusters is not None
    by_default = (
        counted or is_several(given.gamma) or (given.solver, given.gamma) == ("bsgd", "auto")
    )
    if given.labelling == "level-tree" or (given.labelling == "auto" and by_default):
        return LevelTreeEngine(given, seed)
    return BoundaryEngine(given, seed)


def engine_for_blocks(parameters: Mapping[str, Any], seed: int) -> BoundaryEngine:
    """Return what takes the rows of a stream block by block, whose labelling is by equilibria.

    Raises
    ------
    ParameterError
        As `engine_for`; or the parameters ask for what needs all rows at once.

    """
    check_parameters("support-vector", parameters)
    check_streams(parameters)
    return BoundaryEngine(Parameters.of(parameters), seed)
