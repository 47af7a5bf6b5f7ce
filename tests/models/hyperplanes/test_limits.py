"""Few rows, equal rows, and errors."""

import numpy as np
import pytest

from distsvc.job.parameters import PUBLISHED
from tests.models.hyperplanes.hyperplane_rows import (
    TOO_FEW_LEAVES,
    blobs,
    estimator,
    few_leaves_are_fine,
    gaussian,
    one_cluster_is_fine,
)


@one_cluster_is_fine
@few_leaves_are_fine
@pytest.mark.parametrize("parameters", [{}, {"valley": 0.0}, {"n_clusters": 3}, PUBLISHED["imdh"]])
@pytest.mark.parametrize(
    "X",
    [
        gaussian(2),
        gaussian(3),
        gaussian(10, 50),
        gaussian(200, 1),
        np.column_stack([np.zeros(300), gaussian(300, 1), np.ones(300)]),
        np.repeat(20.0 * gaussian(5, 2), 60, axis=0),
        np.concatenate([gaussian(), [[1e6, -1e6, 0.0]]]),
    ],
    ids=["two", "three", "wide", "line", "constant-features", "duplicates", "far"],
)
def test_few_or_equal_rows_have_a_consistent_tree(X, parameters):
    model = estimator(**parameters).fit(X)
    tree = model.cluster_tree_
    assert set(model.labels_) == set(range(model.n_clusters_))
    assert (model.predict(X) == model.labels_).all()
    assert model.n_clusters_ <= tree.n_leaves <= len(X)
    assert np.isfinite(tree.curve).all()
    assert np.isfinite(tree.V).all()
    for k in range(1, tree.n_leaves + 1):
        sizes = np.bincount(model.cut(k))
        assert len(sizes) == k
        assert sizes.min() > 0


@pytest.mark.parametrize("place", [0.0, 7.25, -1e4])
@pytest.mark.parametrize("n", [2, 50])
def test_equal_rows_are_one_cluster(n, place):
    for parameters in ({}, {"valley": 0.0}, PUBLISHED["imdh"], {"growth": "forward"}):
        model = estimator(**parameters).fit(np.full((n, 3), place))
        assert model.labels_.tolist() == [0] * n
        assert model.cluster_tree_.n_leaves == 1
        assert model.valleys_.shape == (0,)
        assert model.notes_ == []
        assert model.predict([[100.0, 0.0, -100.0]]).tolist() == [0]


def test_fewer_leaves_than_wanted_clusters_give_a_warning():
    X = np.repeat([[0.0, 0.0], [10.0, 10.0]], 100, axis=0)
    with pytest.warns(UserWarning, match=rf"^3 {TOO_FEW_LEAVES} 2 leaves of the tree have rows"):
        model = estimator(n_clusters=3).fit(X)
    assert model.n_clusters_ == 2
    assert np.bincount(model.labels_).tolist() == [100, 100]
    assert len(model.notes_) == 1


@one_cluster_is_fine
@few_leaves_are_fine
@pytest.mark.parametrize(
    "parameters",
    [
        {"depth": np.int64(3), "n_clusters": 4},
        {"passes": 1, "n_init": 1, "max_effective_samples": 1},
        {"alpha": 0, "penalty": 0, "valley": 0},
        {"bandwidth": 1e-3, "clip": 1e-3, "max_samples": 100},
        {"bandwidth": 1e6, "alpha": 1e6, "penalty": 100, "valley": 1e6},
        {"n_clusters": 1},
    ],
)
def test_parameters_at_their_bounds(parameters):
    X, _ = blobs(n=100)
    model = estimator(**parameters).fit(X)
    assert 1 <= model.n_clusters_ <= parameters.get("n_clusters", 128)
    assert np.isfinite(model.cluster_tree_.V).all()
    assert np.isfinite(model.cluster_tree_.thresholds).all()
