"""Mixtures of normals fitted to histograms, and tables of monotone maps."""

import math

import numpy as np

from distsvc.kernels.jit import inlined, kernel
from distsvc.kernels.lanes import ROWS_AT_ONCE

MIN_PROBABILITY = 1e-300
"""Minimum probability of a cell, so that logarithms are finite."""


@inlined
def normal_cdf(z):
    """Return the standard normal distribution function at z."""
    return 0.5 * math.erfc(-z * 0.7071067811865476)


@kernel
def fit_cells(edges, counts, weights, means, sds, least_sd, max_steps, tolerance):
    """Fit k normals to the counts of cells by expectation maximisation; return the log-likelihood.

    edges (m + 1,) float64 are the ascending borders of m cells, from -inf to inf; counts (m,)
    float64. weights, means and sds (k,) float64 contain the start and receive the fit. The minimum
    standard deviation is the larger of `least_sd` and the width of the finite cell with the mean.
    Iterations end when the log-likelihood gains less than `tolerance`.
    """
    m, k = counts.shape[0], means.shape[0]
    chance = np.empty((m, k))
    shift, spread = np.empty((m, k)), np.empty((m, k))
    old = -np.inf
    likelihood = -np.inf
    for _ in range(max_steps):
        for j in range(k):
            z_low = -np.inf
            cdf_low, pdf_low, zpdf_low = 0.0, 0.0, 0.0
            for i in range(m):
                edge = edges[i + 1]
                if edge == np.inf:
                    z, cdf, pdf, zpdf = np.inf, 1.0, 0.0, 0.0
                else:
                    z = (edge - means[j]) / sds[j]
                    cdf = normal_cdf(z)
                    pdf = 0.3989422804014327 * math.exp(-0.5 * z * z) if abs(z) < 38.0 else 0.0
                    zpdf = z * pdf
                inside = cdf - cdf_low
                if z_low > 0.0:  # 1 - cdf would cancel digits
                    upper = 0.0 if z == np.inf else normal_cdf(-z)
                    inside = normal_cdf(-z_low) - upper
                inside = max(inside, MIN_PROBABILITY)
                first = min(max((pdf_low - pdf) / inside, -40.0), 40.0)
                chance[i, j] = inside
                shift[i, j] = first
                spread[i, j] = max(1.0 + (zpdf_low - zpdf) / inside, first * first)
                z_low, cdf_low, pdf_low, zpdf_low = z, cdf, pdf, zpdf
        likelihood = 0.0
        for i in range(m):
            total = 0.0
            for j in range(k):
                total += weights[j] * chance[i, j]
            total = max(total, MIN_PROBABILITY)
            likelihood += counts[i] * math.log(total)
            for j in range(k):
                chance[i, j] = counts[i] * weights[j] * chance[i, j] / total
        if likelihood - old < tolerance:
            break
        old = likelihood
        whole = counts.sum()
        for j in range(k):
            mass, first, second = 1e-9, 0.0, 0.0
            for i in range(m):
                mass += chance[i, j]
                first += chance[i, j] * shift[i, j]
                second += chance[i, j] * spread[i, j]
            first /= mass
            mean = means[j] + sds[j] * first
            sd = sds[j] * math.sqrt(max(second / mass - first * first, 1e-6))
            place = 0  # compiling np.searchsorted takes longer
            while place < len(edges) and edges[place] < mean:
                place += 1
            width = 0.0
            if 1 < place < m:
                width = edges[place] - edges[place - 1]
            weights[j] = mass / whole
            means[j] = mean
            sds[j] = max(sd, max(width, least_sd))
    return likelihood


@kernel
def interpolate(x, knots, values, out):
    """Set out (n,) to the piecewise linear map of x (n,) with values (g,) at ascending knots (g,).

    The outermost slopes continue beyond the knots; NaN stays NaN. All float64.
    """
    n, g = x.shape[0], knots.shape[0]
    slopes = np.empty(g - 1)
    for k in range(g - 1):
        slopes[k] = (values[k + 1] - values[k]) / (knots[k + 1] - knots[k])
    # Unsigned indices need no test for negative values.
    low, two = np.empty(ROWS_AT_ONCE, np.uint64), np.uint64(2)
    for start in range(0, n, ROWS_AT_ONCE):
        m = min(ROWS_AT_ONCE, n - start)
        low[:] = 0
        size = np.uint64(g - 1)
        while size > 1:  # searches run side by side, to hide their latency
            half = size // two
            for t in range(m):
                place = low[t] + half
                low[t] = place if knots[place] <= x[start + t] else low[t]
            size -= half
        for t in range(m):
            k = low[t]
            out[start + t] = values[k] + slopes[k] * (x[start + t] - knots[k])
