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


def test_the_answer_does_not_depend_on_the_blocks():
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


def test_equal_rows_are_one_cluster():
    assert SPDC().fit(np.full((3000, 2), 0.1)).n_clusters_ == 1
