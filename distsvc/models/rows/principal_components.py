"""Principal components of tables with many columns, and a rule for the signs of directions."""

import numpy as np

from distsvc.models.rows.threads import one_thread

MOST_COMPONENTS = 20
"""Maximum number of components that models use in a table of many columns."""

SEARCHED = 100
"""Maximum number of principal components that are computed."""

MOST_COVARIANCES = 4096
"""Maximum number of columns whose covariances are computed to find principal components."""


def principal_components(rows: np.ndarray) -> np.ndarray:
    """Return at most `SEARCHED` principal components (d, q) of rows (m, d) float64, largest first.

    With more than `MOST_COVARIANCES` columns, they are computed from products of rows, because the
    time for covariances grows with the cube of the columns. Components without variance are then 0.
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
    """Return the principal components of rows (m, d) above noise, and their share of the variance.

    A component is above noise if its variance is larger than that of any component of independent
    columns, (1 + sqrt(d / m))^2 (Marchenko and Pastur 1967). Columns are standardised first. The
    components are axes (q, d), 1 to `MOST_COMPONENTS`, along which rows have variance 1. In each
    axis, the entry of largest magnitude is positive. The share includes components above noise
    beyond `MOST_COMPONENTS`.
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
    """Return directions (n, m) with signs that make the largest entry (by magnitude) positive.

    By default, each row is a direction; with `axis` = 0, each column is a direction.
    """
    places = np.expand_dims(np.abs(directions).argmax(axis=axis), axis)
    return np.asarray(directions * np.sign(np.take_along_axis(directions, places, axis)))
