"""Automatic kernel widths, computed from the distances between rows."""

import numpy as np
from scipy.spatial import cKDTree

from distsvc.inputs.rows import cut
from distsvc.models.rows.neighbours import nearest_others
from distsvc.models.rows.threads import map_threads

GROUP_ROWS = 2000
FAR_RATIO, MAX_FAR_ROWS = 10.0, 3
"""Minimum distance of a far row from its nearest neighbour, and maximum number of ignored far rows.

The distance is in units of the median distance to the fifth neighbour. If more rows are far, none
of them is ignored.
"""


def automatic_gamma(X: np.ndarray, n_jobs: int | None = 1) -> float:
    """Return gamma for rows X (n, d) float64 in random order, from at most 10,000 of them.

    The result is the median over up to five groups of 2000 rows, or 1 if all rows are equal. For
    each group it is the geometric mean of two gammas, divided by 6. The first gamma has the largest
    leave-one-out log-likelihood of a Gaussian kernel density estimate, on a half-octave grid. The
    second is the upper end of that grid, 1 / (2 (0.6 m)^2), with m the median distance to the fifth
    neighbour. Kernels are thus 2.4 times as wide as in a density estimate, because the boundary is
    a level set of at most a hundred kernels.

    Likelihoods are of distinct rows, with sums over each row's 64 nearest neighbours. A few far
    rows are ignored: a single far row could lower the first gamma by orders of magnitude.
    """
    n_groups = min(max(len(X) // GROUP_ROWS, 1), 5)
    groups = cut(X[: n_groups * GROUP_ROWS], GROUP_ROWS)
    found = map_threads(lambda group: _gammas(group, len(group)), groups, n_jobs)
    known = sorted(float(np.sqrt(one[0] * one[1])) / 6.0 for one in found if one)
    return known[(len(known) - 1) // 2] if known else 1.0


def density_gamma(X: np.ndarray) -> float:
    """Return the gamma of a density estimate of the rows X (n, d) float64, in random order.

    It is the first gamma of `automatic_gamma`, from the likelihood of up to 1500 distinct rows, or
    1 if all rows are equal. Neighbours are searched among all rows.
    """
    found = _gammas(X, 1500)
    return found[0] if found else 1.0


def parting_gamma(points: np.ndarray) -> float:
    """Return a gamma so large that the kernels of points (k, d) float64 hardly overlap.

    Midway between the two nearest points, kernels have the value exp(-8). If all points are
    equal, 1 is returned.
    """
    points = np.unique(points, axis=0)
    if len(points) < 2:
        return 1.0
    nearest = float(cKDTree(points).query(points, k=2)[0][:, 1].min())
    return 4.0 * 8.0 / max(nearest**2, 1e-30)  # gamma must fit into float32


def _gammas(X: np.ndarray, n_tests: int) -> tuple[float, float] | None:
    """Return the first and second gamma of `automatic_gamma`; None if all rows are equal.

    The likelihood is the mean over the first `n_tests` distinct rows. Their neighbours are searched
    among all rows X (n, d).
    """
    if len(np.unique(X[:, 0])) < len(X):  # keep the first of equal rows
        X = X[np.sort(np.unique(X, axis=0, return_index=True)[1])]
    n, d = X.shape
    if n < 2:
        return None
    k = min(64, n - 1)
    distance = nearest_others(X, k, n_searched=n_tests)[0]
    typical = float(np.median(distance[:, min(4, k - 1)]))
    if typical == 0.0:
        return None
    far = distance[:, 0] > FAR_RATIO * typical
    if far.sum() <= MAX_FAR_ROWS:
        distance = distance[~far]
    squared = distance**2
    nearest = squared[:, 0]
    most = 1.0 / (2.0 * (0.6 * typical) ** 2)
    gammas = most * 2.0 ** -np.arange(0.0, 12.5, 0.5)
    sums = np.empty((len(gammas), len(nearest)))
    for last in (len(gammas) - 1, len(gammas) - 2):
        kernel = np.exp(-gammas[last] * (squared - nearest[:, None]))
        for i in range(last, -1, -2):  # gamma doubles each time, so the kernel is squared
            sums[i] = kernel.sum(axis=1)
            np.square(kernel, out=kernel)
    likelihoods = (np.log(sums) - gammas[:, None] * nearest).mean(axis=1)
    likelihoods += d / 2.0 * np.log(gammas / np.pi)
    return float(gammas[likelihoods.argmax()]), most
