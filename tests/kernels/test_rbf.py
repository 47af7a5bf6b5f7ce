import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distsvc.kernels import rbf
from distsvc.kernels.rbf import weighted_sums
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


def test_far_rows_have_a_finite_value():
    S, a = model(2, 5)
    X = np.array([[1e4, -1e4], [1e18, 1e18], [3e38, 3e38]], np.float32)
    assert (weighted_sums(X, S, a, 1.0) < 1e-28).all()


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 9), st.integers(1, 40), st.lists(st.integers(0, 60), max_size=5))
def test_a_row_does_not_depend_on_its_block(d, b, cuts):
    S, a = model(d, b, seed=d)
    X = np.random.default_rng(b).normal(size=(60, d)).astype(np.float32)
    whole = weighted_sums(X, S, a, 0.5)
    parts = [weighted_sums(part, S, a, 0.5) for part in np.split(X, sorted(cuts)) if len(part)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()
