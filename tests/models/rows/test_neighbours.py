"""The nearest other rows of every row, compared with scikit-learn's."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from distsvc.models.rows.neighbours import NEIGHBOUR_BLOCK_ROWS, nearest_others


@pytest.mark.parametrize("d", [1, 2, 9, 60])
def test_neighbours_are_those_of_scikit_learn(d):
    rows = np.random.default_rng(d).normal(loc=5.0, size=(700, d)).astype(np.float32)
    distances, numbers = nearest_others(rows, 7)
    expected = NearestNeighbors(n_neighbors=7).fit(rows.astype(float)).kneighbors()
    assert numbers.tolist() == expected[1].tolist()
    np.testing.assert_allclose(distances, expected[0], rtol=1e-12)


@pytest.mark.parametrize("d", [2, 9])
def test_equal_rows_are_near_each_other_and_none_is_near_itself(d):
    rows = np.repeat(np.full((4, d), 3.0) * np.arange(4)[:, None], 30, axis=0)
    distances, numbers = nearest_others(rows, 5)
    assert (numbers != np.arange(len(rows))[:, None]).all()
    assert (numbers // 30 == np.arange(len(rows))[:, None] // 30).all()
    assert distances.max() < 1e-6
    assert all(len(set(row)) == 5 for row in numbers.tolist())


def test_rows_far_from_the_middle_have_the_right_neighbours():
    # rows are 10^4 times as long as the distances in a group
    random = np.random.default_rng(0)
    groups = 1e4 * random.normal(size=(5, 12))
    rows = groups[random.integers(5, size=600)] + random.normal(size=(600, 12))
    rows = rows.astype(np.float32)
    distances, numbers = nearest_others(rows, 7)
    expected = NearestNeighbors(n_neighbors=7).fit(rows.astype(float)).kneighbors()
    assert numbers.tolist() == expected[1].tolist()
    np.testing.assert_allclose(distances, expected[0], rtol=1e-12)


@pytest.mark.parametrize("d", [3, 9])
def test_threads_change_nothing(d):
    rows = np.random.default_rng(0).normal(size=(3 * NEIGHBOUR_BLOCK_ROWS + 5, d))
    one, two = nearest_others(rows, 4), nearest_others(rows, 4, n_jobs=2)
    assert [part.tobytes() for part in one] == [part.tobytes() for part in two]
