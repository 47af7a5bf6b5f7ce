"""What the parameters of every algorithm may be: one table, for the estimators and the job file.

A constraint checks a value that an estimator was given, and is a type of the job file. Rules say
which values do not go together. A new algorithm adds its entries to `PARAMETERS` and `RULES`;
defaults stay in the signature of its estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from pydantic import AfterValidator, Discriminator, Field, Tag

from distsvc.errors import ParameterError, shown

MOST = 10**12  # rows, steps or passes
HELD = 10**6  # vectors, clusters, points of a grid: what a model holds in memory
MOST_WIDTHS = 1000
LAST_SEED = 2**32 - 1  # NumPy's and scikit-learn's
TINY, HUGE = 1e-30, 1e30  # of what float32 kernels multiply distances by, with room for factors
MODERATE = f"lie in [{TINY:g}, {HUGE:g}]"


class Constraint(Protocol):
    """What one parameter may be."""

    def check(self, name: str, value: Any) -> None:
        """Raise ParameterError unless an estimator may have the value."""

    def job_type(self) -> Any:
        """Return pydantic's type of the value in a job file, None if a job can't give it."""


@dataclass(frozen=True)
class Number:
    """A finite number from `low`, which itself may be excluded, to `high`.

    One that is `moderate` is 0 or lies in [`TINY`, `HUGE`] besides.
    """

    low: float = 0.0
    high: float = inf
    low_open: bool = True
    moderate: bool = False

    def allows(self, value: Any) -> bool:
        """Return whether a value is such a number; true and false are none."""
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        try:
            number = float(value)
        except OverflowError:
            return False
        above = number > self.low if self.low_open else number >= self.low
        return isfinite(number) and above and number <= self.high

    def check(self, name: str, value: Any) -> None:
        """Raise ParameterError for what is no such number."""
        if not self.allows(value):
            raise ParameterError(f"{name} must {self._expected()}, found {shown(value)}")
        if self.moderate and not is_moderate(value):
            raise ParameterError(f"{name} must {MODERATE}, found {shown(value)}")

    def job_type(self) -> Any:
        """Return float with these bounds."""
        bounded = isfinite(self.high)
        bounds = Field(
            gt=self.low if self.low_open else None,
            ge=None if self.low_open else self.low,
            le=self.high if bounded else None,
            allow_inf_nan=None if bounded else False,
        )
        return Annotated[float, bounds, AfterValidator(_moderate if self.moderate else float)]

    def _expected(self) -> str:
        if isfinite(self.high):
            return f"lie in {'(' if self.low_open else '['}{self.low:g}, {self.high:g}]"
        if not self.low_open:
            return f"be a number of at least {self.low:g}"
        return f"be above {self.low:g}" if self.low else "be a positive number"


def is_moderate(value: Any) -> bool:
    """Return whether a number is 0 or of a size that kernels can multiply distances by."""
    return value == 0 or TINY <= abs(value) <= HUGE


def _moderate(value: float) -> float:
    if not is_moderate(value):
        raise ValueError(f"must {MODERATE}, found {value!r}")
    return value


@dataclass(frozen=True)
class Count:
    """A whole number from `least` to `most`."""

    least: int = 1
    most: int | None = None

    def check(self, name: str, value: Any) -> None:
        """Raise ParameterError for what is no such number; true and false are none."""
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not (whole and int(value) >= self.least):
            expected = f"a whole number of at least {self.least}"
            raise ParameterError(f"{name} must be {expected}, found {shown(value)}")
        if self.most is not None and int(value) > self.most:
            raise ParameterError(f"{name} must be at most {self.most}, found {shown(value)}")

    def job_type(self) -> Any:
        """Return int with these bounds."""
        return Annotated[int, Field(ge=self.least, le=self.most)]


@dataclass(frozen=True)
class Choice:
    """One of several names, of which those `in_memory` are not for jobs."""

    names: tuple[str, ...]
    in_memory: tuple[str, ...] = ()

    def check(self, name: str, value: Any) -> None:
        """Raise ParameterError for another value."""
        if value not in (known := self.names + self.in_memory):
            raise ParameterError(f"{name} must be one of {known}, found {shown(value)}")

    def job_type(self) -> Any:
        """Return the type of the names that a job may give."""
        return Literal[self.names]


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def check(self, name: str, value: Any) -> None:
        """Raise ParameterError for anything else, 0 and 1 included."""
        if not isinstance(value, (bool, np.bool_)):
            raise ParameterError(f"{name} must be True or False, found {shown(value)}")

    def job_type(self) -> Any:
        """Return bool."""
        return bool


@dataclass(frozen=True)
class KernelWidth:
    """A number, a list of at most a thousand, or "auto"."""

    def check(self, name: str, value: Any) -> None:
        """Raise ParameterError for anything else, and for an empty list."""
        several = is_several(value)
        widths = list(np.atleast_1d(np.asarray(value, object))) if several else [value]
        if len(widths) > MOST_WIDTHS:
            most = f"have at most {MOST_WIDTHS} values"
            raise ParameterError(f"{name} must {most}, found {len(widths)}")
        automatic = isinstance(value, str) and value == "auto"
        if not (automatic or (widths and all(map(POSITIVE.allows, widths)))):
            expected = "'auto', a positive number or a list of them"
            raise ParameterError(f"{name} must be {expected}, found {shown(value)}")
        if not (automatic or all(map(is_moderate, widths))):
            raise ParameterError(f"{name} must {MODERATE}, found {shown(value)}")

    def job_type(self) -> Any:
        """Return a union of two forms, told apart first: a fault is one of the form meant."""
        width, length = WEIGHT.job_type(), Field(min_length=1, max_length=MOST_WIDTHS)
        return Annotated[
            Annotated[Literal["auto"] | width, Tag("one")]
            | Annotated[list[width], length, Tag("several")],  # type: ignore[valid-type]
            Discriminator(lambda value: "several" if is_several(value) else "one"),
        ]


@dataclass(frozen=True)
class RandomState:
    """None, a whole number of at least 0 or one of NumPy's generators; a job gives ``seed``."""

    def check(self, name: str, value: Any) -> None:
        """Raise ParameterError for anything else."""
        if not (value is None or value is np.random or isinstance(value, np.random.RandomState)):
            Count(0, LAST_SEED).check(name, value)

    def job_type(self) -> Any:
        """Return None: ``seed`` decides more than the estimator's random choices."""


@dataclass(frozen=True)
class OrNone:
    """What a constraint allows, or None, for which the estimator finds a value."""

    constraint: Constraint

    def check(self, name: str, value: Any) -> None:
        """Raise ParameterError for what is neither."""
        if value is not None:
            self.constraint.check(name, value)

    def job_type(self) -> Any:
        """Return that of the constraint: in a job file None is a key that is not given."""
        return self.constraint.job_type()


@dataclass(frozen=True)
class InMemory:
    """What a constraint allows, of a parameter that is of use for tables in memory only."""

    constraint: Constraint

    def check(self, name: str, value: Any) -> None:
        """Raise ParameterError for anything else."""
        self.constraint.check(name, value)

    def job_type(self) -> Any:
        """Return None: a job has no such parameter."""


POSITIVE = Number()
NOT_NEGATIVE = Number(low_open=False)
WEIGHT = Number(moderate=True)
WEIGHT_OR_0 = Number(low_open=False, moderate=True)
SHARE = Number(high=1.0, moderate=True)
COUNT = Count()
STEPS = Count(most=MOST)
SIZE = Count(most=HELD)
FEW = Count(most=10_000)
IN_MEMORY = ("complete-graph", "balls")
"""Labellings of tables in memory only: every row may be a vertex of their graphs."""

LINEAR: dict[str, Constraint] = {
    "solver": Choice(("greedy-cyclic", "cyclic-4cd-greedy", "cyclic-2cd", "greedy-2cd")),
    "tol": POSITIVE,
    "max_iter": STEPS,
    "compute_gap": Flag(),
    "memory_rows": OrNone(Count(1000, MOST)),
    "random_state": RandomState(),
}
"""What the two linear algorithms have in common."""

PARAMETERS: dict[str, dict[str, Constraint]] = {
    "support-vector": {
        "gamma": KernelWidth(),
        "nu": OrNone(SHARE),
        "C": OrNone(WEIGHT),
        "solver": Choice(("bsgd", "sgd", "exact")),
        "budget": OrNone(SIZE),
        "maintenance": Choice(("merge", "project-nearest", "project-random", "removal")),
        "projection_size": FEW,
        "stopping": Choice(("held-out", "step-norm")),
        "tol": POSITIVE,
        "theta": POSITIVE,
        "max_iter": STEPS,
        "average": Flag(),
        "labelling": Choice(("auto", "equilibria", "level-tree"), IN_MEMORY),
        "effort": Choice(("fast", "default", "thorough")),
        "granularity": Choice(("coarse", "default", "fine")),
        "assignment": Choice(("vote", "nearest")),
        "bridging": Flag(),
        "epsilon": WEIGHT,
        "segment_samples": FEW,
        "boundary_size": SIZE,
        "ball_radius": InMemory(WEIGHT),
        "merge_radius": InMemory(WEIGHT),
        "noise": InMemory(Flag()),
        "random_state": RandomState(),
    },
    "imdh": {
        "depth": Count(1, 16),
        "n_clusters": OrNone(SIZE),
        "alpha": WEIGHT_OR_0,
        "penalty": Number(high=100.0, low_open=False),
        "bandwidth": WEIGHT,
        "clip": WEIGHT_OR_0,
        "passes": OrNone(STEPS),
        "max_effective_samples": OrNone(STEPS),
        "n_init": FEW,
        "growth": Choice(("prune", "forward")),
        "elbow": Choice(("weighted", "angle")),
        "valley": WEIGHT_OR_0,
        "max_samples": OrNone(Count(100, MOST)),
        "random_state": RandomState(),
    },
    "linear-one-class": {"nu": SHARE} | LINEAR,
    "linear-svdd": {"nu": OrNone(SHARE), "C": OrNone(WEIGHT)} | LINEAR,
    "bico": {
        "n_clusters": SIZE,
        "size": OrNone(SIZE),
        "n_init": FEW,
        "random_state": RandomState(),
    },
    "spdc": {
        "window": Count(50, HELD),
        "valley": WEIGHT_OR_0,
        "bandwidth": WEIGHT,
        "amnesia": WEIGHT_OR_0,
        "max_clusters": SIZE,
        "random_state": RandomState(),
    },
    "depddp": {
        "n_clusters": OrNone(SIZE),
        "bandwidth": WEIGHT,
        "trim": Number(high=0.5, low_open=False),
        "min_samples": STEPS,
        "grid_size": Count(16, HELD),
    },
    "fuzzy-c-means": {
        "n_clusters": SIZE,
        "m": Number(low=1.0, moderate=True),
        "tol": NOT_NEGATIVE,
        "max_iter": STEPS,
        "n_init": FEW,
        "random_state": RandomState(),
    },
}
"""The algorithms, and the parameters of their estimators in the order of the signatures."""

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


def several_widths_need_level_tree(given: Given) -> None:
    """Raise ParameterError for several kernel widths and a labelling that takes one."""
    gamma, labelling = given["gamma"], given["labelling"]
    if is_several(gamma) and labelling not in (None, "auto", "level-tree"):
        raise ParameterError(
            f"several values of gamma need labelling='level-tree', found {gamma!r}"
        )


def level_tree_needs_descent(given: Given) -> None:
    """Raise ParameterError for a level tree of the exact solver."""
    by_levels = given["labelling"] == "level-tree" or is_several(given["gamma"])
    if by_levels and given["solver"] == "exact":
        raise ParameterError("labelling='level-tree' needs solver='bsgd' or 'sgd', found 'exact'")


def as_many_leaves_as_clusters(given: Given) -> None:
    """Raise ParameterError where a tree of that depth has fewer leaves than clusters wanted."""
    depth, n_clusters = given["depth"], given["n_clusters"]
    if depth is not None and n_clusters is not None:
        Count(most=2 ** (int(depth) - 1)).check("n_clusters", n_clusters)


RULES: dict[str, tuple[Callable[[Given], None], ...]] = {
    "support-vector": (
        nu_or_c,
        several_widths_need_level_tree,
        level_tree_needs_descent,
        average_needs_sgd,
    ),
    "imdh": (as_many_leaves_as_clusters,),
    "linear-svdd": (nu_or_c,),
}
"""What several parameters of an algorithm have to fulfil together."""


def is_several(gamma: Any) -> bool:
    """Return whether gamma is a list of kernel widths."""
    return isinstance(gamma, (list, tuple, np.ndarray))


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
    if given["labelling"] == "level-tree" or is_several(given["gamma"]):
        raise ParameterError("a level tree needs all rows at once; use fit")
    if given["labelling"] in IN_MEMORY:
        raise ParameterError(f"labelling={given['labelling']!r} needs all rows at once; use fit")
