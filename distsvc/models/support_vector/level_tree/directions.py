"""Leading directions of a table: models use the coordinates of rows along these directions.

Up to 40 columns they are the leading principal components. With more columns, directions of noise
can have more variance than the directions that separate clusters. But near rows mostly belong to
one cluster. The directions then maximise the differences of random pairs of rows, relative to the
differences of near rows.
"""

from collections.abc import Iterable

import numpy as np
from scipy.linalg import eigh

from distsvc.models.rows.min_cluster_size import FLAT
from distsvc.models.rows.neighbours import nearest_others
from distsvc.models.rows.principal_components import (
    MOST_COMPONENTS,
    principal_components,
    with_fixed_signs,
)
from distsvc.models.rows.threads import one_thread

NARROW = 2 * MOST_COMPONENTS
"""Maximum number of columns for which the directions are principal components."""

SCATTER_NEIGHBOURS = 5
"""Number of near rows of each row in `near_scatter`, and of random rows in `scatter_of_pairs`."""

SHRUNK = 0.1
"""Weight of the identity matrix in the regularised scatter of near rows. Without it, directions in
which near rows happen to be equal would win."""

TAIL = 0.01
"""Share of a column's rows in each of its two tails."""

MOST_IN_TAILS = 0.15
"""Maximum share of the variance in the tails of columns. Above it, rare values determine scales,
and the directions are always principal components."""


def leading_directions(pilot: np.ndarray) -> np.ndarray:
    """Return the leading directions (q, d) float32 of pilot rows (m, d) float32, q <= 20.

    Pilot rows are in random order. Up to 3 columns, the result is the identity matrix. Directions
    are the leading principal components if there are at most `NARROW` columns, if the tails exceed
    `MOST_IN_TAILS`, or if near rows are all equal. Otherwise they solve T v = r S v for the largest
    r, with the scatter T of random pairs and the regularised scatter S of near rows. They are then
    not orthogonal, and v^T S v = 1. The entry of largest magnitude in each direction is positive.
    """
    if pilot.shape[1] <= FLAT:
        return np.eye(pilot.shape[1], dtype=np.float32)
    with one_thread():  # the last bits depend on the number of threads
        wide = pilot.astype(np.float64)
        principal = principal_components(wide)
        found = principal[:, :MOST_COMPONENTS].T
        if pilot.shape[1] > NARROW and _share_in_tails(wide) <= MOST_IN_TAILS:
            telling = _separating_directions(wide @ principal)
            found = found if telling is None else telling @ principal.T
    return with_fixed_signs(found).astype(np.float32)


def shortest_rows(coordinates: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Return the rows (n, d) of least norm with coordinates (n, q) along directions (q, d)."""
    wide = directions.astype(np.float64)
    if np.allclose(wide @ wide.T, np.eye(len(wide)), atol=1e-4):
        return coordinates @ directions
    return (coordinates @ np.linalg.pinv(wide).T).astype(np.float32)


def _separating_directions(rows: np.ndarray) -> np.ndarray | None:
    """Return at most 20 directions (k, p) that separate rows (m, p); None if near rows are equal.

    They have the largest scatter of random pairs of rows, relative to the scatter of near rows.
    """
    near, far = near_scatter(rows), scatter_of_pairs(rows)
    if near is None or far is None:
        return None
    even = np.eye(len(near)) / len(near)
    _, vectors = eigh(far, (1.0 - SHRUNK) * near + SHRUNK * even)
    return vectors[:, ::-1][:, :MOST_COMPONENTS].T


def near_scatter(rows: np.ndarray) -> np.ndarray | None:
    """Return the scatter (p, p) of near rows among rows (m, p); None if near rows are all equal.

    The scatter is the sum of u u^T, scaled to trace 1. The vectors u are the differences between
    each row and its nearest rows, scaled to length 1, so that a few long ones do not dominate.
    """
    _, numbers = nearest_others(rows, min(SCATTER_NEIGHBOURS, len(rows) - 1))
    return _mean_scatter(rows, numbers.T)


def scatter_of_pairs(rows: np.ndarray) -> np.ndarray | None:
    """Return the scatter (p, p) of random pairs of rows (m, p); None if all rows are equal.

    The scatter is computed as in `near_scatter`, but from the differences between each row and the
    next few rows. These are random pairs, because rows are in random order.
    """
    numbers = np.arange(len(rows))
    shifts = range(1, min(SCATTER_NEIGHBOURS, len(rows) - 1) + 1)
    return _mean_scatter(rows, [np.roll(numbers, shift) for shift in shifts])


def _mean_scatter(rows: np.ndarray, others: Iterable[np.ndarray]) -> np.ndarray | None:
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for numbers in others:
        apart = rows - rows[numbers]
        length = np.sqrt(np.einsum("ij,ij->i", apart, apart))
        apart = apart[length > 0.0] / length[length > 0.0, None]
        total += apart.T @ apart
    trace = np.trace(total)
    return total / trace if trace > 0.0 else None


def _share_in_tails(rows: np.ndarray) -> float:
    """Return the share of the variance of rows (m, d) that disappears if tails are clipped."""
    variance = rows.var(axis=0).sum()
    if not variance > 0.0:
        return 0.0
    low, high = np.quantile(rows, [TAIL, 1.0 - TAIL], axis=0)
    return float(1.0 - np.clip(rows, low, high).var(axis=0).sum() / variance)
