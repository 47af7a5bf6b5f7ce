import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from distsvc.kernels.boundary import (
    ball_centres,
    climb,
    lowest_on_segments,
    merge_neighbours,
    spanning_forest,
)
from tests import reference

GAMMA = 0.5  # sigma = 1


def model(d=2, b=20, seed=0, spread=2.0):
    rng = np.random.default_rng(seed)
    S = rng.normal(scale=spread, size=(d, b)).astype(np.float32)
    return S, rng.uniform(0.1, 1.0, b).astype(np.float32)


def starts(n, d=2, seed=1, spread=2.5):
    return np.random.default_rng(seed).normal(scale=spread, size=(n, d)).astype(np.float32)


@pytest.mark.parametrize("steps", [0, 1, 2, 7])
@pytest.mark.parametrize("d", [1, 2, 6])
def test_twin_climb_step_by_step(d, steps):
    (S, a), X = model(d), starts(10, d)
    found = climb(X, S, a, GAMMA, 0.0, steps)
    np.testing.assert_allclose(found, reference.climb(X, S, a, GAMMA, 0.0, steps), atol=2e-5)


@pytest.mark.parametrize("gamma", [0.05, 0.5, 5.0])
def test_twin_climb_to_the_end(gamma):
    (S, a), X = model(), starts(10)
    found = climb(X, S, a, gamma, 1e-4, 1000)
    slow = reference.climb(X, S, a, gamma, 1e-6, 3000)
    np.testing.assert_allclose(found, slow, atol=5e-3 / np.sqrt(2 * gamma))


@pytest.mark.parametrize("d", [1, 2, 7])
def test_far_starts_go_where_their_nearest_vector_goes(d):
    # well separated vectors, so that the nearest one alone decides
    S = (np.eye(d, 4) * 30.0 + np.arange(4) * 12.0).astype(np.float32)
    a = np.ones(4, np.float32)
    X = starts(50, d)
    X *= np.float32(1e3) / np.linalg.norm(X, axis=1, keepdims=True)
    nearest = S.T[reference.nearest_point(X, S.T)].copy()
    found = climb(X, S, a, GAMMA, 1e-4, 1000)
    assert np.isfinite(found).all()
    modes = climb(nearest, S, a, GAMMA, 1e-4, 1000)
    np.testing.assert_allclose(found, modes, atol=1e-3)


def test_starts_are_left_alone():
    (S, a), X = model(), starts(5)
    kept = X.copy()
    climb(X, S, a, GAMMA, 1e-4, 10)
    np.testing.assert_array_equal(X, kept)


@pytest.mark.parametrize("d", [1, 2, 7])
@pytest.mark.parametrize("radius", [0.2, 0.9, 4.0, 50.0])
def test_twin_ball_centres(d, radius):
    X = np.random.default_rng(d).normal(size=(150, d)).astype(np.float32)
    slow = reference.ball_centres(X, radius)
    assert ball_centres(X, radius).tolist() == slow.tolist()
    assert reference.plain(ball_centres)(X, radius).tolist() == slow.tolist()
    assert slow[0] == 0


def test_a_row_at_the_radius_is_not_absorbed_and_an_equal_one_is():
    X = np.array([[0.0], [2.0], [0.0], [1.5], [2.0]], np.float32)
    assert ball_centres(X, 2.0).tolist() == [0, 1]
    assert ball_centres(X, 1.0).tolist() == [0, 1]
    assert ball_centres(X, 0.25).tolist() == [0, 1, 3]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("radius", [0.3, 1.0, 3.0])
def test_twin_merge_neighbours(seed, radius):
    rng = np.random.default_rng(seed)
    P = rng.normal(scale=2.0, size=(50, 2)).astype(np.float32)
    arrived = rng.random(50) < 0.3
    slow = reference.merge_neighbours(P, arrived, radius)
    assert merge_neighbours(P, arrived, radius).tolist() == slow.tolist()
    assert reference.plain(merge_neighbours)(P, arrived, radius).tolist() == slow.tolist()
    assert (slow[slow] == slow).all()


def segments(d=2, b=25, m=12, seed=0):
    rng = np.random.default_rng(seed)
    S = rng.normal(scale=2.0, size=(d, b)).astype(np.float32)
    E = rng.normal(scale=2.0, size=(m, d)).astype(np.float32)
    pairs = np.array([(i, j) for i in range(m) for j in range(i)])
    return E, pairs, S, rng.uniform(0.1, 1.0, b).astype(np.float32)


@pytest.mark.parametrize("samples", [1, 2, 3, 20, 21])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_twin_lowest_on_segments(d, samples):
    E, pairs, S, a = segments(d)
    found = lowest_on_segments(E, pairs, S, a, 0.4, samples, -np.float32(np.inf))
    slow = reference.lowest_on_segments(E, pairs, S, a, 0.4, samples)
    np.testing.assert_allclose(found, slow, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("samples", [1, 4, 20])
def test_the_search_may_end_early_but_only_below_the_level(samples):
    E, pairs, S, a = segments()
    whole = lowest_on_segments(E, pairs, S, a, 0.4, samples, -np.float32(np.inf))
    level = np.float32(np.median(whole))
    early = lowest_on_segments(E, pairs, S, a, 0.4, samples, level)
    assert (early[whole >= level] == whole[whole >= level]).all()
    assert (early[whole < level] < level).all()
    assert (early >= whole).all()


def test_the_middle_is_tested_first():
    # two modes 8 sigma apart: the middle is the lowest place of all
    S = np.array([[-4.0, 4.0], [0.0, 0.0]], np.float32)
    a, E, pairs = np.ones(2, np.float32), S.T.copy(), np.array([[0, 1]])
    first_low = lowest_on_segments(E, pairs, S, a, 0.5, 21, np.float32(1.0))
    np.testing.assert_allclose(first_low, 2 * np.exp(-8.0), rtol=1e-5)


LEVEL = np.float32(1.0 - 1e-5)


def inside(d, b, n, seed, gamma):
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
    V, S, a = inside(d, 25, 90, seed, gamma)
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
    V, S, a = inside(2, 12, 40, 1, 8.0)
    V, *tree = boxes(V, 4)
    near = np.array([[0, 1], [5, 2], [3, 3]])
    found = spanning_forest(V, near, *tree, S, a, 8.0, samples, LEVEL)
    plain = reference.plain(spanning_forest)(V, near, *tree, S, a, 8.0, samples, LEVEL)
    np.testing.assert_array_equal(found, plain)
    slow = expected(V, S, a, 8.0, samples)
    assert 1 < len(slow) < len(V) or samples == 1
    assert parts(found, len(V)) == slow


def test_large_coordinates_do_not_make_the_bound_wrong():
    V, S, a = inside(2, 25, 90, 5, 0.5)
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
