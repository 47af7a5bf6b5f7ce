import pickle
import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.preprocessing import normalize

from distsvc import AutoClustering, SupportVectorClustering
from distsvc.errors import UnusableRowsError
from distsvc.models.automatic.stored_views import LATTICE_STANDING, METHODS
from distsvc.models.graph import coordinates
from distsvc.models.graph.landmarks import LandmarkRule
from distsvc.models.support_vector.level_tree.proposals import LEAST_STANDING
from distsvc.models.support_vector.level_tree.rule import LevelRule
from tests.models.automatic.choosing import FAMILIES, keep_columns, let
from tests.quiet_fits import quietly


@pytest.fixture(autouse=True)
def _columns_as_stored(monkeypatch):
    """Let columns stay as stored; `test_decision` tests modelled columns."""
    keep_columns(monkeypatch)


def blobs(n=400, d=5, seed=0):
    return make_blobs(n, n_features=d, centers=4, cluster_std=0.7, random_state=seed)


def estimator(**parameters):
    return AutoClustering(effort="fast", random_state=0, **parameters)


def test_where_density_divides_the_columns_it_is_the_level_tree(monkeypatch):
    let(monkeypatch, "support-vector")
    X, y = blobs()
    model = estimator().fit(X)
    own = SupportVectorClustering(effort="fast", random_state=0).fit(X)
    assert model.algorithm_ == "support-vector"
    assert model.agreement_ == own.agreement_ > 0.5
    assert (model.labels_ == own.labels_).all()
    assert (model.decision_function(X) == own.decision_function(X)).all()
    assert adjusted_rand_score(y, model.labels_) == 1.0
    assert "The columns decided (score " in model.why_


def test_else_it_is_the_graph_with_the_scores_of_the_level_tree(monkeypatch):
    let(monkeypatch, "graph")
    X, y = blobs()
    model = quietly(estimator(), X)
    assert model.algorithm_ == "graph"
    assert isinstance(model._engine.rule, LandmarkRule)
    assert (model.predict(X) == model.labels_).all()
    assert model.n_clusters_ == len(set(model.labels_))
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert "The neighbour graph decided (score " in model.why_
    far = np.vstack([X, 30.0 + np.zeros((1, 5))])
    scores = model.decision_function(far)
    assert scores.argmin() == len(X)
    assert (scores < 0).mean() < 0.3


def test_handwritten_digits_hang_together_along_the_graph():
    X, y = load_digits(return_X_y=True)
    model = quietly(estimator(), normalize(X))
    assert model.algorithm_ == "graph"
    assert normalized_mutual_info_score(y, model.labels_) > 0.85


@pytest.mark.parametrize("d", [1, 3])
def test_up_to_three_columns_have_no_graph(d):
    model = quietly(estimator(), blobs(300, d)[0])
    assert (model.algorithm_, model.likeness_) == ("support-vector", None)
    assert isinstance(model._engine.rule, LevelRule)
    assert "its columns decided" in model.why_


def test_few_different_rows_have_no_graph():
    X = np.random.default_rng(0).normal(size=(90, 5))
    model = quietly(estimator(), X)
    assert (model.algorithm_, model.likeness_) == ("support-vector", None)
    assert "too few distinct rows for a neighbour graph" in model.why_


@pytest.mark.parametrize("family", [*FAMILIES, "centres"])
@pytest.mark.parametrize("k", [2, 5])
def test_a_number_of_clusters_is_found_by_each(k, family, monkeypatch):
    let(monkeypatch, family)
    model = quietly(estimator(n_clusters=k), blobs()[0])
    assert model.algorithm_ == family
    assert model.n_clusters_ == len(set(model.labels_)) == k
    assert f"You asked for {k}" in model.why_
    assert METHODS[family] in model.why_
    assert 0.0 < model.agreement_ <= 1.0
    assert (np.diff(np.bincount(model.labels_)) <= 0).all()


@pytest.mark.parametrize("d", [1, 2, 3, 120])
def test_about_centres_it_is_k_means(d):
    # neither density nor a graph divides these
    X = np.random.default_rng(0).normal(size=(600, d)) * 0.9 ** np.arange(d)
    model = quietly(estimator(n_clusters=4), X)
    assert model.algorithm_ == "centres"
    points = X @ model._engine.graph.axes.T if d > 100 else X
    found = [points[model.labels_ == c] for c in range(4)]
    spread = sum(((rows - rows.mean(axis=0)) ** 2).sum() for rows in found)
    assert spread < 1.02 * KMeans(4, n_init=10, random_state=0).fit(points).inertia_
    again = quietly(estimator(n_clusters=4), X)
    assert (again.labels_ == model.labels_).all()
    assert (again.decision_function(X) == model.decision_function(X)).all()


def test_the_division_with_the_highest_merit_has_the_answer():
    # two long clusters side by side, which k-means cuts across
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 2)) * [10.0, 0.5]
    y = np.arange(800) % 2
    X[:, 1] += 6.0 * y
    model = quietly(estimator(n_clusters=2), X)
    assert model.algorithm_ == "support-vector"
    assert adjusted_rand_score(y, model.labels_) == 1.0
    merits = model._engine.views.merits
    assert max(merits, key=merits.get) == "support-vector"
    assert set(merits) == {"support-vector", "centres"}


@pytest.mark.parametrize("family", FAMILIES)
def test_nu_is_the_share_outside_whichever_it_is(family, monkeypatch):
    let(monkeypatch, family)
    X, _ = blobs()
    model = quietly(estimator(nu=0.2), X)
    assert model.algorithm_ == family
    assert (model.decision_function(X) < 0).mean() == pytest.approx(0.2, abs=0.01)


def test_rows_without_clusters_are_one():
    X = np.random.default_rng(0).normal(size=(300, 5))
    model = quietly(estimator(), X)
    assert (model.algorithm_, model.n_clusters_) == ("graph", 1)
    assert "beyond chance" in model.why_


@pytest.mark.parametrize(("times", "view"), [(0.9, "support-vector"), (1.1, "graph")])
def test_columns_decide_from_a_score_on(times, view, monkeypatch):
    X, y = blobs()
    standing = quietly(estimator(), X)._engine.column_trees.levels.answer.standing
    monkeypatch.setattr("distsvc.models.automatic.engine.CLEAR", times * standing)
    model, given = quietly(estimator(), X), quietly(estimator(n_clusters=3), X)
    assert model.algorithm_ == view
    assert model._engine.graph.placed == given._engine.graph.placed == (view == "graph")
    assert adjusted_rand_score(y, model.labels_) == 1.0
    assert (model.cut(3) == given.labels_).all()


@pytest.mark.parametrize(
    ("patched", "least", "why"),
    [
        ("MOST_TIED", LATTICE_STANDING, "few distinct values"),
        ("RESTARTS", LEAST_STANDING, "20 pieces"),
    ],
)
def test_without_a_graph_the_columns_decide(patched, least, why, monkeypatch):
    let(monkeypatch, "graph")
    monkeypatch.setattr(coordinates, patched, 1.0 if patched == "RESTARTS" else -1.0)
    model = quietly(estimator(), blobs()[0])
    assert (model.algorithm_, model.n_clusters_) == ("support-vector", 4)
    assert model._engine.column_trees.levels.least_standing == least
    assert why in model.why_


def test_columns_of_few_values_that_are_independent_are_one_cluster():
    random = np.random.default_rng(9)
    shares = random.dirichlet((2.0, 2.0, 2.0), size=5)
    X = np.column_stack([random.choice(3, 1500, p=p) for p in shares])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = quietly(estimator(), X)
    assert LEAST_STANDING < model._engine.column_trees.levels.answer.standing < LATTICE_STANDING
    assert model.n_clusters_ == 1


def test_a_graph_has_a_part_of_a_large_table(monkeypatch):
    let(monkeypatch, "graph")
    monkeypatch.setattr("distsvc.models.graph.engine.GRAPH_ROWS", 300)
    X, y = blobs(1500)
    model = quietly(estimator(), X)
    assert 200 < len(model._engine.graph.points) < 400
    assert (model.predict(X) == model.labels_).all()
    assert adjusted_rand_score(y, model.labels_) > 0.95


def quietly_cut(model, k, X):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="6 clusters were asked for, but")
        return model.cut(k, X)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cut_is_the_answer_to_its_number_of_clusters(family, monkeypatch):
    let(monkeypatch, family)
    X, _ = blobs()
    model = quietly(estimator(), X)
    for k in (2, 6):
        given = quietly(estimator(n_clusters=k), X)
        assert (quietly_cut(model, k, X) == given.labels_).all()
    assert model.cut(3, X).max() == 2
    with pytest.warns(UserWarning, match="1000000 clusters were asked for, but the fit has only"):
        assert model.cut(10**6, X).max() < len(X)
    assert (model.predict(X) == model.labels_).all()
    with pytest.raises(ValueError, match="n_clusters"):
        model.cut(0, X)


def test_outliers_are_noise_if_asked_for_and_exemplars_lie_inside():
    random = np.random.default_rng(3)
    X = np.concatenate([random.normal(c, 0.4, (150, 2)) for c in ((0, 0), (6, 6))])
    X = np.concatenate([X, [[30.0, -30.0], [-40.0, 20.0]]])
    plain = AutoClustering(effort="fast", random_state=0).fit(X)
    noisy = AutoClustering(effort="fast", noise=True, random_state=0).fit(X)
    outside = plain.decision_function(X) < 0.0
    assert outside[-2:].all()
    assert (noisy.labels_ == np.where(outside, -1, plain.labels_)).all()
    assert (noisy.predict(X) == noisy.labels_).all()
    assert set(noisy.cut(2, X)[outside]) == {-1}
    assert (noisy.cut(2) == noisy.cut(2, X)).all()
    for model in (plain, noisy):
        assert len(model.exemplars_) == model.n_clusters_
        for label, found in enumerate(model.exemplars_):
            assert len(found) == 5
            assert set(model.labels_[found]) == {label}
            assert model.outlier_scores_[found].max() <= np.median(
                model.outlier_scores_[model.labels_ == label]
            )


def test_small_clusters_go_with_their_nearest():
    random = np.random.default_rng(0)
    centres, sizes = ((0, 0), (10, 0), (0, 10), (2.5, 0)), (200, 200, 150, 40)
    y = np.repeat(np.arange(4), sizes)
    X = np.array(centres)[y] + random.normal(0.0, 0.15, (len(y), 2))
    model = AutoClustering(effort="fast", random_state=0).fit(X)
    assert model.n_clusters_ == 4
    model = AutoClustering(effort="fast", min_cluster_size=60, random_state=0).fit(X)
    assert model.n_clusters_ == 3
    assert (model.labels_[y == 3] == model.labels_[0]).all()
    assert (model.predict(X) == model.labels_).all()
    assert model.predict_proba(X).shape == (len(X), 3)
    assert (pickle.loads(pickle.dumps(model)).predict(X) == model.labels_).all()


@pytest.mark.parametrize("model", [AutoClustering, SupportVectorClustering])
def test_values_whose_squares_vanish_in_float32_are_refused(model):
    X = np.random.default_rng(0).normal(size=(300, 2)) + 8.0 * np.repeat([[0], [1]], 150, axis=0)
    assert model(random_state=0).fit(1e-17 * X).n_clusters_ == 2
    with pytest.raises(UnusableRowsError, match=r"within \de-\d+|too small for float32; scale"):
        model(random_state=0).fit(1e-20 * X)


@pytest.mark.parametrize("noise", [0.055, 0.12])
def test_points_of_many_rows_stay_apart_among_noise(noise):
    random = np.random.default_rng(4)
    points, g = 3.0 * random.normal(size=(3, 2)), random.integers(0, 3, 4000)
    X, stray = points[g], random.random(4000) < noise
    X[stray] = random.uniform(-8.0, 8.0, (stray.sum(), 2))
    labels = quietly(AutoClustering(random_state=0), X).labels_
    assert len({tuple(np.unique(labels[~stray & (g == k)])) for k in range(3)}) == 3


def test_nu_is_the_share_outside_in_a_table_of_rounded_values():
    random = np.random.default_rng(0)
    X = np.column_stack([random.poisson(1.0, (2000, 4)), np.round(random.normal(size=(2000, 2)))])
    model = quietly(AutoClustering(nu=0.1, random_state=0), X)
    assert (model.decision_function(X) < 0.0).mean() == pytest.approx(0.1, abs=0.02)


def test_missing_values_need_a_column_that_varies():
    X = np.where(np.arange(200).reshape(50, 4) % 3 == 0, np.nan, 7.0)
    for rows in X, np.full_like(X, np.nan):
        with pytest.raises(UnusableRowsError, match="no column that varies: expected at least one"):
            AutoClustering().fit(rows)
