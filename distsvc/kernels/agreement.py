"""Counts for comparing clusterings of the same rows."""

import numpy as np

from distsvc.kernels.jit import kernel


@kernel
def pairs_together(labels, sizes):
    """Return the number of row pairs that two clusterings both keep together, (m, m) int64.

    labels (m, n) int32 are of m clusterings, from 0 to below sizes (m,) int32.
    """
    m, n = labels.shape
    most = np.int64(sizes.max())
    counts = np.zeros(most * most, np.int64)
    found = np.empty((m, m), np.int64)
    for i in range(m):
        for j in range(i + 1):
            width = np.int64(sizes[j])
            for k in range(n):
                counts[width * labels[i, k] + labels[j, k]] += 1
            together = np.int64(0)
            for c in range(width * sizes[i]):
                together += counts[c] * (counts[c] - 1)
                counts[c] = 0
            found[i, j] = found[j, i] = together // 2
    return found


@kernel
def separated_pairs(labels, near):
    """Return the number of (row, neighbour) pairs with different labels.

    labels (n,) int32; near (n, k) int64 are the neighbours of each row.
    """
    found = 0
    for i in range(near.shape[0]):
        for j in range(near.shape[1]):
            found += labels[near[i, j]] != labels[i]
    return found
