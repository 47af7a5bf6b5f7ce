"""The rows that a cluster needs at least, and tables of a few points that have as many each."""

from __future__ import annotations

import numpy as np

FLAT = 3
"""Up to so many features there are no subspaces: all features are looked at as they are."""


def least_mass(n_rows: int, n_components: int) -> float:
    """Return the rows that a component needs to count as born, of `n_rows`.

    max(5, 0.3 sqrt(n)) tells a cluster from an accident in the plane. In many dimensions every
    support vector is a mode, if only of its own kernel, and a share is asked for as well: 0.2 % in
    4 to 8, 1 % in more.
    """
    share = 0.0 if n_components <= FLAT else 0.002 if n_components <= 8 else 0.01
    return max(5.0, 0.3 * np.sqrt(n_rows), share * n_rows)


MAX_FEW_POINTS = 50
"""Distinct rows that are few, at most."""

MIN_REPEATED_SHARE = 0.8
"""Share of the rows, at least, that are one of few points."""

NAMES = 5
"""Points, at most, that are names even where their values are evenly spaced."""

SPACING_TOLERANCE = 1e-3
"""Share of a step by which evenly spaced values may be off."""

LOOK = 500
"""Rows that show at once that a table is not a few points."""


def few_points(rows: np.ndarray) -> np.ndarray | None:
    """Return the points (k, d) that rows (n, d), in random order, are repeats of, if these are few.

    There are 2 to 50, of as many rows as a component in the plane needs, and 80 % of all rows lie
    on them. Even so more than 5 points are not few where a column has evenly spaced values: that is
    a scale, of counts, ratings or rounded values, and rounding makes no clusters.
    """
    look = rows[:LOOK]
    if len(np.unique(look, axis=0)) > MAX_FEW_POINTS + (1.0 - MIN_REPEATED_SHARE) * len(look):
        return None
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    many = counts >= least_mass(len(rows), 1)
    points = distinct[many]
    if not 2 <= len(points) <= MAX_FEW_POINTS or counts[many].sum() < MIN_REPEATED_SHARE * len(
        rows
    ):
        return None
    scale = len(points) > NAMES and any(map(_is_scale, points.T))
    return None if scale else points


def _is_scale(values: np.ndarray) -> bool:
    """Return whether values (k,) are three or more and evenly spaced, with or without gaps."""
    steps = np.diff(np.unique(values.astype(np.float64)))
    if len(steps) < 2:
        return False
    multiples = steps / steps.min()
    return bool((np.abs(multiples - np.rint(multiples)) <= SPACING_TOLERANCE * multiples).all())
