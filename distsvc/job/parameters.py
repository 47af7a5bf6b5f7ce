"""The parameters of every algorithm: one table for estimators and job files.

A constraint has the allowed values and the default of one parameter; a rule checks several
parameters together. Estimators repeat the defaults in their signatures. Jobs read defaults here,
because importing estimators is slow.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isfinite
from numbers import Integral
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args

import numpy as np
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
)

from distsvc.errors import ParameterError, shown

MAX_COUNT = 10**12  # rows, steps or passes
MAX_IN_MEMORY = 10**6  # vectors, clusters or grid points in memory
MOST_WIDTHS = 1000
LAST_SEED = 2**32 - 1  # largest seed of NumPy and scikit-learn
TINY, HUGE = 1e-30, 1e30  # range of factors for distances in float32, with a margin
MODERATE = f"lie in [{TINY:g}, {HUGE:g}]"


@dataclass(frozen=True)
class Constraint:
    """Allowed values and the default of a parameter."""

    expected: str  # words after "must" in errors
    type: Any  # pydantic type of the value in an estimator
    job_type: Any  # pydantic type of the value in a job file; None if jobs lack the parameter
    # Words in place of `expected`, by pydantic's type of an error.
    otherwise: Mapping[str, str] = field(default_factory=dict)
    default: Any = None  # the estimator's default

    def check(self, name: str, value: object) -> None:
        """Raise ParameterError unless a value is allowed in an estimator."""
        try:
            self._adapter.validate_python(_plain(value), strict=True)
        except ValidationError as error:
            kind = error.errors(include_url=False)[0]["type"]
            expected = self.otherwise.get(kind, self.expected)
            raise ParameterError(f"{name} must {expected}, found {shown(value)}") from None

    def by_default(self, value: object) -> Self:
        """Return a copy of this constraint with another default."""
        return replace(self, default=value)

    @property
    def or_none(self) -> Self:
        """The constraint with None allowed, for which the estimator chooses a value."""
        return replace(self, type=self.type | None)

    @property
    def in_memory(self) -> Self:
        """The constraint for estimators only; jobs lack the parameter."""
        return replace(self, job_type=None)

    @cached_property
    def _adapter(self) -> TypeAdapter[object]:
        return TypeAdapter(self.type)


def number(
    low: float = 0.0, high: float = inf, low_open: bool = True, moderate: bool = False
) -> Constraint:
    """Allow finite numbers from `low` to `high`, without `low` itself if `low_open`.

    If `moderate`, the size of a number other than 0 must be between `TINY` and `HUGE`.
    """
    bounded = isfinite(high)
    bounds = Field(
        gt=low if low_open else None,
        ge=None if low_open else low,
        le=high if bounded else None,
        allow_inf_nan=None if bounded else False,
    )
    expected = f"be above {low:g}" if low else "be a positive number"
    if bounded:
        expected = f"lie in {'(' if low_open else '['}{low:g}, {high:g}]"
    elif not low_open:
        expected = f"be a number of at least {low:g}"
    of = Annotated[float, bounds, AfterValidator(_moderate if moderate else float)]
    return Constraint(expected, of, of, {"value_error": MODERATE})


def _moderate(value: float) -> float:
    """Return a number that can multiply distances in float32; ValueError for other numbers."""
    if not (value == 0 or TINY <= abs(value) <= HUGE):
        raise ValueError(f"must {MODERATE}, found {value!r}")
    return value


def count(least: int = 1, most: int | None = None) -> Constraint:
    """Allow whole numbers from `least` to `most`. True and False are not allowed."""
    of = Annotated[int, Field(ge=least, le=most)]
    expected = f"be a whole number of at least {least}"
    return Constraint(expected, of, of, {"less_than_equal": f"be at most {most}"})


def choice(*names: str, in_memory: tuple[str, ...] = ()) -> Constraint:
    """Allow `names` in estimators and jobs, and `in_memory` in estimators only."""
    known = names + in_memory
    return Constraint(f"be one of {known}", Literal[known], Literal[names])


def clusters_wanted(given: "Given") -> int | None:
    """Return the number of clusters that the parameters fix; None if the fit chooses it."""
    wanted: int | None = given.get("n_clusters", given.get("n_components"))
    return wanted


def is_several(gamma: object) -> bool:
    """Return True if gamma is a list of kernel widths."""
    return isinstance(gamma, (list, tuple, np.ndarray))


def _plain(value: object) -> object:
    """Convert NumPy arrays, integers and booleans to Python lists, ints and bools."""
    if isinstance(value, np.bool_):
        return bool(value)
    if is_several(value):
        return [_plain(one) for one in np.atleast_1d(np.asarray(value, object))]
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    return value


def _seed_or_none(value: object) -> object:
    random = value is np.random or isinstance(value, np.random.RandomState)
    return None if random else value


POSITIVE = number()
NOT_NEGATIVE = number(low_open=False)
WEIGHT = number(moderate=True)
WEIGHT_OR_0 = number(low_open=False, moderate=True)
SHARE = number(high=1.0, moderate=True)
COUNT = count()
MANY = count(most=MAX_COUNT)
SIZE = count(most=MAX_IN_MEMORY)
FEW = count(most=10_000)
BOOLEAN = Constraint("be True or False", bool, bool)

# A union with a discriminator, so that errors are about the intended form.
_WIDTHS = Annotated[
    Annotated[Literal["auto"] | WEIGHT.type, Tag("one")]  # type: ignore[name-defined]
    | Annotated[list[WEIGHT.type], Field(min_length=1, max_length=MOST_WIDTHS), Tag("several")],  # type: ignore[name-defined]
    Discriminator(lambda value: "several" if is_several(value) else "one"),
]
KERNEL_WIDTH = Constraint(
    "be 'auto', a positive number or a list of positive numbers",
    _WIDTHS,
    _WIDTHS,
    {**WEIGHT.otherwise, "too_long": f"have at most {MOST_WIDTHS} values"},
)


def _some(value: int) -> int:
    if value == 0:
        raise ValueError("must not be 0")
    return value


N_JOBS = Constraint(
    "be None or a whole number other than 0", Annotated[int, AfterValidator(_some)] | None, None
)
"""Threads of an estimator, as in scikit-learn; jobs have their own setting."""

VERBOSE = replace(count(0), type=count(0).type | bool, job_type=None, default=0)
"""Level of messages about phases, as in scikit-learn; jobs have their own log."""

_SEED = count(0, LAST_SEED)
RANDOM_STATE = replace(
    _SEED, type=Annotated[_SEED.type | None, BeforeValidator(_seed_or_none)], job_type=None
)
"""None, a seed or a NumPy generator; jobs have the key ``seed``."""


# Allowed values of parameters, for the table below and the signatures of estimators.
Effort = Literal["fast", "default", "thorough"]
Granularity = Literal["coarse", "default", "fine"]
Solver = Literal["bsgd", "sgd", "exact"]
Maintenance = Literal["merge", "project-nearest", "project-random", "removal"]
Stopping = Literal["held-out", "step-norm"]
Iterate = Literal["last", "average", "random"]
Variant = Literal["default", "published"]
Settings = Literal["default", "published"]
Labelling = Literal["auto", "equilibria", "level-tree"]
InMemory = Literal["complete-graph", "balls"]
Assignment = Literal["vote", "nearest"]
Growth = Literal["prune", "forward"]
TreeScale = Literal["standard", "none"]
Elbow = Literal["weighted", "angle"]
LinearSolver = Literal[
    "greedy-sweeps", "greedy-cyclic", "cyclic-4cd-greedy", "cyclic-2cd", "greedy-2cd"
]
FirstCentres = Literal["k-means++", "random"]
LinearStart = Literal["mean", "first"]
"""Allowed values of `start` of the linear estimators."""

Parameters: TypeAlias = dict[str, Any]
"""Values of an estimator's parameters, by name."""

RandomState: TypeAlias = int | np.random.RandomState | None

IN_MEMORY = get_args(InMemory)
"""Labelling methods that need the table in memory, since every row may be a vertex of a graph."""

BASELINE: dict[str, Constraint] = {"n_jobs": N_JOBS, "random_state": RANDOM_STATE}
CORE: dict[str, Constraint] = {
    "n_jobs": N_JOBS, "verbose": VERBOSE, "random_state": RANDOM_STATE
}  # fmt: skip
"""Parameters of every estimator except the linear ones and the baselines (`BASELINE`)."""

LINEAR: dict[str, Constraint] = {
    "solver": choice(*get_args(LinearSolver)).by_default("greedy-sweeps"),
    "share": SHARE.or_none,
    "block_size": count(2, 10_000).by_default(4),
    "inner_iterations": FEW.by_default(1),
    "shrinking": BOOLEAN.by_default(True),
    "start": choice(*get_args(LinearStart)).by_default("mean"),
    "tol": POSITIVE.by_default(1e-05),
    "max_iter": MANY.by_default(10_000),
    "compute_gap": BOOLEAN.by_default(False),
    "memory_rows": count(1000, MAX_COUNT).or_none,
    "verbose": VERBOSE,
    "random_state": RANDOM_STATE,
}
"""Parameters of both linear algorithms."""

PUBLISHED_LINEAR = {"solver": "greedy-cyclic", "share": 0.1, "shrinking": False, "start": "first"}
"""The settings of Chou, Lin and Lin (2020)."""

PARAMETERS: dict[str, dict[str, Constraint]] = {
    "auto": {
        "n_clusters": SIZE.or_none,
        "nu": SHARE.or_none,
        "effort": choice(*get_args(Effort)).by_default("default"),
        "granularity": choice(*get_args(Granularity)).by_default("default"),
        "noise": BOOLEAN.in_memory.by_default(False),
        "min_cluster_size": SIZE.or_none.in_memory,
    }
    | CORE,
    "support-vector": {
        "gamma": KERNEL_WIDTH.by_default("auto"),
        "nu": SHARE.or_none,
        "C": WEIGHT.or_none,
        "solver": choice(*get_args(Solver)).by_default("bsgd"),
        "budget": SIZE.or_none,
        "maintenance": choice(*get_args(Maintenance)).by_default("merge"),
        "projection_size": FEW.by_default(5),
        "stopping": choice(*get_args(Stopping)).by_default("held-out"),
        "tol": POSITIVE.by_default(0.001),
        "theta": POSITIVE.by_default(0.01),
        "max_iter": MANY.by_default(200_000),
        "iterate": choice(*get_args(Iterate)).by_default("last"),
        "labelling": choice(*get_args(Labelling), in_memory=IN_MEMORY).by_default("auto"),
        "n_clusters": SIZE.or_none,
        "effort": choice(*get_args(Effort)).by_default("default"),
        "granularity": choice(*get_args(Granularity)).by_default("default"),
        "assignment": choice(*get_args(Assignment)).by_default("vote"),
        "bridging": BOOLEAN.by_default(True),
        "epsilon": WEIGHT.by_default(0.1),
        "segment_samples": FEW.by_default(20),
        "boundary_size": SIZE.by_default(2048),
        "ball_radius": WEIGHT.in_memory.by_default(0.3),
        "merge_radius": WEIGHT.in_memory.by_default(0.1),
        "noise": BOOLEAN.in_memory.by_default(False),
        "variant": choice(*get_args(Variant)).by_default("default"),
    }
    | CORE,
    "mixture": {
        "n_components": SIZE.or_none,
    }
    | CORE,
    "imdh": {
        "depth": count(1, 16).by_default(8),
        "n_clusters": SIZE.or_none,
        "alpha": WEIGHT_OR_0.by_default(0.5),
        "penalty": number(high=100.0, low_open=False).by_default(10.0),
        "bandwidth": WEIGHT.by_default(1.0),
        "clip": WEIGHT_OR_0.by_default(5.0),
        "passes": MANY.or_none,
        "max_effective_samples": MANY.or_none,
        "n_init": FEW.or_none,
        "growth": choice(*get_args(Growth)).by_default("prune"),
        "elbow": choice(*get_args(Elbow)).by_default("weighted"),
        "valley": WEIGHT_OR_0.by_default(3.2),
        "max_samples": count(100, MAX_COUNT).or_none.by_default(1_000_000),
        "scale": choice(*get_args(TreeScale)).by_default("standard"),
    }
    | CORE,
    "linear-one-class": {"nu": SHARE.by_default(0.5)} | LINEAR,
    "linear-svdd": {"nu": SHARE.or_none, "C": WEIGHT.or_none} | LINEAR,
    "bico": {
        "n_clusters": SIZE.by_default(8),
        "size": SIZE.or_none,
        "n_init": FEW.by_default(10),
    }
    | BASELINE,
    "spdc": {
        "window": count(50, MAX_IN_MEMORY).by_default(500),
        "valley": WEIGHT_OR_0.by_default(2.0),
        "bandwidth": WEIGHT.by_default(1.06),
        "amnesia": WEIGHT_OR_0.by_default(2.0),
        "max_clusters": SIZE.by_default(128),
    }
    | BASELINE,
    "depddp": {
        "n_clusters": SIZE.or_none,
        "bandwidth": WEIGHT.by_default(1.06),
        "trim": number(high=0.5, low_open=False).by_default(0.01),
        "min_samples": MANY.by_default(5),
        "grid_size": count(16, MAX_IN_MEMORY).by_default(512),
        "n_jobs": N_JOBS,
    },
    "fuzzy-c-means": {
        "n_clusters": SIZE.by_default(8),
        "m": number(low=1.0, moderate=True).by_default(2.0),
        "tol": NOT_NEGATIVE.by_default(0.0001),
        "max_iter": MANY.by_default(300),
        "n_init": FEW.by_default(3),
    }
    | BASELINE,
    "kmeans": {
        "n_clusters": SIZE.by_default(8),
        "init": choice(*get_args(FirstCentres)).by_default("k-means++"),
        "n_init": FEW.by_default(10),
        "max_iter": MANY.by_default(300),
        "tol": NOT_NEGATIVE.by_default(0.0001),
    }
    | BASELINE,
}
"""The algorithms, and the parameters of their estimators in the order of the signatures."""

COMPOSED: dict[str, Parameters] = {
    "svc": {"solver": "exact", "labelling": "complete-graph"},
    "fsvc": {"solver": "exact", "labelling": "balls"},
}
"""Methods of the papers that are settings of `SupportVectorClustering`."""

_KERNEL = {
    name: PARAMETERS["support-vector"][name] for name in ("gamma", "nu", "C", "random_state")
}
PARAMETERS |= {
    "svc": _KERNEL | {"segment_samples": FEW.by_default(20)},
    "fsvc": _KERNEL
    | {"ball_radius": WEIGHT.by_default(0.3), "merge_radius": WEIGHT.by_default(0.1)},
}

PUBLISHED: dict[str, Parameters] = {
    "support-vector": {
        "variant": "published", "solver": "bsgd", "budget": 50, "maintenance": "removal",
        "projection_size": 5, "stopping": "step-norm", "theta": 0.01, "labelling": "equilibria",
        "bridging": False, "epsilon": 0.01, "segment_samples": 20, "boundary_size": MAX_IN_MEMORY,
    },
    "imdh": {
        "alpha": 0.1, "clip": 0.0, "passes": 1, "n_init": 1, "elbow": "angle", "valley": 0.0,
        "max_samples": None, "scale": "none",
    },
    "linear-one-class": PUBLISHED_LINEAR,
    "linear-svdd": PUBLISHED_LINEAR,
}  # fmt: skip
"""The settings of the papers, by algorithm: `settings = "published"` in a job file.

The settings of "support-vector" are from Pham, Le and Dang (2017). Its epsilon is from Pham, Le, Le
and Tran (2016). The settings of "imdh" are from Hofmeyr (2021). The settings of the linear
algorithms are from Chou, Lin and Lin (2020).
"""

CLUSTER_KEYS = {"mixture": "n_components"}
"""Parameter of the estimator that the key ``n_clusters`` of a job sets, by algorithm. An algorithm
whose parameter has the same name as the key is not listed."""

NU_OF_JOBS = {"linear-one-class": 0.05, "linear-svdd": 0.05}
"""Default nu of jobs without nu and C; the default of estimators is scikit-learn's 0.5."""

Given = Mapping[str, Any]
"""Parameters of an estimator or of a job; in a job, None means that a key is not given."""


def nu_or_c(given: Given) -> None:
    """Raise ParameterError if both nu and C are given."""
    nu, C = given["nu"], given["C"]
    if nu is not None and C is not None:
        raise ParameterError(f"give nu or C, not both (found nu = {nu!r} and C = {C!r})")


def one_width(given: Given) -> None:
    """Raise ParameterError if gamma has several values, or if both nu and C are given."""
    nu_or_c(given)
    if is_several(given["gamma"]):
        raise ParameterError(f"gamma must be one number or 'auto', found {given['gamma']!r}")


def needs_level_tree(given: Given) -> bool:
    """Return True if a parameter selects the level tree, or only applies to level trees."""
    named = given["labelling"] == "level-tree"
    return named or given["n_clusters"] is not None or is_several(given["gamma"])


def support_vector_rules(given: Given) -> None:
    """Raise ParameterError if parameters of support vector clustering contradict each other."""
    nu_or_c(given)
    gamma, n_clusters, labelling = given["gamma"], given["n_clusters"], given["labelling"]
    solver, iterate = given["solver"] or "bsgd", given["iterate"]
    if labelling not in (None, "auto", "level-tree"):
        if is_several(gamma):
            raise ParameterError(
                f"several values of gamma need labelling='level-tree', found {gamma!r}"
            )
        if n_clusters is not None:
            raise ParameterError(
                f"n_clusters needs labelling='level-tree', found labelling={labelling!r}"
            )
    if needs_level_tree(given) and solver == "exact":
        raise ParameterError("labelling='level-tree' needs solver='bsgd' or 'sgd', found 'exact'")
    if iterate == "average" and solver != "sgd":  # under a budget, each iterate has other vectors
        raise ParameterError(f"iterate = 'average' needs solver = 'sgd', found {solver!r}")
    if iterate == "random" and solver == "exact":
        raise ParameterError("iterate = 'random' needs solver = 'bsgd' or 'sgd', found 'exact'")
    if given["variant"] == "published":
        published_rules(given)


def published_rules(given: Given) -> None:
    """Raise ParameterError for parameters with which the published method can't run."""
    gamma, solver = given["gamma"], given["solver"] or "bsgd"
    if gamma in (None, "auto") or is_several(gamma):
        raise ParameterError(
            f"the published method needs one number for gamma, found {gamma!r}; the papers try "
            "2^-5 to 2^5"
        )
    if needs_level_tree(given):
        raise ParameterError(
            "the published method has no level tree: leave n_clusters out, and give "
            "labelling='equilibria'"
        )
    if solver == "exact":
        return
    if given["C"] is None:
        raise ParameterError("the published method needs C, found none (nu needs solver = 'exact')")
    if given["stopping"] != "step-norm":
        raise ParameterError(
            "the published method needs stopping = 'step-norm', found "
            f"{given['stopping'] or 'held-out'!r}"
        )
    if solver == "bsgd" and given["maintenance"] in (None, "merge"):
        raise ParameterError(
            "the papers do not merge vectors: maintenance must be 'removal', 'project-nearest' or "
            "'project-random' in the published method, found 'merge'"
        )


def as_many_leaves_as_clusters(given: Given) -> None:
    """Raise ParameterError if a tree of depth `depth` has fewer leaves than `n_clusters`."""
    depth, n_clusters = given["depth"], given["n_clusters"]
    if depth is not None and n_clusters is not None:
        count(most=2 ** (int(depth) - 1)).check("n_clusters", n_clusters)


JOINT_RULES: dict[str, Callable[[Given], None]] = {
    "support-vector": support_vector_rules,
    "imdh": as_many_leaves_as_clusters,
    "linear-svdd": nu_or_c,
    "svc": one_width,
    "fsvc": one_width,
}
"""Functions that check an algorithm's parameters together, by algorithm."""


def of_job(algorithm: str, given: Given, settings: str | None = None) -> Parameters:
    """Return the keyword arguments of the estimator for the keys `given` of a job.

    Missing keys get the paper's values if `settings` is "published" (`PUBLISHED`). If nu and C are
    missing, nu is the default for jobs (`NU_OF_JOBS`).
    """
    key = CLUSTER_KEYS.get(algorithm)
    if key is not None and "n_clusters" in given:
        if key in given:
            raise ParameterError(
                f"give n_clusters or {key}, not both: they name the same parameter"
            )
        given = {key if name == "n_clusters" else name: value for name, value in given.items()}
    own = algorithm in NU_OF_JOBS and not given.keys() & {"nu", "C"}
    nu = {"nu": NU_OF_JOBS[algorithm]} if own else {}
    return nu | (published(algorithm, given) if settings == "published" else dict(given))


def published(algorithm: str, given: Given) -> Parameters:
    """Return the settings of an algorithm's paper, overridden by `given`."""
    return PUBLISHED[algorithm] | dict(given)


def completed(algorithm: str, given: Given) -> Parameters:
    """Return all parameters of an estimator: `given`, and defaults for the others."""
    return {name: given.get(name, one.default) for name, one in PARAMETERS[algorithm].items()}


def composed(algorithm: str, given: Given) -> Parameters:
    """Return all parameters of `SupportVectorClustering` for a named published method."""
    return completed("support-vector", COMPOSED[algorithm] | dict(given))


def check_parameters(algorithm: str, given: Given) -> None:
    """Raise ParameterError unless all parameters of an estimator are allowed."""
    for name, constraint in PARAMETERS[algorithm].items():
        constraint.check(name, given[name])
    check_together(algorithm, given)


def check_together(algorithm: str, given: Given) -> None:
    """Raise ParameterError for allowed parameters that contradict each other."""
    if algorithm in JOINT_RULES:
        JOINT_RULES[algorithm](given)


def check_streams(given: Given) -> None:
    """Raise ParameterError unless support vector clustering can learn from blocks of rows."""
    if given["solver"] == "exact":
        raise ParameterError("solver='exact' needs all rows at once; use fit")
    if needs_level_tree(given):
        raise ParameterError("a level tree needs all rows at once; use fit")
    if given["labelling"] in IN_MEMORY:
        raise ParameterError(f"labelling={given['labelling']!r} needs all rows at once; use fit")
    if given["variant"] == "published" or given["iterate"] == "random":
        raise ParameterError(
            "variant='published' and iterate='random' read rows several times, but a stream is "
            "read once; use fit"
        )
