"""Lloyd's algorithm for k-means from given centres, without scikit-learn's slow import.

Labels are those of ``sklearn.cluster.KMeans`` on one thread, to the bit: the operations are the
same, in the same order.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dgemm

LLOYD_ROWS = 256
"""Number of rows whose distances are computed together, as in scikit-learn."""

LLOYD_STEPS = 300
"""Maximum number of steps of Lloyd's algorithm; the default of scikit-learn."""

LLOYD_TOLERANCE = 1e-4
"""Squared shift of all centres at which steps end, relative to the mean variance of a column."""


def lloyd_labels(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the labels (n,) int32 of k-means on rows (n, d) from centres (k, d), float64."""
    tolerance = np.mean(np.var(rows, axis=0)) * LLOYD_TOLERANCE
    mean = rows.mean(axis=0)
    X, centres = np.ascontiguousarray(rows - mean), np.ascontiguousarray(centres - mean)
    labels = np.full(len(X), -1, np.int32)
    for _ in range(LLOYD_STEPS):
        old, labels = labels, _nearest(X, centres)
        moved = _means(X, labels, centres)
        shift = _shift(centres, moved)
        centres = moved
        if np.array_equal(labels, old):
            return labels
        if (shift**2).sum() <= tolerance:
            break
    return _nearest(X, centres)


def _nearest(X: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the number (n,) int32 of the nearest centre (k, d) to each row of X (n, d)."""
    labels = np.empty(len(X), np.int32)
    norms = np.einsum("ij,ij->i", centres, centres)
    for start in range(0, len(X), LLOYD_ROWS):
        part = X[start : start + LLOYD_ROWS]
        distances = np.tile(norms, (len(part), 1)).T
        distances = dgemm(-2.0, centres.T, part.T, 1.0, distances, trans_a=True, overwrite_c=True)
        labels[start : start + LLOYD_ROWS] = distances.argmin(axis=0)
    return labels


def _means(X: np.ndarray, labels: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the mean (k, d) of the rows of each label; an empty one gets the farthest row."""
    k, d = centres.shape
    weights = np.bincount(labels, minlength=k).astype(np.float64)
    # `bincount` adds weights in the order of the rows.
    means = np.column_stack([np.bincount(labels, X[:, j], minlength=k) for j in range(d)])
    empty = np.flatnonzero(weights == 0.0)
    if len(empty):
        distances = ((X - centres[labels]) ** 2).sum(axis=1)
        farthest = np.argpartition(distances, -len(empty))[: -len(empty) - 1 : -1]
        if distances.max() > 0.0:
            for new, row in zip(empty, farthest, strict=True):
                means[labels[row]] -= X[row]
                weights[labels[row]] -= 1.0
                means[new], weights[new] = X[row], 1.0
    largest = int(weights.argmax())
    for c in range(k):
        if weights[c] > 0.0:
            means[c] *= 1.0 / weights[c]
        else:
            means[c] = means[largest]
    return means


def _shift(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return the distances (k,) of centres, whose squares are added four by four."""
    squares = (new - old) ** 2
    d, total = squares.shape[1], np.zeros(len(squares))
    whole = d - d % 4
    for j in range(0, whole, 4):
        four = squares[:, j : j + 4]
        total += four[:, 0] + four[:, 1] + four[:, 2] + four[:, 3]
    for j in range(whole, d):
        total += squares[:, j]
    return np.sqrt(total)
