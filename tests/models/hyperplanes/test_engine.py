import itertools

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from distsvc.models.hyperplanes.engine import TreeEngine, mean_shared_information, share_alike
from distsvc.models.hyperplanes.tree import elbow
from distsvc.models.rows import sampling
from distsvc.models.rows.agreement import rand_indices
from tests.models.hyperplanes.hyperplane_rows import (
    GROWTHS,
    blobs,
    estimator,
    one_cluster_is_fine,
)


def engine_for(X, **parameters):
    """An engine with the rows of X as its pilot."""
    engine = TreeEngine(estimator(**parameters).get_params(), seed=0)
    engine.set_pilot(X, len(X))
    return engine


def by_key(X):
    """The rows of X in the order of their keys, and the keys."""
    keys = sampling.row_keys(0, np.arange(len(X)))
    return X[np.argsort(keys)], np.sort(keys)


def grow(engine, X):
    """The trees of all restarts from the rows of X."""
    rows, keys = by_key(engine.centred(X))

    def blocks(epoch, ranges, first):
        return sampling.memory_blocks(rows, keys, engine.seed, epoch, ranges, first)

    return [engine.grow(restart, len(X), blocks) for restart in range(engine.parameters["n_init"])]


def test_one_tree_has_no_agreement():
    X, _ = blobs()
    engine = engine_for(X, n_init=1)
    engine.choose(grow(engine, X))
    assert np.isnan(engine.agreement)
    assert engine.fitted_facts()["agreement"] is None


@one_cluster_is_fine
def test_the_scale_is_measured_on_all_rows_of_the_sample():
    X = np.random.default_rng(0).normal(size=(12_000, 2))
    keys = sampling.row_keys(0, np.arange(len(X)))
    # The second column varies much in rows outside the pilot only.
    X[:, 1] *= np.where(np.isin(np.arange(len(X)), np.argsort(keys)[-9:]), 1.0, 1e-3)
    model = estimator(scale="standard").fit(X)
    np.testing.assert_allclose(model._engine.scale, X.std(axis=0), rtol=1e-6)
    pilot = X[np.argsort(keys)[:10_000]]
    model = estimator(scale="standard").fit(pilot)
    np.testing.assert_allclose(model._engine.scale, pilot.std(axis=0), rtol=1e-6)
    model = estimator(scale="standard", max_samples=5000).fit(X)
    np.testing.assert_allclose(model._engine.scale, pilot.std(axis=0), rtol=1e-6)


def test_growth_changes_only_the_order_of_splits():
    X, _ = blobs()
    a, b = (estimator(n_init=1, growth=growth).fit(X).cluster_tree_ for growth in GROWTHS)
    assert a.V.tobytes() == b.V.tobytes()
    assert sorted(a.splits) == sorted(b.splits)
    assert a.splits.tolist() != b.splits.tolist()


def test_the_elbow_follows_the_given_rule():
    X, found = load_digits().data, []
    for seed, rule in itertools.product(range(6), ["weighted", "angle"]):
        model = estimator(n_init=1, valley=0.0, elbow=rule, random_state=seed).fit(X)
        found.append(model.n_clusters_)
        assert model.n_clusters_ == elbow(model.cluster_tree_.curve, rule)
    assert found[::2] != found[1::2]


def test_the_clearest_valley_is_the_median_of_the_trees():
    X, _ = blobs(2, 2)
    clearest = []
    for trees in ([0], [1], [2], [0, 1, 2]):
        engine = engine_for(X, n_init=3)
        grown = grow(engine, X)
        engine.choose([grown[number] for number in trees])
        clearest.append(engine.clearest_valley)
    assert clearest[3] == np.median(clearest[:3])


@one_cluster_is_fine
def test_clusters_need_a_valley_of_the_given_z():
    X, _ = blobs(2, 2)
    z = estimator().fit(X).valleys_.max()
    assert estimator(valley=0.99 * z).fit(X).n_clusters_ == 2
    assert estimator(valley=2.0 * z).fit(X).n_clusters_ == 1


def test_depth_limits_the_number_of_leaves():
    X, _ = blobs()
    for depth in (2, 3, 5):
        leaves = estimator(depth=depth, valley=0.0).fit(X).cluster_tree_.n_leaves
        assert 2 ** (depth - 2) < leaves <= 2 ** (depth - 1)


@pytest.mark.parametrize(
    ("passes", "max_samples", "n_rows", "expected"),
    [(None, None, 600, 5), (None, None, 90_000, 3), (None, 1000, 90_000, 5),
     (None, None, 10**6, 1), (2, None, 600, 2)],
)  # fmt: skip
def test_the_number_of_passes(passes, max_samples, n_rows, expected):
    parameters = estimator(passes=passes, max_samples=max_samples).get_params()
    assert TreeEngine(parameters, seed=0).n_passes(n_rows) == expected


def test_the_share_of_labellings_that_agree():
    rng = np.random.default_rng(0)
    odd = rng.integers(3, size=200)
    common = rng.integers(4, size=200)
    near = np.where(rng.random(200) < 0.1, rng.integers(4, size=200), common)
    renamed = np.array([2, 0, 3, 1])[common]
    partitions = [odd, near, common, renamed]
    alike = rand_indices(partitions)
    best = int(alike.sum(axis=1).argmax())
    assert best in (2, 3)  # equals but for the names
    indices = [adjusted_rand_score(common, other) for other in (odd, near, renamed)]
    assert share_alike(alike[best]) == np.mean(np.array(indices) > 0.8) == pytest.approx(2 / 3)


def test_shared_information_is_the_mean_of_all_pairs():
    rng = np.random.default_rng(0)
    partitions = [rng.integers(k, size=200) for k in (2, 3)]
    three = [partitions[0], partitions[0][::-1], 1 - partitions[0]]  # the last is the first
    other = mean_shared_information(three[:2])
    assert mean_shared_information(three) == pytest.approx((1.0 + 2.0 * other) / 3.0)
    assert mean_shared_information(partitions[:1]) == 1.0
    assert mean_shared_information([partitions[0], np.zeros(200, int)]) == 0.0
