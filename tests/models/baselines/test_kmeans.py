import numpy as np
import pytest
from sklearn.cluster import KMeans as ScikitKMeans
from sklearn.datasets import make_blobs

from distsvc.baselines import KMeans
from distsvc.models.rows.sampling import row_keys

X = make_blobs([50, 90, 160], centers=None, random_state=0)[0]


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_centres_are_those_of_scikit_learn(init):
    model = KMeans(3, init=init, n_init=2, random_state=5).fit(X)
    order = np.argsort(row_keys(5, np.arange(len(X))))
    peer = ScikitKMeans(3, init=init, n_init=2, random_state=5).fit(X[order])
    assert model.inertia_ == peer.inertia_
    assert sorted(map(tuple, model.cluster_centers_)) == sorted(map(tuple, peer.cluster_centers_))
    sizes = np.bincount(model.labels_).tolist()
    assert sizes == sorted(np.bincount(peer.labels_).tolist(), reverse=True)
    assert model.predict(X).tolist() == model.labels_.tolist()
    assert model.labels_.dtype == np.int32
