"""Which rows lie so far from all others that nothing should be learned from them."""

from __future__ import annotations

import math

import numpy as np

from distsvc.models.spread import known
from distsvc.models.support_vector.ensemble import least_mass

MOST = 8
"""Rows that are set aside, at most."""

RANGES = 3.0
"""How far they lie from the others at least, in the range that these have."""


def most_aside(n_rows: int) -> int:
    """Return how many rows may be set aside, of a table or a pilot of `n_rows`.

    They are too few for a cluster, and a tenth of the rows at most.
    """
    return min(MOST, math.ceil(least_mass(n_rows, 1)) - 1, n_rows // 10)


def fences(pilot: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values (d,) float64 below and above which a row lies far from all others.

    They are `RANGES` ranges away from the other values of the column, which are those of the pilot
    rows (m, d), but for the `most_aside` lowest and highest. There is no fence where these have one
    value only.
    """
    low, high = (np.full(pilot.shape[1], end) for end in (-np.inf, np.inf))
    for k, values in enumerate(known(pilot)):
        n = most_aside(len(values))
        if n == 0:
            continue
        ends = [n, len(values) - 1 - n]
        first, last = np.partition(values, ends)[ends]
        if first < last:
            away = RANGES * (last - first)
            low[k], high[k] = first - away, last + away
    return low, high
