"""Coordinates of rows along a few directions, row by row."""

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import fma


@inlined
def _one_by_one(X, components, out):
    n, q = out.shape
    for i in range(n):
        for j in range(q):
            total = np.float32(0.0)
            for k in range(X.shape[1]):
                total = fma(X[i, k], components[j, k], total)
            out[i, j] = total


@inlined
def _all_at_once(X, turned, out):
    n, q = out.shape
    d = turned.shape[0]
    for i in range(n):
        k = 0
        while k + 8 <= d:
            for j in range(q):
                total = out[i, j]
                total = fma(X[i, k], turned[k, j], total)
                total = fma(X[i, k + 1], turned[k + 1, j], total)
                total = fma(X[i, k + 2], turned[k + 2, j], total)
                total = fma(X[i, k + 3], turned[k + 3, j], total)
                total = fma(X[i, k + 4], turned[k + 4, j], total)
                total = fma(X[i, k + 5], turned[k + 5, j], total)
                total = fma(X[i, k + 6], turned[k + 6, j], total)
                total = fma(X[i, k + 7], turned[k + 7, j], total)
                out[i, j] = total
            k += 8
        while k < d:
            for j in range(q):
                out[i, j] = fma(X[i, k], turned[k, j], out[i, j])
            k += 1


@kernel
def coordinates(X, components):
    """Return the coordinates (n, q) float32 of the rows X (n, d) float32.

    components (q, d) float32. The terms of a coordinate are added in the order of the features, so
    that a row's result depends on that row alone. The last bits of a matrix product would depend on
    the shape of the block.
    """
    n, d = X.shape
    q = components.shape[0]
    out = np.zeros((n, q), np.float32)
    # With few features, one coordinate after the other is faster.
    if d < 16:
        _one_by_one(X, components, out)
    else:
        turned = np.empty((d, q), np.float32)
        for j in range(q):
            for k in range(d):
                turned[k, j] = components[j, k]
        _all_at_once(X, turned, out)
    return out


def project(X: np.ndarray, components: np.ndarray) -> np.ndarray:
    """Return the `coordinates` of rows X (n, d) along components (q, d) in any layout.

    Without the copy, the kernel would be compiled for each layout.
    """
    return coordinates(X, np.ascontiguousarray(components))
