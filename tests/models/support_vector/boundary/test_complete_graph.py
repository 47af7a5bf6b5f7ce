import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.svm import OneClassSVM

from distsvc.models.support_vector.boundary import complete_graph
from distsvc.models.support_vector.boundary.labelling import (
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
def test_components_are_those_of_all_pairs(table, gamma):
    X = TABLES[table](130).astype(np.float32)
    f = trained(X, gamma, 0.1)
    V = complete_graph.inside_rows(f, X)
    found = components(complete_graph.joined_pairs(f, V, 20), len(V))
    assert same_parts(found, reference.complete_graph(V, f.S, f.a, gamma, 20, LEVEL))


@pytest.mark.parametrize("table", TABLES)
def test_bounds_rule_out_no_pair_that_is_connected(table, monkeypatch):
    """Of a table with many boxes: with one box nothing is bounded and all pairs are tested."""
    X = TABLES[table](600).astype(np.float32)
    f = trained(X, 12.0, 0.15)
    V = complete_graph.inside_rows(f, X)
    found = components(complete_graph.joined_pairs(f, V, 20), len(V))
    monkeypatch.setattr(complete_graph, "LEAF", len(V))
    slow = components(complete_graph.joined_pairs(f, V, 20), len(V))
    assert len(V) > 400
    assert slow.max() >= 1
    assert same_parts(found, slow)


def test_vertices_are_the_rows_inside_without_repetitions():
    X = TABLES["moons"](200).astype(np.float32)
    f = trained(X, 5.0, 0.2)
    V = complete_graph.inside_rows(f, np.concatenate([X, X[:50]]))
    expected = np.unique(X[f(X) >= -1e-5], axis=0)
    np.testing.assert_array_equal(V, expected)
    assert 150 <= len(V) < 180  # the share nu outside, and vectors on the boundary inside


def test_where_nothing_is_inside_the_highest_row_is():
    X = TABLES["moons"](50).astype(np.float32)
    f = trained(X, 5.0, 0.2)
    low = DecisionFunction(f.S, f.a / np.float32(10.0), f.gamma)
    V = complete_graph.inside_rows(low, X)
    np.testing.assert_array_equal(V, X[[np.argmax(low(X))]])
    assert complete_graph.joined_pairs(low, V, 20).shape == (0, 2)


def test_too_many_vertices(monkeypatch):
    monkeypatch.setattr(complete_graph, "MOST_VERTICES", 100)
    X = TABLES["moons"](200).astype(np.float32)
    with pytest.raises(ValueError, match=r"takes at most 100 different rows inside, found 1\d\d"):
        complete_graph.inside_rows(trained(X, 5.0, 0.2), X)
