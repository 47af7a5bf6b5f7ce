"""The few directions of many columns that the models of a level tree see rows by.

Up to 40 columns these are the leading principal components. Of more, variance alone can mislead: a
direction of noise that is wider than the clusters are apart comes first and tells nothing. Near
rows mostly belong to the same cluster, so a direction in which rows differ much more than near rows
do tells clusters apart.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.linalg import eigh
from threadpoolctl import threadpool_limits

from distsvc.models.rows.mass import FLAT
from distsvc.models.rows.neighbours import nearest_others

MOST_COMPONENTS = 20

NARROW = 2 * MOST_COMPONENTS
"""Columns, at most, of which principal components are enough."""

SEARCHED = 100
"""Principal components, at most, among whose directions the telling ones are looked for."""

MOST_COVARIANCES = 4096
"""Columns, at most, of which principal components are found by their covariances."""

NEAREST = 5
"""Near rows of a row that it is compared with."""

SHRUNK = 0.1
"""Share of the scatter of near rows that is spread evenly over all directions, so that narrow
directions of few rows are not blown up."""

TAIL = 0.01
"""Share of a column's rows in each of its two tails."""

MOST_IN_TAILS = 0.15
"""Share of all variance, at most, that comes from how far the tails reach. A normal column has
.04; where rare values decide the scale of columns it is more, and near rows tell little."""


def leading_directions(pilot: np.ndarray) -> np.ndarray:
    """Return directions (q, d) float32 of pilot rows (m, d) float32, q <= 20, the leading first.

    Up to 3 columns these are the columns. Up to 40, and where tails decide the scales of columns,
    they are the leading principal components. Elsewhere they solve T v = r S v for the largest r,
    where T says in which directions any rows differ and S in which near rows do; v^T S v = 1, and
    they are not orthogonal. The entry of largest size is positive. Pilot rows are in random order.
    """
    if pilot.shape[1] <= FLAT:
        return np.eye(pilot.shape[1], dtype=np.float32)
    with threadpool_limits(1):  # of wide rows several would give other last bits
        wide = pilot.astype(np.float64)
        principal = principal_components(wide)
        found = principal[:, :MOST_COMPONENTS].T
        if pilot.shape[1] > NARROW and _share_in_tails(wide) <= MOST_IN_TAILS:
            telling = _telling_directions(wide @ principal)
            found = found if telling is None else telling @ principal.T
    heaviest = np.take_along_axis(found, np.abs(found).argmax(axis=1)[:, None], axis=1)
    return (found * np.sign(heaviest)).astype(np.float32)


def principal_components(rows: np.ndarray) -> np.ndarray:
    """Return the leading principal components (d, <= 100) of rows (m, d) float64.

    Beyond `MOST_COVARIANCES` columns they come from the products of rows, which are fewer, since
    the time for covariances grows with the cube of the columns. There those without variance are 0.
    """
    if rows.shape[1] <= MOST_COVARIANCES:
        _, vectors = np.linalg.eigh(np.cov(rows.T))
        return vectors[:, ::-1][:, :SEARCHED]
    centred = rows - rows.mean(axis=0)
    squares, weights = np.linalg.eigh(centred @ centred.T)
    kept = squares > max(squares[-1], 0.0) * len(rows) * np.finfo(np.float64).eps
    vectors = centred.T @ weights[:, kept][:, ::-1][:, :SEARCHED]
    found = np.zeros((rows.shape[1], SEARCHED))
    found[:, : vectors.shape[1]] = vectors / np.linalg.norm(vectors, axis=0)
    return found


def placed(coordinates: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Return the shortest rows (n, d) that have the coordinates (n, q) along directions (q, d)."""
    wide = directions.astype(np.float64)
    if np.allclose(wide @ wide.T, np.eye(len(wide)), atol=1e-4):
        return coordinates @ directions
    return (coordinates @ np.linalg.pinv(wide).T).astype(np.float32)


def _telling_directions(rows: np.ndarray) -> np.ndarray | None:
    """Return directions (<= 20, p) of rows (m, p); None where near rows are all equal."""
    near, far = near_scatter(rows), scatter_of_pairs(rows)
    if near is None or far is None:
        return None
    even = np.eye(len(near)) / len(near)
    _, vectors = eigh(far, (1.0 - SHRUNK) * near + SHRUNK * even)
    return vectors[:, ::-1][:, :MOST_COMPONENTS].T


def near_scatter(rows: np.ndarray) -> np.ndarray | None:
    """Return in which directions rows (m, p) float64 differ from near ones, (p, p) float64.

    It is the mean of u u^T over the differences of rows to the 5 nearest of each, scaled to length
    1, so that no few of them decide. None where all are equal.
    """
    _, numbers = nearest_others(rows, min(NEAREST, len(rows) - 1))
    return _mean_scatter(rows, numbers.T)


def scatter_of_pairs(rows: np.ndarray) -> np.ndarray | None:
    """Return in which directions rows (m, p) float64, in random order, differ from any others."""
    numbers = np.arange(len(rows))
    shifts = range(1, min(NEAREST, len(rows) - 1) + 1)
    return _mean_scatter(rows, [np.roll(numbers, shift) for shift in shifts])


def _mean_scatter(rows: np.ndarray, others: Iterable[np.ndarray]) -> np.ndarray | None:
    """Return the mean of u u^T, where u points from a row to each of the others, numbers (m,)."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for numbers in others:
        apart = rows - rows[numbers]
        length = np.sqrt(np.einsum("ij,ij->i", apart, apart))
        apart = apart[length > 0.0] / length[length > 0.0, None]
        total += apart.T @ apart
    trace = np.trace(total)
    return total / trace if trace > 0.0 else None


def _share_in_tails(rows: np.ndarray) -> float:
    """Return the share of the variance of rows (m, d) that goes when both tails are cut short."""
    variance = rows.var(axis=0).sum()
    if not variance > 0.0:
        return 0.0
    low, high = np.quantile(rows, [TAIL, 1.0 - TAIL], axis=0)
    return float(1.0 - np.clip(rows, low, high).var(axis=0).sum() / variance)
