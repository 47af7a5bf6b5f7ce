import numpy as np
import pytest
from sklearn.datasets import make_blobs

from distsvc.models.graph import engine as graph
from distsvc.models.graph.coordinates import NoGraphReason
from distsvc.models.graph.engine import GraphEngine
from distsvc.models.rows import sampling
from distsvc.models.support_vector.boundary.base import Parameters
from distsvc.models.support_vector.estimator import SupportVectorClustering


def engine_of(X, **parameters):
    """Rows X in the order of their keys, and an engine that has learned them."""
    given = SupportVectorClustering(effort="fast", **parameters).get_params()
    engine = GraphEngine(Parameters(**given), 0)
    keys = np.sort(sampling.row_keys(0, np.arange(len(X))))
    engine.set_pilot(X)
    engine.place(X, keys)
    engine.learn()
    return engine


def blobs(n=500, d=5, k=4):
    X, y = make_blobs(n, n_features=d, centers=k, cluster_std=0.7, random_state=0)
    return X.astype(np.float32), y


@pytest.fixture(scope="module")
def learned():
    X, y = blobs()
    return X, y, engine_of(X)


def rule_of(engine):
    from tests.models.rules.test_rule import SCORED

    return engine.rule(engine.labels(engine.tree.levels), SCORED)


@pytest.mark.parametrize(("n_values", "without"), [(2, NoGraphReason.LATTICE), (9, None)])
def test_columns_of_two_values_are_a_lattice(n_values, without):
    random = np.random.default_rng(0)
    X = random.integers(n_values, size=(600, 16)) * random.uniform(1.0, 3.0, 16)
    assert engine_of(X.astype(np.float32)).without is without


def test_all_points_of_a_small_graph_are_landmarks_with_their_labels(learned):
    X, _, engine = learned
    rule = rule_of(engine)
    assert len(rule.landmarks) == len(X)
    assert (rule.labels(X) == engine.labels(engine.tree.levels)[engine.point_of]).all()


def test_other_rows_take_the_label_of_the_nearest_landmark(learned):
    X, _, engine = learned
    rule = rule_of(engine)
    other = np.random.default_rng(1).uniform(-10.0, 10.0, (200, 5)).astype(np.float32)
    distances = np.linalg.norm(other[:, None] - rule.landmarks, axis=2)
    assert (rule.labels(other) == rule.cluster[distances.argmin(axis=1)]).all()
    assert (rule.shares(X).argmax(axis=1) == rule.labels(X)).all()


@pytest.mark.parametrize("d", [2, 6, 20])
def test_shares_equal_the_frequency_of_right_labels(learned, d):
    """One kernel width for all dimensions would make the shares of many columns too equal."""
    from tests.models.rules.test_rule import SCORED

    random = np.random.default_rng(d)
    y = random.integers(2, size=2400)
    X = random.normal(size=(2400, d)).astype(np.float32)
    X[:, 0] += 3.5 * y
    half = 1200
    engine = GraphEngine(learned[2].parameters, 0)
    engine.axes, engine.points = np.eye(d, dtype=np.float32), X[:half]
    rule = engine.rule(y[:half].astype(np.int32), SCORED)
    own = rule.shares(X[half:]).max(axis=1)
    right = rule.labels(X[half:]) == y[half:]
    assert own.mean() == pytest.approx(right.mean(), abs=0.04)


def test_landmarks_of_a_large_graph_include_points_of_each_cluster(learned, monkeypatch):
    X, _, engine = learned
    monkeypatch.setattr(graph, "LANDMARKS", 60)
    monkeypatch.setattr(graph, "COMPARED", 0)
    rule = rule_of(engine)
    assert 60 <= len(rule.landmarks) <= 60 + 4 * graph.LANDMARKS_OF_EACH
    assert (np.bincount(rule.cluster) >= graph.LANDMARKS_OF_EACH).all()
    assert (rule.labels(X) == engine.labels(engine.tree.levels)[engine.point_of]).mean() > 0.99


def test_clusters_are_numbered_by_rows_not_by_points(learned):
    """Equal rows are one point, so a cluster of few points can have many rows."""
    engine = learned[2]
    found = engine.tree.levels
    own = found.labels(engine.seen)
    smallest = np.argmin(np.bincount(own))
    again = GraphEngine(engine.parameters, 0)
    again.tree, again.points, again.coordinates = engine.tree, engine.points, engine.coordinates
    again.point_of = np.repeat(np.arange(len(own)), np.where(own == smallest, 9, 1))
    labels, numbers = again.labels(found), again.numbers(found)
    assert numbers[smallest] == 0
    assert (labels == numbers[own]).all()
    assert (np.diff(np.bincount(labels[again.point_of])) <= 0).all()


def test_a_cluster_without_rows_has_no_number(learned):
    engine = learned[2]
    found = engine.tree.levels
    own = found.labels(engine.seen)
    again = GraphEngine(engine.parameters, 0)
    again.tree, again.points, again.coordinates = engine.tree, engine.points, engine.coordinates
    again.point_of = np.flatnonzero(own != 2)
    numbers = again.numbers(found)
    assert numbers[2] == -1
    assert sorted(numbers) == [-1, 0, 1, 2]
