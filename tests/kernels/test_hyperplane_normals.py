"""Rows that cancel their normal: v - c (x - mean) is nearly 0."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from tests import reference
from tests.kernels.hyperplane_trees import (
    NEVER,
    assert_close,
    one_node,
)


def cancelling(remains, x=20.0):
    """A node with one feature, and a row whose step leaves this share of its normal.

    p = x / 2 and h = 1; the step on v is u exp(-u^2 / 2) / 2 for b = p + u.
    """
    p = x / 2
    u = brentq(lambda u: p * u * math.exp(-u * u / 2) / 2 - (1 - remains), 0.0, 1.0, xtol=1e-15)
    bandwidth = 2**0.2 / math.sqrt(p * p / 2)
    row = np.array([[x]], np.float32)
    return one_node(1, v=1.0, b=p + u), row, {"penalty": 0.0, "bandwidth": bandwidth}


@pytest.mark.parametrize("size", [0.9, 0.5, 0.2, 0.1, 0.03, 0.015, 0.01, 0.003])
def test_what_remains_of_a_normal_is_made_a_unit_vector(size):
    for x in (13.7, 20.0, 33.3):
        for remains in (size, -size):
            tree, row, settings = cancelling(remains, x)
            tree.feed(row, **settings)
            assert tree.V[0, 0] == pytest.approx(math.copysign(1.0, remains), abs=1e-5)


@pytest.mark.parametrize(
    "remains",
    [0.5, 0.1, 0.01, 0.005, -0.005, -0.01, -0.1, -0.5],
)
def test_a_row_that_cancels_its_normal_goes_to_its_side(remains):
    tree, row, settings = cancelling(remains)
    twin = tree.twin()
    tree.feed(row, clip=0.5, **settings)  # b = 0.5 alpha sigma = 1.8; p is now 10 or -10
    assert twin.feed(row, reference.learn, clip=0.5, **settings)[0] > 5.0
    assert_close(tree, twin, 1e-3)


def test_a_normal_is_never_lost():
    for remains in np.linspace(-1e-7, 1e-7, 41):
        tree, row, settings = cancelling(remains, x=32.0)
        tree.feed(row, **settings)
        np.testing.assert_allclose(tree.norms, 1.0, atol=1e-5)


@pytest.mark.parametrize("most_visits", [NEVER, 1000, 1024])
def test_what_rounding_adds_to_a_normal_is_taken_away(most_visits):
    # rows at the mean do not turn v, so that only its renormalisation changes it
    tree = one_node(v=(1.0001, 0.0), variance=1.0)
    tree.feed(np.zeros((3000, 2), np.float32), most_visits=most_visits)
    np.testing.assert_allclose(tree.norms, 1.0, atol=1e-6)
