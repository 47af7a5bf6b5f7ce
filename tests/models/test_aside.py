"""Fences around columns, beyond which a row lies far from all others."""

import numpy as np
import pytest

from distsvc.models.aside import MOST, RANGES, fences, most_aside


@pytest.mark.parametrize("n", [0, 5, 30, 150, 788, 5000, 10**6])
def test_what_is_set_aside_is_too_few_for_a_cluster(n):
    most = most_aside(n)
    assert most <= n / 10
    assert most <= MOST
    assert most < max(5, 0.3 * np.sqrt(n))


def test_fences_are_ranges_away_from_the_values_between_the_ends():
    values = np.arange(1000.0)
    low, high = fences(np.column_stack([values, -2 * values]))
    first, last = MOST, 999 - MOST
    away = RANGES * (last - first)
    np.testing.assert_array_equal(low, [first - away, -2 * (last + away)])
    np.testing.assert_array_equal(high, [last + away, -2 * (first - away)])


def test_far_values_and_missing_ones_move_no_fence_far():
    random = np.random.default_rng(0)
    values = random.normal(size=1000)
    far = np.concatenate([values, np.full(MOST, 1e9), np.full(100, np.nan)])
    for clean, other in zip(fences(values[:, None]), fences(far[:, None]), strict=True):
        assert abs(clean[0]) < abs(other[0]) < 1.5 * abs(clean[0])


def test_columns_of_one_value_have_no_fence():
    rare = np.zeros(1000)
    rare[:MOST] = 1.0
    low, high = fences(np.column_stack([rare, np.full(1000, np.nan), np.ones(1000)]))
    assert (low == -np.inf).all()
    assert (high == np.inf).all()


def test_an_ordinary_table_lies_between_its_fences():
    random = np.random.default_rng(1)
    X = np.column_stack([random.normal(size=10_000), random.exponential(size=10_000)])
    low, high = fences(X)
    more = np.column_stack([random.normal(size=10**6), random.exponential(size=10**6)])
    assert ((more > low) & (more < high)).all()
