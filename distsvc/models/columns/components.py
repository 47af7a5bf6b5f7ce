"""Principal components of many columns, as far as they differ from noise."""

from __future__ import annotations

import numpy as np

from distsvc.models.rows.principal_components import (
    MOST_COMPONENTS,
    principal_components,
    with_fixed_signs,
)
from distsvc.models.rows.threads import one_thread


def components_above_noise(rows: np.ndarray) -> tuple[np.ndarray, float]:
    """Return axes (q, d) of the components of rows (m, d) above noise, and their share of variance.

    Columns are standardised. Components above noise have a larger variance than any component of
    independent columns, (1 + sqrt(d / m))^2 (Marchenko and Pastur 1967). There is at least one
    axis, and at most `MOST_COMPONENTS`; the share is of all components above noise. Rows have
    variance 1 along an axis. Its entry of largest magnitude is positive.
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
