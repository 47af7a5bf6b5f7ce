import numpy as np
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
