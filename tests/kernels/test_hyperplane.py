"""Steps of `learn` beside those of its slow twin, or worked out by hand."""

import math

import numpy as np
import pytest

from distsvc.kernels.hyperplane import bandwidth_decays, learn
from tests import reference
from tests.kernels.hyperplane_trees import (
    DECAYS,
    NEVER,
    SETTINGS,
    Tree,
    assert_close,
    one_node,
    rows,
    two_clusters,
)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("d", [1, 2, 7])
@reference.forms(learn)
def test_twin_learn_row_by_row(form, d, settings):
    # both start again from the same nodes at every row, so that nothing adds up
    X, _ = two_clusters(150, d, seed=d)
    tree = Tree(7, d)
    for x in X:
        twin = tree.twin()
        (gap,) = twin.feed(x[None], reference.learn, **settings)
        tree.feed(x[None], form, **settings)
        assert gap > 2e-5, "the test's data leave the path to rounding"
        assert_close(tree, twin, 3e-6)


@reference.forms(learn)
def test_twin_learn_many_features(form):
    X, _ = two_clusters(12, 784, seed=0, apart=40.0)
    tree = Tree(7, 784)
    for x in X:
        twin = tree.twin()
        assert twin.feed(x[None], reference.learn)[0] > 1e-4
        tree.feed(x[None], form)
        assert_close(tree, twin, 3e-6)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("d", [1, 2, 7])
@reference.forms(learn)
def test_twin_learn_many_rows(form, d, settings):
    X, _ = two_clusters(60, d, seed=10 + d, apart=10.0)
    tree = Tree(3, d)
    twin = tree.twin()
    gaps = twin.feed(X, reference.learn, **settings)
    assert gaps.min() > 1e-3
    tree.feed(X, form, **settings)
    assert_close(tree, twin, 2e-5)


@reference.forms(learn)
def test_twin_one_step_by_hand(form):
    x = np.array([[5.0, 8.0]], np.float32)
    settings = {"alpha": 0.5, "penalty": 0.1, "bandwidth": 4**0.2 * 2 / 3}
    tree = one_node(mean=(1.0, 0.0), b=5.0, variance=9.0, visits=2)
    twin = tree.twin()
    tree.feed(x, form, **settings)
    twin.feed(x, reference.learn, **settings)
    # t = 3; mean (2, 2); x - mean = (3, 6); p = 3; variance (3 * 9 + 9) / 4 = 9; sigma = 3; h = 2
    # g = (5 - 3) / 2^3 exp(-2^2 / (2 * 2^2)); penalty 2 * 0.1 * (5 - 0.5 * 3)
    g = 0.15163266492815836
    v = np.array([1 - math.sqrt(2) * g * 3 / 4, -math.sqrt(2) * g * 6 / 4])
    for found, tolerance in ((tree, 1e-6), (twin, 1e-14)):
        np.testing.assert_array_equal(found.means[0], [2.0, 2.0])
        np.testing.assert_allclose(found.V[0], v / math.hypot(*v), rtol=tolerance)
        np.testing.assert_allclose(found.b[0], 5 + g / 4 - 0.7 / 4, rtol=tolerance)
        assert found.variances[0] == 9.0
        # the row's p is now 0.65: below b
        assert found.visits.tolist() == [3, 1, 0]
        np.testing.assert_array_equal(found.means[1], [2.5, 4.0])
    tree = one_node(mean=(1.0, 0.0), b=5.0, variance=9.0, visits=2)
    tree.feed(x, form, clip=2.0, **settings)
    assert tree.b[0] == 3.0


@reference.forms(learn)
def test_twin_a_first_row(form):
    # t = 1; mean (3, 4) / 2; p = 1.5; variance (0 + 1.5^2) / 2; b = 0 has no penalty
    tree = one_node()
    tree.feed(np.array([[3.0, 4.0]], np.float32), form)
    h = 1.5 / math.sqrt(2) * 2**-0.2
    g = -1.5 / h**3 * math.exp(-(1.5**2) / (2 * h**2))
    v = np.array([1.0, 0.0]) - math.sqrt(2) * g / 2 * np.array([1.5, 2.0])
    np.testing.assert_allclose(tree.V[0], v / math.hypot(*v), rtol=1e-6)
    assert tree.variances[0] == 1.125
    assert tree.b[0] == pytest.approx(g / 2, rel=1e-6)
    assert tree.visits.tolist() == [1, 0, 1]


@pytest.mark.parametrize("d", [2, 784])
@reference.forms(learn)
def test_twin_a_direction_without_variance_becomes_the_row_s(form, d):
    X = rows(20, d)
    X[:, 0] = 0.0
    tree = Tree(3, d)
    tree.feed(X[:1], form)
    direction = X[0].astype(np.float64) / np.linalg.norm(X[0].astype(np.float64))
    np.testing.assert_allclose(tree.V[0], direction, atol=3e-7)
    assert tree.b[0] == tree.variances[0] == 0.0
    assert tree.visits.tolist() == [1, 0, 1]  # p > 0 = b
    for x in X[1:]:
        twin = tree.twin()
        assert twin.feed(x[None], reference.learn)[0] > 1e-5
        tree.feed(x[None], form)
        assert_close(tree, twin, 3e-6)
    assert tree.variances[0] > 0.0


@reference.forms(learn)
def test_twin_a_direction_loses_its_variance_relative_to_the_mean(form):
    tree = one_node(mean=(1.0, 1.0), visits=1)
    tree.feed(np.array([[1.0, 4.0]], np.float32), form)
    np.testing.assert_allclose(tree.V[0], [0.0, 1.0], atol=1e-7)
    np.testing.assert_array_equal(tree.means[0], [1.0, 2.0])


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6])
@reference.forms(learn)
def test_twin_normals_of_small_and_large_rows(form, scale):
    tree = Tree(7, 3)
    for x in rows(40, 3) * np.float32(scale):
        twin = tree.twin()
        twin.feed(x[None], reference.learn)
        tree.feed(x[None], form)
        np.testing.assert_array_equal(tree.visits, twin.visits)
        np.testing.assert_allclose(tree.V, twin.V, atol=3e-6)
        np.testing.assert_allclose(tree.b, twin.b, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("b", [0.0, 0.4, -0.4])
@reference.forms(learn)
def test_twin_rows_at_the_mean_turn_nothing(form, b):
    mean = np.float32([0.5, -1.25])
    tree = one_node(v=(0.6, 0.8), mean=mean, b=b, variance=1.0, visits=4)
    tree.feed(mean[None], form)
    np.testing.assert_allclose(tree.V[0], [0.6, 0.8], rtol=1e-7)
    np.testing.assert_array_equal(tree.means[0], mean)
    # t = 5; p = 0, so that g = b / h^3 exp(-b^2 / 2 h^2); |b| < alpha sigma
    variance = 5 / 6
    h = math.sqrt(variance) * 6**-0.2
    assert tree.variances[0] == pytest.approx(variance, rel=1e-12)
    expected = b + b / h**3 * math.exp(-(b**2) / (2 * h**2)) / 6
    assert tree.b[0] == pytest.approx(expected, rel=1e-12)
    assert tree.visits.tolist() == ([5, 1, 0] if b > 0.0 else [5, 0, 1])


def test_decays_that_are_looked_up_are_those_that_are_computed():
    np.testing.assert_allclose(DECAYS, np.arange(1.0, 31.0) ** -0.4, rtol=1e-14)
    reference.plain(bandwidth_decays)(found := np.empty(30))
    np.testing.assert_allclose(found, DECAYS, rtol=1e-14)
    dumps = set()
    for known in (DECAYS[:1], DECAYS, np.empty(0)):
        tree = Tree(15, 3)
        learn(rows(200, 3), *tree.arrays, 0.5, 10.0, 1.0, NEVER, 5.0, known)
        dumps.add(tree.dump())
    assert len(dumps) == 1
