"""Kernels for rows: hash values, coordinates, random walks, and agreement of clusterings."""

import numpy as np

from distsvc.kernels.jit import kernel
from distsvc.kernels.lanes import ROWS_AT_ONCE, fma, weighted_rows


@kernel
def hash_texts(data, offsets, hashes):
    """Write the 64-bit FNV-1a hash of each text (Fowler, Noll and Vo) into hashes (n,) uint64.

    data (m,) uint8 are the bytes of all texts. Text i has the bytes from offsets[i] to
    offsets[i + 1], offsets (n + 1,) int64.
    """
    for i in range(hashes.size):
        found = np.uint64(0xCBF29CE484222325)
        for j in range(offsets[i], offsets[i + 1]):
            found = (found ^ np.uint64(data[j])) * np.uint64(0x100000001B3)
        hashes[i] = found


@kernel
def coordinates(X, components):
    """Return the coordinates (n, q) float32 of rows X (n, d) along components (q, d), both float32.

    Features with weight 0 in all components are skipped. Terms are added in the order of the
    features, so that a row's result depends only on this row. The last bits of a matrix product
    would depend on the shape of the block.
    """
    (n, d), q = X.shape, components.shape[0]
    weights, used, u = np.empty((q, d), np.float32), np.empty(d, np.int64), 0
    for k in range(d):
        is_used = False
        for j in range(q):
            weights[j, u] = components[j, k]
            is_used |= components[j, k] != 0.0
        if is_used:
            used[u] = k
            u += 1
    out = np.empty((n, q), np.float32)
    block, sums = np.zeros((d, ROWS_AT_ONCE), np.float32), np.empty(ROWS_AT_ONCE, np.float32)
    for start in range(0, n, ROWS_AT_ONCE):
        n_rows = min(ROWS_AT_ONCE, n - start)
        for t in range(n_rows):
            for k in range(u):
                block[k, t] = X[start + t, used[k]]
        for j in range(q):
            weighted_rows(weights[j], block, u, sums)
            for t in range(n_rows):
                out[start + t, j] = sums[t]
    return out


def project(X: np.ndarray, components: np.ndarray) -> np.ndarray:
    """Return the result of `coordinates`, for components (q, d) in any memory layout."""
    return coordinates(X, np.ascontiguousarray(components))  # compiled for one layout only


@kernel
def pairs_together(labels, sizes):
    """Return counts (m, m) int64 of row pairs in the same cluster, for every two of m clusterings.

    Entry i, j counts the pairs that share a cluster in clustering i and also in clustering j.
    labels (m, n) int32 are the rows' clusters, from 0 to sizes[i] - 1; sizes (m,) are int32.
    """
    m, n = labels.shape
    most = np.int64(0)
    for size in sizes:
        most = max(most, np.int64(size))
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
def largest_others(shares, labels, others, other_shares):
    """Set `others` (n, m) int32 to each row's m clusters with the largest shares, except its label.

    A row's clusters are sorted by descending share, then by number. `other_shares` (n, m) float32
    are set to the clusters' shares. `labels` (n,) int32 are the rows' own clusters. `shares` (n, k)
    float32, k > m, are overwritten: the shares of labels and of `others` become -1.
    """
    for i in range(shares.shape[0]):
        row = shares[i]
        row[labels[i]] = -1.0
        for place in range(others.shape[1]):
            best = 0
            for c in range(1, row.size):
                if row[c] > row[best]:
                    best = c
            others[i, place], other_shares[i, place] = best, row[best]
            row[best] = -1.0


@kernel
def walk_on(weights, numbers, starts, X, Z, a, b, c):
    """Do one step of a random walk for v vectors at once: set Z to a W X + b X - c Z.

    The columns of X and Z (m, v) float32 are the vectors. W (m, m) is a sparse matrix in CSR form:
    its entries are `weights` float32, and `numbers` int64 are the entries' columns. The entries of
    row i are from ``starts[i]`` to ``starts[i + 1]``, int64. The factors a, b and c are float32.
    """
    n_vectors = X.shape[1]  # a constant trip count would compile to scalar code
    for i in range(X.shape[0]):
        for k in range(n_vectors):
            Z[i, k] = fma(b, X[i, k], -c * Z[i, k])
        e, end = starts[i], starts[i + 1]
        while e + 4 <= end:  # four entries at a time, to load and store Z less often
            p, q, r, s = numbers[e], numbers[e + 1], numbers[e + 2], numbers[e + 3]
            t, u, v, w = a * weights[e], a * weights[e + 1], a * weights[e + 2], a * weights[e + 3]
            for k in range(n_vectors):
                step = fma(w, X[s, k], fma(v, X[r, k], fma(u, X[q, k], t * X[p, k])))
                Z[i, k] += step
            e += 4
        while e < end:
            p, t = numbers[e], a * weights[e]
            for k in range(n_vectors):
                Z[i, k] = fma(t, X[p, k], Z[i, k])
            e += 1
