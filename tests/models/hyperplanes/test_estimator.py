import itertools

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score

from distsvc import IncrementalMDH
from distsvc.models.hyperplanes.engine import TreeEngine
from tests.models.hyperplanes.hyperplane_rows import (
    ONE_CLUSTER,
    blobs,
    estimator,
    gaussian,
    one_cluster_is_fine,
    state,
)


@pytest.mark.parametrize("seed", [0])
@pytest.mark.parametrize(("k", "d"), [(2, 2), (3, 2), (4, 3), (5, 3), (8, 5), (3, 10)])
def test_separate_gaussians_are_recovered(k, d, seed):
    X, y = blobs(k, d, seed)
    model = IncrementalMDH(scale="none", random_state=seed).fit(X)  # columns of noise stay narrow
    assert model.n_clusters_ == k
    assert adjusted_rand_score(y, model.labels_) >= 0.98
    assert model.agreement_ >= 0.95
    assert (model.valleys_ > 2.0).all()
    assert min(model.clearest_valley_, model.valleys_.max()) > 8.0


def test_labels_do_not_depend_on_units():
    """Units are powers of two, so that nothing is rounded."""
    X = load_wine().data
    units = 2.0 ** np.arange(-6, 7)
    model, other = (IncrementalMDH(random_state=0).fit(rows) for rows in (X, X * units))
    assert (other.labels_ == model.labels_).all()
    np.testing.assert_allclose(other.score_samples(X * units), model.score_samples(X), rtol=1e-3)
    # what is learned on scaled rows is published for rows as they are
    tree = model.cluster_tree_
    np.testing.assert_allclose(np.linalg.norm(tree.V, axis=1), 1.0, rtol=1e-6)
    assert (model.predict(X) == model.labels_).all()
    with pytest.warns(UserWarning, match=ONE_CLUSTER):
        plain = IncrementalMDH(random_state=0, scale="none").fit(X)
    assert plain.labels_.tolist() != model.labels_.tolist()


def test_small_tables_have_more_restarts():
    engine = TreeEngine(IncrementalMDH().get_params(), 0)
    assert [engine.n_restarts(n) for n in (100, 10_000, 20_000, 10**6)] == [60, 60, 40, 5]
    engine = TreeEngine(IncrementalMDH(n_init=3).get_params(), 0)
    assert engine.n_restarts(100) == 3


def test_the_number_of_clusters_is_lowered_until_trees_agree(monkeypatch):
    """Trees agree on the gap between two cubes, but divide each cube differently."""
    monkeypatch.setattr("distsvc.models.hyperplanes.engine.elbow", lambda curve, rule: 16)
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (2000, 10))
    X[:1000, 0] += 4.0
    with pytest.warns(UserWarning, match="the number of clusters was lowered from 16 to 3"):
        model = IncrementalMDH(n_init=5, scale="none", random_state=0).fit(X)
    assert model.n_clusters_ == 3
    assert model.agreement_ == 0.0  # of the same answer, up to an adjusted Rand index of .8
    assert len(model.valleys_) == 2
    assert adjusted_rand_score(np.arange(2000) < 1000, model.labels_) > 0.6
    told = IncrementalMDH(n_clusters=16, n_init=5, scale="none", random_state=0).fit(X)
    assert told.n_clusters_ == 16


def distances_by_hand(model, X):
    tree, cut = model.cluster_tree_, set(model.cluster_tree_.splits[: model.n_clusters_ - 1])
    found = np.full(len(X), np.inf)
    for i, x in enumerate(X - model.centre_):
        node = 0
        while node in cut:
            gap = x @ tree.V[node].astype(np.float64) - tree.thresholds[node]
            found[i] = min(found[i], abs(gap) / tree.spreads[node])
            node = tree.children[node, int(gap >= 0.0)]
    return found


@pytest.mark.parametrize("n_clusters", [None, 2, 9])
def test_scores_are_distances_to_hyperplanes(n_clusters):
    model = estimator(n_clusters=n_clusters).fit(blobs()[0])
    X = np.concatenate([blobs(seed=7, n=200)[0], 100.0 * gaussian(50)])
    found = model.score_samples(X)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, distances_by_hand(model, X), rtol=1e-4, atol=1e-4)


def test_a_cut_equals_a_fit_with_that_number():
    X, _ = blobs()
    model = estimator(n_init=1).fit(X)
    for k in (2, 3, 4, 7, 12):
        expected = estimator(n_clusters=k, n_init=1).fit(X).labels_
        labels = model.cut(k)
        assert labels.dtype == np.int32
        assert (labels == expected).all()
    assert (model.cut(model.n_clusters_) == model.labels_).all()
    assert model.n_clusters_ == 4


@one_cluster_is_fine
def test_one_cluster_is_the_answer():
    found = []
    for kind, d in itertools.product(["normal", "uniform"], [2, 5, 10]):
        for seed, n in enumerate([500, 1000, 3000]):
            X = getattr(np.random.default_rng(seed), kind)(size=(n, d))
            model = IncrementalMDH(random_state=seed).fit(X)
            found.append(model.n_clusters_)
            assert found[-1] > 1 or not (model.labels_.any() or model.valleys_.size)
    assert sum(k > 1 for k in found) <= 2


def test_one_cluster_gives_a_note():
    X = gaussian()
    with pytest.warns(
        UserWarning, match=rf"{ONE_CLUSTER} .*expected at least valley = 3\.2\)"
    ) as caught:
        model = estimator().fit(X)
    assert model.notes_ == [str(warning.message) for warning in caught]
    assert not model.labels_.any()
    assert not model.predict(X).any()
    assert not model.cut(model.n_clusters_).any()
    assert set(model.cut(3)) == {0, 1, 2}
    assert model.cluster_tree_.n_leaves > 20


@pytest.mark.parametrize("parameters", [{"valley": 0.0}, {"n_clusters": 3}])
def test_several_clusters_on_request_although_one_is_best(parameters):
    for seed in range(3):
        model = IncrementalMDH(random_state=seed, **parameters).fit(gaussian(seed=seed))
        assert model.n_clusters_ == parameters.get("n_clusters", model.n_clusters_) > 1
        assert model.notes_ == []
        assert set(model.labels_) == set(range(model.n_clusters_))


def test_labels_do_not_depend_on_an_offset():
    X, _ = blobs()
    expected = estimator().fit(X)
    found = estimator().fit(X + 1000.0)
    assert (found.labels_ == expected.labels_).all()
    grid = np.round(blobs(n=512)[0] * 1024.0) / 1024.0  # all sums of which are exact
    expected = estimator(n_clusters=9).fit(grid)
    assert state(estimator(n_clusters=9).fit(grid + 4096.0)) == state(expected)


def test_max_samples_limits_the_rows_learned_from():
    X, y = blobs(n=5000)
    model = estimator(max_samples=1000).fit(X)
    assert abs(model.n_samples_ - 1000) <= 4 * np.sqrt(1000 * 0.8)
    assert model.cluster_tree_.counts[0] == model.n_samples_
    assert model.labels_.shape == (5000,)
    assert (model.predict(X) == model.labels_).all()
    assert adjusted_rand_score(y, model.labels_) >= 0.98
    for max_samples in (5000, 10**9, None):
        assert estimator(max_samples=max_samples).fit(X).n_samples_ == 5000
