import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from distsvc.baselines import BICO
from distsvc.models.rows.sampling import row_keys


def blobs(n=2000, k=5, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    return rng.normal(scale=10.0, size=(k, d))[y] + rng.normal(size=(n, d)), y


def cost(X, centres):
    return ((X[:, None] - centres[None]) ** 2).sum(axis=2).min(axis=1).sum()


def test_clusters_are_found():
    X, y = blobs()
    model = BICO(5, size=100, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.98
    assert model.labels_.dtype == np.int32
    assert model.predict(X).tolist() == model.labels_.tolist()
    assert model.coreset_points_.shape == (len(model.coreset_weights_), 4)
    assert len(model.coreset_weights_) <= 100


def test_inertia_is_the_cost_of_the_features_with_their_centres():
    X, _ = blobs()
    model = BICO(5, size=50, random_state=0).fit(X)
    gaps = ((model.coreset_points_[:, None] - model.cluster_centers_[None]) ** 2).sum(axis=2)
    known = model.coreset_weights_ @ gaps.min(axis=1) + model.coreset_sums_.sum()
    assert model.inertia_ == pytest.approx(known)
    assert model.inertia_ >= cost(X, model.cluster_centers_) * (1.0 - 1e-12)


def test_a_stream_is_the_same_as_its_rows_together():
    X, _ = blobs()
    whole, stream = BICO(5, size=60, random_state=0).fit(X), BICO(5, size=60, random_state=0)
    order = np.argsort(row_keys(0, np.arange(len(X))))
    for part in np.split(X[order], [1, 50, 900]):
        stream.partial_fit(part)
        assert len(stream.predict(part)) == len(part) if len(part) > 10 else True
    assert stream.n_seen_ == whole.n_seen_ == 2000
    assert stream.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
    assert not hasattr(stream, "labels_")


def test_fewer_distinct_rows_than_clusters():
    X = np.repeat([[0.0, 1.0], [5.0, 5.0]], 30, axis=0)
    with pytest.warns(UserWarning, match="4 clusters were asked for, but only 2 found"):
        model = BICO(4, random_state=0).fit(X)
    assert model.coreset_weights_.tolist() == [30.0, 30.0]
    assert model.inertia_ == 0.0
