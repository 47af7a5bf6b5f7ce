import numpy as np
import pytest

from distsvc.kernels.balls import ball_centres, merge_neighbours
from tests import reference


@pytest.mark.parametrize("d", [1, 2, 7])
@pytest.mark.parametrize("radius", [0.2, 0.9, 4.0, 50.0])
def test_twin_ball_centres(d, radius):
    X = np.random.default_rng(d).normal(size=(150, d)).astype(np.float32)
    slow = reference.ball_centres(X, radius)
    assert ball_centres(X, radius).tolist() == slow.tolist()
    assert reference.plain(ball_centres)(X, radius).tolist() == slow.tolist()
    assert slow[0] == 0


def test_a_row_at_the_radius_is_not_absorbed_and_an_equal_one_is():
    X = np.array([[0.0], [2.0], [0.0], [1.5], [2.0]], np.float32)
    assert ball_centres(X, 2.0).tolist() == [0, 1]
    assert ball_centres(X, 1.0).tolist() == [0, 1]
    assert ball_centres(X, 0.25).tolist() == [0, 1, 3]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("radius", [0.3, 1.0, 3.0])
def test_twin_merge_neighbours(seed, radius):
    rng = np.random.default_rng(seed)
    P = rng.normal(scale=2.0, size=(50, 2)).astype(np.float32)
    arrived = rng.random(50) < 0.3
    slow = reference.merge_neighbours(P, arrived, radius)
    assert merge_neighbours(P, arrived, radius).tolist() == slow.tolist()
    assert reference.plain(merge_neighbours)(P, arrived, radius).tolist() == slow.tolist()
    assert (slow[slow] == slow).all()


@pytest.mark.parametrize(
    ("arrived", "place"),
    [
        ([0, 0, 0, 0], [0, 0, 2, 3]),  # neighbours collapse onto the first
        ([0, 1, 0, 0], [1, 1, 1, 3]),  # joins the neighbour that has arrived, which takes the next
        ([1, 1, 0, 0], [0, 0, 2, 3]),  # of two that have arrived the first takes the other
        ([0, 0, 1, 0], [0, 0, 2, 3]),
        ([0, 0, 0, 1], [0, 0, 2, 3]),
    ],
)
def test_who_takes_whom(arrived, place):
    P = np.array([[0.0], [1.0], [2.0], [9.0]], np.float32)
    assert merge_neighbours(P, np.array(arrived, bool), 1.5).tolist() == place
