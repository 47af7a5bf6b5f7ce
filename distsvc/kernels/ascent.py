"""Climbing from points to equilibria of f."""

import numpy as np

from distsvc.kernels.jit import kernel
from distsvc.kernels.lanes import dot, total
from distsvc.kernels.rbf import LOG2_E, exp2, squared_distances


@kernel
def climb(X, S, a, gamma, tolerance, max_iter):
    """Iterate x <- P(x) = sum a_j K_j s_j / sum a_j K_j from every row of X until it stops moving.

    X (n, d) float32, S (d, B) float32, a (B,) float32, all positive. Returns the end points (n, d)
    float32. A trajectory ends when a step is at most `tolerance` / sqrt(2 gamma) long, or after
    `max_iter` steps. The map is mean shift: f never falls along a trajectory (section 4; it is an
    EM algorithm, which is why it converges). Exponents are shifted by the nearest vector's, so that
    a start far from every vector moves to the nearest one instead of to 0 / 0.
    """
    n, d = X.shape
    b = S.shape[1]
    scale = -np.float32(gamma) * LOG2_E
    smallest = np.float32(tolerance * tolerance / (2.0 * gamma))
    values, pulls = np.empty(b, np.float32), np.empty(b, np.float32)
    bits = values.view(np.int32)
    ends = X.copy()
    for i in range(n):
        x = ends[i]
        for _step in range(max_iter):
            squared_distances(S, b, x, values)
            nearest = bits[0]
            for j in range(b):
                nearest = min(nearest, bits[j])
            shift = np.int32(nearest).view(np.float32)
            for j in range(b):
                values[j] = a[j] * exp2(scale * (values[j] - shift))
            mass = total(values)
            length = np.float32(0.0)
            for k in range(d):
                centre = x[k]
                for j in range(b):
                    pulls[j] = S[k, j] - centre
                part = dot(values, pulls) / mass
                x[k] += part
                length += part * part
            if length <= smallest:
                break
    return ends
