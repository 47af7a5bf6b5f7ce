"""Leading principal components of many columns, and the signs of directions."""

from __future__ import annotations

import numpy as np

MOST_COMPONENTS = 20
"""Maximum number of directions along which models use rows of many columns."""

SEARCHED = 100
"""Maximum number of principal components that are computed."""

MOST_COVARIANCES = 4096
"""Maximum number of columns for which principal components are computed from covariances."""


def principal_components(rows: np.ndarray) -> np.ndarray:
    """Return the leading principal components (d, <= 100) of rows (m, d) float64.

    Beyond `MOST_COVARIANCES` columns they come from the products of the rows, because the time for
    covariances grows with the cube of the columns. Components without variance are 0 there.
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


def with_fixed_signs(directions: np.ndarray, axis: int = 1) -> np.ndarray:
    """Return directions along `axis` (n, m), each with a positive entry of largest magnitude."""
    places = np.expand_dims(np.abs(directions).argmax(axis=axis), axis)
    return np.asarray(directions * np.sign(np.take_along_axis(directions, places, axis)))
