"""Conventions of scikit-learn that all estimators keep, and arrays of any type and order."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

from distsvc import IncrementalMDH, LinearOneClassSVM, LinearSVDD, SupportVectorClustering
from distsvc.baselines import BICO, SPDC, DePDDP, FuzzyCMeans, KMeans

ESTIMATORS = [
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


@pytest.mark.parametrize(
    ("model", "attribute"),
    [
        (BICO(5, size=50, random_state=0), "cluster_centers_"),
        (SPDC(random_state=0), "thresholds_"),
        (FuzzyCMeans(5, random_state=0), "memberships_"),
        (DePDDP(), "thresholds_"),
    ],
)
def test_types_and_orders_of_memory(model, attribute):
    X, _ = make_blobs(2000, n_features=3, centers=5, cluster_std=0.5, random_state=0)
    X = X.astype(np.float32)
    base = clone(model).fit(X)
    assert base.labels_.max() > 0
    for same in (X.astype(np.float64), np.asfortranarray(X), X[::-1][::-1]):
        found = clone(model).fit(same)
        assert getattr(found, attribute).tobytes() == getattr(base, attribute).tobytes()
        assert found.labels_.tolist() == base.labels_.tolist()
