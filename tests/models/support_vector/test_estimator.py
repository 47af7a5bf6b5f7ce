import warnings

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

from distsvc.errors import ParameterError
from distsvc.models.support_vector.estimator import SupportVectorClustering

ONE_CLUSTER = "all rows climb to the same density peak"
NO_SPLIT = "no split is significant"
NOTES = f"{ONE_CLUSTER}|{NO_SPLIT}|Weak evidence|no model can tell|epsilon was widened"


def rings(seed):
    """A Gaussian within two rings, with rows in proportion to the circumference."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], [300, 600, 1200])
    angle = rng.uniform(0, 2 * np.pi, y.size)
    radius = np.array([0.0, 3.0, 6.0])[y] + rng.normal(scale=0.25, size=y.size)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def moons(seed):
    return make_moons(1500, noise=0.05, random_state=seed)


def gaussians(k, seed, n=800):
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0], [6.0, 6.0]])[:k]
    y = rng.integers(k, size=n)
    return centres[y] + rng.normal(scale=0.8, size=(n, 2)), y


def small(seed=0, n=300):
    return gaussians(3, seed, n)[0]


def estimator(**kwargs):
    return SupportVectorClustering(**{"gamma": 0.5, "random_state": 0, **kwargs})


# --- shapes of the paper's figures


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("data", "gamma", "nu"),
    [
        (rings, 1.25, 0.02),
        (moons, 40.0, 0.02),
        (lambda seed: gaussians(3, seed), 0.25, 0.2),
        (lambda seed: gaussians(4, seed), 0.25, 0.2),
    ],
    ids=["rings", "moons", "three", "four"],
)
def test_shapes_are_recovered(data, gamma, nu, seed):
    X, y = data(seed)
    model = SupportVectorClustering(gamma, nu=nu, random_state=seed).fit(X)
    assert adjusted_rand_score(y, model.labels_) >= 0.99
    assert model.n_clusters_ == len(set(y))


# --- what is fitted


@pytest.mark.filterwarnings(f"ignore:{ONE_CLUSTER}")
@pytest.mark.parametrize("solver", ["bsgd", "sgd"])
@pytest.mark.parametrize("nu", [0.05, 0.3, 0.999, 1.0])
def test_nu_is_the_share_outside(solver, nu):
    X = small(n=500)
    outside = (estimator(nu=nu, solver=solver).fit(X).decision_function(X) < 0).mean()
    assert outside == pytest.approx(nu, abs=0.01)


def test_attributes_of_a_fit():
    X = small()
    model = estimator(nu=0.2).fit(X)
    b = len(model.dual_coef_)
    assert model.labels_.shape == (300,)
    assert model.labels_.dtype == np.int32
    assert model.support_vectors_.shape == (b, 2)
    assert b <= 100
    assert model.offset_ == 1.0
    assert model.gamma_ == 0.5
    assert len(model.equilibria_) == len(model.equilibrium_labels_)
    assert set(model.labels_) == set(range(model.n_clusters_))
    assert (np.diff(np.bincount(model.labels_)) <= 0).all()
    squared = ((X[:, None] - model.support_vectors_) ** 2).sum(axis=2)
    f = np.exp(-0.5 * squared) @ model.dual_coef_ - 1.0
    np.testing.assert_allclose(model.decision_function(X), f, atol=1e-4)
    np.testing.assert_allclose(model.score_samples(X), f + 1.0, atol=1e-4)


@pytest.mark.filterwarnings("ignore:epsilon was widened")
def test_stopping_rules():
    X = small()
    model = estimator(stopping="step-norm", C=5.0, theta=0.1).fit(X)
    assert model.n_iter_ <= 1.42 * 5.0 / 0.1
    assert estimator(max_iter=777).fit(X).n_iter_ == 777
    n = estimator().fit(X).n_iter_
    assert 40_000 <= n < 200_000
    assert n % 10_000 == 0


# --- in blocks


def test_predict_after_partial_fit():
    X, y = gaussians(3, 2, n=3000)
    model = estimator(gamma=0.25, nu=0.2)
    for block in np.array_split(X, 7):
        assert model.partial_fit(block) is model
    assert model.n_iter_ == 3000
    assert adjusted_rand_score(y, model.predict(X)) >= 0.99
    assert model.n_clusters_ == 3
    before = model.predict(X[:100])
    model.partial_fit(X[:500])
    assert model.n_iter_ == 3500
    assert (model.predict(X[:100]) == before).all()


@pytest.mark.parametrize("gamma", ["auto", 0.25])
def test_partial_fit_after_fit_begins_anew_with_a_warning(gamma):
    X, _ = gaussians(3, 2, n=600)
    model = SupportVectorClustering(gamma=gamma, random_state=0).fit(X)
    labels = model.labels_.copy()
    with pytest.warns(UserWarning, match="discards the model of fit and starts over"):
        model.partial_fit(X)
    assert model.partial_fit(X).n_iter_ == 1200
    with pytest.raises(ParameterError, match="partial_fit grows no tree; call fit on a new"):
        model.cut(3)
    assert (model.fit(X).labels_ == labels).all()


def test_the_number_of_clusters_is_that_of_all_blocks():
    X, y = gaussians(3, 2, n=3000)
    model = estimator(gamma=0.25, nu=0.2)
    assert not hasattr(model, "n_clusters_")
    assert model.partial_fit(X[y == 0]).n_clusters_ == 1
    assert model.partial_fit(X).partial_fit(X).n_clusters_ == 3
    assert len(model.equilibria_) >= 3
    model.partial_fit(X[:10])
    assert not hasattr(model, "equilibria_")


# --- where the papers' procedure is undefined


def test_a_c_too_small_for_f_above_0_gives_a_note():
    X = small()
    with pytest.warns(UserWarning, match=r"C = 0.5 is too small: .* share 0.1"):
        model = estimator(C=0.5, epsilon=0.4).fit(X)
    assert (model.decision_function(X) < 0).mean() == pytest.approx(0.1, abs=0.01)
    assert model.n_clusters_ == 3
    assert len(model.notes_) == 1


@pytest.mark.parametrize("gamma", ["auto", 2.0])
@pytest.mark.parametrize("solver", ["bsgd", "sgd", "exact"])
def test_equal_rows_are_one_cluster(gamma, solver):
    with warnings.catch_warnings(record=True, action="always") as caught:
        model = estimator(gamma=gamma, solver=solver).fit(np.full((50, 3), 7.25))
    one = NO_SPLIT if hasattr(model, "tree_") else ONE_CLUSTER
    assert [str(w.message).split(":")[0] for w in caught] == ["all tested rows are equal", one]
    assert model.labels_.tolist() == [0] * 50
    assert model.n_clusters_ == 1
    assert (model.decision_function(np.full((1, 3), 7.25)) >= -1e-5).all()
    assert (model.decision_function(np.full((1, 3), 100.0)) < 0).all()


@pytest.mark.filterwarnings(f"ignore:{NOTES}")
@pytest.mark.parametrize("solver", ["bsgd", "sgd", "exact"])
@pytest.mark.parametrize("n", [2, 3, 10])
def test_fits_of_few_rows(n, solver):
    X = small()[:n]
    model = SupportVectorClustering(solver=solver, random_state=0).fit(X)
    assert set(model.labels_) == set(range(model.n_clusters_))
    assert len(model.support_vectors_) <= n
    assert (model.predict(X) == model.labels_).all()
    assert np.isfinite(model.decision_function(X)).all()
