"""The choice of the engine that fits a table."""

from distsvc.job.parameters import Given, check_parameters, check_streams, is_several
from distsvc.models.support_vector.boundary.base import Parameters
from distsvc.models.support_vector.boundary.engine import BoundaryEngine
from distsvc.models.support_vector.level_tree.engine import LevelTreeEngine

EitherEngine = LevelTreeEngine | BoundaryEngine


def engine_for(parameters: Given, seed: int) -> EitherEngine:
    """Return the engine for `parameters` of `SupportVectorClustering`.

    ``labelling="auto"`` is the level tree if a number of clusters or a list of gammas is given, or
    if gamma is "auto" and the solver ``bsgd``.
    """
    check_parameters("support-vector", parameters)
    given = Parameters(**parameters)
    by_default = (
        given.n_clusters is not None
        or is_several(given.gamma)
        or (given.solver, given.gamma) == ("bsgd", "auto")
    )
    if given.labelling == "level-tree" or (given.labelling == "auto" and by_default):
        return LevelTreeEngine(given, seed)
    return BoundaryEngine(given, seed)


def engine_for_blocks(parameters: Given, seed: int) -> BoundaryEngine:
    """Return the engine for a stream of blocks, which labels by equilibria."""
    check_parameters("support-vector", parameters)
    check_streams(parameters)
    return BoundaryEngine(Parameters(**parameters), seed)
