import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.kernels.nearest import log_nearness, nearest_point, set_nearest
from tests import reference
from tests.normal_rows import normal, rows


def cells(points, width, seed=None):
    """Points in cells of at most `width`: by their first feature, or at random."""
    m, d = points.shape
    order = points[:, 0].argsort(kind="stable")
    if seed is not None:
        order = np.random.default_rng(seed).permutation(m)
    groups = [np.sort(order[i : i + width]) for i in range(0, m, width)]
    P = np.full((len(groups), d, width), np.inf, np.float32)
    numbers = np.zeros((len(groups), width), np.int32)
    for c, group in enumerate(groups):
        P[c, :, : group.size] = points[group].T
        numbers[c, : group.size] = group
    low = np.array([points[g].min(axis=0) for g in groups]).T.copy()
    high = np.array([points[g].max(axis=0) for g in groups]).T.copy()
    return P, numbers, np.arange(len(groups), dtype=np.int32), low, high


@pytest.mark.parametrize("d", [1, 2, 5, 10])
@pytest.mark.parametrize("m", [1, 3, 8, 9, 40])
@pytest.mark.parametrize("seed", [None, 1])
def test_twin_nearest_point(d, m, seed):
    points, X = rows(m, d, seed=m), rows(50, d)
    found = nearest_point(X, *cells(points, 8, seed))
    assert found.dtype == np.int32
    assert found.tolist() == reference.nearest_point(X, points).tolist()


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 60), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_of_equally_near_points_the_first(m, width, seed):
    # a coarse grid: distances are exact, and many are equal
    rng = np.random.default_rng(seed)
    points = rng.integers(-2, 3, (m, 2)).astype(np.float32)
    X = rng.integers(-3, 4, (20, 2)).astype(np.float32)
    found = nearest_point(X, *cells(points, width, seed))
    assert found.tolist() == reference.nearest_point(X, points).tolist()


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 20), st.integers(1, 9), st.floats(0.0, 18.0))
def test_padding_is_never_nearest(m, width, magnitude):
    X = rows(10) * np.float32(10.0**magnitude)
    P, numbers, *rest = cells(rows(m, seed=m), width)
    numbers[np.isinf(P[:, 0])] = -1
    found = nearest_point(X, P, numbers, *rest)
    assert found.min() >= 0
    assert found.max() < m


def test_outliers_and_offsets():
    points = np.concatenate([rows(100, 3), rows(5, 3, spread=1e6)]) + np.float32(1000.0)
    X = np.concatenate([rows(30, 3, seed=1), rows(30, 3, seed=2, spread=1e6)]) + np.float32(1000.0)
    found = nearest_point(X, *cells(points, 8))
    gap = [np.linalg.norm(np.float64(points) - x, axis=1) for x in np.float64(X)]
    chosen = [g[j] for g, j in zip(gap, found, strict=True)]
    np.testing.assert_allclose(chosen, [g.min() for g in gap], rtol=1e-6)


def test_a_distance_that_overflows_still_gives_a_point():
    X = np.full((1, 2), 3e38, np.float32)
    assert nearest_point(X, *cells(rows(3), 8)).tolist() == [0]


@pytest.mark.parametrize("kernel", [set_nearest, reference.plain(set_nearest)])
@pytest.mark.parametrize(("m", "k"), [(300, 1), (300, 4), (300, 60), (40, 39), (12, 11)])
@pytest.mark.parametrize("order", [None, 0])
def test_the_nearest_others_in_any_order_of_rows(kernel, m, k, order):
    # of whole numbers, so that many distances are equal
    X = np.random.default_rng(0).integers(0, 4, size=(m, 3)).astype(float)
    X = X[np.argsort(X[:, 0])] if order is None else X
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    squares, numbers = np.empty((5, k)), np.empty((5, k), np.int64)
    kernel(X.astype(np.float32), X, 7, squares, numbers)
    for i in range(5):
        others = [j for j in np.argsort(D[i + 7], kind="stable") if j != i + 7]
        assert numbers[i].tolist() == others[:k]
        assert squares[i].tolist() == D[i + 7, others[:k]].tolist()


@pytest.mark.parametrize("d", [1, 7, 40])
def test_distances_that_differ_in_the_last_bits_are_told_apart(d):
    # of 200 rows at a distance of 1, up to 1e-6, from the first
    random = np.random.default_rng(d)
    X = random.normal(size=(201, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    X[1:] *= 1.0 + 1e-6 * random.uniform(size=(200, 1))
    X[0] = 0.0
    X = X.astype(np.float32).astype(float)
    squares, numbers = np.empty((1, 9)), np.empty((1, 9), np.int64)
    set_nearest(X.astype(np.float32), X, 0, squares, numbers)
    expected = (X[1:] ** 2).sum(axis=1)
    np.testing.assert_allclose(squares[0], np.sort(expected)[:9], rtol=1e-15)


both = pytest.mark.parametrize("kernel", [log_nearness, reference.plain(log_nearness)])


@both
def test_nearness_counts_ties_and_leaves_a_point_out_once(kernel):
    P = np.array([[0.0, 0.0, 1.0, 1.0, 1.0, 4.0]], np.float32)
    X = np.array([[0.0], [2.0], [-1.0], [1e30]], np.float32)
    found = np.empty(4)
    kernel(X, P, 2, np.float32(0.25), found)
    # From 0: itself, then 0 and 1. From 2: 1 and 1. From -1: 0 and 0.
    np.testing.assert_allclose(np.exp(-2.0 * found[:3]), [0.5, 1.0, 1.0], rtol=1e-6)
    assert found[3] == -np.inf  # its squared distances are beyond float32
    kernel(X[:1], P, 1, np.float32(0.25), found[:1])
    assert np.exp(-found[0]) == pytest.approx(0.5)  # another row lies on it: `least` counts
    kernel(np.array([[np.nan]], np.float32), P, 4, np.float32(0.25), found[:1])
    assert np.isnan(found[0])


@both
@pytest.mark.parametrize(("m", "k"), [(6, 1), (6, 4), (64, 4), (65, 1), (300, 35), (300, 299)])
def test_nearness_whichever_points_are_near(kernel, m, k):
    X, P = np.round(normal(60, 3, seed=1)), normal(3, m)
    P[:, 1 : m // 2] = np.round(P[:, 1 : m // 2])
    X[:2] = P[:, :2].T
    found = np.empty(60)
    kernel(X, P, k, np.float32(1e-9), found)
    squares = np.sort(((X[:, None] - P.T.astype(np.float64)) ** 2).sum(axis=2), axis=1)
    on_point = (squares[:, 0] == 0.0).astype(int)
    expected = np.array([own[a : a + k].mean() for own, a in zip(squares, on_point, strict=True)])
    np.testing.assert_allclose(found, -0.5 * np.log(np.maximum(expected, 1e-9)), atol=2e-3)


@both
def test_nearness_of_rows_whose_distances_span_many_magnitudes(kernel):
    P = np.ldexp(np.ones((1, 40), np.float32), np.arange(40) - 20)
    found = np.empty(33)
    kernel(np.zeros((33, 1), np.float32), P, 3, np.float32(1e-30), found)
    expected = -0.5 * np.log(np.mean(4.0 ** np.arange(-20, -17)))
    np.testing.assert_allclose(found, expected, atol=2e-3)
