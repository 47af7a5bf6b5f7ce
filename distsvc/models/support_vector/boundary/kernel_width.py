"""gamma = "auto": the kernel's width from the data's own distances."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from distsvc.inputs.rows import cut
from distsvc.models.rows.threads import on_threads

GROUP_ROWS = 2000
MAX_GROUPS = 5
NEIGHBOURS = 64
TEST_ROWS = 1500
LEAF = 64
"""Rows of a leaf of the tree that is searched: most leaves near a row are looked at anyway."""

FAR = 10.0
"""Least distance of a far row from its nearest neighbour, in typical distances to the fifth."""

PARTED = 8.0
"""The exponent of a kernel half-way between two points that it parts."""

LEAST_SQUARE = 1e-30
"""Least squared distance of two points, so that gamma is a float32."""

FEW = 3
"""Far rows that are few, at most. More are part of what the table is."""


def automatic_gamma(X: np.ndarray, n_jobs: int | None = 1) -> float:
    """Return gamma for rows X (n, d) float64 in random order; at most 10,000 of them are used.

    Two gammas suit a density estimate: the one of the largest leave-one-out log-likelihood of a
    Gaussian kernel estimate, on a half-octave grid, and 1 / (2 (0.6 m)^2) with m the median
    distance to the fifth neighbour. The first runs away upwards in many dimensions, so the second
    is its upper bound. Their geometric mean is divided by 6, for kernels some 2.4 times as wide:
    the boundary is a level set of a sum of at most some hundred kernels, which a density estimate's
    width would tear apart. A few far rows have no say: one alone could move the first down by
    orders of magnitude.

    Likelihoods are of distinct rows, with the sum taken over each row's 64 nearest neighbours, in
    up to five groups of 2000 rows, whose median is the result. Equal rows, or a single one, have no
    width, and the result is 1. Groups are work for `n_jobs` threads.
    """
    n_groups = min(max(len(X) // GROUP_ROWS, 1), MAX_GROUPS)
    groups = cut(X[: n_groups * GROUP_ROWS], GROUP_ROWS)
    found = on_threads(_gamma, groups, n_jobs)
    known = sorted(gamma for gamma in found if gamma is not None)
    return known[(len(known) - 1) // 2] if known else 1.0


def density_gamma(X: np.ndarray) -> float:
    """Return the gamma of a density estimate of the rows X (n, d) float64, in random order.

    The one with the largest leave-one-out log-likelihood, at most 1 / (2 (0.6 m)^2), as in
    `automatic_gamma`; of at most 1500 distinct rows, against all. 1 where there is no width.
    """
    found = _gammas(X, TEST_ROWS)
    return found[0] if found else 1.0


def parting_gamma(points: np.ndarray) -> float:
    """Return the gamma of kernels that part points (k, d) float64, by the two that are nearest.

    Half-way between these, a kernel is down to exp(-8). 1 where there is one point.
    """
    points = np.unique(points, axis=0)
    if len(points) < 2:
        return 1.0
    nearest = float(cKDTree(points).query(points, k=2)[0][:, 1].min())
    return 4.0 * PARTED / max(nearest**2, LEAST_SQUARE)


def _gamma(X: np.ndarray) -> float | None:
    found = _gammas(X, len(X))
    return float(np.sqrt(found[0] * found[1])) / 6.0 if found else None


def _gammas(X: np.ndarray, n_tests: int) -> tuple[float, float] | None:
    """Return the likelihood's gamma and its upper bound, or None where rows have no width."""
    X = _distinct(X)
    n, d = X.shape
    if n < 2:
        return None
    k = min(NEIGHBOURS, n - 1)
    distance = cKDTree(X, LEAF).query(X[:n_tests], k=k + 1)[0][:, 1:]
    typical = float(np.median(distance[:, min(4, k - 1)]))
    if typical == 0.0:
        return None
    far = distance[:, 0] > FAR * typical
    if far.sum() <= FEW:
        distance = distance[~far]
    squared = distance**2
    nearest = squared[:, 0]
    beyond = squared - nearest[:, None]
    kernel = np.empty_like(beyond)
    most = 1.0 / (2.0 * (0.6 * typical) ** 2)
    best, best_score = most, -np.inf
    for gamma in most * 2.0 ** np.arange(0.0, -12.5, -0.5):
        np.multiply(beyond, -gamma, out=kernel)
        density = np.exp(kernel, out=kernel).sum(axis=1)
        likelihood = np.log(density) - gamma * nearest + d / 2.0 * np.log(gamma / np.pi)
        if likelihood.mean() > best_score:
            best, best_score = float(gamma), float(likelihood.mean())
    return best, most


def _distinct(X: np.ndarray) -> np.ndarray:
    """Return the distinct rows of X (n, d), in the order of their first places."""
    if len(np.unique(X[:, 0])) == len(X):
        return X
    return X[np.sort(np.unique(X, axis=0, return_index=True)[1])]
