import numpy as np
import pytest
from sklearn.datasets import make_moons

from distsvc.models.rows.sampling import row_keys
from distsvc.models.support_vector.boundary import balls
from distsvc.models.support_vector.boundary.labelling import (
    CLIMB_TOLERANCE,
    DecisionFunction,
    climb,
    merge_equilibria,
)
from tests import reference


def function(b=15, gamma=0.5, seed=1):
    rng = np.random.default_rng(seed)
    S = rng.normal(scale=3.0, size=(2, b)).astype(np.float32)
    return DecisionFunction(S, rng.uniform(0.5, 1.5, b).astype(np.float32), gamma)


def points(n, seed=0):
    return np.random.default_rng(seed).normal(scale=3.0, size=(n, 2)).astype(np.float32)


def test_balls_cover_the_table_in_the_order_of_the_keys():
    X = make_moons(400, noise=0.1, random_state=0)[0].astype(np.float32)
    keys = row_keys(3, np.arange(400))
    centres = balls.ball_centres(X, keys, 0.2)
    shuffled = X[np.argsort(keys)]
    np.testing.assert_array_equal(centres, shuffled[reference.ball_centres(shuffled, 0.2)])
    far = np.linalg.norm(X[:, None] - centres, axis=2)
    assert far.min(axis=1).max() < 0.2
    apart = np.linalg.norm(centres[:, None] - centres, axis=2)
    assert apart[~np.eye(len(centres), dtype=bool)].min() >= 0.2
    assert len(centres) < 200


@pytest.mark.parametrize("radius", [0.1, 0.5, 2.0])
def test_twin_climb_together(radius):
    f, X = function(), points(60)
    slow = reference.climb_together(
        X, f.S, f.a, f.gamma, radius, balls.BURST, balls.ARRIVED, CLIMB_TOLERANCE
    )
    found = balls.climb_together(f, X, radius)
    np.testing.assert_allclose(found, slow, atol=0.02)


def test_without_merging_all_reach_the_equilibria_of_a_climb():
    f, X = function(), points(100)
    E, member = merge_equilibria(f, climb(f, X))
    F, other = merge_equilibria(f, balls.climb_together(f, X, 1e-6))
    assert len(E) == len(F) > 3
    np.testing.assert_allclose(E[member], F[other], atol=1e-2)


def test_equilibria_within_the_merge_radius_are_one():
    f = DecisionFunction(np.array([[-2.0, 2.0], [0.0, 0.0]], np.float32), np.ones(2, "f4"), 0.5)
    X = np.array([[-2.5, 0.0], [2.5, 0.0], [2.0, 1.0]], np.float32)
    assert len(np.unique(balls.climb_together(f, X, 3.9).round(2), axis=0)) == 2
    together = balls.climb_together(f, X, 4.5)
    assert len(np.unique(together, axis=0)) == 1
    np.testing.assert_allclose(np.abs(together[0]), [2.0, 0.0], atol=0.1)
