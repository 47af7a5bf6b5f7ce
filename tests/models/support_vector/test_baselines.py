"""SVC and FSVC as compositions of `SupportVectorClustering`, and labels of rows outside."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.svm import OneClassSVM

from distsvc import SupportVectorClustering
from distsvc.errors import ParameterError
from tests.quiet_fits import quietly

ONE_CLUSTER = "all rows climb to the same density peak"


def moons(n=400):
    return make_moons(n, noise=0.05, random_state=0)


def rings():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [150, 350])
    angle = rng.uniform(0, 2 * np.pi, y.size)
    radius = np.array([1.0, 3.0])[y] + rng.normal(scale=0.12, size=y.size)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def blobs(n=400):
    centres = [[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]]
    return make_blobs(n, centers=centres, cluster_std=0.6, random_state=1)


def svc(gamma=2.0, nu=0.05, **kwargs):
    parameters = {"solver": "exact", "labelling": "complete-graph", "random_state": 0}
    return SupportVectorClustering(gamma, nu=nu, **parameters | kwargs)


def fsvc(gamma=2.0, nu=0.05, **kwargs):
    return svc(gamma, nu, **{"labelling": "balls"} | kwargs)


BOTH = pytest.mark.parametrize("make", [svc, fsvc])


# --- the exact solver


@BOTH
def test_a_table_in_memory_has_the_labels_of_its_array(make):
    X, _ = blobs(60)
    table, expected = pd.DataFrame(X, columns=["a", "b"]), make().fit(X)
    found = make().fit(table)
    assert (found.labels_ == expected.labels_).all()
    assert (found.outlier_scores_ == expected.outlier_scores_).all()
    with pytest.raises(ParameterError, match="give an array or a table in memory"):
        make().fit([table, table])


@pytest.mark.parametrize("nu", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("gamma", [0.3, 3.0])
def test_both_exact_solvers_have_the_same_solution(gamma, nu):
    """C = 1 / (nu rho*) makes the penalised problem, which coordinate ascent solves, the same."""
    X = moons(300)[0]
    first = svc(gamma, nu).fit(X)
    second = svc(gamma, None, C=first.C_).fit(X)
    f = first.decision_function(X)
    np.testing.assert_allclose(
        f, second.decision_function(X), atol=2e-5 * max(1.0, np.abs(f).max())
    )
    rho = OneClassSVM(gamma=gamma, nu=nu, tol=1e-8).fit(X).offset_[0] / (nu * len(X))
    assert pytest.approx(1.0 / (nu * rho), rel=1e-4) == first.C_


@pytest.mark.filterwarnings(f"ignore:{ONE_CLUSTER}")
@pytest.mark.parametrize("n", [2, 3, 60])
@BOTH
def test_with_nu_1_the_highest_row_is_on_the_boundary(make, n):
    X = moons(60)[0][:n]
    model = make(nu=1.0).fit(X)
    assert model.decision_function(X).max() == pytest.approx(0.0, abs=1e-4)
    assert np.isfinite(model.C_)
    assert model.n_clusters_ == (1 if n > 3 else n)  # 2 and 3 rows are on the boundary all


def test_nu_has_no_limit_of_rows():
    X = moons(10_001)[0]
    model = fsvc(10.0, 0.02).fit(X)
    assert (model.decision_function(X) < -1e-4).mean() == pytest.approx(0.02, abs=0.004)
    assert model.n_clusters_ == 2


# --- clusters


@pytest.mark.parametrize(
    ("make", "data", "gamma", "nu"),
    [
        (svc, moons, 10.0, 0.05),
        (svc, rings, 4.0, 0.05),
        (svc, blobs, 0.5, 0.05),
        (fsvc, rings, 0.5, 0.05),
        (fsvc, blobs, 0.3, 0.05),
    ],
)
def test_shapes_are_recovered(make, data, gamma, nu):
    X, y = data()
    model = make(gamma, nu).fit(X)
    assert adjusted_rand_score(y, model.labels_) >= 0.99
    assert model.n_clusters_ == len(set(y))


# --- rows outside


@pytest.mark.parametrize("labelling", ["equilibria", "complete-graph", "balls", "level-tree"])
def test_noise_labels_rows_outside_minus_1(labelling):
    X, _ = blobs()
    model = svc(0.5, 0.1, solver="bsgd", labelling=labelling)
    plain = model.fit(X).labels_
    assert plain.min() == 0
    noisy = clone(model).set_params(noise=True).fit(X)
    outside = noisy.decision_function(X) < -1e-5
    assert 0.05 < outside.mean() < 0.15
    assert (noisy.labels_ == np.where(outside, -1, plain)).all()
    assert noisy.labels_.dtype == np.int32
    assert (noisy.predict(X) == noisy.labels_).all()
    assert noisy.predict([[100.0, 100.0]]) == [-1]
    assert noisy.n_clusters_ == model.n_clusters_
    if labelling == "level-tree":
        assert (noisy.cut(2) == np.where(outside, -1, model.cut(2))).all()


@pytest.mark.parametrize("parameters", [{}, {"labelling": "balls"}, {"solver": "bsgd"}])
def test_equal_rows_on_the_boundary_are_inside(parameters):
    ratings = np.random.default_rng(0).binomial(4, [0.3, 0.7], (600, 2)).astype(float)
    three = np.repeat([[0.0, 0.0], [5.0, 5.0], [9.0, 0.0]], 400, axis=0)
    for X, most in ((ratings, 0.1), (three, 0.0)):
        model = quietly(svc(0.5, 0.1, **parameters | {"noise": True}), X)
        assert (model.outlier_scores_ > 0.0).mean() <= most
        assert ((model.labels_ < 0) == (model.decision_function(X) < 0.0)).all()


def test_support_vectors_on_the_boundary_are_not_noise():
    X, _ = moons()
    model = svc(10.0, 0.1, noise=True).fit(X)
    svm = OneClassSVM(gamma=10.0, nu=0.1, tol=1e-6).fit(X)
    free = svm.support_[svm.dual_coef_[0] < 1.0]
    assert len(free) > 5
    assert (model.labels_[free] >= 0).all()
    assert (model.labels_ == -1).sum() == (svm.dual_coef_[0] >= 1.0).sum()


# --- what is reported and refused
