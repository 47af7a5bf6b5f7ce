"""Penalty and clip, which hold hyperplanes near the mean."""

import math

import numpy as np
import pytest

from tests.kernels.hyperplane_trees import (
    Tree,
    one_node,
    rows,
    two_clusters,
)


def test_the_penalty_keeps_hyperplanes_near_the_mean():
    # one cluster: its density falls outwards, so that nothing else holds a hyperplane
    for clip, least in ((5.0, 2.4), (np.inf, 10.0)):
        found = {}
        for penalty in (0.0, 1.0, 10.0):
            tree = Tree(3, 2)
            tree.feed(rows(50_000), penalty=penalty, clip=clip)
            found[penalty] = abs(tree.b[0]) / math.sqrt(tree.variances[0])
        assert found[0.0] > least
        assert found[1.0] < 0.9
        assert found[10.0] < 0.56


@pytest.mark.parametrize("b", [20.0, -20.0])
def test_the_first_steps_of_the_penalty_go_too_far(b):
    # t = 1; p = 1, sigma = 1; far from the row, so that g = 0: b - 2 * 10 (|b| - 0.5) sign(b) / 2
    x = np.array([[2.0, 0.0]], np.float32)
    tree = one_node(b=b, variance=1.0)
    tree.feed(x, clip=np.inf)
    assert tree.b[0] == pytest.approx(math.copysign(20.0, b) - math.copysign(10.0 * 19.5, b))
    tree = one_node(b=b, variance=1.0)
    tree.feed(x, clip=5.0)
    assert tree.b[0] == -math.copysign(2.5, b)


def test_the_clip_holds_b_where_the_first_steps_blow_it_up():
    X, most = rows(2000), {}
    for clip in (np.inf, 5.0):
        tree, found = Tree(3, 2), []
        for x in X:
            tree.feed(x[None], penalty=30.0, clip=clip)
            found.append(abs(tree.b[0]) / (0.5 * math.sqrt(tree.variances[0])))
        assert np.isfinite(found).all()
        most[clip] = max(found)
    assert most[5.0] <= 5.0 * (1 + 1e-12)
    assert most[np.inf] > 1e6


@pytest.mark.parametrize("d", [1, 3])
def test_alpha_zero_with_a_clip_keeps_hyperplanes_on_the_mean(d):
    tree = Tree(7, d)
    for x in two_clusters(500, d, seed=0)[0]:
        tree.feed(x[None], alpha=0.0)
        assert not tree.b.any()
    np.testing.assert_allclose(tree.norms, 1.0, atol=1e-5)
