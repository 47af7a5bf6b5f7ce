import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.kernels.equilibria import (
    ball_centres,
    climb,
    lowest_on_segments,
    merge_neighbours,
)
from tests import reference

GAMMA = 0.5  # sigma = 1


def model(d=2, b=20, seed=0, spread=2.0):
    rng = np.random.default_rng(seed)
    S = rng.normal(scale=spread, size=(d, b)).astype(np.float32)
    return S, rng.uniform(0.1, 1.0, b).astype(np.float32)


def starts(n, d=2, seed=1, spread=2.5):
    return np.random.default_rng(seed).normal(scale=spread, size=(n, d)).astype(np.float32)


@pytest.mark.parametrize("steps", [0, 1, 2, 7])
@pytest.mark.parametrize("d", [1, 2, 6])
def test_twin_climb_step_by_step(d, steps):
    (S, a), X = model(d), starts(10, d)
    found = climb(X, S, a, GAMMA, 0.0, steps)
    np.testing.assert_allclose(found, reference.climb(X, S, a, GAMMA, 0.0, steps), atol=2e-5)


@pytest.mark.parametrize("gamma", [0.05, 0.5, 5.0])
def test_twin_climb_to_the_end(gamma):
    (S, a), X = model(), starts(10)
    found = climb(X, S, a, gamma, 1e-4, 1000)
    slow = reference.climb(X, S, a, gamma, 1e-6, 3000)
    np.testing.assert_allclose(found, slow, atol=5e-3 / np.sqrt(2 * gamma))


@pytest.mark.parametrize("gamma", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_ends_are_stationary(gamma, seed):
    S, a = model(d=3, b=30, seed=seed)
    sigma = 1.0 / np.sqrt(2 * gamma)
    for x in climb(starts(40, 3), S, a, gamma, 1e-4, 5000):
        push = reference.mean_shift(x.astype(np.float64), S, a, gamma) - x
        # sigma |grad f| = (f + 1) |P(x) - x| / sigma
        assert np.linalg.norm(push) / sigma < 1.5e-4


def test_f_never_falls():
    (S, a), X = model(b=40), starts(30)
    before = reference.weighted_sums(X, S, a, GAMMA)
    for steps in range(1, 25):
        now = reference.weighted_sums(climb(X, S, a, GAMMA, 0.0, steps), S, a, GAMMA)
        assert (now >= before - 1e-6 * a.sum()).all()
        before = now


@pytest.mark.parametrize("d", [1, 2, 7])
def test_far_starts_go_where_their_nearest_vector_goes(d):
    # well separated vectors, so that the nearest one alone decides
    S = (np.eye(d, 4) * 30.0 + np.arange(4) * 12.0).astype(np.float32)
    a = np.ones(4, np.float32)
    X = starts(50, d)
    X *= np.float32(1e3) / np.linalg.norm(X, axis=1, keepdims=True)
    nearest = S.T[reference.nearest_point(X, S.T)].copy()
    found = climb(X, S, a, GAMMA, 1e-4, 1000)
    assert np.isfinite(found).all()
    modes = climb(nearest, S, a, GAMMA, 1e-4, 1000)
    np.testing.assert_allclose(found, modes, atol=1e-3)


@settings(deadline=None, max_examples=30)
@given(st.floats(-30.0, 30.0), st.floats(-30.0, 30.0))
def test_ends_stay_in_the_hull(u, v):
    S, a = model()
    end = climb(np.array([[u, v]], np.float32), S, a, GAMMA, 1e-4, 1000)[0]
    assert (S.min(axis=1) - 1e-4 <= end).all()
    assert (end <= S.max(axis=1) + 1e-4).all()


def test_a_row_does_not_depend_on_its_block():
    (S, a), X = model(), starts(20)
    whole = climb(X, S, a, GAMMA, 1e-4, 500)
    parts = [climb(part, S, a, GAMMA, 1e-4, 500) for part in np.split(X, [1, 7, 8])]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_starts_are_left_alone():
    (S, a), X = model(), starts(5)
    kept = X.copy()
    climb(X, S, a, GAMMA, 1e-4, 10)
    np.testing.assert_array_equal(X, kept)


@pytest.mark.parametrize("d", [1, 2, 7])
@pytest.mark.parametrize("radius", [0.2, 0.9, 4.0, 50.0])
def test_twin_ball_centres(d, radius):
    X = np.random.default_rng(d).normal(size=(150, d)).astype(np.float32)
    slow = reference.ball_centres(X, radius)
    assert ball_centres(X, radius).tolist() == slow.tolist()
    assert reference.plain(ball_centres)(X, radius).tolist() == slow.tolist()
    assert slow[0] == 0


def test_a_row_at_the_radius_is_not_absorbed_and_an_equal_one_is():
    X = np.array([[0.0], [2.0], [0.0], [1.5], [2.0]], np.float32)
    assert ball_centres(X, 2.0).tolist() == [0, 1]
    assert ball_centres(X, 1.0).tolist() == [0, 1]
    assert ball_centres(X, 0.25).tolist() == [0, 1, 3]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("radius", [0.3, 1.0, 3.0])
def test_twin_merge_neighbours(seed, radius):
    rng = np.random.default_rng(seed)
    P = rng.normal(scale=2.0, size=(50, 2)).astype(np.float32)
    arrived = rng.random(50) < 0.3
    slow = reference.merge_neighbours(P, arrived, radius)
    assert merge_neighbours(P, arrived, radius).tolist() == slow.tolist()
    assert reference.plain(merge_neighbours)(P, arrived, radius).tolist() == slow.tolist()
    assert (slow[slow] == slow).all()


@pytest.mark.parametrize(
    ("arrived", "place"),
    [
        ([0, 0, 0, 0], [0, 0, 2, 3]),  # neighbours collapse onto the first
        ([0, 1, 0, 0], [1, 1, 1, 3]),  # joins the neighbour that has arrived, which takes the next
        ([1, 1, 0, 0], [0, 0, 2, 3]),  # of two that have arrived the first takes the other
        ([0, 0, 1, 0], [0, 0, 2, 3]),
        ([0, 0, 0, 1], [0, 0, 2, 3]),
    ],
)
def test_who_takes_whom(arrived, place):
    P = np.array([[0.0], [1.0], [2.0], [9.0]], np.float32)
    assert merge_neighbours(P, np.array(arrived, bool), 1.5).tolist() == place


def segments(d=2, b=25, m=12, seed=0):
    rng = np.random.default_rng(seed)
    S = rng.normal(scale=2.0, size=(d, b)).astype(np.float32)
    E = rng.normal(scale=2.0, size=(m, d)).astype(np.float32)
    pairs = np.array([(i, j) for i in range(m) for j in range(i)])
    return E, pairs, S, rng.uniform(0.1, 1.0, b).astype(np.float32)


@pytest.mark.parametrize("samples", [1, 2, 3, 20, 21])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_twin_lowest_on_segments(d, samples):
    E, pairs, S, a = segments(d)
    found = lowest_on_segments(E, pairs, S, a, 0.4, samples, -np.float32(np.inf))
    slow = reference.lowest_on_segments(E, pairs, S, a, 0.4, samples)
    np.testing.assert_allclose(found, slow, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("samples", [1, 4, 20])
def test_the_search_may_end_early_but_only_below_the_level(samples):
    E, pairs, S, a = segments()
    whole = lowest_on_segments(E, pairs, S, a, 0.4, samples, -np.float32(np.inf))
    level = np.float32(np.median(whole))
    early = lowest_on_segments(E, pairs, S, a, 0.4, samples, level)
    assert (early[whole >= level] == whole[whole >= level]).all()
    assert (early[whole < level] < level).all()
    assert (early >= whole).all()


def test_the_middle_is_tested_first():
    # two modes 8 sigma apart: the middle is the lowest place of all
    S = np.array([[-4.0, 4.0], [0.0, 0.0]], np.float32)
    a, E, pairs = np.ones(2, np.float32), S.T.copy(), np.array([[0, 1]])
    first_low = lowest_on_segments(E, pairs, S, a, 0.5, 21, np.float32(1.0))
    np.testing.assert_allclose(first_low, 2 * np.exp(-8.0), rtol=1e-5)


def test_end_points_are_not_tested():
    S = np.zeros((1, 1), np.float32)
    E, pairs = np.array([[-3.0], [3.0]], np.float32), np.array([[0, 1]])
    found = lowest_on_segments(E, pairs, S, np.ones(1, np.float32), 0.5, 2, -np.float32(np.inf))
    np.testing.assert_allclose(found, np.exp(-0.5), rtol=1e-6)  # at -1 and 1


def test_both_directions_of_a_segment_agree():
    E, pairs, S, a = segments()
    there = lowest_on_segments(E, pairs, S, a, 0.4, 20, -np.float32(np.inf))
    back = lowest_on_segments(E, pairs[:, ::-1].copy(), S, a, 0.4, 20, -np.float32(np.inf))
    np.testing.assert_allclose(there, back, rtol=1e-5)
