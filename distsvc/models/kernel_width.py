"""gamma = "auto": the kernel's width from the data's own distances."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

MAX_ROWS = 2000
NEIGHBOURS = 64


def automatic_gamma(X: np.ndarray) -> float:
    """Return gamma for rows X (n, d) float64, from at most 2000 distinct ones.

    The candidates are a half-octave grid of gammas. Each is scored by the leave-one-out
    log-likelihood of the Gaussian kernel density estimate of that width, with the sum taken over
    each row's 64 nearest neighbours. Its maximum runs away upwards in many dimensions, so gamma is
    at most 1 / (2 (0.6 m)^2), m the median distance to the fifth neighbour. A quarter of the best one is
    returned, a kernel twice as wide: the boundary is a level set of a sum of at most some hundred
    kernels, which a density estimate's width would tear apart. Equal rows, or a single one, have
    no width, and the result is 1.
    """
    X = np.unique(X[:MAX_ROWS], axis=0)
    n, d = X.shape
    if n < 2:
        return 1.0
    k = min(NEIGHBOURS, n - 1)
    distance = cKDTree(X).query(X, k=k + 1)[0][:, 1:]
    typical = float(np.median(distance[:, min(4, k - 1)]))
    if typical == 0.0:
        return 1.0
    most = 1.0 / (2.0 * (0.6 * typical) ** 2)
    grid = most * 2.0 ** np.arange(0.0, -12.5, -0.5)
    squared = distance**2
    nearest = squared[:, :1]
    scores = []
    for gamma in grid:
        density = np.exp(-gamma * (squared - nearest)).sum(axis=1)
        likelihood = np.log(density) - gamma * nearest[:, 0] + d / 2.0 * np.log(gamma / np.pi)
        scores.append(likelihood.sum())
    return float(grid[int(np.argmax(scores))]) / 4.0
