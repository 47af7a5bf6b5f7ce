"""Minimum size of a cluster, and tables of a few points with many rows each."""

import numpy as np

FLAT = 3
"""Maximum number of features of a model that uses no subspaces."""


def least_mass(n_rows: int, n_components: int) -> float:
    """Return the minimum number of rows, among `n_rows`, in a component that counts as a cluster.

    max(5, 0.3 sqrt(n)) separates clusters from chance in the plane. In many dimensions, every
    support vector is a mode of its own kernel. So the minimum is also 0.2 % of the rows in 4 to 8
    dimensions, and 1 % in more.
    """
    share = 0.0 if n_components <= FLAT else 0.002 if n_components <= 8 else 0.01
    return max(5.0, 0.3 * np.sqrt(n_rows), share * n_rows)


MAX_FEW_POINTS = 50
"""Maximum number of points that `few_points` returns."""

MIN_REPEATED_SHARE = 0.8
"""Minimum share of rows at the points of `few_points`, all points together."""


def few_points(rows: np.ndarray) -> np.ndarray | None:
    """Return the points (k, d) that rows (n, d) repeat; None if there are too many or too few.

    There are 2 to `MAX_FEW_POINTS` points, each with enough rows for a cluster in the plane. More
    than 5 points are rejected if a column has evenly spaced values, because counts, ratings and
    rounded values are no categories. Rows are in random order.
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
    """Return True if values (k,) are three or more and evenly spaced, with or without gaps."""
    steps = np.diff(np.unique(values.astype(np.float64)))
    if len(steps) < 2:
        return False
    multiples = steps / steps.min()
    # A relative tolerance alone would accept every multiple above 500.
    tolerance = np.minimum(1e-3 * multiples, 0.1)
    return bool((np.abs(multiples - np.rint(multiples)) <= tolerance).all())
