import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.kernels import rbf
from distsvc.kernels.level_tree import vote
from distsvc.kernels.rbf import nearest_shares, vote_shares, weighted_sums
from tests import reference

exp2 = numba.njit(lambda t: rbf.exp2(t))


def model(d, b, seed=0):
    rng = np.random.default_rng(seed)
    S = rng.normal(size=(d, b)).astype(np.float32)
    return S, rng.uniform(0.1, 1.0, b).astype(np.float32)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6, 9, 13])
@pytest.mark.parametrize("b", [1, 2, 7, 33])
def test_twin_weighted_sums(d, b):
    S, a = model(d, b)
    X = np.random.default_rng(1).normal(size=(15, d)).astype(np.float32)
    found = weighted_sums(X, S, a, 0.3)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, reference.weighted_sums(X, S, a, 0.3), rtol=3e-6)


def test_twin_exp2():
    t = np.linspace(-100.0, 0.0, 2_001, dtype=np.float32)
    found = np.array([exp2(v) for v in t], np.float64)
    assert np.abs(found / 2.0 ** t.astype(np.float64) - 1.0).max() < 3e-7


def test_exp2_at_its_ends():
    assert exp2(np.float32(0.0)) == 1.0
    assert exp2(np.float32(-0.0)) == 1.0
    assert exp2(np.float32(-1.0)) == 0.5
    assert exp2(np.float32(-100.0)) == 2.0**-100
    assert exp2(np.float32(-1e30)) == 2.0**-100
    assert exp2(np.float32(-np.inf)) == 2.0**-100


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 9), st.integers(1, 40), st.lists(st.integers(0, 60), max_size=5))
def test_a_row_does_not_depend_on_its_block(d, b, cuts):
    S, a = model(d, b, seed=d)
    X = np.random.default_rng(b).normal(size=(60, d)).astype(np.float32)
    whole = weighted_sums(X, S, a, 0.5)
    parts = [weighted_sums(part, S, a, 0.5) for part in np.split(X, sorted(cuts)) if len(part)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


RANDOM = np.random.default_rng(0)
S = RANDOM.normal(size=(3, 40)).astype(np.float32)
A = RANDOM.uniform(0.5, 2.0, 40).astype(np.float32)
ENDS = np.array([10, 13, 40])
X = RANDOM.normal(size=(200, 3)).astype(np.float32)


def by_group(values):
    """Split (n, 40) by `ENDS`."""
    return np.split(values, ENDS[:-1], axis=1)


def squared():
    return ((X[:, None, :].astype(float) - S.T) ** 2).sum(axis=2)


def normal(shares):
    return shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("power", [0.25, 1.0, 2.0])
def test_votes(power):
    kernel = A * np.exp(-0.7 * squared())
    sums = np.stack([part.sum(axis=1) for part in by_group(kernel)], axis=1)
    expected = normal(normal(sums) ** power)
    found = vote_shares(X, S, A, ENDS, 0.7, power)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=5e-5)
    np.testing.assert_array_equal(found.argmax(axis=1), vote(X, S, A, ENDS, 0.7))


def test_nearest_points():
    nearest = np.stack([part.min(axis=1) for part in by_group(squared())], axis=1)
    expected = normal(np.exp(-0.7 * nearest))
    np.testing.assert_allclose(nearest_shares(X, S, ENDS, 0.7), expected, rtol=2e-5)


@pytest.mark.parametrize("far", [1e4, 1e18, 3e38])
def test_far_rows_have_shares_of_the_nearest(far):
    """Their kernel values are all 0, and their squared distances may overflow."""
    rows = np.full((2, 3), far, np.float32)
    for found in (vote_shares(rows, S, A, ENDS, 0.7, 2.0), nearest_shares(rows, S, ENDS, 0.7)):
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-6)
