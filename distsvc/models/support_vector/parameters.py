"""What the parameters of `SupportVectorClustering` may be, alone and together."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from distsvc.models.checks import check_choice, check_count, check_number
from distsvc.models.support_vector.consensus import REFERENCE_ROWS
from distsvc.models.support_vector.ensemble import EFFORTS
from distsvc.models.support_vector.stochastic_gradient import STRATEGIES

LABELLINGS = ("auto", "equilibria", "level-tree", "complete-graph", "balls")
IN_MEMORY = ("complete-graph", "balls")
"""Labellings of tables in memory only: every row may be a vertex of their graphs."""


def check_parameters(given: dict[str, Any]) -> None:
    """Raise ValueError unless the estimator's parameters, by name, are valid together."""
    if given["nu"] is not None and given["C"] is not None:
        raise ValueError(f"give nu or C, not both (found nu={given['nu']!r} and C={given['C']!r})")
    _check_gamma(given["gamma"], given["labelling"])
    if given["nu"] is not None:
        check_number("nu", given["nu"], most=1.0)
    if given["C"] is not None:
        check_number("C", given["C"])
    for name in ("tol", "theta", "epsilon", "ball_radius", "merge_radius"):
        check_number(name, given[name])
    for name in ("projection_size", "max_iter", "segment_samples", "boundary_size"):
        check_count(name, given[name])
    if given["budget"] is not None:
        check_count("budget", given["budget"])
    check_choice("solver", given["solver"], ("bsgd", "sgd", "exact"))
    check_choice("maintenance", given["maintenance"], STRATEGIES)
    check_choice("stopping", given["stopping"], ("held-out", "step-norm"))
    check_choice("labelling", given["labelling"], LABELLINGS)
    check_choice("assignment", given["assignment"], ("vote", "nearest"))
    check_choice("effort", given["effort"], EFFORTS)
    check_choice("granularity", given["granularity"], REFERENCE_ROWS)
    if not isinstance(given["noise"], (bool, np.bool_)):
        raise ValueError(f"noise must be True or False, found {given['noise']!r}")
    if given["solver"] == "exact" and (
        given["labelling"] == "level-tree" or is_several(given["gamma"])
    ):
        raise ValueError("labelling='level-tree' needs solver='bsgd' or 'sgd', found 'exact'")
    if given["average"] and given["solver"] != "sgd":
        raise ValueError(
            "average=True needs solver='sgd': under a budget iterates differ in vectors"
        )


def check_streams(given: dict[str, Any]) -> None:
    """Raise ValueError unless an estimator with these parameters can take its rows in blocks."""
    if given["solver"] == "exact":
        raise ValueError("solver='exact' needs all rows at once; use fit")
    if given["labelling"] == "level-tree" or is_several(given["gamma"]):
        raise ValueError("a level tree needs all rows at once; use fit")
    if given["labelling"] in IN_MEMORY:
        raise ValueError(f"labelling={given['labelling']!r} needs all rows at once; use fit")


def is_several(gamma: Any) -> bool:
    """Return whether gamma is a list of values."""
    return not isinstance(gamma, (str, Real))


def _check_gamma(gamma: Any, labelling: Any) -> None:
    several = is_several(gamma)
    try:
        if several and not (isinstance(gamma, (list, tuple, np.ndarray)) and np.size(gamma)):
            raise ValueError
        for value in np.atleast_1d(np.asarray(gamma, object)) if several else [gamma]:
            if several or not (isinstance(value, str) and value == "auto"):
                check_number("gamma", value)
    except ValueError:
        raise ValueError(
            f"gamma must be 'auto', a positive number or a list of them, found {gamma!r}"
        ) from None
    if several and labelling not in ("auto", "level-tree"):
        raise ValueError(f"several values of gamma need labelling='level-tree', found {gamma!r}")
