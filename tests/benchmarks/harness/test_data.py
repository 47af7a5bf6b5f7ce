import numpy as np
import pytest

from benchmarks.harness import data
from benchmarks.harness.data import standardised


def test_a_sample_is_drawn_once_and_standardised_by_all_rows(toy):
    X, y, size = data.table(None, "toy", None, 50)
    again = data.table.__wrapped__(None, "toy", None, 50)
    assert (X.shape, y.shape, size) == ((50, 2), (50,), 300)
    np.testing.assert_array_equal(X, again[0])
    whole = standardised(toy[0])
    assert {tuple(row) for row in X} <= {tuple(row) for row in whole}


@pytest.mark.parametrize("most_rows", [None, 50])
def test_shared_rows_cannot_be_written_to(toy, most_rows):
    X, y, _ = data.table(None, "toy", None, most_rows)
    for array in (X, y):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert data.table(None, "toy", None, most_rows)[0] is X


@pytest.mark.parametrize(("make", "d", "k"), [(data.gaussians, 8, 12), (data.rings, 2, 3)])
def test_made_tables(make, d, k):
    X, y = make(2000, 0)
    assert X.shape == (2000, d)
    assert set(y.tolist()) == set(range(k))
    np.testing.assert_array_equal(make(2000, 0)[0], X)
    assert not np.array_equal(make(2000, 1)[0], X)
