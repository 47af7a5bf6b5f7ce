import numpy as np
import pytest

from distsvc.models.support_vector.boundary.kernel_width import (
    automatic_gamma,
    density_gamma,
    parting_gamma,
)


def rows(n=400, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("c", [1e-3, 0.5, 1.1, 3.0, 1e4])
def test_it_follows_the_scale(c):
    gamma = automatic_gamma(rows())
    ratio = automatic_gamma(c * rows()) * c**2 / gamma
    assert ratio == pytest.approx(1.0, rel=1e-6) or abs(abs(np.log2(ratio)) - 0.5) < 1e-6


@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_the_kernel_is_wider_than_gaps_and_narrower_than_the_data(d):
    X = rows(d=d)
    sigma = 1.0 / np.sqrt(2.0 * automatic_gamma(X))
    distance = np.sort(np.linalg.norm(X[:, None] - X, axis=2), axis=1)
    assert np.median(distance[:, 1]) < sigma < np.median(distance[:, -1])


def test_an_offset_does_not_matter():
    assert automatic_gamma(rows() + 1e5) == pytest.approx(automatic_gamma(rows()), rel=1e-6)


def test_repeated_rows_count_once():
    X = rows(100)
    assert automatic_gamma(np.repeat(X, 5, axis=0)) == automatic_gamma(X)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_few_rows(n):
    assert 0.0 < automatic_gamma(rows(n)) < np.inf


def test_equal_rows_have_no_width():
    assert automatic_gamma(np.ones((10, 3))) == 1.0
    assert automatic_gamma(np.ones((1, 3))) == 1.0


# --- the width of a density estimate


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


@pytest.mark.parametrize("width", [automatic_gamma, density_gamma])
@pytest.mark.parametrize("far", [[[6.0, 0.0]], [[28.0, -28.0]], [[28.0, 0.0], [0.0, 28.0]]])
def test_far_rows_have_no_say(width, far):
    centres = np.arange(10)[:, None, None] * [0.5, 0.0]
    X = (centres + 0.02 * rows(40)).reshape(-1, 2)
    X = X[np.random.default_rng(1).permutation(len(X))]
    assert width(np.concatenate([X, far])) == pytest.approx(width(X), rel=0.01)


def test_kernels_that_part_points():
    points = np.array([[0.0, 0.0], [0.5, 0.0], [40.0, 1.0]])
    gamma = parting_gamma(points)
    assert np.exp(-gamma * 0.25**2) == pytest.approx(np.exp(-8.0))
    assert parting_gamma(np.repeat(points, 2, axis=0)) == gamma
    assert parting_gamma(points[:1]) == 1.0
    assert parting_gamma(1e-20 * points) < np.finfo(np.float32).max
