"""The lowest value of f on the segments between points."""

import numpy as np

from distsvc.kernels.jit import kernel
from distsvc.kernels.lanes import dot
from distsvc.kernels.rbf import LOG2_E, kernel_row


@kernel
def lowest_on_segments(E, pairs, S, a, gamma, samples, enough):
    """Return the lowest sampled value of sum_j a_j K(s_j, .) on the segment of every pair.

    E (M, d) float32, pairs (n, 2) int64, S (d, B) float32, a (B,) float32 -> (n,) float32. Samples
    are `samples` equally spaced inner points; the end points are not tested. The middle comes
    first, since that is where a segment leaves a cluster, and the search of a segment ends at the
    first value below `enough`, which is then the value returned.
    """
    d = E.shape[1]
    b = S.shape[1]
    scale = -np.float32(gamma) * LOG2_E
    values = np.empty(b, np.float32)
    x = np.empty(d, np.float32)
    out = np.empty(pairs.shape[0], np.float32)
    for i in range(pairs.shape[0]):
        start, end = E[pairs[i, 0]], E[pairs[i, 1]]
        lowest = np.float32(np.inf)
        for s in range(samples):
            place = (samples + 1) // 2 + (s + 1) // 2 * (1 if s % 2 == 1 else -1)
            share = np.float32(place / (samples + 1))
            for k in range(d):
                x[k] = start[k] + share * (end[k] - start[k])
            kernel_row(S, b, scale, x, values)
            total = dot(a, values)
            lowest = min(lowest, total)
            if lowest < enough:
                break
        out[i] = lowest
    return out
