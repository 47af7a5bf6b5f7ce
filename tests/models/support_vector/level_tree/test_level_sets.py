from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from distsvc.job.parameters import completed
from distsvc.models.support_vector.boundary.base import Parameters
from distsvc.models.support_vector.boundary.labelling import DecisionFunction
from distsvc.models.support_vector.level_tree.ensemble import make_ensemble
from distsvc.models.support_vector.level_tree.level_sets import FAR_APART, LOWEST_LEVEL, LevelSets
from distsvc.models.support_vector.level_tree.tree import LevelTree

CENTRES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], np.float32)
SIZES = [60, 240, 120]


def pilot():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1, 2], SIZES))
    return (CENTRES[y] + rng.normal(scale=0.5, size=(y.size, 2))).astype(np.float32), y


def tree_of(z, gamma=0.5, order=(0, 1, 2)):
    S = np.ascontiguousarray(CENTRES[list(order)].T)
    weights = np.array([1.0, 0.9, 0.8], np.float32)
    tree = LevelTree.grow(DecisionFunction(S, weights, gamma), pilot()[0], 5.0)
    return replace(tree, z=np.array([np.inf, *z]), depths=np.array([np.inf, 0.0, 0.0]))


def level_sets(trees, n_rows=420, granularity="default", level=None):
    X = pilot()[0]
    changes = {"gamma": [0.5] * len(trees), "max_iter": 100}
    plan = make_ensemble(X, len(X), Parameters(**completed("support-vector", changes)), 0)
    return LevelSets(plan, trees, X, n_rows, granularity, level, None)


def test_clusters_are_numbered_by_their_sizes():
    X, y = pilot()
    levels = level_sets([tree_of([9.0, 8.0])] * 2)
    assert levels.answer.n_clusters == 3
    assert levels.part.tolist() == [2, 0, 1]
    assert levels.labels(X).tolist() == np.array([2, 0, 1])[y].tolist()
    # the middle vertex is joined to the root's, and they are the larger cluster
    merged = levels.numbered(np.array([True, True, False]))
    assert sorted(np.bincount(merged[y])) in ([60, 360], [180, 240], [120, 300])
    assert (np.diff(np.bincount(merged[y])) < 0).all()


def test_the_highest_vectors_are_in_the_order_of_the_clusters():
    levels = level_sets([tree_of([9.0, 8.0])])
    assert levels.highest().tolist() == CENTRES[[1, 2, 0]].tolist()
    assert level_sets([tree_of([0.0, 0.0])]).highest().tolist() == CENTRES[[0]].tolist()


def test_every_granularity_has_its_answer():
    trees = [tree_of([60.0, 3.0 * 10**0.5])] * 2
    for granularity, k in (("coarse", 2), ("default", 3), ("fine", 3)):
        levels = level_sets(trees, 300_000, granularity)
        assert levels.answer.n_clusters == k
        found = [levels.answers[name].n_clusters for name in ("coarse", "default", "fine")]
        assert found == [2, 3, 3]
    # z are those of 300,000 rows
    z = [levels.answers[name].candidates[-1]["z"] for name in ("coarse", "default", "fine")]
    assert z == pytest.approx([6.0, 3.0, 3.0 * 10**0.5])


@pytest.mark.parametrize(("z", "births"), [([9.0, 8.0], [1, 0.9, 0.8]), ([9.0, 0.0], [1, 0.9])])
def test_without_nu_and_c_the_boundary_is_a_share_of_the_median_birth(z, births):
    levels = level_sets([tree_of(z)])
    assert levels.boundary == pytest.approx(LOWEST_LEVEL * np.median(births), rel=1e-6)


def test_a_given_level_is_the_boundary():
    assert level_sets([tree_of([9.0, 8.0])], level=1.0).boundary == 1.0


def test_cuts():
    tree = tree_of([9.0, 8.0])
    levels = level_sets([tree])
    for k in (1, 2, 3):
        cut = levels.cut(k)
        assert cut.answer.kept.tolist() == ([True] * k + [False] * (3 - k))
        assert levels.answer.n_clusters == 3
    # births are the weights 1, .9 and .8
    above = {0.95: 1, 0.85: 2, 0.75: 3, 1e-4: 3, 1e-6: 1, 1.05: 1}
    for g, k in above.items():
        assert tree.components_at(g).sum() == k
    assert tree.components_at(0.0).sum() == 1  # everything is one component


def test_low_support_is_a_doubt():
    trees = [tree_of([5.0, 0.0]), tree_of([5.0, 0.0], order=(0, 2, 1)), tree_of([0.0, 0.0])]
    levels = level_sets(trees)
    assert levels.answer.n_clusters == 2
    (doubt,) = levels.doubts()
    assert doubt.startswith("Weak evidence: only 33 % of the models agree")


def test_very_low_support_is_a_second_doubt():
    trees = [tree_of([5.0, 0.0]), *[tree_of([0.0, 0.0])] * 4]
    doubts = level_sets(trees).doubts()
    assert doubts[0].startswith("Weak evidence: only 20 %")
    assert "density clustering may not suit this table" in doubts[-1]


def test_very_different_answers_by_granularity_are_a_doubt():
    levels = level_sets([tree_of([12.0, 8.0])] * 3, n_rows=10**6)
    assert [answer.n_clusters for answer in levels.answers.values()] == [1, 3, 3]
    (doubt,) = levels.doubts()
    assert doubt.endswith("1 (coarse), 3 (default), 3 (fine)")
    levels = level_sets([tree_of([30.0, 8.0])] * 3, n_rows=10**6)
    assert [answer.n_clusters for answer in levels.answers.values()] == [2, 3, 3]
    assert levels.doubts() == []


def test_unclear_borders_are_a_doubt():
    """Near many light vectors and few heavy ones, the vote and the nearest vector differ."""
    X = make_blobs(500, centers=[[0.0, 0.0]], cluster_std=1.0, random_state=0)[0]
    X = X.astype(np.float32)
    S = np.array([[-1.0, 1.0], [0.0, 0.0]], np.float32)
    f = DecisionFunction(S, np.array([1.0, 0.05], np.float32), 0.5)
    tree = LevelTree.grow(f, X, 5.0)
    root = tree.parents < 0
    tree = replace(tree, z=np.where(root, np.inf, 9.0), depths=np.where(root, np.inf, 1.0))
    assert tree.n_branches == 2
    levels = replace(level_sets([tree]), pilot=X, n_clusters=2)
    expected = (X[:, 0] > 0) != (X[:, 0] > np.log(20.0) / 2.0)
    assert levels.unclear == pytest.approx(expected.mean(), abs=0.01)
    assert levels.unclear > FAR_APART
    (doubt,) = levels.doubts()
    assert doubt.startswith(f"{100 * levels.unclear:.0f} % of the rows have their nearest support")
    assert doubt.endswith("the clusters have no clear borders")
