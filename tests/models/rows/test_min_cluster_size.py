"""Tables of a few points with many rows each, and columns of evenly spaced values."""

import numpy as np
import pytest

from distsvc.models.rows.min_cluster_size import few_points


def repeats(points, counts, seed=0):
    rows = np.repeat(np.asarray(points, np.float32), counts, axis=0)
    return np.random.default_rng(seed).permutation(rows)


@pytest.mark.parametrize("d", [1, 2, 10])
@pytest.mark.parametrize("k", [2, 3, 10, 50])
def test_few_points_are_found_anywhere(k, d):
    points = np.random.default_rng(k).normal(size=(k, d)).astype(np.float32)
    found = few_points(repeats(points, np.arange(40, 40 + k)))
    np.testing.assert_array_equal(found, np.unique(points, axis=0))


def test_two_values_that_are_nearly_equal_make_no_scale():
    values = np.array([0.0, 1.00037, 2.13, 3.3141, 4.51, 5.6, 5.60007, 7.1])
    assert len(few_points(repeats(values[:, None], 100))) == len(values)


@pytest.mark.parametrize(
    "points",
    [[[0], [1], [2]], [[0, 0], [1, 0], [0, 1]], [[1], [2], [3], [4], [5]], np.eye(20)],
    ids=["three in a row", "a corner", "five in a row", "one-hot values"],
)
def test_up_to_five_points_may_be_evenly_spaced(points):
    assert len(few_points(repeats(points, 200))) == len(points)


def scales():
    random = np.random.default_rng(0)
    yield "integers on a grid", random.integers(0, 50, (20_000, 2))
    yield "a small grid", random.integers(0, 5, (3000, 2))
    yield "rounded values", np.round(random.normal(40, 10, (5000, 1)))
    yield "ratings", np.clip(np.round(random.normal(3, 1, (2000, 2))), 1, 5)
    yield "counts with gaps", np.repeat([[0], [1], [2], [4], [7], [12]], 100, axis=0)
    yield "one point", np.ones((500, 3))
    yield "no row twice", random.normal(size=(40, 2))
    yield "pairs", np.repeat(random.normal(size=(20, 2)), 2, axis=0)


@pytest.mark.parametrize("rows", [pytest.param(rows, id=name) for name, rows in scales()])
@pytest.mark.parametrize("scaled", [False, True])
def test_scales_and_single_rows_are_no_few_points(rows, scaled):
    rows = (rows - rows.mean()) / 7.3 if scaled else rows
    assert few_points(np.random.default_rng(1).permutation(rows.astype(np.float32))) is None
