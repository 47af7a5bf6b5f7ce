import warnings

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from distsvc import AutoClustering, IncrementalMDH, SupportVectorClustering
from distsvc.models.automatic import engine as automatic
from distsvc.models.automatic.rule import ScoredTreeRule
from distsvc.models.support_vector.level_tree.rule import LevelRule
from tests.estimator_checks import quietly


def blobs(n=400, d=5, seed=0):
    return make_blobs(n, n_features=d, centers=4, cluster_std=0.7, random_state=seed)


def estimator(**parameters):
    return AutoClustering(effort="fast", random_state=0, **parameters)


@pytest.fixture
def no_level_tree_is_trusted(monkeypatch):
    monkeypatch.setattr(automatic, "LOW_SUPPORT", 1.0)


@parametrize_with_checks([AutoClustering(effort="fast")])
def test_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


def test_where_the_models_agree_it_is_the_level_tree():
    X, y = blobs()
    model = estimator().fit(X)
    own = SupportVectorClustering(effort="fast", random_state=0).fit(X)
    assert model.algorithm_ == "support-vector"
    assert model.agreement_ == own.agreement_ > 0.5
    assert (model.labels_ == own.labels_).all()
    assert (model.decision_function(X) == own.decision_function(X)).all()
    assert adjusted_rand_score(y, model.labels_) == 1.0
    assert "more than half, so it is trusted" in model.why_


@pytest.mark.usefixtures("no_level_tree_is_trusted")
def test_where_they_do_not_it_is_imdh_with_the_scores_of_the_level_tree():
    X, y = blobs()
    model = quietly(estimator(), X)
    trees = quietly(IncrementalMDH(random_state=0), X)
    assert model.algorithm_ == "imdh"
    assert isinstance(model._engine.rule, ScoredTreeRule)
    assert (model.labels_ == trees.labels_).all()
    assert (model.predict(X) == model.labels_).all()
    assert model.n_clusters_ == trees.n_clusters_
    assert adjusted_rand_score(y, model.labels_) > 0.9
    assert "so hyperplanes through regions of low density are" in model.why_
    far = np.vstack([X, 30.0 + np.zeros((1, 5))])
    scores = model.decision_function(far)
    assert scores.argmin() == len(X)
    assert (scores < 0).mean() < 0.3


def test_both_answers_are_compared():
    X, _ = blobs()
    model = estimator().fit(X)
    trees = quietly(IncrementalMDH(random_state=0), X)
    expected = adjusted_rand_score(model.labels_, trees.labels_)
    assert model.likeness_ == pytest.approx(expected)


@pytest.mark.usefixtures("no_level_tree_is_trusted")
@pytest.mark.parametrize("d", [1, 3])
def test_up_to_three_columns_are_the_level_trees(d):
    model = quietly(estimator(), blobs(300, d)[0])
    assert (model.algorithm_, model.likeness_) == ("support-vector", None)
    assert isinstance(model._engine.rule, LevelRule)
    assert "no other algorithm is asked" in model.why_


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("k", [2, 5])
def test_a_number_of_clusters_is_found_by_either(k, trusted, monkeypatch):
    monkeypatch.setattr(automatic, "LOW_SUPPORT", -1.0 if trusted else 1.0)
    model = quietly(estimator(n_clusters=k), blobs()[0])
    assert model.algorithm_ == ("support-vector" if trusted else "imdh")
    assert model.n_clusters_ == len(set(model.labels_)) == k


@pytest.mark.usefixtures("no_level_tree_is_trusted")
def test_nu_is_the_share_outside_whichever_it_is():
    X, _ = blobs()
    model = quietly(estimator(nu=0.2), X)
    assert model.algorithm_ == "imdh"
    assert (model.decision_function(X) < 0).mean() == pytest.approx(0.2, abs=0.01)


@pytest.mark.usefixtures("no_level_tree_is_trusted")
def test_one_cluster_of_hyperplanes_is_no_answer():
    X = np.random.default_rng(0).normal(size=(300, 5))
    model = quietly(estimator(), X)
    own = quietly(SupportVectorClustering(effort="fast", random_state=0), X)
    assert quietly(IncrementalMDH(random_state=0), X).n_clusters_ == 1
    assert model.algorithm_ == "support-vector"
    assert (model.labels_ == own.labels_).all()
    assert model.notes_ == own.notes_
    assert "hyperplanes find nothing to divide" in model.why_


@pytest.mark.usefixtures("no_level_tree_is_trusted")
def test_the_trees_learn_from_a_part_of_a_large_table(monkeypatch):
    monkeypatch.setattr("distsvc.models.automatic.estimator.TREE_ROWS", 300)
    X, y = blobs(1500)
    model = quietly(estimator(), X)
    assert 200 < model._engine.trees.n_samples < 400
    assert (model.predict(X) == model.labels_).all()
    assert adjusted_rand_score(y, model.labels_) > 0.5


@pytest.mark.parametrize("trusted", [True, False])
def test_a_cut_is_that_of_the_algorithm_whose_answer_it_is(trusted, monkeypatch):
    monkeypatch.setattr(automatic, "LOW_SUPPORT", -1.0 if trusted else 1.0)
    X, _ = blobs()
    model = quietly(estimator(), X)
    own = (
        SupportVectorClustering(effort="fast", random_state=0)
        if trusted
        else IncrementalMDH(random_state=0)
    )
    own = quietly(own, X)
    for k in (2, 6):
        assert (model.cut(k, X) == own.cut(k)).all()
    assert model.cut(3, X).max() == 2
    assert model.cut(10**6, X).max() < len(X)
    assert (model.predict(X) == model.labels_).all()
    with pytest.raises(ValueError, match="n_clusters"):
        model.cut(0, X)
