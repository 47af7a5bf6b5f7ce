"""The dual of the large-margin one-class SVM, solved exactly on small data."""

import numpy as np

from distsvc.kernels.jit import kernel
from distsvc.kernels.lanes import square_distance


@kernel
def gram_matrix(X, gamma):
    """Return K (n, n) float64, K_ij = exp(-gamma ||x_i - x_j||^2), of X (n, d) float64."""
    n = X.shape[0]
    K = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            K[i, j] = K[j, i] = np.exp(-gamma * square_distance(X[i], X[j]))
    return K


@kernel
def coordinate_ascent(K, a, bound, tolerance, max_sweeps):
    """Maximise sum a - a'Ka/2 over 0 <= a <= bound, one variable at a time; return the sweeps.

    K (n, n) float64 with a unit diagonal; a (n,) float64 is the start and is overwritten. Ends when
    no variable violates its optimality condition by more than `tolerance`. Between full sweeps only
    the variables that moved in the last one are visited.
    """
    n = K.shape[0]
    g = np.ones(n)
    for i in range(n):
        if a[i] != 0.0:
            for j in range(n):
                g[j] -= a[i] * K[i, j]
    active = np.ones(n, np.bool_)
    full = True
    for sweep in range(max_sweeps):
        worst = 0.0
        for i in range(n):
            if not (full or active[i]):
                continue
            value = min(max(a[i] + g[i], 0.0), bound)
            change = value - a[i]
            active[i] = abs(change) > tolerance
            if change != 0.0:
                worst = max(worst, abs(change))
                a[i] = value
                row = K[i]
                for j in range(n):
                    g[j] -= change * row[j]
        if worst <= tolerance:
            if full:
                return sweep + 1
            full = True
        else:
            full = sweep % 10 == 9
    return max_sweeps
