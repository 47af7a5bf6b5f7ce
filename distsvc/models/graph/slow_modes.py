"""Slowest modes of a random walk: leading eigenvectors of a large sparse matrix.

A polynomial that is small on the spectrum except its upper end is applied to a block of vectors.
The best vectors in the span of the block are then computed, and both steps repeat. Methods that
follow one vector, such as Lanczos's, can miss some of several equally slow modes, and each piece of
a graph is such a mode.

Source: Chebyshev-filtered subspace iteration, Zhou, Saad, Tiago and Chelikowsky 2006. Departures:
the block has twelve spare vectors. The polynomial is computed in float32, and its degree follows
from the spectrum. The error is relative to the mode's decay per step.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from distsvc.kernels.diffusion import N_DIFFUSED, walk_on

AMPLIFIED = 8.0
"""Logarithm of the growth of the slowest mode by the polynomial, relative to the block's last mode.
"""

FEWEST_STEPS, MOST_STEPS = 2, 100
"""Minimum and maximum degree of the polynomial: steps of the walk per iteration."""

LOOKS = 20
"""Maximum number of iterations."""


EXACT = 1e-3
"""Maximum error of a mode, relative to its decay per step."""


def slowest_modes(
    similar: csr_array, stationary: np.ndarray, k: int, restarts: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the k largest eigenvalues (k,), descending, and eigenvectors (m, k), both float64.

    The matrix (m, m) float64 is symmetric, with eigenvalues from -1 to 1, m >= 32 and k <= 20. The
    eigenvector `stationary` (m,) of 1, of length 1, is excluded. None if the k-th eigenvalue is at
    least 1 - `restarts`, which is known long before the vectors are.
    """
    parts = similar.data.astype(np.float32), similar.indices, similar.indptr
    block = np.random.default_rng(0).normal(size=(len(stationary), N_DIFFUSED))
    low, high = 0.0, 1.0
    for _ in range(LOOKS):
        block = _filtered(parts, block.astype(np.float32), low, high).astype(np.float64)
        block -= np.outer(stationary, stationary @ block)
        block = np.linalg.qr(block / np.linalg.norm(block, axis=0))[0]
        walked = similar @ block
        walked -= np.outer(stationary, stationary @ walked)
        values, turns = np.linalg.eigh(block.T @ walked)
        values, turns = values[::-1], turns[:, ::-1]
        if values[k - 1] >= 1.0 - restarts:  # Ritz values are lower bounds
            return None
        block = block @ turns
        wrong = np.linalg.norm(walked @ turns[:, :k] - block[:, :k] * values[:k], axis=0)
        if np.all(wrong <= EXACT * (1.0 - (1.0 - restarts) * values[:k])):
            break
        low, high = float(values[-1]), float(values[0])
    return values[:k], block[:, :k]


def _filtered(
    parts: tuple[np.ndarray, np.ndarray, np.ndarray], block: np.ndarray, low: float, high: float
) -> np.ndarray:
    """Return the Chebyshev polynomial on [-1, low] of the matrix times a block (m, 32) float32."""
    half, middle = 0.5 * (low + 1.0), 0.5 * (low - 1.0)
    growth = np.arccosh((high - middle) / half)
    steps = int(np.clip(AMPLIFIED / growth, FEWEST_STEPS, MOST_STEPS))
    a, b = np.float32(1.0 / half), np.float32(-middle / half)
    before, now = block, np.zeros_like(block)
    walk_on(*parts, before, now, a, b, np.float32(0.0))
    for _ in range(steps - 1):
        walk_on(*parts, now, before, 2 * a, 2 * b, np.float32(1.0))
        before, now = now, before
    return now
