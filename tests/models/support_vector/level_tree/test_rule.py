import numpy as np

from distsvc.models.support_vector.boundary.rule import BoundaryRule
from distsvc.models.support_vector.level_tree.neighbour_score import NeighbourScore
from distsvc.models.support_vector.level_tree.rule import LevelRule, Scored
from tests import reference
from tests.normal_rows import normal


def level_rule(nearest=False):
    part = np.array([0, 1, 2, 0, 1, 2, 1], np.int64)
    weights = np.abs(normal(7, seed=1)) + np.float32(0.1)
    score = NeighbourScore(normal(3, 60, seed=3), 0.01, -0.5, 0.25)
    scored = Scored.fields_of(normal(3, 5, seed=2), score)
    return LevelRule(**scored, S=normal(2, 7), a=weights, part=part, gamma=0.7, nearest=nearest)


def boundary_rule():
    cluster = np.array([1, 0, 0, 2, 1, 0], np.int32)
    weights = np.abs(normal(4, seed=1)) + np.float32(0.1)
    return BoundaryRule(normal(5, 4), weights, normal(6, 5, seed=3), cluster, 0.2)


def test_facts_and_arrays_of_published_rules():
    rule = level_rule()
    arrays = {"S", "a", "part", "components", "near_points"}
    assert (rule.form, set(rule.arrays())) == ("level-tree", arrays)
    near = {"near_least": 0.01, "near_limit": -0.5, "near_unit": 0.25}
    assert rule.facts() == {"gamma": 0.7, "nearest": False, **near}
    rule = boundary_rule()
    assert (rule.form, set(rule.arrays())) == ("support-vector", {"S", "a", "points", "cluster"})
    assert rule.facts() == {"gamma": 0.2}


def test_the_level_rule_projects_and_takes_the_largest_sum():
    rule, Z = level_rule(), normal(300, 5, seed=9)
    seen = (Z.astype(np.float64) @ rule.components.T.astype(np.float64)).astype(np.float32)
    view = np.ascontiguousarray(seen[:, :2])
    sums = np.column_stack(
        [
            reference.weighted_sums(view, rule.S[:, rule.part == c], rule.a[rule.part == c], 0.7)
            for c in range(3)
        ]
    )
    found = rule.label(Z)
    score = rule.neighbour_score
    np.testing.assert_allclose(found["score"], score(seen), atol=1e-3)
    assert found["score"].tobytes() == rule.unrounded_scores(Z).astype(np.float32).tobytes()
    top = np.sort(sums, axis=1)
    clear = top[:, -1] > 1.01 * top[:, -2]
    assert clear.sum() > 200
    assert (found["label"] == sums.argmax(axis=1))[clear].all()
    nearest = level_rule(True).label(Z)
    squared = ((view[:, None] - rule.S.T) ** 2).sum(axis=2)
    assert (nearest["label"] == rule.part[squared.argmin(axis=1)]).mean() > 0.99
    assert nearest["score"].tobytes() == found["score"].tobytes()


def test_the_boundary_rule_takes_the_nearest_point():
    rule, Z = boundary_rule(), normal(300, 5, seed=9)
    found = rule.label(Z)
    squared = ((Z[:, None] - rule.points) ** 2).sum(axis=2)
    assert (found["label"] == rule.cluster[squared.argmin(axis=1)]).all()
    f = reference.weighted_sums(Z, rule.S, rule.a, 0.2) - 1.0
    np.testing.assert_allclose(found["score"], f, atol=1e-5)
    assert (rule.label(rule.points)["label"] == rule.cluster).all()
