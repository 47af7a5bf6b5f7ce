from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from distsvc.kernels.scaling import DIGITS, add_block, count_between, interpolate, scale_rows
from tests import reference

VALUES = st.floats(-1e150, 1e150) | st.floats(-1e-290, 1e-290) | st.just(np.nan)


def sums(blocks, shift):
    """Sums as fractions, and the least, most and counts of blocks added one after another."""
    d = shift.size
    digits = np.zeros((2, d, DIGITS), np.int64)
    least, most, counts = np.full(d, np.inf), np.full(d, -np.inf), np.zeros(d, np.int64)
    for block in blocks:
        none = np.zeros(len(block), np.int64), np.zeros((2, 0, d)), np.zeros((2, 0, d), np.int64)
        assert add_block(block, shift, digits, least, most, counts, *none) == (-1, -1)
    exact = [
        [sum(int(v) << 32 * i for i, v in enumerate(column)) for column in part] for part in digits
    ]
    first, second = ([Fraction(v, 2**1074) for v in part] for part in exact)
    return first, second, least.tolist(), most.tolist(), counts.tolist()


@settings(deadline=None, max_examples=100)
@given(
    arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=VALUES),
    st.sampled_from([0.0, 1.5, -1e9]),
)
def test_twin_add_block(X, offset):
    shift = np.full(X.shape[1], offset)
    first, second, least, most, counts = sums([X], shift)
    assert (first, second) == reference.column_sums(X, shift)
    assert counts == (~np.isnan(X)).sum(axis=0).tolist()
    for k, column in enumerate(X.T):
        seen = column[~np.isnan(column)]
        assert least[k] == seen.min(initial=np.inf)
        assert most[k] == seen.max(initial=-np.inf)


def test_wild_magnitudes_add_up_exactly():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2)) * 10.0 ** rng.uniform(-300, 153, (3000, 2))
    X[:5] = [[5e-324, -5e-324], [2.3e-308, 1e-310], [1e154, -1e154], [0.0, -0.0], [1.0, -1.0]]
    shift = np.zeros(2)
    assert sums([X], shift)[:2] == reference.column_sums(X, shift)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e155, -1.7e308])
def test_the_first_infinite_value_is_reported(value):
    X = np.ones((6, 3))
    X[4, 1] = X[5, 0] = value
    X[2, 2] = np.nan
    empty = np.zeros((2, 3, DIGITS), np.int64), np.zeros(3), np.zeros(3), np.zeros(3, np.int64)
    none = np.zeros(6, np.int64), np.zeros((2, 0, 3)), np.zeros((2, 0, 3), np.int64)
    assert add_block(X, np.zeros(3), *empty, *none) == (4, 1)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_twin_scale_rows(offset):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4)) + offset
    X[rng.random(X.shape) < 0.2] = np.nan
    centre, scale, fill, origin = rng.normal(np.outer([offset, 3.0, offset, 0.0], np.ones(4)))
    found = np.empty(X.shape, np.float32)
    scale_rows(X, centre, scale, fill, origin, np.inf, 0.25, found)
    assert found.dtype == np.float32
    assert not np.isnan(found).any()
    np.testing.assert_array_equal(found, reference.scale_rows(X, centre, scale, fill, origin))


TABLE_VALUES = (
    st.sampled_from([-1.0, 0.0, -0.0, 0.5, 1.0, 5e-324, np.nan, np.inf, -np.inf]) | st.floats()
)
LEVEL_OR_RISING = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]), min_size=3, max_size=3)


@reference.forms(count_between)
def test_twin_count_between(form):
    @settings(deadline=None, max_examples=100)
    @given(
        arrays(np.float64, st.tuples(st.integers(0, 12), st.just(2)), elements=TABLE_VALUES),
        st.lists(LEVEL_OR_RISING.map(sorted), min_size=2, max_size=2),
    )
    def check(X, edges):
        counts = np.ones((2, 5), np.int64)
        form(X, np.array(edges), counts)
        np.testing.assert_array_equal(counts - 1, reference.counts_between(X, edges))

    check()


@reference.forms(interpolate)
def test_a_table_is_interpolated_and_goes_on_beyond_its_ends(form):
    knots, values = np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 3.0])
    x, out = np.array([-1.0, 0.5, 2.0, 5.0, np.nan]), np.empty(5)
    form(x, knots, values, out)
    assert out[:4].tolist() == [-2.0, 1.0, 2.5, 4.0]
    assert np.isnan(out[4])
