import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from distsvc.baselines import FuzzyCMeans
from distsvc.models.baselines.fuzzy import best_centres, memberships_of


def blobs(n=600, k=4, d=3, seed=0, scale=6.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    return rng.normal(scale=scale, size=(k, d))[y] + rng.normal(size=(n, d)), y


def objective(X, centres, memberships, m):
    """The sum, one term at a time."""
    return sum(
        memberships[i, c] ** m * ((x - centre) ** 2).sum()
        for i, x in enumerate(X)
        for c, centre in enumerate(centres)
    )


def test_clusters_are_found():
    X, y = blobs()
    model = FuzzyCMeans(4, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert model.labels_.dtype == np.int32
    assert model.predict(X).tolist() == model.labels_.tolist()
    np.testing.assert_array_equal(model.memberships(X), model.memberships_)
    np.testing.assert_allclose(model.memberships_.sum(axis=1), 1.0)
    assert model.n_iter_ == len(model.objectives_)
    known = objective(X, model.cluster_centers_, model.memberships_, 2.0)
    assert model.objective_ == pytest.approx(known)


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


def test_the_answer_is_stationary():
    X, _ = blobs(scale=2.0)
    model = FuzzyCMeans(4, m=1.7, tol=1e-10, max_iter=5000, random_state=0).fit(X)
    weights = model.memberships_**1.7
    means = weights.T @ X / weights.sum(axis=0)[:, None]
    np.testing.assert_allclose(model.cluster_centers_, means, atol=1e-7)
    # d/du of J, u^(m - 1) times squared distance, is the same for all clusters of a row
    squared = ((X[:, None] - model.cluster_centers_[None]) ** 2).sum(axis=2)
    slopes = model.memberships_**0.7 * squared
    np.testing.assert_allclose(slopes, np.broadcast_to(slopes[:, :1], slopes.shape), rtol=1e-9)


def test_near_1_it_is_kmeans():
    X, _ = blobs(scale=3.0)
    peer = KMeans(4, n_init=10, random_state=0).fit(X)
    model = FuzzyCMeans(4, m=1.001, n_init=10, random_state=0).fit(X)
    assert adjusted_rand_score(peer.labels_, model.labels_) > 0.99
    assert model.objective_ == pytest.approx(peer.inertia_, rel=1e-3)


def test_a_row_on_a_centre_belongs_to_it():
    squared = np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    expected = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]]
    for m in (1.001, 2.0, 50.0):
        found = memberships_of(squared, m)
        np.testing.assert_allclose(found, expected)


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
