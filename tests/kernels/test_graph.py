import numpy as np
import pytest
from scipy.sparse import random_array

from distsvc.kernels.graph import walk_on


@pytest.mark.parametrize("density", [0.0, 0.02, 0.3])
def test_twin_walk_on(density):
    m, random = 60, np.random.default_rng(0)
    W = random_array((m, m), density=density, rng=random).astype(np.float32).tocsr()
    X, Z = random.normal(size=(2, m, 33)).astype(np.float32)
    expected = 0.5 * (W @ X) + 2.0 * X - 3.0 * Z
    factors = map(np.float32, (0.5, 2.0, 3.0))
    walk_on(W.data, W.indices.astype(np.int64), W.indptr.astype(np.int64), X, Z, *factors)
    assert pytest.approx(expected, rel=1e-5, abs=1e-5) == Z
