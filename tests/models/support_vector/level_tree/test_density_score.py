from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import logsumexp

from distsvc.kernels import density
from distsvc.models.support_vector.level_tree.density_score import (
    EDGE,
    FALLS,
    LOW,
    NEAR,
    NEAR_POINTS,
    OUTSIDE,
    SHORTEST,
    WEIGHTS,
    WIDENED,
    DensityScore,
    Near,
    Sums,
    scoring_trees,
)
from tests import reference


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def weights(b):
    return np.abs(random(b, seed=1)) + np.float32(0.1)


def logs(X, S, a, gamma):
    squared = ((np.float64(X)[:, None] - np.float64(S).T) ** 2).sum(axis=2)
    return np.stack([logsumexp(-g * squared, b=a, axis=1) for g in (gamma, gamma / 128.0)])


# --- the kernel


@pytest.mark.parametrize(("q", "b"), [(1, 1), (2, 30), (5, 7), (9, 200)])
@pytest.mark.parametrize("gamma", [0.01, 0.7, 60.0])
def test_logarithms_of_both_sums(q, b, gamma):
    X, S, a = random(80, q, seed=3), random(q, b), weights(b)
    X[:3] *= np.array([[10.0], [1e4], [1e12]], np.float32)  # far from every vector
    X[3] = S[:, 0]
    found, plain = np.empty((2, 80)), np.empty((2, 80))
    density.log_sums(X, S, a, gamma, found)
    reference.plain(density.log_sums)(X, S, a, gamma, plain)
    expected = logs(X, S, a, gamma)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-3)
    np.testing.assert_allclose(plain, expected, rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("kernel", [density.log_wide_sum, reference.plain(density.log_wide_sum)])
@pytest.mark.parametrize(("q", "b"), [(1, 1), (2, 30), (9, 200)])
def test_the_logarithm_of_the_wide_sum_alone(kernel, q, b):
    X, S, a = random(80, q, seed=3), random(q, b), weights(b)
    X[:2] *= np.array([[10.0], [1e4]], np.float32)
    found, both = np.empty(80), np.empty((2, 80))
    kernel(X, S, a, 0.7, found)
    density.log_sums(X, S, a, 0.7, both)
    np.testing.assert_allclose(found, both[1], rtol=1e-5, atol=1e-5)


def test_a_row_beyond_the_range_of_distances_has_finite_sums():
    X = np.full((1, 2), 1e30, np.float32)
    found = np.empty((3, 1))
    density.log_sums(X, random(2, 5), weights(5), 1.0, found[:2])
    density.log_wide_sum(X, random(2, 5), weights(5), 1.0, found[2])
    assert np.isfinite(found).all()
    assert (found < -1e30).all()


@pytest.mark.parametrize("kernel", [density.log_nearness, reference.plain(density.log_nearness)])
def test_nearness_counts_ties_and_leaves_a_point_out_once(kernel):
    P = np.array([[0.0, 0.0, 1.0, 1.0, 1.0, 4.0]], np.float32)
    X = np.array([[0.0], [2.0], [1.0], [-1.0], [1e30]], np.float32)
    found = np.empty(5)
    kernel(X, P, 4, np.float32(0.25), found)
    # From 0: itself, 0, 1, 1, 1, so the fourth of the others is a 1; from 1: 1, 1, then 0 and 0.
    np.testing.assert_allclose(np.exp(-found[:4]), [1.0, 2.0, 1.0, 2.0], rtol=1e-6)
    assert found[4] == -np.inf  # its squared distances are beyond float32
    kernel(P.T.copy()[:1], P, 1, np.float32(0.25), found[:1])
    assert np.exp(-found[0]) == pytest.approx(0.5)  # another row lies on it: `least` counts
    kernel(np.array([[np.nan]], np.float32), P, 4, np.float32(0.25), found[:1])
    assert np.isnan(found[0])


@pytest.mark.parametrize("kernel", [density.log_nearness, reference.plain(density.log_nearness)])
@pytest.mark.parametrize(("m", "k"), [(6, 1), (6, 4), (64, 4), (65, 1), (300, 4), (300, 40)])
def test_nearness_whichever_points_are_near(kernel, m, k):
    """Near points are in one group or in several, equally near or not."""
    X, P = np.round(random(60, 3, seed=1)), random(3, m)
    P[:, ::32] *= np.float32(0.1)  # of one group
    P[:, 1 : m // 2] = np.round(P[:, 1 : m // 2])
    X[:2] = P[:, :2].T
    found = np.empty(60)
    kernel(X, P, k, np.float32(1e-9), found)
    squares = np.sort(((X[:, None] - P.T.astype(np.float64)) ** 2).sum(axis=2), axis=1)
    expected = np.where(squares[:, 0] == 0.0, squares[:, k], squares[:, k - 1])
    np.testing.assert_allclose(found, -0.5 * np.log(np.maximum(expected, 1e-9)), rtol=1e-4)


# --- the score


def tree(q, gamma, seed=0):
    return SimpleNamespace(S=random(q, 20, seed=seed), a=weights(20), gamma=gamma)


def test_the_trees_that_score_see_the_fewest_and_the_most_at_the_middle_gamma():
    trees = [tree(q, g) for q in (2, 4, 6) for g in (0.5, 1.0, 2.0)]
    few, most = scoring_trees(trees)
    assert (few.S.shape[0], few.gamma) == (2, 1.0)
    assert (most.S.shape[0], most.gamma) == (6, 1.0)


def test_where_all_see_the_same_two_of_them_score():
    trees = [tree(2, g, seed) for seed in (0, 1) for g in (0.5, 1.0, 2.0)]
    few, most = scoring_trees(trees)
    assert (few.gamma, most.gamma) == (1.0, 1.0)
    assert few is not most
    assert scoring_trees(trees[:1]) == (trees[0], trees[0])


def nearness(view, pilot, k=4):
    """Return minus the logarithm of distances, as the slow twin has them."""
    points = pilot[:NEAR_POINTS].astype(np.float64)
    squares = np.sort(((view[:, None] - points) ** 2).sum(axis=2), axis=1)
    return -0.5 * np.log(np.where(squares[:, 0] == 0.0, squares[:, k], squares[:, k - 1]))


def share_below(limit, near, clusters, edge, fall):
    """Return the share of the rows of clusters that is expected below a limit of nearness."""
    a, b = fall
    expected = 0.0
    for rows in clusters:
        middle = np.median(near[rows])
        r = max((middle - limit) / (middle - np.quantile(near[rows], edge)), 0.0)
        expected += 0.5 * np.exp(-a * r - b * r * r) * rows.sum()
    return expected / sum(rows.sum() for rows in clusters)


def test_a_score_is_of_densities_and_of_near_rows_in_tails_of_a_cluster():
    view, labels = random(300, 4, seed=5), np.repeat([0, 1], [200, 100])
    view[labels == 1] += np.float32(1.0)
    trees = [tree(2, 0.5), tree(4, 0.3)]
    score = DensityScore.of(trees, view, labels, None)
    sums = [logs(view[:, : t.S.shape[0]], t.S, t.a, t.gamma / WIDENED) for t in trees]
    near = nearness(view, view)
    near = np.minimum(near, np.quantile(near, 1.0 - SHORTEST))
    four = np.vstack([sums[0][1:], sums[1], near])
    inside = [four[:, labels == c] for c in (0, 1)]
    middle = np.mean([np.median(part, axis=1) for part in inside], axis=0)
    low = np.mean([np.quantile(part, LOW, axis=1) for part in inside], axis=0)
    apart = (four - middle[:, None]) / (middle - low)[:, None]
    mean = 0.5 * (np.average(apart, axis=0, weights=WEIGHTS) + apart.min(axis=0))
    border = np.sort(mean)[np.count_nonzero(score(view) < 0.0)]
    np.testing.assert_allclose(score(view), mean - border, atol=0.02)
    assert score(view).dtype == np.float32


@pytest.mark.parametrize("q", [2, 3, 7])
def test_so_many_rows_are_outside_as_nearness_says(q):
    """The share below the limit is that of a normal cluster, by the rows inside it."""
    view, labels = random(4000, q, seed=5), np.repeat([0, 1], [2500, 1500])
    view[labels == 1] = 9.0 + 1.5 * view[labels == 1]
    view[:40] *= 10.0  # outliers, which leave edges as they are
    score = DensityScore.of([tree(q, 0.5), tree(q, 0.3)], view, labels, None)
    near = np.empty(len(view))
    score.near.logs(view, near)
    n_outside = np.count_nonzero(score(view) < 0.0)
    limit = np.sort(near)[n_outside]
    clusters = [(labels == c) & (near >= limit) for c in (0, 1)]
    edge = (EDGE - OUTSIDE) / (1.0 - OUTSIDE)
    fall = FALLS[min(q, 3) - 1]
    assert share_below(limit, near, clusters, edge, fall) == pytest.approx(OUTSIDE, rel=0.4)
    assert (score(view[40:]) < 0.0).mean() < 0.013


@pytest.mark.parametrize("d", [1, 2, 5, 10, 20])
@pytest.mark.parametrize("k", [1, 3])
def test_hardly_a_row_of_normal_clusters_is_outside(d, k):
    rng = np.random.default_rng(d)
    labels = rng.integers(0, k, 3000)
    centres = 12.0 * rng.normal(size=(k, d))
    view = (centres[labels] + rng.normal(size=(3000, d))).astype(np.float32)
    S = np.ascontiguousarray(view[:200].T)
    one = SimpleNamespace(S=S, a=np.ones(200, np.float32), gamma=0.5 / d)
    score = DensityScore.of([one, one], view, labels, None)
    assert (score(view) < 0.0).mean() < 0.012
    far = np.full((1, d), 40.0, np.float32)
    assert score(far)[0] < 0.0


def test_outliers_do_not_hide_each_other():
    rng = np.random.default_rng(0)
    view = np.concatenate([rng.normal(size=(1000, 2)), rng.uniform(-30, 30, (80, 2))]).astype("f4")
    view = view[rng.permutation(len(view))]
    far = np.abs(view).max(axis=1) > 5.0
    trees = [tree(2, 0.5), tree(2, 0.7, 1)]
    outside = DensityScore.of(trees, view, np.zeros(len(view), int), None)(view) < 0.0
    assert outside[far].mean() > 0.9
    assert outside[~far].mean() < 0.02


def test_near_points_of_a_short_table_are_all_rows():
    view = random(3, 2, seed=5)
    near = Near.of(view)
    assert near.points.shape == (2, NEAR + 1)
    assert {tuple(p) for p in near.points.T.tolist()} == {tuple(p) for p in view.tolist()}


@pytest.mark.parametrize("rows", [30, NEAR_POINTS, 2 * NEAR_POINTS])
def test_nearness_is_that_of_the_slow_twin(rows):
    pilot = random(rows, 3, seed=5)
    near = Near.of(pilot)
    assert near.points.shape == (3, min(rows, NEAR_POINTS))
    view = np.concatenate([random(40, 3, seed=6), pilot[:10]])
    found = np.empty(50)
    near.logs(view, found)
    expected = np.minimum(nearness(view, pilot), -0.5 * np.log(near.least))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_cluster_is_not_outside_for_being_thinner_than_another():
    rng = np.random.default_rng(0)
    view = rng.normal(size=(600, 2)).astype(np.float32)
    view[300:] = 20.0 + 4.0 * view[300:]
    labels = np.repeat([0, 1], 300)
    S = np.ascontiguousarray(view[::10].T)
    one = SimpleNamespace(S=S, a=np.ones(60, np.float32), gamma=0.5)
    outside = DensityScore.of([one, one], view, labels, None)(view) < 0
    assert outside[labels == 1].mean() < 0.35
    assert outside[labels == 0].mean() < 0.1


@pytest.mark.parametrize("size", [100, 7])
def test_no_cluster_of_a_fair_share_is_outside_as_a_whole(size):
    """Four dense clusters and one that is thin: outliers if it has few rows beside the others."""
    rng = np.random.default_rng(0)
    dense = [rng.normal(10.0 * c, 0.3, (100, 2)) for c in range(4)]
    view = np.concatenate([*dense, rng.normal(-30.0, 3.0, (size, 2))]).astype(np.float32)
    labels = np.repeat(range(5), [100] * 4 + [size])
    one = SimpleNamespace(S=np.ascontiguousarray(view.T), a=np.ones(len(view), "f4"), gamma=4.0)
    outside = DensityScore.of([one, one], view, labels, None)(view) < 0
    assert outside[labels < 4].mean() < 0.05
    assert outside[labels == 4].mean() < 0.2 if size == 100 else outside[labels == 4].all()


def test_the_farther_a_row_the_lower_its_score():
    view, labels = random(300, 2, seed=5), np.zeros(300, int)
    score = DensityScore.of([tree(2, 0.5), tree(2, 0.7, 1)], view, labels, None)
    along = np.outer(10.0 ** np.arange(1, 18), np.ones(2)).astype(np.float32)
    found = score(along)
    assert (np.diff(found) < 0).all()
    assert (found < 0).all()
    assert np.isfinite(found).all()
    assert score(np.zeros((1, 2), np.float32))[0] > 0


@pytest.mark.parametrize("nu", [0.01, 0.1, 0.5, 1.0])
def test_nu_is_the_share_outside(nu):
    view, labels = random(500, 3, seed=5), np.zeros(500, int)
    score = DensityScore.of([tree(3, 0.5), tree(3, 0.7, 1)], view, labels, nu)
    assert (score(view) < 0).mean() == pytest.approx(nu, abs=0.004)


def test_clusters_of_few_rows_do_not_say_what_is_usual():
    view, labels = random(300, 2, seed=5), np.zeros(300, int)
    trees = [tree(2, 0.5), tree(2, 0.7, 1)]
    alone = DensityScore.of(trees, view, labels, None)
    far, more = np.full((4, 2), 1e3, np.float32), np.ones(4, int)
    both = DensityScore.of(trees, np.vstack([view, far]), np.append(labels, more), None)
    assert (alone.middles == both.middles).all()
    assert (alone.tails == both.tails).all()


def test_equal_rows_have_a_tail():
    view = np.zeros((50, 2), np.float32)
    score = DensityScore.of([tree(2, 0.5), tree(2, 0.7, 1)], view, np.zeros(50, int), None)
    assert (score.tails > 0).all()
    assert (score(view) >= 0.0).all()


def test_a_row_depends_on_no_other():
    view = random(90, 3, seed=9)
    sums = Sums(random(2, 20), weights(20), 0.5), Sums(random(3, 30), weights(30), 0.2)
    near = Near.of(random(50, 3, seed=4))
    score = DensityScore(*sums, near, np.zeros(4), np.ones(4), 1.0)
    parts = [score(part) for part in np.split(view, [1, 40])]
    assert np.concatenate(parts).tobytes() == score(view).tobytes()
