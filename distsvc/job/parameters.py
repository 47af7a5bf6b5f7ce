"""The parameters of every algorithm: one table, for the estimators and the job file.

A constraint says which values one of them may have (`distsvc.job.constraints`), a rule which values
do not go together. A new algorithm adds its entries to `PARAMETERS` and `RULES`; defaults stay in
the signature of its estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from distsvc.errors import ParameterError
from distsvc.job.constraints import (
    FEW,
    FLAG,
    HELD,
    KERNEL_WIDTH,
    MOST,
    NOT_NEGATIVE,
    POSITIVE,
    RANDOM_STATE,
    SHARE,
    SIZE,
    STEPS,
    WEIGHT,
    WEIGHT_OR_0,
    Constraint,
    choice,
    count,
    is_several,
    number,
)

IN_MEMORY = ("complete-graph", "balls")
"""Labellings of tables in memory only: every row may be a vertex of their graphs."""

LINEAR: dict[str, Constraint] = {
    "solver": choice("greedy-cyclic", "cyclic-4cd-greedy", "cyclic-2cd", "greedy-2cd"),
    "tol": POSITIVE,
    "max_iter": STEPS,
    "compute_gap": FLAG,
    "memory_rows": count(1000, MOST).or_none,
    "random_state": RANDOM_STATE,
}
"""Parameters of both linear algorithms."""

PARAMETERS: dict[str, dict[str, Constraint]] = {
    "auto": {
        "n_clusters": SIZE.or_none,
        "nu": SHARE.or_none,
        "effort": choice("fast", "default", "thorough"),
        "granularity": choice("coarse", "default", "fine"),
        "random_state": RANDOM_STATE,
    },
    "support-vector": {
        "gamma": KERNEL_WIDTH,
        "nu": SHARE.or_none,
        "C": WEIGHT.or_none,
        "solver": choice("bsgd", "sgd", "exact"),
        "budget": SIZE.or_none,
        "maintenance": choice("merge", "project-nearest", "project-random", "removal"),
        "projection_size": FEW,
        "stopping": choice("held-out", "step-norm"),
        "tol": POSITIVE,
        "theta": POSITIVE,
        "max_iter": STEPS,
        "average": FLAG,
        "labelling": choice("auto", "equilibria", "level-tree", in_memory=IN_MEMORY),
        "n_clusters": SIZE.or_none,
        "effort": choice("fast", "default", "thorough"),
        "granularity": choice("coarse", "default", "fine"),
        "assignment": choice("vote", "nearest"),
        "bridging": FLAG,
        "epsilon": WEIGHT,
        "segment_samples": FEW,
        "boundary_size": SIZE,
        "ball_radius": WEIGHT.in_memory,
        "merge_radius": WEIGHT.in_memory,
        "noise": FLAG.in_memory,
        "random_state": RANDOM_STATE,
    },
    "imdh": {
        "depth": count(1, 16),
        "n_clusters": SIZE.or_none,
        "alpha": WEIGHT_OR_0,
        "penalty": number(high=100.0, low_open=False),
        "bandwidth": WEIGHT,
        "clip": WEIGHT_OR_0,
        "passes": STEPS.or_none,
        "max_effective_samples": STEPS.or_none,
        "n_init": FEW,
        "growth": choice("prune", "forward"),
        "elbow": choice("weighted", "angle"),
        "valley": WEIGHT_OR_0,
        "max_samples": count(100, MOST).or_none,
        "random_state": RANDOM_STATE,
    },
    "linear-one-class": {"nu": SHARE} | LINEAR,
    "linear-svdd": {"nu": SHARE.or_none, "C": WEIGHT.or_none} | LINEAR,
    "bico": {
        "n_clusters": SIZE,
        "size": SIZE.or_none,
        "n_init": FEW,
        "random_state": RANDOM_STATE,
    },
    "spdc": {
        "window": count(50, HELD),
        "valley": WEIGHT_OR_0,
        "bandwidth": WEIGHT,
        "amnesia": WEIGHT_OR_0,
        "max_clusters": SIZE,
        "random_state": RANDOM_STATE,
    },
    "depddp": {
        "n_clusters": SIZE.or_none,
        "bandwidth": WEIGHT,
        "trim": number(high=0.5, low_open=False),
        "min_samples": STEPS,
        "grid_size": count(16, HELD),
    },
    "fuzzy-c-means": {
        "n_clusters": SIZE,
        "m": number(low=1.0, moderate=True),
        "tol": NOT_NEGATIVE,
        "max_iter": STEPS,
        "n_init": FEW,
        "random_state": RANDOM_STATE,
    },
}
"""The algorithms, and the parameters of their estimators in the order of the signatures."""

NU_OF_JOBS = {"linear-one-class": 0.05, "linear-svdd": 0.05}
"""nu of a job that gives neither nu nor C, where its estimator's default is scikit-learn's 0.5."""

Given = Mapping[str, Any]
"""An estimator's parameters; or a job's, where None is one that is not given."""


def nu_or_c(given: Given) -> None:
    """Raise ParameterError where both forms of the trade-off are given."""
    nu, C = given["nu"], given["C"]
    if nu is not None and C is not None:
        raise ParameterError(f"give nu or C, not both (found nu = {nu!r} and C = {C!r})")


def average_needs_sgd(given: Given) -> None:
    """Raise ParameterError for an average under a budget, where iterates differ in vectors."""
    solver = given["solver"]
    if given["average"] and solver != "sgd":
        raise ParameterError(f"average = true needs solver = 'sgd' (found solver = {solver!r})")


def asks_for_level_tree(given: Given) -> bool:
    """Return whether one of the parameters is of use for a level tree only, or names it."""
    named = given["labelling"] == "level-tree"
    return named or given["n_clusters"] is not None or is_several(given["gamma"])


def several_widths_need_level_tree(given: Given) -> None:
    """Raise ParameterError for several kernel widths and a labelling that takes one."""
    gamma, labelling = given["gamma"], given["labelling"]
    if is_several(gamma) and labelling not in (None, "auto", "level-tree"):
        raise ParameterError(
            f"several values of gamma need labelling='level-tree', found {gamma!r}"
        )


def clusters_need_level_tree(given: Given) -> None:
    """Raise ParameterError for a number of clusters and a labelling that finds its own."""
    n_clusters, labelling = given["n_clusters"], given["labelling"]
    if n_clusters is not None and labelling not in (None, "auto", "level-tree"):
        raise ParameterError(
            f"n_clusters needs labelling='level-tree', found labelling={labelling!r}"
        )


def level_tree_needs_descent(given: Given) -> None:
    """Raise ParameterError for a level tree of the exact solver."""
    if asks_for_level_tree(given) and given["solver"] == "exact":
        raise ParameterError("labelling='level-tree' needs solver='bsgd' or 'sgd', found 'exact'")


def as_many_leaves_as_clusters(given: Given) -> None:
    """Raise ParameterError where a tree of that depth has fewer leaves than clusters wanted."""
    depth, n_clusters = given["depth"], given["n_clusters"]
    if depth is not None and n_clusters is not None:
        count(most=2 ** (int(depth) - 1)).check("n_clusters", n_clusters)


RULES: dict[str, tuple[Callable[[Given], None], ...]] = {
    "support-vector": (
        nu_or_c,
        several_widths_need_level_tree,
        clusters_need_level_tree,
        level_tree_needs_descent,
        average_needs_sgd,
    ),
    "imdh": (as_many_leaves_as_clusters,),
    "linear-svdd": (nu_or_c,),
}
"""Rules that several parameters of an algorithm have to fulfil together."""


def of_job(algorithm: str, given: Given) -> dict[str, Any]:
    """Return the parameters that a job gives, and those that jobs have another default for."""
    own = algorithm in NU_OF_JOBS and not given.keys() & {"nu", "C"}
    return ({"nu": NU_OF_JOBS[algorithm]} if own else {}) | dict(given)


def check_parameters(algorithm: str, given: Given) -> None:
    """Raise ParameterError unless an estimator's parameters, by name, are allowed."""
    for name, constraint in PARAMETERS[algorithm].items():
        constraint.check(name, given[name])
    check_together(algorithm, given)


def check_together(algorithm: str, given: Given) -> None:
    """Raise ParameterError for parameters, each allowed, that do not go together."""
    for rule in RULES.get(algorithm, ()):
        rule(given)


def check_streams(given: Given) -> None:
    """Raise ParameterError unless support vector clustering can take its rows in blocks."""
    if given["solver"] == "exact":
        raise ParameterError("solver='exact' needs all rows at once; use fit")
    if asks_for_level_tree(given):
        raise ParameterError("a level tree needs all rows at once; use fit")
    if given["labelling"] in IN_MEMORY:
        raise ParameterError(f"labelling={given['labelling']!r} needs all rows at once; use fit")
