"""Rows that lie far from all others, and how many of them learning ignores."""

import numpy as np
import pytest

from distsvc.models.rows.aside import (
    MAX_OUTLIER_ROWS,
    MIN_OUTLIER_RANGES,
    ColumnEnds,
    Reach,
    how_many_aside,
    most_aside,
)
from distsvc.models.rows.scaling import ColumnSums


@pytest.mark.parametrize("n", [0, 5, 30, 150, 788, 5000, 10**6])
def test_ignored_rows_are_too_few_for_a_cluster(n):
    most = most_aside(n)
    assert most <= n / 10
    assert most <= MAX_OUTLIER_ROWS
    assert most < max(5, 0.3 * np.sqrt(n))


def test_distances_are_in_column_ranges():
    values = np.arange(1000.0)
    reach = Reach.of(np.column_stack([values, -2 * values]))
    first, last = MAX_OUTLIER_ROWS, 999 - MAX_OUTLIER_ROWS
    found = reach.distances(np.array([[first, -2 * last], [999, np.nan], [1e9, 0.0], [0.0, 1e9]]))
    expected = [[0, 0], [first, 0], [1e9 - last, first], [first, 5e8 + first]]
    np.testing.assert_allclose(found * (last - first), expected, rtol=1e-6)


def test_a_range_leaves_out_extreme_and_missing_values():
    values = np.random.default_rng(0).normal(size=1000)
    reach = Reach.of(
        np.concatenate([values, np.full(MAX_OUTLIER_ROWS, 1e9), np.full(100, np.nan)])[:, None]
    )
    assert reach.high <= values.max()
    assert reach.low >= values.min()


@pytest.mark.parametrize("cuts", [[], [1], [2, 7000]])
def test_ends_are_the_extreme_values_of_columns_with_their_first_rows(cuts):
    X = np.random.default_rng(0).integers(-30, 30, size=(9000, 3)).astype(float)
    X[:, 1] = np.random.default_rng(1).normal(size=9000)
    X[X == 29] = np.nan
    rows = 5 * np.arange(9000)
    ends = ColumnEnds.empty(3)
    for block, numbers in zip(np.split(X, cuts), np.split(rows, cuts), strict=True):
        own = ColumnEnds.empty(3)
        assert ColumnSums.empty(np.zeros(3)).add(block, numbers, own) is None
        ends = ends.merged(own)
    for side, sign in enumerate((1.0, -1.0)):
        order = np.argsort(sign * X, axis=0, kind="stable")[: MAX_OUTLIER_ROWS + 1]  # NaN is last
        assert ends.rows[side].tolist() == rows[order].tolist()
        assert ends.values[side].tolist() == np.take_along_axis(X, order, axis=0).tolist()


def test_columns_of_few_values_have_as_many_ends():
    ends = ColumnEnds.empty(2)
    X = np.array([[np.nan, 3.0], [np.nan, 1.0]])
    ColumnSums.empty(np.zeros(2)).add(X, np.array([4, 9]), ends)
    assert (ends.rows >= 0).sum(axis=1).tolist() == [[0, 2], [0, 2]]
    assert ends.rows[:, :2, 1].tolist() == [[9, 4], [4, 9]]


def test_an_ordinary_table_has_no_far_rows():
    random = np.random.default_rng(1)
    pilot, table = (
        np.column_stack([random.normal(size=n), random.exponential(size=n)])
        for n in (10_000, 10**6)
    )
    assert Reach.of(pilot).distances(table).max() < MIN_OUTLIER_RANGES


@pytest.mark.parametrize(("distances", "expected"), [
    ([], 0), ([1e6], 1), ([50.0, 4.0], 2), ([1e9] * 3, 3), ([1e6, 50.0, 40.0, 30.0], 1),
    ([1e6, 400.0, 39.0, 30.0], 2), ([50.0, 40.0, 30.0, 20.0], 0),
])  # fmt: skip
def test_few_rows_are_ignored_or_those_far_beyond_the_rest(distances, expected):
    assert how_many_aside(np.array(distances), 3) == expected
