"""What one parameter may be: it checks an estimator's value, and is a type of the job file."""

from __future__ import annotations

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


def is_several(gamma: Any) -> bool:
    """Return whether gamma is a list of kernel widths."""
    return isinstance(gamma, (list, tuple, np.ndarray))
