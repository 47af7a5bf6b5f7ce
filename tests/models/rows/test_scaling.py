import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import RobustScaler

from distsvc.models.rows.scaling import ROBUST_BEND, ROBUST_LIMIT, ColumnSums, Scaling


def sums_of(X, shift=0.0, parts=1):
    shift = np.full(X.shape[1], shift)
    total = ColumnSums.empty(shift)
    for part in np.array_split(X, parts):
        some = ColumnSums.empty(shift)
        assert some.add(np.ascontiguousarray(part)) is None
        total.merge(some)
    return total


def facts(sums):
    return sums.first, sums.second, sums.least.tolist(), sums.most.tolist(), sums.counts.tolist()


def table(n=200, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * [1.0, 10.0, 0.1][:d] + 5.0


@settings(deadline=None, max_examples=50)
@given(
    arrays(np.float64, (14, 2), elements=st.floats(-1e140, 1e140) | st.just(np.nan)),
    st.lists(st.integers(0, 14), max_size=4),
    st.randoms(use_true_random=False),
)
def test_parts_merge_in_any_order_and_cut(X, cuts, random):
    whole, merged = ColumnSums.empty(np.ones(2)), ColumnSums.empty(np.ones(2))
    whole.add(X)
    parts = np.split(X, sorted(cuts))
    random.shuffle(parts)
    for part in parts:
        some = ColumnSums.empty(np.ones(2))
        some.add(np.ascontiguousarray(part))
        merged.merge(some)
    assert facts(merged) == facts(whole)


@pytest.mark.parametrize("shift", [0.0, 4.3])
def test_imputed_values_count_as_if_they_were_there(shift):
    X = table()
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    fill = np.nanmedian(X, axis=0)
    sums = sums_of(X, shift, parts=3)
    sums.impute(fill, len(X))
    assert facts(sums) == facts(sums_of(np.where(np.isnan(X), fill, X), shift))


def test_standard_minmax_and_no_scaling():
    X = table()
    sums = sums_of(X)
    Z, unit, same = (
        Scaling.from_sums(sums, kind, np.zeros(3)).apply(X)
        for kind in ("standard", "minmax", "none")
    )
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-13)
    np.testing.assert_allclose(Z.std(axis=0), 1.0, rtol=1e-13)
    assert (unit.min(axis=0).tolist(), unit.max(axis=0).tolist()) == ([0.0] * 3, [1.0] * 3)
    assert (same == X).all()


@pytest.mark.parametrize("kind", ["standard", "minmax"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 + 0.1, 5e-324])
def test_a_constant_column_becomes_zero(kind, value):
    X = table()
    X[:, 1] = value
    scaling = Scaling.from_sums(sums_of(X, 0.3), kind, np.zeros(3))
    assert (scaling.apply(X)[:, 1] == 0.0).all()
    assert scaling.scale[1] == 1.0


def robust(X, pilot=None):
    return Scaling.robust(sums_of(X), X if pilot is None else pilot, np.zeros(X.shape[1]))


def test_robust_scaling_is_scikit_learn_s_up_to_five_spreads():
    X = table()
    peer = RobustScaler(unit_variance=True).fit_transform(X)
    np.testing.assert_allclose(robust(X).apply(X), peer, rtol=1e-5, atol=1e-12)


def test_values_beyond_five_spreads_are_compressed_and_keep_their_order():
    scaling = Scaling(np.array([5.0]), np.array([2.0]), np.zeros(1), "robust")
    beyond = ROBUST_LIMIT + np.array([0.0, 1e-9, 1.0, 2.0])
    away = np.array([0.0, 1.0, *beyond, 1e3, 1e9, 1e300])
    Z = scaling.apply(5.0 + 2.0 * away[:, None])[:, 0]
    assert Z[:3].tolist() == [0.0, 1.0, ROBUST_LIMIT]
    assert (np.diff(Z) > 0).all()
    np.testing.assert_allclose(
        Z[3:], ROBUST_LIMIT + ROBUST_BEND * np.log1p((away[3:] - ROBUST_LIMIT) / ROBUST_BEND)
    )
    assert scaling.apply(5.0 - 2.0 * away[:, None])[:, 0] == pytest.approx(-Z)
    near = scaling.to_kernels(5.0 + 2.0 * away[:, None], np.array([0.25]))
    np.testing.assert_allclose(near[:, 0], Z - 0.25, rtol=1e-6)
    assert (np.diff(near[[0, 1, 2, 4, 5, 6, 7, 8], 0]) > 0).all()
    np.testing.assert_allclose(scaling.raw(Z[:8, None])[:, 0], 5.0 + 2.0 * away[:8], rtol=1e-9)


def test_the_robust_scale_of_a_column_that_the_pilot_finds_constant():
    X = table()
    X[:, 1] = 7.0
    X[150, 1], X[160, 1] = 1e9, 8.0
    Z = robust(X, X[:100]).apply(X)[:, 1]
    assert Z[150] == 1.0
    assert not Z[:100].any()
    X[:, 1] = 7.0
    assert not robust(X).apply(X)[:, 1].any()


def test_missing_values_are_filled_before_scaling():
    scaling = Scaling(np.array([1.0, 2.0]), np.array([2.0, 4.0]), np.array([5.0, 6.0]))
    X = np.array([[np.nan, 2.0], [3.0, np.nan]])
    assert scaling.apply(X).tolist() == [[2.0, 0.0], [1.0, 1.0]]
    assert np.isnan(X).sum() == 2  # the caller's rows are left alone
