import numpy as np
import pytest

from distsvc.kernels.nearness import log_nearness
from tests import reference
from tests.normal_rows import normal

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
