"""Drift is computed from exact counts, which do not depend on the blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from distsvc.models.nights.drift import (
    DRIFT_BINS,
    ColumnCounts,
    counts_between,
    decile_edges,
    stability_index,
    unit_factors,
    unit_of_part,
)
from tests import reference

COUNTS = st.lists(st.integers(0, 2000), min_size=5, max_size=5)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=3))
def test_drift_equals_that_of_the_slow_twin(pairs):
    expected, found = (np.array(side) for side in zip(*pairs, strict=True))
    indices = stability_index(expected, found)
    for k, pair in enumerate(pairs):
        if any(pair[0]) or any(pair[1]):
            assert indices[k] == pytest.approx(reference.stability_index(*pair), abs=1e-12)
        else:
            assert indices[k] == 0.0
    np.testing.assert_allclose(indices, stability_index(found, expected), rtol=1e-12, atol=1e-15)
    assert (indices >= 0.0).all()


def test_edges_are_deciles():
    column = np.random.default_rng(0).permutation(1000.0 * np.arange(100))
    edges = decile_edges(column[:, None])
    assert edges.tolist() == [[10_000.0 * k for k in range(1, DRIFT_BINS)]]
    counts = ColumnCounts.empty(edges)
    counts.add(column[:, None])
    assert counts.counts.tolist() == [[10] * DRIFT_BINS + [0]]


def test_missing_values_are_left_out_of_edges_and_counted():
    column = np.arange(200.0)
    column[::2] = np.nan
    edges = decile_edges(column[:, None])
    np.testing.assert_array_equal(edges, decile_edges(column[1::2, None]))
    counts = ColumnCounts.empty(edges)
    counts.add(column[:, None])
    assert counts.counts[0, -1] == 100
    assert counts.missing.tolist() == [0.5]


def test_a_value_of_most_rows_has_a_bin_of_its_own():
    random = np.random.default_rng(0)
    few = random.uniform(1.0, 2.0, 300)
    column = np.concatenate([np.zeros(700), few])[:, None]
    edges = decile_edges(column)
    counts = ColumnCounts.empty(edges)
    counts.add(column)
    zeros = ColumnCounts.empty(edges)
    zeros.add(np.zeros((1, 1)))
    assert counts.counts[0, np.flatnonzero(zeros.counts[0])].tolist() == [700]
    assert (np.diff(edges) >= 0.0).all()


ROWS = arrays(
    np.float64,
    st.tuples(st.integers(1, 40), st.just(2)),
    elements=st.sampled_from([0.0, 1.0, 2.5, -3.0, 1e30, np.nan]) | st.floats(-5, 5),
)


@settings(deadline=None, max_examples=80)
@given(ROWS, ROWS, st.lists(st.integers(0, 40), max_size=4))
def test_counts_do_not_depend_on_the_blocks(pilot, X, cuts):
    edges = decile_edges(pilot)
    assert (np.diff(edges) >= 0.0).all()
    for at, column in zip(edges, pilot.T, strict=True):
        values = np.append(column[~np.isnan(column)], 0.0 if np.isnan(column).all() else [])
        assert np.isin(at[at <= values.max()], values).all()
        assert (at <= values.max() + 1e-9 * abs(values.max()) + 1e-300).all()
    whole = ColumnCounts.empty(edges)
    whole.add(X)
    assert whole.counts.sum(axis=1).tolist() == [len(X)] * 2
    np.testing.assert_array_equal(whole.counts, reference.counts_between(X, edges))
    total = np.zeros_like(whole.counts)
    for part in np.split(X, sorted(cuts)):
        counts = ColumnCounts.empty(edges)
        counts.add(np.ascontiguousarray(part))
        total += counts.counts
    np.testing.assert_array_equal(total, whole.counts)


def test_the_same_population_does_not_drift():
    """About (b - 1) (1 / n + 1 / m) is what chance gives."""
    random = np.random.default_rng(0)
    edges = decile_edges(random.normal(size=(10_000, 3)))
    nights = []
    for shift in (0.0, 0.0, 0.5):
        counts = ColumnCounts.empty(edges)
        counts.add(random.normal(size=(10_000, 3)) + shift)
        nights.append(counts.counts)
    assert stability_index(nights[0], nights[1]).max() < 0.01
    assert stability_index(nights[0], nights[2]).min() > 0.15


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_histogram_counts_equal_those_of_numpy(dtype):
    edges = np.linspace(-1.0, 2.0, 13)
    values = np.random.default_rng(0).normal(scale=2.0, size=500).astype(dtype)
    values = np.concatenate([values, edges, [-np.inf, np.inf]]).astype(dtype)
    expected = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0]
    assert counts_between(values, edges).tolist() == expected.tolist()
    assert counts_between(np.full(3, np.nan), edges).sum() == 0


@pytest.mark.parametrize("factor", [100.0, 1e-3, 60.0, 2.54, 1 / 4.35, -1.0])
@pytest.mark.parametrize("kind", ["normal", "lognormal", "counts", "two groups"])
def test_a_column_in_another_unit_has_a_factor(factor, kind):
    random = np.random.default_rng(0)

    def column(n):
        return {
            "normal": random.normal(40.0, 6.0, n),
            "lognormal": random.lognormal(3.0, 1.0, n),
            "counts": random.poisson(4.0, n).astype(float),
            "two groups": np.append(random.normal(8.0, 1.0, n // 2), random.normal(90, 3, n // 2)),
        }[kind]

    before = decile_edges(column(1500)[:, None])
    (same,) = unit_factors(before, column(1400)[:, None])
    assert np.isnan(same)
    (found,) = unit_factors(before, factor * column(1400)[:, None])
    if factor < 0.0:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(factor, rel=0.2)


def test_a_shift_a_busy_day_and_a_part_in_another_unit_have_no_factor():
    random = np.random.default_rng(1)
    rows = random.normal(2.0, 0.1, 2000)
    part = rows.copy()
    part[:600] *= 100.0
    constant = np.ones(2000)
    usual, busy = random.lognormal(3.0, 0.5, 2000), random.lognormal(3.9, 0.7, 2000)
    before = decile_edges(np.column_stack([rows, rows, constant, usual]))
    now = np.column_stack([rows + 18.0, part, 100.0 * constant, busy])
    assert np.isnan(unit_factors(before, now)).all()


def test_a_decile_in_a_gap_does_not_hide_a_factor():
    # The last decile of the table before is among its few large values.
    before, now = (np.append(np.linspace(1, 10, 1000), np.full(m, 2e3)) for m in (120, 100))
    found = unit_factors(decile_edges(before[:, None]), 100 * now[:, None])
    assert found == pytest.approx(100, 0.05)


def test_values_near_the_limits_of_float64_have_no_factor():
    tiny, huge = np.arange(1, 10) * 5e-324, np.arange(-4, 5) * 4e307
    before, now = np.array([tiny, huge, huge]), np.array([1e3 * tiny, tiny, huge])
    assert np.isnan(unit_factors(before, now.T.copy())).all()
    scaled = np.linspace(1e-290, 2e-290, 9)
    assert unit_factors(scaled[None], 1e300 * scaled[:, None]) == pytest.approx(1e300, rel=1e-6)


def nights_of_machines(seed, n=3000):
    """Return temperatures (n,) of two kinds of parts, and a flag: made by the second machine."""
    random = np.random.default_rng(seed)
    return np.where(random.random(n) < 0.4, 182.0, 205.0) + random.normal(
        0.0, 2.0, n
    ), random.random(n) < 0.4


UNIT_CHANGES = [(1000.0, 0.0), (1 / 14.5, 0.0), (1.8, 32.0), (1 / 1.8, -32 / 1.8)]


@pytest.mark.parametrize(("factor", "offset"), UNIT_CHANGES)
def test_the_unit_of_a_part_of_the_rows(factor, offset):
    before = ColumnCounts.empty(decile_edges(nights_of_machines(0)[0][:, None]))
    before.add(nights_of_machines(0)[0][:, None])
    values, part = nights_of_machines(1)
    values = np.where(part, values * factor + offset, values)
    left, change = unit_of_part(before.edges[0], before.counts[0], values, part)
    assert left < 0.02
    assert change == pytest.approx((factor, offset), rel=0.05)
    others = np.random.default_rng(2).permutation(part)
    assert unit_of_part(before.edges[0], before.counts[0], values, others) is None


@pytest.mark.parametrize("decimals", [0, 1, 2])
@pytest.mark.parametrize("is_back", [False, True])
def test_rounded_temperatures_of_a_fifth_of_the_rows(decimals, is_back):
    def night(seed, is_fahrenheit):
        random = np.random.default_rng(seed)
        part = random.random(5000) < 0.2
        celsius = np.round(random.normal(34.4, 1.0, 5000), decimals)
        fahrenheit = np.round(1.8 * celsius + 32.0, decimals)
        return np.where(part & is_fahrenheit, fahrenheit, celsius), part

    earlier, (values, part) = night(1, is_back)[0], night(2, not is_back)
    before = ColumnCounts.empty(decile_edges(earlier[:, None]))
    before.add(earlier[:, None])
    _, change = unit_of_part(before.edges[0], before.counts[0], values, part)
    assert change.factor == pytest.approx(1 / 1.8 if is_back else 1.8)


@pytest.mark.parametrize("others", [0.0, np.nan, 7.0])
@pytest.mark.parametrize(("factor", "offset"), [(1000.0, 0.0), (1.8, 32.0)])
def test_the_unit_of_a_part_beside_rows_without_decimals(others, factor, offset):
    def night(seed):
        random = np.random.default_rng(seed)
        part = random.random(5000) < 0.5
        return np.where(part, random.normal(34.4, 0.2, 5000), others), part

    earlier, (values, part) = night(1)[0], night(2)
    before = ColumnCounts.empty(decile_edges(earlier[:, None]))
    before.add(earlier[:, None])
    values = np.where(part, values * factor + offset, values)
    _, change = unit_of_part(before.edges[0], before.counts[0], values, part)
    assert change == pytest.approx((factor, offset), rel=0.05)


@pytest.mark.parametrize(
    "settings", [([10.0], [50.0]), ([0.0], [32.0]), ([10.0, 20.0], [50.0, 68.0])]
)
def test_a_few_settings_have_no_temperature_scale(settings):
    earlier, later = (np.resize(one, 1000) for one in settings)
    before = ColumnCounts.empty(decile_edges(earlier[:, None]))
    before.add(earlier[:, None])
    every = np.ones(1000, bool)
    assert unit_of_part(before.edges[0], before.counts[0], later, every) is None


@pytest.mark.parametrize(("factor", "offset"), [(1.0, 0.0), (1.0, 30.0), (1.5, 0.0), (2.5, 0.0)])
def test_other_changes_of_a_part_are_no_units(factor, offset):
    before = ColumnCounts.empty(decile_edges(nights_of_machines(0)[0][:, None]))
    before.add(nights_of_machines(0)[0][:, None])
    values, part = nights_of_machines(1)
    values = np.where(part, values * factor + offset, values)
    assert unit_of_part(before.edges[0], before.counts[0], values, part) is None
