"""What holds of trees that learned from many rows."""

import math

import numpy as np
import pytest

from tests.kernels.hyperplane_trees import NEVER, SETTINGS, STATE, Tree, rows, two_clusters


@pytest.mark.parametrize("d", [1, 2, 5, 30])
def test_normals_stay_unit_vectors(d):
    tree = Tree(7, d)
    for seed in range(50):
        tree.feed(rows(4000, d, seed))
        np.testing.assert_allclose(tree.norms, 1.0, atol=1e-5)
    assert tree.visits[0] == 200_000


@pytest.mark.parametrize("d", [1, 2, 784])
def test_means_count_one_observation_at_zero(d):
    X = rows(2000, d) + np.float32(3.0)
    tree = Tree(7, d)
    for t in range(1, 21):
        tree.feed(X[t - 1 : t])
        expected = X[:t].astype(np.float64).sum(axis=0) / (t + 1)
        np.testing.assert_allclose(tree.means[0], expected, atol=1e-6)
    tree.feed(X[20:])
    expected = X.astype(np.float64).sum(axis=0) / 2001
    np.testing.assert_allclose(tree.means[0], expected, atol=1e-5)


def test_the_variance_counts_one_projection_at_zero():
    # with one feature and b = 0, v stays along it, and only its sign changes
    X = rows(300, 1) + np.float32(2.0)
    tree, total = Tree(3, 1), 0.0
    for t, x in enumerate(X, 1):
        tree.feed(x[None], alpha=0.0)
        total += float(x[0] - X[:t].astype(np.float64).sum() / (t + 1)) ** 2
        assert tree.variances[0] == pytest.approx(total / (t + 1), rel=1e-4)


def test_bottom_nodes_have_means_and_visits_only():
    d, X = 3, rows(3000, 3)
    tree, new = Tree(15, d), Tree(15, d)
    sums = np.zeros((15, d))
    for x in X:
        before = tree.visits.copy()
        tree.feed(x[None])
        path = np.flatnonzero(tree.visits - before)
        assert len(path) == 4
        assert (path[:-1] == (path[1:] - 1) // 2).all()
        sums[path] += x
    np.testing.assert_array_equal(tree.V[7:], new.V[7:])
    assert not tree.b[7:].any()
    assert not tree.variances[7:].any()
    assert (tree.visits[7:] > 0).all()
    np.testing.assert_array_equal(tree.visits[:7], tree.visits[1::2] + tree.visits[2::2])
    np.testing.assert_allclose(tree.means, sums / (tree.visits[:, None] + 1), atol=1e-5)


def test_a_tree_of_one_node_has_a_mean():
    tree = Tree(1, 2)
    tree.feed(np.array([[1.0, 2.0], [5.0, 4.0]], np.float32))
    np.testing.assert_array_equal(tree.means, [[2.0, 2.0]])
    assert tree.visits.tolist() == [2]
    assert tree.b[0] == tree.variances[0] == 0.0


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("d", [1, 3, 784])
def test_the_cut_into_blocks_does_not_matter(d, settings):
    X = rows(1500, d)
    whole, cut, again = Tree(15, d), Tree(15, d), Tree(15, d)
    whole.feed(X, **settings)
    for part in np.split(X, [0, 1, 2, 77, 1030, 1499]):
        cut.feed(part, **settings)
    assert cut.dump() == whole.dump()
    again.feed(X, **settings)
    assert again.dump() == whole.dump()


def test_rows_are_left_alone():
    X = rows(100)
    kept = X.copy()
    Tree(7, 2).feed(X)
    np.testing.assert_array_equal(X, kept)


def test_forgetting_follows_a_stream_that_moves():
    X = np.concatenate([two_clusters(4000, 2, seed=0)[0], two_clusters(4000, 2, seed=1)[0]])
    X[4000:] += np.float32([20.0, -5.0])
    for most_visits, follows in ((200, True), (NEVER, False)):
        tree = Tree(3, 2)
        tree.feed(X, most_visits=most_visits)
        assert tree.visits[0] == 8000
        assert (np.abs(tree.means[0] - [20.0, -5.0]).max() < 1.0) == follows
        sides = X[4000:] @ tree.V[0] < tree.V[0] @ tree.means[0] + tree.b[0]
        split = sides == (X[4000:, 0] < 20.0)
        assert (max(split.mean(), 1 - split.mean()) > 0.98) == follows


@pytest.mark.parametrize("most_visits", [1, 10])
def test_forgetting_by_hand(most_visits):
    X = rows(50)
    tree, mean = Tree(3, 2), np.zeros(2)
    for t, x in enumerate(X, 1):
        tree.feed(x[None], most_visits=most_visits)
        mean += (x - mean) / (min(t, most_visits) + 1)
        np.testing.assert_allclose(tree.means[0], mean, atol=1e-6)


def test_zeros_change_nothing_but_visits():
    tree, new = Tree(7, 3), Tree(7, 3)
    tree.feed(np.zeros((500, 3), np.float32))
    for name in STATE[:4]:
        np.testing.assert_array_equal(getattr(tree, name), getattr(new, name))
    assert tree.visits.tolist() == [500, 0, 500, 0, 0, 0, 500]  # p = b = 0 is not below


DRIFT = 1024 * 2.0**-24
"""Error of a unit vector's length: one rounding of float32 a row until it is normalised again."""


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("value", [[2.0, 0.0], [0.0, -3.0], [1e-3, 1e3]])
def test_rows_all_equal(value, settings):
    X = np.tile(np.float32(value), (3000, 1))
    tree = Tree(7, 2)
    for part in np.split(X, 30):
        tree.feed(part, **settings)
        assert all(np.isfinite(array).all() for array in tree.arrays)
        np.testing.assert_allclose(tree.norms, 1.0, atol=DRIFT)
    t = min(settings.get("most_visits", NEVER), 3000)
    np.testing.assert_allclose(tree.means[0], np.float32(value), rtol=2 / t, atol=1e-6)


@pytest.mark.parametrize(
    "scale",
    [1e-40, 1e-30, 1e-25, 1e-20, 1e-15, 1e-9, 1e9, 1e18],
)
def test_rows_of_any_size_leave_unit_vectors(scale):
    for d in (1, 3):
        tree = Tree(7, d)
        tree.feed(rows(500, d) * np.float32(scale))
        assert all(np.isfinite(array).all() for array in tree.arrays)
        np.testing.assert_allclose(tree.norms, 1.0, atol=1e-5)


def density(positions, h):
    """Kernel density at 0."""
    return np.exp(-(positions**2) / (2 * h * h)).mean() / (h * math.sqrt(2 * math.pi))


@pytest.mark.parametrize("seed", range(5))
def test_one_feature_is_split_in_its_gap(seed):
    X, cluster = two_clusters(5000, 1, seed, apart=5.0)
    X += np.float32(1.0)
    tree = Tree(3, 1)
    tree.feed(X)
    split = float(tree.means[0, 0] + tree.b[0] * tree.V[0, 0])
    grid = np.linspace(*np.quantile(X, [0.1, 0.9]), 200)
    heights = np.array([density(X - at, 0.2) for at in grid])
    assert density(X - split, 0.2) < heights.min() + 0.05 * heights.max()
    assert abs(split - grid[heights.argmin()]) < 1.0
    assert abs(((split < X[:, 0]) == cluster).mean() - 0.5) > 0.48


@pytest.mark.parametrize("along", [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (2.0, -1.0)])
def test_two_features_are_split_in_their_gap(along):
    X, cluster = two_clusters(5000, 2, seed=0, along=along)
    tree = Tree(3, 2)
    tree.feed(X)
    positions = (X - tree.means[0]).astype(np.float64) @ tree.V[0] - tree.b[0]
    heights = []
    for angle in np.linspace(0.0, np.pi, 60, endpoint=False):
        z = X @ np.array([math.cos(angle), math.sin(angle)])
        heights += [density(z - at, 0.2) for at in np.linspace(*np.quantile(z, [0.2, 0.8]), 25)]
    assert density(positions, 0.2) < min(heights) + 0.02 * max(heights)
    assert abs(((positions > 0.0) == cluster).mean() - 0.5) > 0.48
