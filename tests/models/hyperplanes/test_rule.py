import numpy as np
import pytest

from distsvc.kernels.hyperplanes import route
from distsvc.models.hyperplanes.tree import GrowingTree

ROWS = np.random.default_rng(0).normal(scale=3.0, size=(400, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def tree():
    growing = GrowingTree.start(5, 3)
    growing.learn(ROWS, 0.5, 10.0, 1.0, 2**62, 5.0)
    growing.count(ROWS)
    return growing.with_rows("prune")


@pytest.mark.parametrize("k", [1, 2, 5])
def test_rows_are_labelled_by_the_cut(tree, k):
    rule = tree.cut(k)
    found = rule.label(ROWS)
    ends, margins = route(ROWS, rule.V, rule.thresholds, rule.spreads, rule.cut_children)
    assert list(found) == list(rule.meanings) == ["label", "score", "outlier"]
    assert found["label"].tobytes() == rule.clusters[ends].tobytes()
    assert found["score"].tobytes() == margins.tobytes()
    assert [part.dtype for part in found.values()] == [np.int32, np.float32, bool]
    assert not found["outlier"].any()
    assert rule.n_clusters == k == len(set(found["label"]))
    assert [len(part) for part in rule.label(ROWS[:0]).values()] == [0, 0, 0]
