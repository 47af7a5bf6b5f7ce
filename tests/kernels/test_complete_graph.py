import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from distsvc.kernels.complete_graph import spanning_forest
from tests import reference

LEVEL = np.float32(1.0 - 1e-5)


def model(d, b, n, seed, gamma):
    """A function with several components, and vertices inside it."""
    rng = np.random.default_rng(seed)
    S = rng.normal(scale=2.0, size=(d, b)).astype(np.float32)
    a = rng.uniform(0.5, 1.5, b).astype(np.float32)
    near = S.T[rng.integers(b, size=4 * n)] + rng.normal(scale=0.7, size=(4 * n, d))
    V = near.astype(np.float32)
    sums = reference.weighted_sums(V, S, a, gamma)
    a /= np.float32(np.quantile(sums, 0.6))
    return V[reference.weighted_sums(V, S, a, gamma) >= 1.0][:n], S, a


def no_pairs():
    return np.zeros((0, 2), np.int64)


def one_box(V):
    """A tree whose only box holds all vertices."""
    first, last = np.zeros(1, np.int64), np.array([len(V)])
    return V, first, last, np.full(1, -1), V.min(axis=0)[None], V.max(axis=0)[None]


def boxes(V, leaf):
    """A tree of boxes whose halves are cut at the middle of the features in turn."""
    V, rows = V.copy(), [(0, len(V), 0)]
    child = []
    for i, j, k in rows:
        child.append(-1)
        if j - i > leaf:
            V[i:j] = V[i:j][np.argsort(V[i:j, k])]
            child[-1] = len(rows)
            middle, after = (i + j) // 2, (k + 1) % V.shape[1]
            rows += [(i, middle, after), (middle, j, after)]
    low = np.array([V[i:j].min(axis=0) for i, j, _ in rows])
    high = np.array([V[i:j].max(axis=0) for i, j, _ in rows])
    first, last = np.array(rows)[:, :2].T.copy()
    return V, first, last, np.array(child), low, high


def parts(forest, n):
    graph = coo_array((np.ones(len(forest)), tuple(forest.T)), shape=(n, n))
    label = connected_components(graph, directed=False)[1]
    return {frozenset(np.flatnonzero(label == k).tolist()) for k in np.unique(label)}


def expected(V, S, a, gamma, samples):
    label = reference.complete_graph(V, S, a, gamma, samples, LEVEL)
    return {frozenset(np.flatnonzero(label == k).tolist()) for k in np.unique(label)}


def rows_of(V, components):
    """Components as sets of rows, which do not depend on the rows' order."""
    return {frozenset(V[i].tobytes() for i in component) for component in components}


@pytest.mark.parametrize("gamma", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("d", [1, 2, 6])
@pytest.mark.parametrize("seed", range(3))
def test_components_are_those_of_all_pairs(d, gamma, seed):
    V, S, a = model(d, 25, 90, seed, gamma)
    slow = rows_of(V, expected(V, S, a, gamma, 20))
    assert len(slow) > 1 or gamma < 8.0 or d == 1
    random_pairs = np.random.default_rng(0).integers(len(V), size=(60, 2))
    for ranked, *tree in (one_box(V), boxes(V, 1), boxes(V, 5)):
        for near in (no_pairs(), random_pairs):
            forest = spanning_forest(ranked, near, *tree, S, a, gamma, 20, LEVEL)
            found = parts(forest, len(V))
            assert len(forest) == len(V) - len(found)
            assert rows_of(ranked, found) == slow


@pytest.mark.parametrize("samples", [1, 2, 9, 20])
def test_twin_spanning_forest(samples):
    V, S, a = model(2, 12, 40, 1, 8.0)
    V, *tree = boxes(V, 4)
    near = np.array([[0, 1], [5, 2], [3, 3]])
    found = spanning_forest(V, near, *tree, S, a, 8.0, samples, LEVEL)
    plain = reference.plain(spanning_forest)(V, near, *tree, S, a, 8.0, samples, LEVEL)
    np.testing.assert_array_equal(found, plain)
    slow = expected(V, S, a, 8.0, samples)
    assert 1 < len(slow) < len(V) or samples == 1
    assert parts(found, len(V)) == slow


def test_far_boxes_are_not_joined():
    rng = np.random.default_rng(0)
    V = rng.normal(scale=0.1, size=(64, 2)).astype(np.float32)
    V[32:, 0] += 20.0
    S, a = np.array([[0.0, 20.0], [0.0, 0.0]], np.float32), np.full(2, 2.0, np.float32)
    V, *tree = boxes(V, 8)
    forest = spanning_forest(V, no_pairs(), *tree, S, a, 1.0, 20, LEVEL)
    assert len(parts(forest, 64)) == 2
    assert len(forest) == 62


def test_large_coordinates_do_not_make_the_bound_wrong():
    V, S, a = model(2, 25, 90, 5, 0.5)
    V, S = V + np.float32(1000.0), S + np.float32(1000.0)
    V, *tree = boxes(V, 2)
    forest = spanning_forest(V, no_pairs(), *tree, S, a, 0.5, 20, LEVEL)
    whole = one_box(V)
    slow = spanning_forest(V, no_pairs(), *whole[1:], S, a, 0.5, 20, LEVEL)
    assert parts(forest, len(V)) == parts(slow, len(V))


def test_one_vertex_has_no_edges():
    V = np.zeros((1, 2), np.float32)
    S, a = np.zeros((2, 1), np.float32), np.ones(1, np.float32)
    assert spanning_forest(V, no_pairs(), *one_box(V)[1:], S, a, 1.0, 20, LEVEL).shape == (0, 2)
