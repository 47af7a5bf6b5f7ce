"""Coordinates of rows along a few directions, row by row."""

import numpy as np

from distsvc.kernels.jit import kernel


@kernel
def project(X, components):
    """Return the coordinates (n, q) float32 of the rows X (n, d) float32.

    components (q, d) float32. A row's result depends on that row alone, whichever block it came in;
    a matrix product's last bits depend on the shape of the block.
    """
    n, d = X.shape
    q = components.shape[0]
    out = np.empty((n, q), np.float32)
    for i in range(n):
        for j in range(q):
            total = np.float32(0.0)
            for k in range(d):
                total += X[i, k] * components[j, k]
            out[i, j] = total
    return out
