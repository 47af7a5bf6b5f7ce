import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from distsvc.kernels.training import coordinate_ascent, gram_matrix
from distsvc.models.support_vector.boundary.stochastic_gradient import (
    StochasticGradient,
)
from tests.normal_rows import normal

LOADERS = {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer}


def bundled(name):
    return StandardScaler().fit_transform(LOADERS[name]().data)


def penalty(X, gamma, nu):
    """C = 1 / (nu rho), and f of scikit-learn's solution on that scale."""
    svm = OneClassSVM(gamma=gamma, nu=nu, tol=1e-8).fit(X)
    return len(X) / svm.offset_[0], svm.decision_function(X) / svm.offset_[0]


def optimum(X, gamma, C):
    K, a = gram_matrix(X, gamma), np.zeros(len(X))
    coordinate_ascent(K, a, C / len(X), 1e-9, 100_000)
    return a @ K @ a / 2 + C * np.maximum(0.0, 1.0 - K @ a).mean(), K @ a - 1.0


def trained(X, gamma, C, epochs=50, **kwargs):
    Z, rng = X.astype(np.float32), np.random.default_rng(0)
    descent = StochasticGradient(X.shape[1], gamma, C, **kwargs)
    for epoch in range(epochs):
        descent.feed(np.ascontiguousarray(Z[rng.permutation(len(Z))]))
        if epoch == 0:
            descent.forget_average()
    return descent


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_without_a_budget_the_objective_nears_the_optimum(name, nu):
    X = bundled(name)
    gamma = 0.5 / X.shape[1]
    C, _ = penalty(X, gamma, nu)
    best = optimum(X, gamma, C)[0]
    found = trained(X, gamma, C).objective(X.astype(np.float32))
    assert (1 - 1e-5) * best <= found <= 1.01 * best


@pytest.mark.parametrize("skipped", [0, 40])
def test_the_average_is_the_mean_of_all_iterates(skipped):
    X = np.tile(normal(40, 2), (3, 1))
    last, mean = StochasticGradient(2, 0.7, 6.0), StochasticGradient(2, 0.7, 6.0, average=True)
    total = np.zeros(40)
    for t, x in enumerate(X, 1):
        last.feed(x[None])
        mean.feed(x[None])
        if t == skipped:
            mean.forget_average()
        if t > skipped:
            total[: last.n_vectors] += last.coefficients
    expected = total[: last.n_vectors] / (120 - skipped)
    np.testing.assert_allclose(mean.coefficients, expected, rtol=1e-10, atol=1e-14)
