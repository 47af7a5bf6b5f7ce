import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from distsvc.baselines import FuzzyCMeans
from distsvc.models.baselines.rules import memberships_of


def blobs(n=600, k=4, d=3, seed=0, scale=6.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    return rng.normal(scale=scale, size=(k, d))[y] + rng.normal(size=(n, d)), y


def test_memberships_by_hand():
    # squared distances 1 and 4: with m = 2 inverse distances 1 and 1/4, with m = 3 their roots
    np.testing.assert_allclose(memberships_of(np.array([[1.0, 4.0]]), 2.0), [[0.8, 0.2]])
    np.testing.assert_allclose(memberships_of(np.array([[1.0, 4.0]]), 3.0), [[2 / 3, 1 / 3]])


def test_too_few_iterations_give_a_warning():
    X, _ = blobs()
    with pytest.warns(ConvergenceWarning, match="after 2 iterations"):
        FuzzyCMeans(4, max_iter=2, random_state=0).fit(X)


def objective(X, centres, memberships, m):
    """The objective, computed term by term."""
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
