import numpy as np
import pytest

from distsvc.models.support_vector.boundary.kernel_width import (
    automatic_gamma,
    density_gamma,
    parting_gamma,
)


def rows(n=400, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_repeated_rows_count_once():
    X = rows(100)
    assert automatic_gamma(np.repeat(X, 5, axis=0)) == automatic_gamma(X)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_gamma_of_few_rows(n):
    assert 0.0 < automatic_gamma(rows(n)) < np.inf


def test_gamma_of_equal_rows_is_1():
    assert automatic_gamma(np.ones((10, 3))) == 1.0
    assert automatic_gamma(np.ones((1, 3))) == 1.0


@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_a_density_estimates_kernel_is_bounded_by_the_fifth_neighbours(d):
    X = rows(d=d)
    squared = ((X[:, None] - X) ** 2).sum(axis=2)
    fifth = np.median(np.sqrt(np.sort(squared, axis=1)[:, 5]))
    most = 1.0 / (2.0 * (0.6 * fifth) ** 2)
    assert most * 2.0**-12 < density_gamma(X) <= most * (1.0 + 1e-6)


def test_a_density_estimates_kernel_follows_the_likelihood():
    X = rows(300)
    squared = ((X[:, None] - X) ** 2).sum(axis=2)
    squared = np.sort(squared, axis=1)[:, 1:65]
    gammas = density_gamma(X) * 2.0 ** np.array([-0.5, 0.0, 0.5])
    likelihood = [np.log(np.exp(-g * squared).sum(axis=1) * g).mean() for g in gammas]
    assert max(likelihood) == likelihood[1]
    assert density_gamma(X) == density_gamma(np.repeat(X, 3, axis=0))
    assert density_gamma(np.ones((10, 3))) == density_gamma(np.ones((1, 3))) == 1.0


def test_parting_gamma_by_hand():
    points = np.array([[0.0, 0.0], [0.5, 0.0], [40.0, 1.0]])
    gamma = parting_gamma(points)
    assert np.exp(-gamma * 0.25**2) == pytest.approx(np.exp(-8.0))
    assert parting_gamma(np.repeat(points, 2, axis=0)) == gamma
    assert parting_gamma(points[:1]) == 1.0
    assert parting_gamma(1e-20 * points) < np.finfo(np.float32).max
