"""Routing rows through a tree."""

import numpy as np
import pytest

from distsvc.kernels.hyperplane import ends_of, route
from tests import reference
from tests.kernels.hyperplane_trees import (
    Tree,
    rows,
)


def complete_children(nodes):
    children = np.full((nodes, 2), -1, np.int32)
    inner = np.arange(nodes // 2)
    children[inner] = np.column_stack([2 * inner + 1, 2 * inner + 2])
    return children


@pytest.mark.parametrize("d", [1, 2, 784])
@reference.forms(route)
def test_twin_route(form, d):
    X, tree = rows(40, d), Tree(15, d)
    tree.feed(rows(300, d, seed=1))
    rng = np.random.default_rng(2)
    arguments = tree.V, rng.normal(size=15) * 0.3, rng.uniform(0.5, 2.0, 15), complete_children(15)
    ends, margins = form(X, *arguments)
    slow_ends, slow_margins = reference.route(X, *arguments)
    assert slow_margins.min() > 1e-5
    np.testing.assert_array_equal(ends, slow_ends)
    np.testing.assert_allclose(margins, slow_margins, atol=3e-6, rtol=1e-6)
    assert (ends.dtype, margins.dtype) == (np.int32, np.float32)
    assert len(set(ends.tolist())) > 3


@pytest.mark.parametrize("d", [1, 5, 16, 50])
@reference.forms(ends_of)
def test_ends_alone_are_those_of_the_route(form, d):
    X, tree = rows(60, d), Tree(15, d)
    tree.feed(rows(300, d, seed=1))
    thresholds, children = np.linspace(-0.3, 0.3, 15), complete_children(15)
    ends, margins = route(X, tree.V, thresholds, np.ones(15), children)
    assert margins.min() > 1e-5
    found = form(X, tree.V, thresholds, children)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, ends)


UNEVEN = (
    np.array([[1, 0], [0, 0], [0, 1], [0, 0], [0, 0]], np.float32),
    np.array([0.0, 0.0, 1.0, 0.0, 0.0]),
    np.array([2.0, 1.0, 0.5, 1.0, 1.0]),
    np.array([[1, 2], [-1, -1], [4, 3], [-1, -1], [-1, -1]], np.int32),
)


@pytest.mark.parametrize(
    ("x", "end", "margin"),
    [
        ((-3.0, 1.0), 1, 1.5),  # the second hyperplane, which it would lie on, is not on its path
        ((4.0, 0.5), 4, 1.0),
        ((1.0, -9.0), 4, 0.5),
        ((1.0, 1.125), 3, 0.25),
        ((0.0, 5.0), 3, 0.0),  # ties go to the second child
        ((8.0, 1.0), 3, 0.0),
    ],
)
@reference.forms(route)
def test_twin_route_by_hand(form, x, end, margin):
    X = np.array([x], np.float32)
    for found in (form(X, *UNEVEN), reference.route(X, *UNEVEN)):
        assert found[0].tolist() == [end]
        assert found[1].tolist() == [margin]


@reference.forms(route)
def test_twin_route_without_a_hyperplane(form):
    arguments = np.ones((1, 3), np.float32), np.zeros(1), np.ones(1), np.full((1, 2), -1, np.int32)
    ends, margins = form(rows(4, 3), *arguments)
    assert ends.tolist() == [0] * 4
    assert margins.tolist() == [np.inf] * 4
    ends, margins = reference.route(rows(4, 3), *arguments)
    assert margins.tolist() == [np.inf] * 4


def test_route_does_not_depend_on_its_block():
    X, V = rows(200), Tree(31, 2).V
    arguments = V, rows(31, 1)[:, 0].astype(np.float64), np.ones(31), complete_children(31)
    ends, margins = route(X, *arguments)
    parts = [route(part, *arguments) for part in np.split(X, [0, 1, 60])]
    np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), ends)
    assert np.concatenate([part[1] for part in parts]).tobytes() == margins.tobytes()


@pytest.mark.parametrize("d", [1, 2, 784])
def test_a_learned_tree_routes_rows_as_it_learns_them(d):
    X, tree = rows(500, d), Tree(15, d)
    tree.feed(rows(3000, d, seed=1))
    thresholds = tree.b + (tree.V.astype(np.float64) * tree.means).sum(axis=1)
    ends, margins = route(
        X, tree.V, thresholds, np.sqrt(tree.variances + 1e-9), complete_children(15)
    )
    agree = 0
    for x, end in zip(X[margins > 0.1], ends[margins > 0.1], strict=True):
        # by now one row moves a hyperplane little; its effect is undone
        state = [array.copy() for array in tree.arrays]
        tree.feed(x[None])
        (last,) = np.flatnonzero(tree.visits - state[4])[-1:]
        agree += last == end
        for array, kept in zip(tree.arrays, state, strict=True):
            array[:] = kept
    assert agree > 0.95 * (margins > 0.1).sum() > 100
