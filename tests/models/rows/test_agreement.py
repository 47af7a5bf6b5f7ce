"""Agreement of labels with randomly drawn labels."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from distsvc.models.rows.agreement import expected_rand_index


def test_certain_rows_have_the_index_of_their_clusters():
    labels, others = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 1, 2])
    found = expected_rand_index(labels, np.eye(3)[others])
    assert found == pytest.approx(adjusted_rand_score(labels, others))
    assert expected_rand_index(5 * labels, np.eye(3)[labels]) == 1.0


def test_the_index_is_the_mean_over_draws():
    random = np.random.default_rng(0)
    chances = random.dirichlet([0.3, 0.3, 0.3], 500)
    labels = chances.argmax(axis=1)
    draws = [(np.cumsum(chances, 1) < random.random((500, 1))).sum(axis=1) for _ in range(100)]
    mean = np.mean([adjusted_rand_score(labels, np.minimum(drawn, 2)) for drawn in draws])
    assert expected_rand_index(labels, chances) == pytest.approx(mean, abs=0.01)


def test_one_cluster_agrees_with_itself():
    assert expected_rand_index(np.zeros(5, np.int64), np.ones((5, 1))) == 1.0
