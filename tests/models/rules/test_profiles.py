"""Ranges that separate clusters, compared with all ranges; columns that are left out."""

import numpy as np
import pytest

from distsvc.models.rules.profiles import best_ranges, leanings, profiles


def best_of_all(x, inside):
    """Return J of the best range between two values of x, by trying all pairs."""
    found = 0.0
    for low in np.unique(x):
        for high in np.unique(x[x >= low]):
            within = (x >= low) & (x <= high)
            found = max(found, within[inside].mean() - within[~inside].mean())
    return found


def profiled(X, labels, most=100, centres=None):
    k = labels.max() + 1
    centres = np.zeros((k, X.shape[1])) if centres is None else centres
    return profiles(X, X, labels, np.ones(len(X), bool), centres, most)


def names(profile):
    return [column.place for column in profile.columns]


@pytest.mark.parametrize("seed", range(6))
def test_no_range_is_better(seed):
    random = np.random.default_rng(seed)
    X = np.round(random.normal(size=(120, 3)) * [1.0, 3.0, 0.4])
    labels = random.integers(0, 3, 120)
    apart, ranges = best_ranges(X, labels, [2, 0])
    for i, c in enumerate([2, 0]):
        for k in range(3):
            inside, (low, high) = labels == c, ranges[i, k]
            assert apart[i, k] == pytest.approx(best_of_all(X[:, k], inside))
            within = (X[:, k] >= low) & (X[:, k] <= high)
            assert apart[i, k] == pytest.approx(within[inside].mean() - within[~inside].mean())
            assert {low, high} <= set(X[:, k])


@pytest.mark.parametrize("seed", range(3))
def test_leanings_count_pairs_of_rows(seed):
    random = np.random.default_rng(seed)
    X = np.round(random.normal(size=(90, 2)) * 2.0)
    labels = random.integers(0, 3, 90)
    found = leanings(X, labels, [2, 0])
    for i, c in enumerate([2, 0]):
        inside, others = X[labels == c], X[labels != c]
        above = np.sign(inside[:, None] - others).mean(axis=(0, 1))
        assert found[i] == pytest.approx(above)
    assert leanings(X[:, :1], (X[:, 0] > 0).astype(int), [0, 1]).ravel() == pytest.approx([-1, 1])


def three_that_matter(n=3000, d=40, seed=0):
    """Return rows of four clusters that differ in the columns 7, 19 and 31 of 40, and labels."""
    random = np.random.default_rng(seed)
    X, labels = random.normal(size=(n, d)), random.integers(0, 4, n)
    centres = np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 6.0], [0.0, 6.0, -6.0], [6.0, 6.0, 0.0]])
    X[:, [7, 19, 31]] += centres[labels]
    X[:, 3] = np.exp(3.0 * X[:, 3])
    return X, labels


def test_of_forty_columns_the_three_that_matter_are_named():
    X, labels = three_that_matter()
    for profile in profiled(X, labels):
        assert sorted(names(profile)) == [7, 19, 31]


def test_no_unrelated_column_is_named():
    X, _ = three_that_matter()
    labels = np.random.default_rng(1).integers(0, 4, len(X))
    assert [names(profile) for profile in profiled(X, labels)] == [[]] * 4


def test_one_cluster_has_no_profile():
    assert profiled(np.arange(9.0)[:, None], np.ones(9, int)) == []
