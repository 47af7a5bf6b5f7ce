"""Shares of a row's own cluster and of others, by rules and by estimators."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from distsvc import AutoClustering, IncrementalMDH, SupportVectorClustering
from distsvc.models.baselines.rules import Centres
from distsvc.models.rules.membership import Membership
from tests.small_runs import three_clusters

ROWS = np.random.default_rng(0).normal(size=(90, 2))
RULE = Centres(np.random.default_rng(1).normal(size=(6, 2)))
X = three_clusters(600)
FITTED = {
    "vote": SupportVectorClustering(effort="fast", max_iter=600, random_state=0),
    "nearest": SupportVectorClustering(
        effort="fast", max_iter=600, assignment="nearest", random_state=0
    ),
    "equilibria": SupportVectorClustering(1.0, nu=0.1, max_iter=3000, budget=20, random_state=0),
    "noise": SupportVectorClustering(
        1.0, nu=0.1, max_iter=3000, budget=20, noise=True, random_state=0
    ),
    "imdh": IncrementalMDH(depth=3, n_init=2, n_clusters=3, random_state=0),
    "auto": AutoClustering(effort="fast", random_state=0),
}


def test_own_share_and_largest_others():
    labels, shares = RULE.label(ROWS)["label"], RULE.shares(ROWS)
    found = Membership.of(RULE, ROWS, labels, 2)
    ranked = np.argsort(-shares, axis=1, kind="stable")
    np.testing.assert_array_equal(ranked[:, 0], labels)
    np.testing.assert_array_equal(found.others, ranked[:, 1:3])
    np.testing.assert_array_equal(found.own, shares[np.arange(90), labels])
    expected = np.take_along_axis(shares, ranked, axis=1)[:, 1:3]
    np.testing.assert_array_equal(found.other_shares, expected)


@pytest.mark.parametrize("name", FITTED)
def test_shares_of_estimators(name):
    estimator = FITTED[name]
    with pytest.raises(NotFittedError):
        estimator.predict_proba(X)
    labels = estimator.fit_predict(X)
    shares = estimator.predict_proba(X)
    assert shares.shape == (600, estimator.n_clusters_)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-5)
    inside = labels >= 0
    assert (shares.argmax(axis=1) == labels)[inside].mean() > 0.99
    assert np.median(shares.max(axis=1)) > 0.9


def test_shares_after_a_stream():
    model = SupportVectorClustering(1.0, nu=0.1, budget=20, random_state=0)
    for block in np.array_split(X, 3):
        model.partial_fit(block)
    shares = model.predict_proba(X)
    np.testing.assert_array_equal(shares.argmax(axis=1), model.predict(X))
    trees = IncrementalMDH(depth=3, n_init=1, n_clusters=3, random_state=0)
    for block in np.array_split(X, 3):
        trees.partial_fit(block)
    assert trees.predict_proba(X).shape == (600, trees.n_clusters_)
