import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from distsvc.baselines import BICO


def blobs(n=2000, k=5, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    return rng.normal(scale=10.0, size=(k, d))[y] + rng.normal(size=(n, d)), y


def test_clusters_are_found():
    X, y = blobs()
    model = BICO(5, size=100, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.98
    assert model.labels_.dtype == np.int32
    assert model.predict(X).tolist() == model.labels_.tolist()
    assert model.coreset_points_.shape == (len(model.coreset_weights_), 4)
    assert len(model.coreset_weights_) <= 100


def test_fewer_distinct_rows_than_clusters():
    X = np.repeat([[0.0, 1.0], [5.0, 5.0]], 30, axis=0)
    with pytest.warns(UserWarning, match="4 clusters were asked for, but only 2 found"):
        model = BICO(4, random_state=0).fit(X)
    assert model.coreset_weights_.tolist() == [30.0, 30.0]
    assert model.inertia_ == 0.0
