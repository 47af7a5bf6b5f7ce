"""Checks of estimators' parameters, with one wording for all."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def check_number(name: str, value: Any, *, zero: bool = False, most: float = np.inf) -> None:
    """Raise ValueError unless `value` is a finite positive number (or 0), at most `most`."""
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    except OverflowError:
        number = np.inf
    if np.isfinite(number) and number <= most and (number > 0 or (zero and number == 0)):
        return
    if np.isfinite(most):
        raise ValueError(f"{name} must lie in {'[' if zero else '('}0, {most:g}], found {value!r}")
    kind = "a number of at least 0" if zero else "a positive number"
    raise ValueError(f"{name} must be {kind}, found {value!r}")


def check_count(name: str, value: Any, most: int | None = None, least: int = 1) -> None:
    """Raise ValueError unless `value` is a whole number from `least` to `most`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (whole and int(value) >= least):
        raise ValueError(f"{name} must be a whole number of at least {least}, found {value!r}")
    if most is not None and int(value) > most:
        raise ValueError(f"{name} must be at most {most}, found {value!r}")


def check_choice(name: str, value: Any, known: Iterable[str]) -> None:
    """Raise ValueError unless `value` is one of the known ones."""
    if value not in (known := tuple(known)):
        raise ValueError(f"{name} must be one of {known}, found {value!r}")


def seed_of(random_state: Any) -> int:
    """Return the seed that a random_state stands for: itself, or a number drawn from it."""
    if isinstance(random_state, Integral):
        check_count("random_state", random_state, least=0)
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))
