"""The lower bound of the one-class SVM's optimum, against problems solved by hand."""

import numpy as np
import pytest

from benchmarks.methods.linear import lower_bound
from distsvc import LinearOneClassSVM


def test_the_bound_is_the_optimum_along_the_optimal_normal():
    X = np.array([[1.0, 1.0], [1.0, -1.0], [5.0, 3.0], [7.0, -2.0]])
    # with nu = 1/2 two rows share the weights, so the optimum is their mean (1, 0)
    assert lower_bound(X, np.array([3.0, 0.0]), 0.5) == pytest.approx(0.5)
    assert 0.0 < lower_bound(X, np.array([3.0, 1.0]), 0.5) < 0.5
    assert lower_bound(X, np.array([-1.0, 0.0]), 0.5) == 0.0
    assert lower_bound(X, np.zeros(2), 0.5) == 0.0


@pytest.mark.parametrize("nu", [0.05, 0.123, 0.5])
def test_no_normal_has_a_bound_above_the_objective(nu):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)) + 2.0
    model = LinearOneClassSVM(nu, tol=1e-10, max_iter=10_000).fit(X)
    (normal,) = model.coef_
    assert lower_bound(X, normal, nu) == pytest.approx(model.objective_, rel=1e-6)
    for w in normal + 0.1 * rng.normal(size=(20, 4)):
        assert lower_bound(X, w, nu) <= model.objective_ * (1.0 + 1e-9)
