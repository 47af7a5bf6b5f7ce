import itertools

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from distsvc.baselines import DePDDP
from distsvc.models.baselines.depddp import first_component


def blobs(k=4, d=3, seed=0, n=800):
    """Gaussians in corners of a box, ten standard deviations and more apart, of unequal sizes."""
    rng = np.random.default_rng(seed)
    corners = np.array(list(itertools.islice(itertools.product([0.0, 10.0], repeat=d), k)))
    corners *= 1.6 ** np.arange(d)
    y = rng.choice(k, size=n, p=np.arange(1, k + 1) / (k * (k + 1) / 2))
    return corners[y] + rng.normal(size=(n, d)), y


@pytest.mark.parametrize(("k", "d"), [(2, 2), (4, 3), (5, 3), (8, 5)])
def test_separate_gaussians_are_recovered(k, d):
    X, y = blobs(k, d)
    model = DePDDP(n_clusters=k).fit(X)
    assert model.n_clusters_ == k
    assert adjusted_rand_score(y, model.labels_) > 0.99
    assert adjusted_rand_score(y, DePDDP().fit_predict(X)) > 0.95


def test_too_few_minima_give_a_warning():
    X, _ = blobs(2, 2)
    with pytest.warns(UserWarning, match="9 clusters were asked for, but only 2 found"):
        assert DePDDP(n_clusters=9, bandwidth=2.0).fit(X).n_clusters_ == 2


@pytest.mark.parametrize(("n", "d"), [(30, 3), (3, 30)])
def test_equal_rows_have_no_component(n, d):
    assert first_component(np.full((n, d), 0.1, np.float32)) is None
    assert DePDDP().fit(np.full((n, d), 0.1)).n_clusters_ == 1
