"""Shares of a row's own cluster and of others, by rules and after a stream."""

import numpy as np

from distsvc import IncrementalMDH, SupportVectorClustering
from distsvc.models.baselines.rules import Centres
from distsvc.models.rules.membership import Membership
from tests.small_runs import three_clusters

ROWS = np.random.default_rng(0).normal(size=(90, 2))
RULE = Centres(np.random.default_rng(1).normal(size=(6, 2)))
X = three_clusters(600)


def test_own_share_and_largest_others():
    labels, shares = RULE.label(ROWS)["label"], RULE.shares(ROWS)
    found = Membership.of(RULE, ROWS, labels, 2)
    ranked = np.argsort(-shares, axis=1, kind="stable")
    np.testing.assert_array_equal(ranked[:, 0], labels)
    np.testing.assert_array_equal(found.others, ranked[:, 1:3])
    np.testing.assert_array_equal(found.own, shares[np.arange(90), labels])
    expected = np.take_along_axis(shares, ranked, axis=1)[:, 1:3]
    np.testing.assert_array_equal(found.other_shares, expected)


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
