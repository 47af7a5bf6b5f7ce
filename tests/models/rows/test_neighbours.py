"""The nearest other rows of every row, compared with scikit-learn's."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from distsvc.models.rows.neighbours import NEIGHBOUR_BLOCK_ROWS, nearest_others

M = 3 * NEIGHBOUR_BLOCK_ROWS + 5


@pytest.mark.parametrize("d", [1, 2, 9, 60])
@pytest.mark.parametrize("apart", [0.0, 1e4], ids=["one group", "five groups far from the middle"])
def test_neighbours_are_those_of_scikit_learn_on_any_number_of_threads(d, apart):
    random = np.random.default_rng(d)
    groups = apart * random.normal(size=(5, d))
    rows = (groups[random.integers(5, size=M)] + random.normal(size=(M, d))).astype(np.float32)
    distances, numbers = nearest_others(rows, 7)
    expected = (
        NearestNeighbors(n_neighbors=7, algorithm="kd_tree").fit(rows.astype(float)).kneighbors()
    )
    np.testing.assert_allclose(distances, expected[0], rtol=1e-12)
    if d > 1 or not apart:  # in one column far away, float32 makes distances equal
        assert numbers.tolist() == expected[1].tolist()
    threads = nearest_others(rows, 7, n_jobs=2)
    assert [part.tobytes() for part in threads] == [distances.tobytes(), numbers.tobytes()]


@pytest.mark.parametrize("d", [2, 9])
def test_equal_rows_are_near_each_other_and_none_is_near_itself(d):
    rows = np.repeat(np.full((4, d), 3.0) * np.arange(4)[:, None], 30, axis=0)
    distances, numbers = nearest_others(rows, 5)
    assert (numbers != np.arange(len(rows))[:, None]).all()
    assert (numbers // 30 == np.arange(len(rows))[:, None] // 30).all()
    assert distances.max() < 1e-6
    assert all(len(set(row)) == 5 for row in numbers.tolist())
