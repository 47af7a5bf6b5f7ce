"""Leading principal components of many columns, and the signs of directions."""

import numpy as np

from distsvc.models.rows.threads import one_thread

MOST_COMPONENTS = 20
"""Maximum number of directions that models use in a table of many columns."""

SEARCHED = 100
"""Maximum number of principal components that are computed."""

MOST_COVARIANCES = 4096
"""Maximum number of columns for which principal components are computed from covariances."""


def principal_components(rows: np.ndarray) -> np.ndarray:
    """Return at most `SEARCHED` leading principal components (d, q) of rows (m, d) float64.

    Above `MOST_COVARIANCES` columns they come from products of rows, because the time for
    covariances grows with the cube of the columns. Then components without variance are 0.
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


def components_above_noise(rows: np.ndarray) -> tuple[np.ndarray, float]:
    """Return axes (q, d) of the components of rows (m, d) above noise, and their share of variance.

    Columns are standardised. Components above noise have a larger variance than any component of
    independent columns, (1 + sqrt(d / m))^2 (Marchenko and Pastur 1967). At least one axis and at
    most `MOST_COMPONENTS` are returned, but the share is of all components above noise. Along an
    axis, rows have variance 1. The entry of largest magnitude in an axis is positive.
    """
    m, d = rows.shape
    scale = rows.std(axis=0)
    scale[scale == 0.0] = 1.0
    with one_thread():  # the last bits depend on the number of threads
        standard = (rows - rows.mean(axis=0)) / scale
        vectors = principal_components(standard)
        variances = (standard @ vectors).var(axis=0)
    above = int((variances > (1.0 + np.sqrt(d / m)) ** 2).sum())
    q = min(max(above, 1), MOST_COMPONENTS)
    axes = with_fixed_signs((vectors[:, :q] / np.sqrt(variances[:q])).T)
    share = float(variances[:above].sum() / standard.var(axis=0).sum())
    return axes / scale, share


def with_fixed_signs(directions: np.ndarray, axis: int = 1) -> np.ndarray:
    """Return directions (n, m) along `axis`, with a positive entry of largest magnitude each."""
    places = np.expand_dims(np.abs(directions).argmax(axis=axis), axis)
    return np.asarray(directions * np.sign(np.take_along_axis(directions, places, axis)))
