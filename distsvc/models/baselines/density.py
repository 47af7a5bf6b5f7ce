"""A kernel density estimate of projections on a grid, and its minima."""

import numpy as np
from scipy.signal import fftconvolve

GRID_MARGIN = 3.0
"""Extension of the grid beyond the outermost projections, in bandwidths."""

MOST_GRID = 2**17


def normal_bandwidth(positions: np.ndarray, factor: float) -> float:
    """Return h = factor s n^-1/5 for projections (n,) with the standard deviation s."""
    return float(factor * positions.std(dtype=np.float64) * len(positions) ** -0.2)


def binned_density(
    positions: np.ndarray, bandwidth: float, grid_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a grid (g,), and the Gaussian kernel density estimate (g,) of positions (n,) on it.

    Each position is divided between the two nearest points of the grid. These counts are convolved
    with the kernel by a Fourier transform, in O(n + g log g). The density integrates to 1. g is
    `grid_size`, doubled until four steps of the grid fit into a bandwidth, but at most `MOST_GRID`.
    A bandwidth is at least one step.
    """
    extent = float(positions.max()) - float(positions.min())
    bandwidth = max(bandwidth, extent / (MOST_GRID - 1 - 2.0 * GRID_MARGIN))
    low = float(positions.min()) - GRID_MARGIN * bandwidth
    span = extent + 2.0 * GRID_MARGIN * bandwidth
    size = int(grid_size)
    while size < MOST_GRID and 4 * span > (size - 1) * bandwidth:
        size *= 2
    step = span / (size - 1)
    place = (np.asarray(positions, np.float64) - low) / step
    below = np.minimum(place.astype(np.int64), size - 2)
    share = place - below
    counts = np.bincount(below, 1.0 - share, size) + np.bincount(below + 1, share, size)
    # Beyond 8 bandwidths the kernel is below 1e-13 of its height and counts as 0.
    reach = min(int(np.ceil(8.0 * bandwidth / step)), size - 1)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * (step / bandwidth)) ** 2)
    sums = fftconvolve(counts, kernel, mode="full")[reach : reach + size]
    # Lower densities are rounding errors of the transform.
    sums[sums < 1e-12 * sums.max()] = 0.0
    scale = len(positions) * bandwidth * np.sqrt(2.0 * np.pi)
    return low + step * np.arange(size), sums / scale


def lowest_minimum(
    positions: np.ndarray, bandwidth: float, grid_size: int, fewest: int
) -> tuple[float, float] | None:
    """Return the position and height of a density's lowest inner minimum, or None.

    `binned_density` estimates the density from `positions` (n,). At least `fewest` positions must
    lie at or below the minimum, and as many above it. A flat stretch, such as a density of 0, is
    one minimum at its middle. Among equally low minima, the longest stretch is returned, or the
    first of the longest.
    """
    grid, density = binned_density(positions, bandwidth, grid_size)
    starts = np.flatnonzero(np.r_[True, np.diff(density) != 0.0])
    ends = np.r_[starts[1:], len(density)] - 1
    heights = density[starts]
    inner = np.arange(1, len(heights) - 1)
    inner = inner[(heights[inner] < heights[inner - 1]) & (heights[inner] < heights[inner + 1])]
    places = 0.5 * (grid[starts[inner]] + grid[ends[inner]])
    left = np.searchsorted(np.sort(positions), places, side="right")
    allowed = np.minimum(left, len(positions) - left) >= fewest
    if not allowed.any():
        return None
    inner, places = inner[allowed], places[allowed]
    best = np.lexsort((-(ends - starts)[inner], heights[inner]))[0]
    return float(places[best]), float(heights[inner[best]])
