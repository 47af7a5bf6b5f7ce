import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from distsvc.baselines import SPDC

CENTRES = np.array([[0.0, 0.0, 0.0], [30.0, 0.0, 0.0], [30.0, 20.0, 0.0], [0.0, 0.0, 12.0]])


def blobs(n=8000, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(len(CENTRES), size=n)
    return CENTRES[y] + rng.normal(size=(n, 3)), y


@pytest.mark.parametrize("seed", range(3))
def test_separate_gaussians_are_recovered(seed):
    X, y = blobs(seed=seed)
    model = SPDC(random_state=seed).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert 4 <= model.n_clusters_ <= 6


def test_one_gaussian_is_one_cluster():
    X = np.random.default_rng(0).normal(size=(10_000, 3)) * [3.0, 1.0, 1.0]
    model = SPDC(random_state=0).fit(X)
    assert model.n_clusters_ == 1
    assert not model.labels_.any()


def test_the_tree_grows_forward():
    X, y = blobs(12_000)
    model = SPDC(random_state=0)
    sizes, roots = [], []
    for part in np.split(X, 24):
        model.partial_fit(part)
        sizes.append(model.n_clusters_)
        roots.append(model.thresholds_[0])
    assert sizes[0] == 1
    assert sizes == sorted(sizes)
    assert sizes[-1] >= 4
    assert len(set(roots[sizes.index(next(s for s in sizes if s > 1)) :])) == 1
    assert adjusted_rand_score(y, model.predict(X)) > 0.95


def test_a_cluster_that_comes_later_is_found():
    X, y = blobs(12_000)
    late = y == 3
    model = SPDC(random_state=0).partial_fit(X[~late])
    before = model.n_clusters_
    model.partial_fit(X)
    assert model.n_clusters_ > before
    labels = model.predict(X)
    found = labels == np.bincount(labels[late]).argmax()
    assert adjusted_rand_score(late, found) > 0.9


def test_the_blocks_of_a_stream_do_not_matter():
    X, _ = blobs()
    X -= X[:100].mean(axis=0)
    one, many = SPDC(), SPDC()
    one.partial_fit(X[:100]).partial_fit(X[100:])
    for part in np.split(X, [100, 101, 5000]):
        many.partial_fit(part)
    assert one.thresholds_.tobytes() == many.thresholds_.tobytes()
    assert one.directions_.tobytes() == many.directions_.tobytes()
    assert one.predict(X).tolist() == many.predict(X).tolist()
    assert not hasattr(one, "labels_")


def test_no_more_leaves_than_asked_for():
    X, _ = blobs()
    assert SPDC(max_clusters=2, random_state=0).fit(X).n_clusters_ == 2
    assert SPDC(max_clusters=1, random_state=0).fit(X).n_clusters_ == 1


def test_a_minimum_has_to_be_clear():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 2)) + rng.choice([-1.6, 1.6], size=(8000, 1)) * [1.0, 0.0]
    assert SPDC(random_state=0, valley=1.0).fit(X).n_clusters_ > 1
    assert SPDC(random_state=0, valley=8.0).fit(X).n_clusters_ == 1


def test_equal_rows_are_one_cluster():
    assert SPDC().fit(np.full((3000, 2), 0.1)).n_clusters_ == 1
