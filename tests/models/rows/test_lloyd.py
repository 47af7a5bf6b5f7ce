import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans

from distsvc.models.rows.lloyd import lloyd_labels
from distsvc.models.rows.threads import one_thread


def starts(X, k, seed):
    return X[np.random.default_rng(seed).choice(len(X), k, replace=False)]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("grid", [False, True])
def test_labels_are_those_of_scikit_learn(seed, grid):
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(5, 1500)), int(rng.integers(1, 11)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, d)) * rng.uniform(0.1, 9.0, d) + 3.0 * rng.integers(0, 3, (n, 1))
    if grid:  # rows at equal distances, and more centres than different rows
        X = X.round()
    centres = starts(X, min(k, n), seed)
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = KMeans(len(centres), init=centres, n_init=1).fit(X).labels_
        found = lloyd_labels(X, centres)
    assert found.dtype == expected.dtype
    assert (found == expected).all()


@pytest.mark.parametrize("seed", range(6))
def test_empty_clusters_are_placed_as_in_scikit_learn(seed):
    X = np.random.default_rng(seed).normal(size=(300, 3))
    centres = np.concatenate([starts(X, 2, seed), X[:2] + 50.0, X[:1] - 50.0])
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = KMeans(5, init=centres, n_init=1).fit(X).labels_
    assert (lloyd_labels(X, centres) == expected).all()


def test_one_row_and_equal_rows_have_one_cluster():
    assert lloyd_labels(np.ones((1, 2)), np.ones((1, 2))).tolist() == [0]
    assert lloyd_labels(np.ones((4, 2)), np.ones((2, 2))).tolist() == [0] * 4
