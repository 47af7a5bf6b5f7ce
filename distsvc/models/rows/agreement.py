"""Adjusted Rand index: how well two partitions of the same rows agree."""

from collections.abc import Sequence

import numpy as np

from distsvc.kernels.rows import pairs_together

SAME_ANSWER = 0.8
"""Adjusted Rand index above which two labellings count as the same answer."""


def rand_indices(labels: Sequence[np.ndarray]) -> np.ndarray:
    """Return the adjusted Rand indices (m, m) float64 of all pairs of m labellings (n,).

    Labels are small integers, 0 or more. scikit-learn's function is slower, due to its checks.
    """
    n = len(labels[0])
    rows = np.array(labels, np.int32)
    together = pairs_together(rows, rows.max(axis=1) + 1).astype(np.float64)
    own = np.diag(together)
    expected = np.outer(own, own) / max(n * (n - 1) / 2, 1.0)
    most = (own[:, None] + own) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(most == expected, 1.0, (together - expected) / (most - expected))


def expected_rand_index(labels: np.ndarray, chances: np.ndarray) -> float:
    """Return the expected adjusted Rand index of labels (n,) with labels drawn by `chances`.

    `chances` (n, k) float64 are each row's probabilities of the labels. The result is approximate:
    counts of pairs are replaced by their expectations.
    """
    n, known = len(labels), np.unique(labels, return_inverse=True)[1]
    rows = np.zeros((int(known.max()) + 1, chances.shape[1]))
    np.add.at(rows, known, chances)
    twice = float((chances**2).sum())  # pairs of a row with itself, which don't count
    own = float((np.bincount(known).astype(np.float64) ** 2).sum()) - n
    drawn = float((rows.sum(axis=0) ** 2).sum()) - twice
    together = float((rows**2).sum()) - twice
    expected = own * drawn / max(n * (n - 1.0), 1.0)
    most = (own + drawn) / 2
    return 1.0 if most == expected else (together - expected) / (most - expected)
