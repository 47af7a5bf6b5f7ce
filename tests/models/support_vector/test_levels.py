"""SupportVectorClustering with the level tree, the default."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score

from distsvc.models.support_vector.estimator import SupportVectorClustering
from tests.quiet_fits import quietly


def estimator(**kwargs):
    return SupportVectorClustering(**{"effort": "fast", "random_state": 0, **kwargs})


def blobs(n=300, seed=0):
    centres = [[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 8.0]]
    return make_blobs(
        [n // 10, n // 5, 3 * n // 10, 4 * n // 10], centers=centres, random_state=seed
    )


@pytest.fixture(scope="module")
def fitted():
    X, y = blobs()
    return estimator().fit(X), X, y


def same(a, b):
    return (
        a.dual_coef_.tobytes() == b.dual_coef_.tobytes()
        and a.support_vectors_.tobytes() == b.support_vectors_.tobytes()
        and a.labels_.tobytes() == b.labels_.tobytes()
        and a.tree_.z.tobytes() == b.tree_.z.tobytes()
    )


# --- real data


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("data", "least"),
    [
        (blobs, 0.99),
        (lambda seed: make_moons(400, noise=0.05, random_state=seed), 0.99),
        (lambda seed: (load_iris().data, load_iris().target), 0.55),  # two of its three touch
    ],
    ids=["blobs", "moons", "iris"],
)
def test_clusters_are_found_without_parameters(data, least, seed):
    X, y = data(seed=seed)
    model = SupportVectorClustering(random_state=seed).fit(X)
    assert adjusted_rand_score(y, model.labels_) > least
    assert model.agreement_ > 0.8
    assert model.notes_ == []


# --- what is fitted


def test_rows_far_away_are_outside(fitted):
    model, X, _ = fitted
    assert (model.score_samples(X) == model.decision_function(X) + 1.0).all()
    far = np.array([[4.0, 30.0], [1e3, -1e3], [1e15, 1e15]])
    scores = model.decision_function(far)
    assert (scores < model.decision_function(X).min()).all()
    assert (np.diff(scores) < 0).all()
    assert np.isfinite(scores).all()
    assert model.predict(far[:1]).max() < 4


# --- a number of clusters


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_n_clusters_gives_the_same_labels_as_cut(fitted, k):
    model, X, y = fitted
    asked = quietly(estimator(n_clusters=k), X)
    assert asked.n_clusters_ == len(set(asked.labels_)) == k
    assert (asked.labels_ == model.cut(k)).all()
    assert (asked.predict(X) == asked.labels_).all()
    if k == 4:
        assert adjusted_rand_score(y, asked.labels_) == 1.0


def test_more_clusters_than_any_model_has_give_a_warning():
    with pytest.warns(UserWarning, match="no model separates 5000 clusters: [0-9]+ were found"):
        model = estimator(n_clusters=5000).fit(blobs(200)[0])
    assert 4 <= model.n_clusters_ < 200


@pytest.mark.parametrize("labelling", ["equilibria", "complete-graph", "balls"])
def test_n_clusters_is_an_error_without_a_level_tree(labelling):
    with pytest.raises(ValueError, match="n_clusters needs labelling='level-tree'"):
        estimator(labelling=labelling, n_clusters=3).fit(blobs(50)[0])


# --- other cuts


def test_cuts(fitted):
    model, X, _ = fitted
    assert (model.cut(4) == model.labels_).all()
    for k in (1, 2, 3):
        labels = model.cut(k)
        assert labels.dtype == np.int32
        assert set(labels) == set(range(k))
        assert (np.diff(np.bincount(labels)) <= 0).all()
        # coarser cuts join clusters of finer ones
        assert len(set(zip(labels, model.labels_, strict=True))) == 4
    with pytest.warns(UserWarning, match="1000000 clusters were asked for, but only 5 have rows"):
        finest = model.cut(10**6)
    most = len(set(finest))
    assert most >= model.tree_.n_branches
    assert (finest == model.cut(most)).all()
    z = np.sort(model.tree_.z)[::-1]
    assert (model.cut(significance=z[3]) == model.labels_).all()
    assert set(model.cut(significance=z[2])) == {0, 1, 2}
    assert set(model.cut(significance=np.inf)) == {0}
    assert len(set(model.cut(level=0.0))) >= 4
    assert set(model.cut(level=-1.0)) == {0}
    assert set(model.cut(level=1e9)) == {0}
    assert (model.predict(X) == model.labels_).all()  # a cut changes nothing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give exactly one of n_clusters, level and significance"),
        ({"n_clusters": 2, "level": 0.0}, "give exactly one of n_clusters, level and significance"),
        (
            {"level": 0.0, "significance": 1.0},
            "give exactly one of n_clusters, level and significance",
        ),
        ({"level": np.nan}, "level must be a number, found nan"),
        ({"significance": [1.0]}, r"significance must be a number, found \[1.0\]"),
    ],
)
def test_wrong_arguments_of_cut_are_an_error(fitted, arguments, message):
    with pytest.raises(ValueError, match=message):
        fitted[0].cut(**arguments)


def test_only_a_fitted_level_tree_can_be_cut():
    with pytest.raises(NotFittedError):
        estimator().cut(2)
    model = SupportVectorClustering(0.25, nu=0.2, random_state=0).fit(blobs()[0])
    with pytest.raises(ValueError, match="cut needs the level tree, and this model has none"):
        model.cut(2)


# --- one fit after another


def test_a_fit_deletes_the_results_of_the_previous_one():
    X = blobs()[0]
    model = estimator().fit(X)
    model.set_params(gamma=0.25, nu=0.2).fit(X)
    for name in ("tree_", "agreement_", "candidates_"):
        assert not hasattr(model, name)
    assert (model.predict(X) == model.labels_).all()
    model.set_params(gamma="auto", nu=None).fit(X)
    assert same(model, estimator().fit(X))
    assert (model.predict(X) == model.labels_).all()
    other = make_blobs(300, n_features=5, centers=2, random_state=0)[0]
    assert model.fit(other).n_features_in_ == 5
    assert same(model, estimator().fit(other))


# --- notes


def test_a_c_that_leaves_f_below_0_everywhere_gives_a_note():
    X = np.random.default_rng(0).normal(size=(120, 2))
    model = SupportVectorClustering(1.0, C=0.5, labelling="level-tree", random_state=0)
    quietly(model, X)
    assert any("C = 0.5 is too small" in note for note in model.notes_)
    assert (model.decision_function(X) >= 0).mean() > 0.5


def test_rows_between_clusters_take_the_cluster_of_the_nearest_support_vector():
    X, _ = blobs()
    between = np.random.default_rng(0).uniform(1.0, 7.0, (200, 2))
    vote, nearest = (estimator(assignment=name).fit(X) for name in ("vote", "nearest"))
    rows = np.vstack([X, between])
    distances = ((rows[:, None, :] - nearest.support_vectors_) ** 2).sum(axis=2)
    of_vector = nearest.predict(nearest.support_vectors_)
    assert (nearest.predict(rows) == of_vector[distances.argmin(axis=1)]).all()
    assert (vote.predict(between) != nearest.predict(between)).any()
    np.testing.assert_array_equal(vote.decision_function(X), nearest.decision_function(X))
