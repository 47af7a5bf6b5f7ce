"""The allowed values of one parameter, as an argument of an estimator and in a job file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isfinite
from numbers import Integral
from typing import Annotated, Any, Literal

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
MAX_IN_MEMORY = 10**6  # vectors, clusters, points of a grid: what a model holds in memory
MOST_WIDTHS = 1000
LAST_SEED = 2**32 - 1  # NumPy's and scikit-learn's
TINY, HUGE = 1e-30, 1e30  # of what float32 kernels multiply distances by, with room for factors
MODERATE = f"lie in [{TINY:g}, {HUGE:g}]"


@dataclass(frozen=True)
class Constraint:
    """Allowed values of a parameter: pydantic types and words after "must"."""

    expected: str
    type: Any  # of an estimator's value
    job_type: Any  # of a job file's value; None if jobs don't have the parameter
    otherwise: Mapping[str, str] = field(default_factory=dict)  # words for some types of errors
    default: Any = None  # the estimator's

    def check(self, name: str, value: object) -> None:
        """Raise ParameterError unless a value is allowed in an estimator."""
        try:
            self._adapter.validate_python(_plain(value), strict=True)
        except ValidationError as error:
            kind = error.errors(include_url=False)[0]["type"]
            expected = self.otherwise.get(kind, self.expected)
            raise ParameterError(f"{name} must {expected}, found {shown(value)}") from None

    def by_default(self, value: object) -> Constraint:
        """Return the same with an estimator's default."""
        return replace(self, default=value)

    @property
    def or_none(self) -> Constraint:
        """The same with None, for which the estimator chooses; a job omits the key."""
        return replace(self, type=self.type | None)

    @property
    def in_memory(self) -> Constraint:
        """The same for tables in memory only; jobs don't have the parameter."""
        return replace(self, job_type=None)

    @cached_property
    def _adapter(self) -> TypeAdapter[object]:
        return TypeAdapter(self.type)


def number(
    low: float = 0.0, high: float = inf, low_open: bool = True, moderate: bool = False
) -> Constraint:
    """Allow finite numbers from `low` to `high`; `moderate` ones are 0 or in [`TINY`, `HUGE`]."""
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
    """Return a number by which kernels can multiply distances; ValueError for others."""
    if not (value == 0 or TINY <= abs(value) <= HUGE):
        raise ValueError(f"must {MODERATE}, found {value!r}")
    return value


def count(least: int = 1, most: int | None = None) -> Constraint:
    """Allow whole numbers from `least` to `most`, without True and False."""
    of = Annotated[int, Field(ge=least, le=most)]
    expected = f"be a whole number of at least {least}"
    return Constraint(expected, of, of, {"less_than_equal": f"be at most {most}"})


def choice(*names: str, in_memory: tuple[str, ...] = ()) -> Constraint:
    """Allow several names; those `in_memory` not in jobs."""
    known = names + in_memory
    return Constraint(f"be one of {known}", Literal[known], Literal[names])


def is_several(gamma: object) -> bool:
    """Return True if gamma is a list of kernel widths."""
    return isinstance(gamma, (list, tuple, np.ndarray))


def _plain(value: object) -> object:
    """Return the Python value of NumPy arrays, integers and booleans."""
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
    "be 'auto', a positive number or a list of them",
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
