"""The rows that a cluster needs at least."""

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
