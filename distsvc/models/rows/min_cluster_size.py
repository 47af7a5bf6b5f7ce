"""Minimum number of rows of a cluster, and tables whose rows lie on a few points."""

import numpy as np

FLAT = 3
"""Maximum number of columns of a table that is not projected to fewer dimensions."""


def least_mass(n_rows: int, n_components: int) -> float:
    """Return the minimum number of rows of a cluster in a table of `n_rows` rows.

    A cluster is a component of a density in `n_components` dimensions. The minimum is
    max(5, 0.3 sqrt(n_rows)). It is at least 0.2 % of the rows in 4 to 8 dimensions, and at least
    1 % in more. In many dimensions, every support vector is a mode of the density.
    """
    share = 0.0 if n_components <= FLAT else 0.002 if n_components <= 8 else 0.01
    return max(5.0, 0.3 * np.sqrt(n_rows), share * n_rows)


MAX_FEW_POINTS = 50
"""Maximum number of points that `few_points` returns."""

MIN_REPEATED_SHARE = 0.8
"""Minimum share of rows at the points of `few_points`, all points together."""


def few_points(rows: np.ndarray) -> np.ndarray | None:
    """Return the points (k, d) on which nearly all rows (n, d) lie; None if there are too many.

    Rows are in random order. The result has 2 to `MAX_FEW_POINTS` points, and each point has enough
    rows for a cluster (`least_mass`). None is also returned if there are more than 5 points, and a
    column's values are evenly spaced: counts, ratings and rounded values are no categories.
    """
    # Most tables are rejected by their first rows, which is fast.
    look = rows[:500]
    if len(np.unique(look, axis=0)) > MAX_FEW_POINTS + (1.0 - MIN_REPEATED_SHARE) * len(look):
        return None
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    many = counts >= least_mass(len(rows), 1)
    points = distinct[many]
    if not 2 <= len(points) <= MAX_FEW_POINTS or counts[many].sum() < MIN_REPEATED_SHARE * len(
        rows
    ):
        return None
    scale = len(points) > 5 and any(map(_is_scale, points.T))
    return None if scale else points


def _is_scale(values: np.ndarray) -> bool:
    """Return True if three or more distinct values (k,) are whole multiples of a step apart."""
    steps = np.diff(np.unique(values.astype(np.float64)))
    if len(steps) < 2:
        return False
    multiples = steps / steps.min()
    # A relative tolerance alone would accept every multiple above 500.
    tolerance = np.minimum(1e-3 * multiples, 0.1)
    return bool((np.abs(multiples - np.rint(multiples)) <= tolerance).all())
