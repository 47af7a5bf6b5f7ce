import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from distsvc.models.hyperplanes.engine import TreeEngine, TreeStream
from distsvc.models.rows.sampling import lowest, row_keys
from tests.models.hyperplanes.hyperplane_rows import blobs, estimator, learned, state


def stream(*blocks, **parameters):
    """A stream that has learned blocks; the first sets the centre."""
    engine = TreeEngine(estimator(**parameters).get_params(), seed=0)
    engine.set_pilot(blocks[0], len(blocks[0]))
    found = TreeStream(engine, blocks[0].shape[1])
    for block in blocks:
        found.add(block)
    return found


def chosen(model, X):
    """The arrays of a stream and of its chosen tree, as bytes."""
    return [model.predict(X).tobytes(), *state(model)]


def exact_pairs(n=1000):
    """Rows x, -x, ... of a grid, so that the mean of an even number of them is 0."""
    X = np.round(blobs(n=n // 2)[0] * 256.0) / 256.0
    return np.column_stack([X, -X]).reshape(n, 3)


def test_the_tree_does_not_depend_on_the_blocks():
    X = exact_pairs()
    whole = stream(X)
    for cuts in ([2], [500], [10, 12, 700, 998]):
        parts = stream(*np.split(X, cuts))
        assert learned(parts.growing) == learned(whole.growing)
        assert parts.growing.counts.sum() == whole.growing.counts.sum() == 1000
        assert parts.n_rows == 1000


def test_fit_takes_rows_in_the_order_of_keys():
    X, _ = blobs(n=1000)
    fitted = estimator(n_init=1, passes=1).fit(X)
    order = lowest(row_keys(0, np.arange(1000)), 1000)
    model = estimator().partial_fit(X[order])
    model.labels_ = model.predict(X)
    assert state(model) == state(fitted)


def test_predict_after_partial_fit():
    X, y = blobs(n=3000)
    model, silent = estimator(), estimator()
    for block in np.array_split(X, 7):
        assert model.partial_fit(block) is model
        silent.partial_fit(block)
        model.predict(block)
    assert estimator().partial_fit(X).n_clusters_ == 4
    assert model.n_clusters_ == 4
    assert model.n_samples_ == 3000
    assert adjusted_rand_score(y, model.predict(X)) >= 0.98
    assert chosen(model, X) == chosen(silent, X)
    assert (silent.predict(X) == model.predict(X)).all()
    assert (silent.score_samples(X) == model.score_samples(X)).all()


def test_fit_and_partial_fit_delete_each_others_results():
    X, _ = blobs()
    fresh, fitted = estimator().partial_fit(X), estimator().fit(X)
    model = estimator().fit(X)
    for _ in range(2):
        with pytest.warns(UserWarning, match="discards the model of fit and starts over"):
            model.partial_fit(X)
        assert not hasattr(model, "labels_")
        assert chosen(model, X) == chosen(fresh, X)
        assert model.n_samples_ == 600
        assert state(model.fit(X)) == state(fitted)
        assert (model.cut(7) == fitted.cut(7)).all()


@pytest.mark.parametrize("seed", range(3))
def test_old_rows_are_forgotten(seed):
    rng = np.random.default_rng(seed)
    blocks = []
    for step in range(40):
        y = rng.integers(2, size=500)
        X = np.array([[0.0, 0.0], [10.0, 0.0]])[y] + step + rng.normal(size=(500, 2))
        blocks.append(X)
    keeping = stream(*blocks, n_clusters=2)
    following = stream(*blocks, n_clusters=2, max_effective_samples=500)
    for found, distance in ((keeping, 19.5), (following, 0.6)):
        root = found.growing.means[0] + found.engine.centre
        np.testing.assert_allclose(X.mean(axis=0) - root, distance, atol=0.6)
    model = estimator(n_clusters=2, max_effective_samples=500)
    for block in blocks:
        model.partial_fit(block)
    assert adjusted_rand_score(y, model.predict(X)) >= 0.98
    np.testing.assert_allclose(following.growing.counts.sum(), 500.0)
    assert len(following.pilot) == 500
    assert keeping.growing.counts.sum() == 20_000


def test_a_block_with_nan_is_refused_and_changes_nothing():
    X, _ = blobs()
    model = estimator().partial_fit(X)
    before = chosen(model, X)
    with pytest.raises(ValueError, match="contains NaN"):
        model.partial_fit(np.full((5, 3), np.nan))
    assert chosen(model, X) == before
