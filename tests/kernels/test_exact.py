import numpy as np
import pytest
from sklearn.svm import OneClassSVM

from distsvc.kernels.exact import coordinate_ascent, gram_matrix
from tests import reference


def rows(n, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def solve(K, bound, tolerance=1e-10, max_sweeps=100_000):
    a = np.zeros(len(K))
    return a, coordinate_ascent(K, a, bound, tolerance, max_sweeps)


@pytest.mark.parametrize("d", [1, 3, 8])
def test_twin_gram_matrix(d):
    X = rows(20, d)
    K = gram_matrix(X, 0.7)
    np.testing.assert_allclose(K, reference.gaussian(X, X, 0.7), rtol=1e-13)
    assert (K == K.T).all()
    assert (np.diag(K) == 1.0).all()


@pytest.mark.parametrize("bound", [0.02, 0.1, 5.0])
def test_twin_coordinate_ascent(bound):
    K = reference.gaussian(rows(40), rows(40), 2.0)
    a, _ = solve(K, bound)
    slow = reference.dual_optimum(K, bound)
    assert a.sum() - a @ K @ a / 2 == pytest.approx(slow.sum() - slow @ K @ slow / 2, rel=1e-7)
    np.testing.assert_allclose(K @ a, K @ slow, atol=1e-4)


@pytest.mark.parametrize("bound", [0.01, 0.1, 10.0])
def test_the_optimality_conditions_hold(bound):
    K = reference.gaussian(rows(150), rows(150), 1.0)
    a, sweeps = solve(K, bound, 1e-9)
    gradient = 1.0 - K @ a
    assert sweeps < 100_000
    assert a.min() >= 0.0
    assert a.max() <= bound
    assert gradient[a == 0.0].max(initial=-1.0) <= 1e-8
    assert gradient[a == bound].min(initial=1.0) >= -1e-8
    assert np.abs(gradient[(a > 0.0) & (a < bound)]).max(initial=0.0) <= 1e-8


@pytest.mark.parametrize("nu", [0.1, 0.3, 0.7])
def test_it_is_the_one_class_svm(nu):
    X = rows(200)
    svm = OneClassSVM(gamma=1.0, nu=nu, tol=1e-8).fit(X)
    C = 1.0 / (nu * svm.offset_[0] / (nu * len(X)))
    K = gram_matrix(X, 1.0)
    a, _ = solve(K, C / len(X))
    np.testing.assert_allclose(K @ a - 1.0, svm.decision_function(X) / svm.offset_[0], atol=1e-5)


def test_a_warm_start_ends_at_the_same_place():
    K = gram_matrix(rows(80), 0.5)
    cold, _ = solve(K, 0.1)
    warm = np.random.default_rng(0).uniform(0, 0.1, 80)
    coordinate_ascent(K, warm, 0.1, 1e-10, 100_000)
    np.testing.assert_allclose(K @ warm, K @ cold, atol=1e-7)


def test_the_number_of_sweeps_is_limited():
    a, sweeps = solve(gram_matrix(rows(50), 0.1), 1.0, 1e-12, 3)
    assert sweeps == 3
    assert a.sum() > 0.0


def test_one_row():
    assert solve(np.ones((1, 1)), 5.0)[0].tolist() == [1.0]
    assert solve(np.ones((1, 1)), 0.5)[0].tolist() == [0.5]
