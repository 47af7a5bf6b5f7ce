"""Conventions of scikit-learn that all estimators keep, and arrays of any type and order."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from distsvc import (
    AutoClustering,
    IncrementalMDH,
    LinearOneClassSVM,
    LinearSVDD,
    MixtureClustering,
    SupportVectorClustering,
)
from distsvc.baselines import BICO, SPDC, DePDDP, FuzzyCMeans, KMeans
from tests.quiet_fits import quietly

ESTIMATORS = [
    AutoClustering(effort="fast"),
    MixtureClustering(),
    MixtureClustering(n_components=2),
    SupportVectorClustering(effort="fast"),
    SupportVectorClustering(labelling="equilibria"),
    SupportVectorClustering(solver="exact", labelling="complete-graph"),
    IncrementalMDH(n_init=2),
    IncrementalMDH.published(n_init=2),
    LinearOneClassSVM(max_iter=50_000),
    LinearSVDD(),
    BICO(n_clusters=2),
    SPDC(window=50, max_clusters=4),
    FuzzyCMeans(n_clusters=2),
    DePDDP(n_clusters=3),
    KMeans(n_clusters=2),
]
WITH_N_CLUSTERS = (
    "check_dont_overwrite_parameters",
    "check_clustering",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
)
"""Checks that set n_clusters where an estimator has it."""

IN_BLOCKS = (
    "check_fit_score_takes_y",
    "check_n_features_in_after_fitting",
    "check_estimators_partial_fit_n_features",
)
"""Checks that call partial_fit where an estimator has it."""


def refused_checks(estimator) -> dict[str, str]:
    """Return the checks that an estimator is expected to fail, with the reasons."""
    if isinstance(estimator, SPDC):
        return {"check_clustering": "its 50 rows do not fill the two windows that a split needs"}
    found = {}
    if isinstance(estimator, SupportVectorClustering) and estimator.labelling != "auto":
        found |= dict.fromkeys(WITH_N_CLUSTERS, "n_clusters needs the level tree")
        if estimator.solver == "exact":
            found |= dict.fromkeys(IN_BLOCKS, "partial_fit is refused")
    return found


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=refused_checks)
def test_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


GIVEN_GAMMA = SupportVectorClustering(0.5, nu=0.1, random_state=0)
MODELS = {
    "level tree": SupportVectorClustering(effort="fast", random_state=0),
    "equilibria": GIVEN_GAMMA,
    "sgd": clone(GIVEN_GAMMA).set_params(solver="sgd"),
    "exact": clone(GIVEN_GAMMA).set_params(solver="exact"),
    "SVC": clone(GIVEN_GAMMA).set_params(solver="exact", labelling="complete-graph"),
    "FSVC": clone(GIVEN_GAMMA).set_params(solver="exact", labelling="balls"),
    "iMDH": IncrementalMDH(n_init=2, n_clusters=5, random_state=0),
    "BICO": BICO(5, size=50, random_state=0),
    "SPDC": SPDC(window=100, random_state=0),
    "fuzzy c-means": FuzzyCMeans(5, random_state=0),
    "k-means": KMeans(5, random_state=0),
    "dePDDP": DePDDP(),
}


def fit_blobs(name, kind=lambda X: X):
    """Return a model of five blobs in an array of some kind, and the rows."""
    X = make_blobs(1000, n_features=3, centers=5, cluster_std=0.5, random_state=0)[0]
    rows = kind(X.astype(np.float32))
    return quietly(clone(MODELS[name]), rows), rows


def fitted_bytes(model):
    """Return the arrays of a fit, as bytes."""
    found = {n: v for n, v in vars(model).items() if n[0] != "_" and isinstance(v, np.ndarray)}
    return {name: values.tobytes() for name, values in found.items()}


@pytest.mark.parametrize("name", MODELS)
def test_types_and_orders_of_memory(name):
    base, X = fit_blobs(name)
    assert base.labels_.max() > 0
    for kind in (np.copy, lambda X: X.astype(np.float64), np.asfortranarray,
                 lambda X: np.repeat(X, 2, axis=0)[::2]):  # fmt: skip
        found, rows = fit_blobs(name, kind)
        assert fitted_bytes(found) == fitted_bytes(base)
        assert found.predict(rows).tobytes() == base.predict(X).tobytes()
    assert fitted_bytes(quietly(base, X)) == fitted_bytes(found)


@pytest.mark.parametrize("name", ["equilibria", "iMDH"])
def test_the_seed_sets_the_order_of_rows(name):
    base, X = fit_blobs(name)
    other = quietly(clone(base).set_params(random_state=1), X)
    assert fitted_bytes(other) != fitted_bytes(base)
    assert adjusted_rand_score(base.labels_, other.labels_) > 0.95
    generators = [np.random.RandomState(3) for _ in range(2)]
    a, b, again = (
        fitted_bytes(quietly(clone(base).set_params(random_state=one), X))
        for one in (*generators, generators[0])
    )
    assert a == b != again


@pytest.mark.parametrize("name", MODELS)
def test_labels_are_what_predict_says(name):
    model, X = fit_blobs(name)
    assert model.labels_.dtype == model.predict(X).dtype == np.int32
    assert (np.diff(np.bincount(model.labels_)) <= 0).all()
    parts = [model.predict(part) for part in np.split(X, [1, 50, 211])]
    assert np.concatenate(parts).tolist() == model.labels_.tolist()
