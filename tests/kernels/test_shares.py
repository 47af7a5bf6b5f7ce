"""Shares of clusters, compared with what their definitions say in NumPy."""

import numpy as np
import pytest

from distsvc.kernels.level_tree import vote
from distsvc.kernels.shares import largest_others, nearest_shares, path_shares, vote_shares

RANDOM = np.random.default_rng(0)
S = RANDOM.normal(size=(3, 40)).astype(np.float32)
A = RANDOM.uniform(0.5, 2.0, 40).astype(np.float32)
ENDS = np.array([10, 13, 40])
X = RANDOM.normal(size=(200, 3)).astype(np.float32)


def by_group(values):
    """Split (n, 40) by `ENDS`."""
    return np.split(values, ENDS[:-1], axis=1)


def squared():
    return ((X[:, None, :].astype(float) - S.T) ** 2).sum(axis=2)


def normal(shares):
    return shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("power", [0.25, 1.0, 2.0])
def test_votes(power):
    kernel = A * np.exp(-0.7 * squared())
    sums = np.stack([part.sum(axis=1) for part in by_group(kernel)], axis=1)
    expected = normal(normal(sums) ** power)
    found = vote_shares(X, S, A, ENDS, 0.7, power)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=5e-5)
    np.testing.assert_array_equal(found.argmax(axis=1), vote(X, S, A, ENDS, 0.7))


def test_nearest_points():
    nearest = np.stack([part.min(axis=1) for part in by_group(squared())], axis=1)
    expected = normal(np.exp(-0.7 * nearest))
    np.testing.assert_allclose(nearest_shares(X, S, ENDS, 0.7), expected, rtol=2e-5)


@pytest.mark.parametrize("far", [1e4, 1e18, 3e38])
def test_far_rows_have_shares_of_the_nearest(far):
    """Their kernel values are all 0, and their squared distances may overflow."""
    rows = np.full((2, 3), far, np.float32)
    for found in (vote_shares(rows, S, A, ENDS, 0.7, 2.0), nearest_shares(rows, S, ENDS, 0.7)):
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-6)


def tree_shares(x, node, tree):
    """Return the share of each label below a node, by recursion."""
    V, thresholds, widths, children, labels = tree
    if children[node, 0] < 0:
        return {int(labels[node]): 1.0}
    below = 1.0 / (1.0 + np.exp((V[node] @ x - thresholds[node]) / widths[node]))
    found = {}
    for child, share in zip(children[node], (below, 1.0 - below), strict=True):
        for label, part in tree_shares(x, child, tree).items():
            found[label] = found.get(label, 0.0) + share * part
    return found


def test_paths():
    children = np.array([[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]], np.int32)
    labels = np.array([-1, 2, -1, 0, 1], np.int32)
    V = RANDOM.normal(size=(5, 3)).astype(np.float32)
    tree = V, RANDOM.normal(size=5), RANDOM.uniform(0.1, 2.0, 5), children, labels
    found = np.zeros((len(X), 3), np.float32)
    path_shares(X, *tree, found)
    expected = [[tree_shares(x, 0, tree)[c] for c in range(3)] for x in X]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_the_largest_besides_the_own():
    shares = np.array([[0.1, 0.5, 0.1, 0.3], [0.0, 0.2, 0.8, 0.0]], np.float32)
    others, other_shares = np.empty((2, 3), np.int32), np.empty((2, 3), np.float32)
    largest_others(shares, np.array([1, 1], np.int32), others, other_shares)
    assert others.tolist() == [[3, 0, 2], [2, 0, 3]]
    np.testing.assert_allclose(other_shares, [[0.3, 0.1, 0.1], [0.8, 0.0, 0.0]])
