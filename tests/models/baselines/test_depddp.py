import itertools

import numpy as np
import pytest
from sklearn.decomposition import PCA
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


def test_the_tree_says_how_rows_were_divided():
    X, _ = blobs(4)
    model = DePDDP().fit(X)
    inner = model.children_[:, 0] >= 0
    assert model.counts_[0] == len(X)
    sums = model.counts_[model.children_[inner]].sum(axis=1)
    assert sums.tolist() == model.counts_[inner].tolist()
    assert np.isfinite(model.densities_[inner]).all()
    np.testing.assert_allclose(np.linalg.norm(model.directions_[inner], axis=1), 1.0, rtol=1e-6)
    below = (X - X.mean(axis=0)) @ model.directions_[0] <= model.thresholds_[0]
    assert below.sum() == model.counts_[model.children_[0, 0]]


def test_the_lowest_minimum_is_split_first():
    # the split of the root's left child is made through an emptier place than that of its right one
    rng = np.random.default_rng(0)
    means = np.array([[-30.0, -8.0], [-30.0, 8.0], [30.0, -2.2], [30.0, 2.2]])
    y = np.repeat(np.arange(4), 500)
    X = means[y] + rng.normal(size=(2000, 2))
    three = DePDDP(n_clusters=3).fit(X)
    assert adjusted_rand_score(np.minimum(y, 2), three.labels_) > 0.99
    split = np.flatnonzero(np.isfinite(three.densities_))
    assert len(split) == 3  # the root, its child that was split, and the one that was next
    assert DePDDP(n_clusters=4).fit(X).n_clusters_ == 4


def test_too_few_minima_give_a_warning():
    X, _ = blobs(2, 2)
    with pytest.warns(UserWarning, match="9 clusters were asked for, but only 2 found"):
        assert DePDDP(n_clusters=9, bandwidth=2.0).fit(X).n_clusters_ == 2


def test_trim_and_min_samples_keep_outliers():
    X, _ = blobs(1, 2, n=400)
    X[:6] += 100.0
    assert DePDDP(bandwidth=2.0).fit(X).n_clusters_ == 2
    assert DePDDP(bandwidth=2.0, trim=0.02).fit(X).n_clusters_ == 1
    assert DePDDP(bandwidth=2.0, min_samples=7).fit(X).n_clusters_ == 1


@pytest.mark.parametrize(("n", "d"), [(50, 5), (20, 40), (9000, 3)])
def test_first_component(n, d):
    rows = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32) + np.float32(50.0)
    rows[:, 1] *= 3.0
    found, known = first_component(rows), PCA(1).fit(rows.astype(np.float64)).components_[0]
    assert found[np.abs(found).argmax()] > 0.0
    assert abs(found @ known) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(("n", "d"), [(30, 3), (3, 30)])
def test_equal_rows_have_no_component(n, d):
    assert first_component(np.full((n, d), 0.1, np.float32)) is None
    assert DePDDP().fit(np.full((n, d), 0.1)).n_clusters_ == 1
