import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from distsvc.baselines import FuzzyCMeans
from distsvc.models.baselines.fuzzy import best_centres, memberships_of


def blobs(n=600, k=4, d=3, seed=0, scale=6.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    return rng.normal(scale=scale, size=(k, d))[y] + rng.normal(size=(n, d)), y


def test_memberships_by_hand():
    # squared distances 1 and 4: with m = 2 inverse distances 1 and 1/4, with m = 3 their roots
    np.testing.assert_allclose(memberships_of(np.array([[1.0, 4.0]]), 2.0), [[0.8, 0.2]])
    np.testing.assert_allclose(memberships_of(np.array([[1.0, 4.0]]), 3.0), [[2 / 3, 1 / 3]])


def test_centres_by_hand():
    X = np.array([[0.0], [1.0], [4.0]])
    memberships = np.array([[0.8, 0.2], [0.5, 0.5], [0.0, 1.0]])
    # weights .64, .25, 0 and .04, .25, 1
    expected = [[0.25 / 0.89], [4.25 / 1.29]]
    np.testing.assert_allclose(best_centres(X, memberships, 2.0, np.zeros((2, 1))), expected)


def test_more_clusters_than_distinct_rows():
    X = np.repeat([[0.0, 1.0], [5.0, 5.0]], 20, axis=0)
    with np.errstate(all="raise"):
        model = FuzzyCMeans(3, random_state=0).fit(X)
    assert np.isfinite(model.cluster_centers_).all()
    assert model.objective_ == 0.0
    assert adjusted_rand_score(np.repeat([0, 1], 20), model.labels_) == 1.0


def test_a_centre_without_rows_stays():
    X, old = np.array([[0.0], [2.0]]), np.array([[1.0], [9.0]])
    memberships = np.array([[1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(best_centres(X, memberships, 2.0, old), [[1.0], [9.0]])


def test_too_few_iterations():
    X, _ = blobs()
    with pytest.warns(ConvergenceWarning, match="after 2 iterations"):
        FuzzyCMeans(4, max_iter=2, random_state=0).fit(X)


def test_too_few_rows():
    with pytest.raises(ValueError, match="n_samples=3 should be >= n_clusters=4"):
        FuzzyCMeans(4).fit(np.eye(3))
