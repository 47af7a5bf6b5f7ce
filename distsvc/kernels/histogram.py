"""Counting the values of columns between edges."""

import numpy as np

from distsvc.kernels.jit import kernel


@kernel
def count_between(X, edges, counts):
    """Add the values of a block to the counts of every column, in place.

    X (n, d) float64; edges (d, b) float64, each row rising or level; counts (d, b + 2) int64. Bin j
    has the values at or above j of the edges, and the last bin those that are missing (NaN).
    """
    n, d = X.shape
    b = edges.shape[1]
    for i in range(n):
        for k in range(d):
            x = X[i, k]
            at = 0
            for j in range(b):
                at += x >= edges[k, j]
            counts[k, b + 1 if np.isnan(x) else at] += 1
