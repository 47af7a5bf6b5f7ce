import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from benchmarks.harness.measure import timed
from benchmarks.harness.systems import SYSTEMS, Facts
from distsvc import AutoClustering

X, Y = make_blobs(150, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)


@pytest.mark.parametrize("name", ["Ward", "GMM", "Genie", "spectral", "iMDH_k, ours"])
def test_what_is_told_the_number_of_classes_finds_so_many(name):
    if name == "Genie":
        pytest.importorskip("genieclust")
    if name == "spectral":
        pytest.importorskip("sklearn", "1.9", reason="mixes up the parts of a graph before")
    protocol, point = SYSTEMS[name].alone
    model = SYSTEMS[name].make(Facts(len(X), 3, 0), 0, **point)
    before = X.copy()
    timed(model.fit, X)  # spectral clustering warns of a graph in three parts
    assert protocol == "oracle"
    assert adjusted_rand_score(Y, model.labels_) == 1.0
    np.testing.assert_array_equal(X, before)


def test_the_choice_of_the_algorithm_is_the_estimators():
    model = SYSTEMS["auto"].make(Facts(len(X), 3, 0), 7)
    assert (type(model), model.random_state) == (AutoClustering, 7)
    assert adjusted_rand_score(Y, model.fit(X).labels_) == 1.0
