import numpy as np
import pytest

from distsvc.models.rows import principal_components
from distsvc.models.rows.principal_components import MOST_COMPONENTS
from distsvc.models.support_vector.level_tree import directions
from distsvc.models.support_vector.level_tree.directions import (
    leading_directions,
    near_scatter,
    scatter_of_pairs,
    shortest_rows,
)


def rows_about_centres(n=1500, d=120, k=6, wide=20, spread=0.4, seed=0):
    """Rows about k centres with labels; `wide` directions vary most and separate nothing."""
    random = np.random.default_rng(seed)
    centres, noise = random.normal(size=(k, d)), spread * random.normal(size=(wide, d))
    labels = random.integers(k, size=n)
    X = centres[labels] + random.normal(size=(n, wide)) @ noise + 0.3 * random.normal(size=(n, d))
    return X.astype(np.float32), labels


def principal(X):
    vectors = np.linalg.eigh(np.cov(X.T.astype(np.float64)))[1][:, ::-1]
    return vectors[:, :MOST_COMPONENTS].T


def told_apart(view, labels):
    """The share of the variance of the leading 5 coordinates that is between clusters."""
    view = view[:, :5].astype(np.float64)
    within = (
        view - np.array([view[labels == c].mean(axis=0) for c in range(labels.max() + 1)])[labels]
    )
    return 1.0 - within.var(axis=0).sum() / view.var(axis=0).sum()


def near_scatter_slowly(rows):
    total, pairs = 0.0, 0
    for i, x in enumerate(rows):
        distance = ((rows - x) ** 2).sum(axis=1)
        distance[i] = np.inf
        for j in np.argsort(distance)[: min(directions.SCATTER_NEIGHBOURS, len(rows) - 1)]:
            unit = (x - rows[j]) / np.sqrt(distance[j])
            total, pairs = total + np.outer(unit, unit), pairs + 1
    return total / pairs


def test_clusters_come_before_wide_noise():
    X, labels = rows_about_centres()
    assert told_apart(X @ principal(X).T, labels) < 0.4
    found = leading_directions(X)
    assert found.shape == (MOST_COMPONENTS, 120)
    assert found.dtype == np.float32
    assert told_apart(X @ found.T, labels) > 0.95


def test_the_first_direction_has_the_largest_ratio_of_scatters(monkeypatch):
    monkeypatch.setattr(directions, "SHRUNK", 0.0)
    X, _ = rows_about_centres(d=60, wide=3)
    found, X = leading_directions(X), X.astype(np.float64)
    near, pairs = near_scatter(X), scatter_of_pairs(X)
    np.testing.assert_allclose(found @ near @ found.T, np.eye(MOST_COMPONENTS), atol=1e-3)
    ratios = np.diag(found @ pairs @ found.T)
    assert (np.diff(ratios) < 1e-3).all()
    other = np.random.default_rng(1).normal(size=(200, 60))
    of_others = np.einsum("id,de,ie->i", other, pairs, other)
    of_others /= np.einsum("id,de,ie->i", other, near, other)
    assert of_others.max() <= ratios[0] * 1.001


@pytest.mark.parametrize(("n", "p"), [(2, 3), (4, 1), (60, 5)])
def test_the_scatter_of_near_rows_by_all_pairs(n, p):
    rows = np.random.default_rng(n).normal(size=(n, p))
    np.testing.assert_allclose(near_scatter(rows), near_scatter_slowly(rows), rtol=1e-10)


def test_placed_rows_have_the_given_coordinates():
    X, _ = rows_about_centres()
    found = leading_directions(X)
    view = (X @ found.T)[:40]
    np.testing.assert_allclose(shortest_rows(view, found) @ found.T, view, rtol=1e-3, atol=1e-2)
    straight = np.float32(principal(X))
    assert shortest_rows(view, straight).tobytes() == (view @ straight).tobytes()


def test_directions_of_many_columns_equal_those_from_covariances(monkeypatch):
    X, _ = rows_about_centres(n=90, d=200)
    wanted = leading_directions(X)
    monkeypatch.setattr(principal_components, "MOST_COVARIANCES", 40)
    found = leading_directions(X)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert np.count_nonzero(leading_directions(X[:5]).any(axis=1)) == 4
    assert not leading_directions(np.ones((5, 200), np.float32)).any()


def test_very_many_columns_need_no_covariances():
    X, labels = rows_about_centres(n=100, d=20_000, wide=5)
    assert told_apart(X @ leading_directions(X).T, labels) > 0.95
