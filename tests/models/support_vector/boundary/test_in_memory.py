import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.svm import OneClassSVM

from distsvc.models.rows.sampling import row_keys
from distsvc.models.support_vector.boundary import in_memory
from distsvc.models.support_vector.boundary.labelling import (
    CLIMB_TOLERANCE,
    SEGMENT_TOLERANCE,
    DecisionFunction,
    components,
)
from tests import reference

LEVEL = 1.0 - SEGMENT_TOLERANCE
TABLES = {
    "moons": lambda n: make_moons(n, noise=0.06, random_state=0)[0],
    "rings": lambda n: make_circles(n, noise=0.04, factor=0.4, random_state=0)[0],
    "blobs": lambda n: make_blobs(n, centers=4, n_features=3, random_state=0)[0],
    "noise": lambda n: np.random.default_rng(0).normal(size=(n, 5)),
}


def trained(X, gamma, nu):
    svm = OneClassSVM(gamma=gamma, nu=nu, tol=1e-6).fit(X)
    S = np.ascontiguousarray(svm.support_vectors_.T, np.float32)
    return DecisionFunction(S, (svm.dual_coef_[0] / svm.offset_[0]).astype(np.float32), gamma)


def same_parts(a, b):
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    return len(pairs) == len(set(a.tolist())) == len(set(b.tolist()))


@pytest.mark.parametrize("gamma", [1.0, 5.0, 20.0])
@pytest.mark.parametrize("table", TABLES)
def test_components_equal_those_of_all_pairs(table, gamma):
    X = TABLES[table](130).astype(np.float32)
    f = trained(X, gamma, 0.1)
    V = in_memory.inside_rows(f, X)
    found = components(in_memory.joined_pairs(f, V, 20), len(V))
    assert same_parts(found, reference.complete_graph(V, f.S, f.a, gamma, 20, LEVEL))


@pytest.mark.parametrize("table", TABLES)
def test_bounds_rule_out_no_pair_that_is_connected(table, monkeypatch):
    """Many boxes are compared with one box, for which all pairs are tested."""
    X = TABLES[table](600).astype(np.float32)
    f = trained(X, 12.0, 0.15)
    V = in_memory.inside_rows(f, X)
    found = components(in_memory.joined_pairs(f, V, 20), len(V))
    monkeypatch.setattr(in_memory, "LEAF_VERTICES", len(V))
    slow = components(in_memory.joined_pairs(f, V, 20), len(V))
    assert len(V) > 400
    assert slow.max() >= 1
    assert same_parts(found, slow)


def test_the_row_with_the_highest_f_if_no_row_is_inside():
    X = TABLES["moons"](50).astype(np.float32)
    f = trained(X, 5.0, 0.2)
    low = DecisionFunction(f.S, f.a / np.float32(10.0), f.gamma)
    V = in_memory.inside_rows(low, X)
    np.testing.assert_array_equal(V, X[[np.argmax(low(X))]])
    assert in_memory.joined_pairs(low, V, 20).shape == (0, 2)


def test_too_many_vertices_are_an_error(monkeypatch):
    monkeypatch.setattr(in_memory, "MOST_VERTICES", 100)
    X = TABLES["moons"](200).astype(np.float32)
    with pytest.raises(ValueError, match=r"100 distinct rows inside the boundary, found 1\d\d"):
        in_memory.inside_rows(trained(X, 5.0, 0.2), X)


def function(b=15, gamma=0.5, seed=1):
    rng = np.random.default_rng(seed)
    S = rng.normal(scale=3.0, size=(2, b)).astype(np.float32)
    return DecisionFunction(S, rng.uniform(0.5, 1.5, b).astype(np.float32), gamma)


def points(n, seed=0):
    return np.random.default_rng(seed).normal(scale=3.0, size=(n, 2)).astype(np.float32)


def test_balls_cover_the_table_in_the_order_of_the_keys():
    X = make_moons(400, noise=0.1, random_state=0)[0].astype(np.float32)
    keys = row_keys(3, np.arange(400))
    centres = in_memory.ball_centres(X, keys, 0.2)
    shuffled = X[np.argsort(keys)]
    np.testing.assert_array_equal(centres, shuffled[reference.ball_centres(shuffled, 0.2)])
    assert np.linalg.norm(X[:, None] - centres, axis=2).min(axis=1).max() < 0.2
    apart = np.linalg.norm(centres[:, None] - centres, axis=2)
    assert apart[~np.eye(len(centres), dtype=bool)].min() >= 0.2
    assert len(centres) < 200


@pytest.mark.parametrize("radius", [0.1, 0.5, 2.0])
def test_climb_together_equals_its_slow_twin(radius):
    f, X = function(), points(60)
    slow = reference.climb_together(
        X, f.S, f.a, f.gamma, radius, in_memory.BURST, in_memory.ARRIVED, CLIMB_TOLERANCE
    )
    found = in_memory.climb_together(f, X, radius)
    np.testing.assert_allclose(found, slow, atol=0.02)
