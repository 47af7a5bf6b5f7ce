import numpy as np
import pytest

from distsvc.kernels.segments import lowest_on_segments
from tests import reference


def model(d=2, b=25, m=12, seed=0):
    rng = np.random.default_rng(seed)
    S = rng.normal(scale=2.0, size=(d, b)).astype(np.float32)
    E = rng.normal(scale=2.0, size=(m, d)).astype(np.float32)
    pairs = np.array([(i, j) for i in range(m) for j in range(i)])
    return E, pairs, S, rng.uniform(0.1, 1.0, b).astype(np.float32)


@pytest.mark.parametrize("samples", [1, 2, 3, 20, 21])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_twin_lowest_on_segments(d, samples):
    E, pairs, S, a = model(d)
    found = lowest_on_segments(E, pairs, S, a, 0.4, samples, -np.float32(np.inf))
    slow = reference.lowest_on_segments(E, pairs, S, a, 0.4, samples)
    np.testing.assert_allclose(found, slow, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("samples", [1, 4, 20])
def test_the_search_may_end_early_but_only_below_the_level(samples):
    E, pairs, S, a = model()
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
    E, pairs, S, a = model()
    there = lowest_on_segments(E, pairs, S, a, 0.4, 20, -np.float32(np.inf))
    back = lowest_on_segments(E, pairs[:, ::-1].copy(), S, a, 0.4, 20, -np.float32(np.inf))
    np.testing.assert_allclose(there, back, rtol=1e-5)
