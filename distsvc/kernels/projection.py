"""Coordinates of rows along a few directions, row by row."""

import numpy as np

from distsvc.kernels.jit import kernel
from distsvc.kernels.lanes import ROWS_AT_ONCE, weighted_rows


@kernel
def coordinates(X, components):
    """Return the coordinates (n, q) float32 of the rows X (n, d) float32.

    components (q, d) float32; features that have weight 0 in all of them are skipped. The terms of
    a coordinate are added in the order of the features, so that a row's result depends on that row
    alone. The last bits of a matrix product would depend on the shape of the block.
    """
    (n, d), q = X.shape, components.shape[0]
    weights, used, u = np.empty((q, d), np.float32), np.empty(d, np.int64), 0
    for k in range(d):
        is_used = False
        for j in range(q):
            weights[j, u] = components[j, k]
            is_used |= components[j, k] != 0.0
        if is_used:
            used[u] = k
            u += 1
    out = np.empty((n, q), np.float32)
    block, sums = np.zeros((d, ROWS_AT_ONCE), np.float32), np.empty(ROWS_AT_ONCE, np.float32)
    for start in range(0, n, ROWS_AT_ONCE):
        n_rows = min(ROWS_AT_ONCE, n - start)
        for t in range(n_rows):
            for k in range(u):
                block[k, t] = X[start + t, used[k]]
        for j in range(q):
            weighted_rows(weights[j], block, u, sums)
            for t in range(n_rows):
                out[start + t, j] = sums[t]
    return out


def project(X: np.ndarray, components: np.ndarray) -> np.ndarray:
    """Return the `coordinates` of rows X (n, d) along components (q, d) in any layout.

    Without the copy, the kernel would be compiled for each layout.
    """
    return coordinates(X, np.ascontiguousarray(components))
