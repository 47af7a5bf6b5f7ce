"""Steps of a random walk for many vectors at once."""

from distsvc.kernels.jit import kernel
from distsvc.kernels.lanes import fma


@kernel
def walk_on(weights, numbers, starts, X, Z, a, b, c):
    """Set Z to a W X + b X - c Z.

    X and Z are (m, v) float32, with one vector in each column. W (m, m) is a sparse matrix in CSR
    form: row i has `weights` float32 in the columns `numbers` int64, from ``starts[i]`` to
    ``starts[i + 1]``, int64. The factors a, b and c are float32.
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
