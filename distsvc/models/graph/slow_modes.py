"""The slowest modes of a random walk: the leading eigenvectors of a large sparse matrix.

A polynomial that is small on all of the spectrum but its upper end is applied to a block of
vectors, again and again; between the times, the best vectors of the block's space are found.
Methods that follow one vector, such as Lanczos's, may miss some of several modes that are equally
slow, and each piece of a graph is such a mode.

Source: Chebyshev-filtered subspace iteration, Zhou, Saad, Tiago and Chelikowsky 2006. Departures:
there are twelve vectors to spare, the polynomial is worked out in float32, its degree follows from
the spectrum, and a mode is known once what it loses in a step of the walk is.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from distsvc.kernels.diffusion import N_DIFFUSED, walk_on

AMPLIFIED = 8.0
"""Logarithm of how much more the polynomial enlarges the slowest mode than the block's last."""

FEWEST_STEPS, MOST_STEPS = 2, 100
"""Steps of the walk between two looks at the block: the degree of the polynomial."""

LOOKS = 20

EXACT = 1e-3
"""Error of a step, at most, in parts of what the mode loses in one."""


def slowest_modes(
    similar: csr_array, stationary: np.ndarray, k: int, restarts: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the k largest eigenvalues (k,), descending, and eigenvectors (m, k), both float64.

    The matrix (m, m) float64 is symmetric, with eigenvalues from -1 to 1, and 1 belongs to the
    vector `stationary` (m,) of length 1, which is left out; m is at least 32 and k at most 20. None
    where the k-th eigenvalue is above 1 - `restarts`, which is known long before the vectors are.
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
        if values[k - 1] >= 1.0 - restarts:  # and true eigenvalues are not lower
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
    """Return the Chebyshev polynomial on [-1, low] of the matrix times a block (m, 32) float32.

    Its degree is such that what belongs to the eigenvalue `high` grows as it should.
    """
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
